// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares predictions with the model of a line: they agree with the figures of its recordings
//! within 5 %.

use std::collections::BTreeMap;
use weirgate_experiment::Experiment;
use weirgate_measure::predict::predict;
use weirgate_measure::{judge, measure, outcome};
use weirgate_testing::line;

/// The shipped form of Brouer 3.2, with short phases.
const UPLOADS: &str = r#"
version = 1
name = "adsl-3.2"
title = "One download and two uploads"
source = "Brouer 2005, section 3.2"
about = "An upload fills the modem's queue."

[topology]
kind = "access-line"

[topology.line]
framing = "atm"
overhead = 28
up = { rate = "512kbit", delay = "2ms", buffer = "200kB" }
down = { rate = "2000kbit", delay = "2ms", buffer = "80kB" }

[[phase]]
name = "alone"
end = "25s"

[[phase]]
name = "upload1"
end = "65s"

[[phase]]
name = "many"
end = "120s"

[[traffic]]
name = "down"
kind = "tcp"
from = "server1"
to = "host1"
during = ["alone", "upload1"]
window = 63712

[[traffic]]
name = "up"
kind = "tcp"
from = "host1"
to = "server1"
during = ["upload1"]
window = 63712

[[traffic]]
name = "small"
kind = "tcp"
from = "host1"
to = "server1"
during = ["many"]
count = 4
window = 18750

[[probe]]
name = "interactive"
from = "host1"
to = "provider"
interval = "150ms"

[[arm]]
name = "modem-only"
about = "the line as the provider delivers it"

[[expect]]
arm = "modem-only"
metric = "upload1.rtt.interactive.mean_ms"
value = 1150
tolerance = "10%"
source = "Brouer 2005, section 3.2"
"#;

fn experiment(text: &str) -> Experiment {
    let (experiment, problems) = weirgate_experiment::parse(text);
    experiment.unwrap_or_else(|| panic!("{problems:#?}"))
}

#[test]
fn predictions_meet_the_model_within_five_per_cent() {
    let experiment = experiment(UPLOADS);
    let recording = line::run(&experiment, "modem-only", false);
    let figures = measure(&experiment, &recording).unwrap();
    let predictions = predict(&experiment, &experiment.arms[0], None);
    assert!(predictions.len() >= 5, "{predictions:#?}");
    for prediction in &predictions {
        let measured = figures.metrics[&prediction.metric];
        let deviation = prediction.deviation(measured);
        assert!(deviation.abs() < 0.05, "{measured} against {prediction:#?}");
    }
    let calculated = BTreeMap::from([("modem-only".to_owned(), predictions)]);
    let arms = BTreeMap::from([("modem-only".to_owned(), figures)]);
    let verdicts = judge(&experiment, &arms, &calculated);
    assert!(
        verdicts
            .iter()
            .all(weirgate_measure::JudgedExpectation::kept),
        "{verdicts:#?}"
    );
    assert!(verdicts[0].calculated.is_some());
}

#[test]
fn one_recording_gives_one_document() {
    let experiment = experiment(UPLOADS);
    let document = || {
        let recording = line::run(&experiment, "modem-only", true);
        let figures = measure(&experiment, &recording).unwrap();
        let arms = BTreeMap::from([("modem-only".to_owned(), figures)]);
        format!("{:?}", outcome(&experiment, 1, &[&recording], &arms))
    };
    assert_eq!(document(), document());
}

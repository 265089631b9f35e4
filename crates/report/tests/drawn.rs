// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests reports of recordings from a model of the line: they are complete, bounded in size,
//! escaped, and reproducible.

use std::collections::BTreeMap;
use weirgate_experiment::{Experiment, Recording};
use weirgate_measure::predict::{Prediction, predict};
use weirgate_measure::{ArmFigures, JudgedExpectation, judge, measure};
use weirgate_report::html::{Section, page};
use weirgate_report::{Findings, Run, Tried, svg};
use weirgate_testing::line;

const TRY: &str = r#"
version = 1
name = "try"
title = "One download, uploads joining, before and after"
source = "a test"
about = """
A home's ADSL line of 2 Mbit/s down and 512 kbit/s up. Somebody downloads;
then uploads join.
"""

[topology]
kind = "access-line"

[topology.line]
framing = "atm"
overhead = 28
up = { rate = "512kbit", delay = "2ms", buffer = "200kB" }
down = { rate = "2000kbit", delay = "2ms", buffer = "80kB" }

[[phase]]
name = "alone"
end = "20s"

[[phase]]
name = "uploads"
end = "60s"

[[phase]]
name = "after"
end = "80s"

[[traffic]]
name = "down"
kind = "tcp"
from = "server1"
to = "host1"
window = 14480

[[traffic]]
name = "up"
kind = "tcp"
from = "host1"
to = "server1"
during = ["uploads"]
window = 63712

[[probe]]
name = "interactive"
from = "host1"
to = "provider"
interval = "50ms"

[[arm]]
name = "modem-only"
about = "the line as the provider delivers it"

[[arm]]
name = "weirgate"
about = "the same line under a gate"

[[expect]]
arm = "modem-only"
metric = "uploads.rtt.interactive.mean_ms"
value = 1150
tolerance = "10%"
source = "Brouer 2005, section 3.2"

[[expect]]
arm = "weirgate"
metric = "uploads.rtt.interactive.max_ms"
at-most = 10
source = "a promise that cannot be kept"

[[expect]]
arm = "weirgate"
metric = "uploads.queue.lan.max_bytes"
at-most = 10
source = "a figure that nobody measures"
"#;

/// An experiment with its recordings, figures and verdicts.
struct Ran {
    experiment: Experiment,
    recordings: Vec<Recording>,
    figures: Vec<ArmFigures>,
    verdicts: Vec<JudgedExpectation>,
    calculated: BTreeMap<String, Vec<Prediction>>,
}

impl Ran {
    fn new(text: &str) -> Self {
        let (experiment, problems) = weirgate_experiment::parse(text);
        Self::of(experiment.unwrap_or_else(|| panic!("{problems:#?}")))
    }

    fn of(experiment: Experiment) -> Self {
        let run = |(index, arm): (usize, &weirgate_experiment::Arm)| {
            line::run(&experiment, &arm.name, index > 0)
        };
        let recordings: Vec<Recording> = experiment.arms.iter().enumerate().map(run).collect();
        let figures: Vec<ArmFigures> = recordings
            .iter()
            .map(|recording| measure(&experiment, recording).expect("it fits"))
            .collect();
        let arms = figures
            .iter()
            .map(|figures| (figures.arm.clone(), figures.clone()))
            .collect();
        let first = &experiment.arms[0];
        let calculated = BTreeMap::from([(first.name.clone(), predict(&experiment, first, None))]);
        let verdicts = judge(&experiment, &arms, &calculated);
        Self {
            experiment,
            recordings,
            figures,
            verdicts,
            calculated,
        }
    }

    fn with<T>(&self, show: impl FnOnce(&Findings) -> T) -> T {
        let none = BTreeMap::new();
        let runs: Vec<Run> = self
            .recordings
            .iter()
            .zip(&self.figures)
            .map(|(recording, figures)| Run {
                figures,
                recording: Some(recording),
                parameters: &none,
            })
            .collect();
        let tried = [Tried {
            arm: "weirgate".into(),
            value: "512kbit".into(),
            figure: Some(33.0),
        }];
        show(&Findings {
            experiment: &self.experiment,
            seed: 42,
            seeds: 1,
            intervals: &BTreeMap::new(),
            runs: &runs,
            verdicts: &self.verdicts,
            calculated: &self.calculated,
            tried: &tried,
            policies: &none,
        })
    }
}

/// If `WEIRGATE_LOOK` names a folder, writes the drawing there for inspection.
fn look(name: &str, text: &str) {
    if let Some(folder) = option_env!("WEIRGATE_LOOK") {
        std::fs::write(std::path::Path::new(folder).join(name), text).expect("the folder exists");
    }
}

#[test]
fn a_report_has_everything_and_stays_small() {
    let ran = Ran::new(TRY);
    let html = ran.with(|findings| page("Results", &[Section::new(findings)]));
    look("one.html", &html);
    assert!(html.len() < 400_000, "{} bytes", html.len());
    for part in [
        "What happened",
        "Expectations",
        "Chosen figures",
        "Round-trip time over time",
        "Throughput over time",
        "Queues over time",
        "Share of round trips under a bound, phase uploads",
        "Histogram of round trips in ms, bins of 0.2 ms, phase uploads",
        "Time-sequence plots",
        "What line and traffic let expect",
        "Service classes (Y.1541)",
        "Linux 6.12 (model)",
        "<td>42</td>",
        "qdisc replace dev wan",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Graphs come before the figures' names, which are below their descriptions.
    let position = |part: &str| html.find(part).expect(part);
    assert!(position("<svg") < position("<code class=\"soft\">"));
    assert!(position(": round trip ") < position("<code class=\"soft\">"));
    // The file is self-contained: the only URLs are XML namespaces.
    for (at, _) in html.match_indices("http") {
        assert!(html[at..].starts_with("http://www.w3.org/2000/svg"));
    }
    assert!(!html.contains("<script") && !html.contains("<link") && !html.contains("<img"));
    let again = Ran::new(TRY).with(|findings| page("Results", &[Section::new(findings)]));
    assert_eq!(html, again);
}

#[test]
fn drawings_stand_alone() {
    let ran = Ran::new(TRY);
    let drawings = ran.with(|findings| {
        [
            svg::latency(findings),
            svg::throughput(findings),
            svg::queues(findings),
            svg::distribution(findings),
            svg::histogram(findings),
            svg::comparison(findings),
            svg::time_sequence(findings),
        ]
    });
    for drawing in drawings {
        let drawing = drawing.unwrap();
        let file = drawing.standalone();
        look(&format!("{}.svg", drawing.name), &file);
        assert!(file.starts_with("<?xml") && file.trim_end().ends_with("</svg>"));
        assert!(file.contains("prefers-color-scheme: dark"));
        assert!(file.contains("<title") && file.contains("<desc") && file.contains("<text"));
        well_formed(&file);
    }
}

#[test]
fn what_experiments_and_commands_say_is_only_text() {
    let evil = "<script>alert('&\"')</script>";
    let mut experiment = Ran::new(TRY).experiment;
    experiment.title = evil.into();
    experiment.about = evil.into();
    experiment.source = evil.into();
    experiment.covers = vec![evil.into()];
    for phase in &mut experiment.phases {
        phase.name = format!("{}{evil}", phase.name);
    }
    for traffic in &mut experiment.traffic {
        traffic.name = format!("{}{evil}", traffic.name);
    }
    for probe in &mut experiment.probes {
        probe.name = evil.into();
    }
    for arm in &mut experiment.arms {
        arm.name = format!("{}{evil}", arm.name);
        arm.about = evil.into();
        arm.kernel_options = vec![evil.into()];
    }
    for expectation in &mut experiment.expectations {
        expectation.arm = format!("{}{evil}", expectation.arm);
        expectation.source = evil.into();
        expectation.metric = evil.into();
    }
    let mut ran = Ran::of(experiment);
    for recording in &mut ran.recordings {
        recording.kernel = evil.into();
        recording.places[0] = evil.into();
        recording.transcript[0].what = evil.into();
        recording.transcript[0].output = evil.into();
    }
    let html = ran.with(|findings| page(evil, &[Section::new(findings)]));
    look("evil.html", &html);
    assert!(!html.contains("<script") && !html.contains("alert('"));
    assert!(html.matches("&lt;script&gt;").count() > 50);
    well_formed(&html);
}

/// Checks that every element is closed in order; HTML's void elements are known.
fn well_formed(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag
            .trim_start_matches('/')
            .split([' ', '\n', '/'])
            .next()
            .unwrap_or_default();
        if tag.starts_with(['?', '!']) || tag.ends_with('/') || ["meta", "wbr"].contains(&name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(
                open.pop(),
                Some(name),
                "before {}",
                &rest[..rest.len().min(80)]
            );
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

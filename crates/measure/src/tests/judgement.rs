// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of promises and of the result document.

use crate::predict::Prediction;
use crate::sample;
use crate::{ArmFigures, Judgement, expected, judge, outcome};
use std::collections::BTreeMap;
use weirgate_experiment::{Expectation, Promise};

fn expectation(metric: &str, promise: Promise) -> Expectation {
    Expectation::new("modem-only", metric, promise, "x")
}

#[test]
fn promises_are_judged() {
    let mut experiment = sample::experiment(&[("a", 0, 10)]);
    experiment.probes = vec![sample::probe("p", 10)];
    let near = |value, tolerance| Promise::Near { value, tolerance };
    experiment.expectations = vec![
        expectation("a.rtt.p.mean_ms", near(100.0, 0.02)),
        expectation("a.rtt.p.mean_ms", near(99.9, 0.02)),
        expectation(
            "a.rtt.p.mean_ms",
            Promise::Within {
                value: 100.0,
                tolerance: 2.0,
            },
        ),
        expectation("a.rtt.p.mean_ms", Promise::AtMost(102.0)),
        expectation("a.rtt.p.mean_ms", Promise::AtLeast(102.001)),
        expectation("a.rtt.q.mean_ms", Promise::AtLeast(0.0)),
        expectation("b.rtt.p.mean_ms", Promise::AtLeast(0.0)),
        expectation("a.util.up.ratio", Promise::AtLeast(0.0)),
    ];
    let figures = ArmFigures {
        arm: "modem-only".into(),
        metrics: [("a.rtt.p.mean_ms".to_owned(), 102.0)].into(),
    };
    let arms = BTreeMap::from([("modem-only".to_owned(), figures)]);
    let prediction = |value| Prediction {
        metric: "a.rtt.p.mean_ms".into(),
        value,
        derivation: String::new(),
    };
    let calculated = BTreeMap::from([("modem-only".to_owned(), vec![prediction(101.0)])]);
    let verdicts = judge(&experiment, &arms, &calculated);
    let kept: Vec<bool> = verdicts
        .iter()
        .map(crate::JudgedExpectation::kept)
        .collect();
    assert_eq!(kept, [true, false, true, true, false, false, false, false]);
    assert!(verdicts[1].explained() && !verdicts[0].explained() && !verdicts[5].explained());
    assert_eq!(verdicts[0].deviation(), Some(2.0));
    let reason = |index: usize| match &verdicts[index].judgement {
        Judgement::NoData(reason) => reason.clone(),
        other => panic!("{other:?}"),
    };
    assert!(
        reason(5).contains("`q`") && reason(5).contains("has p"),
        "{}",
        reason(5)
    );
    assert!(reason(6).contains("no phase `b`"), "{}", reason(6));
    assert!(reason(7).contains("`util`"), "{}", reason(7));
    let formula = |text: &str| Some(text.parse().unwrap());
    experiment.expectations.truncate(1);
    experiment.expectations[0].formula = formula("a.rtt.p.mean_ms * 2");
    let doubled = judge(&experiment, &arms, &calculated);
    assert_eq!(
        (doubled[0].promised(), doubled[0].kept()),
        (Some(204.0), false)
    );
    experiment.expectations[0].formula = formula("a.rtt.p.max_ms * 2");
    let absent = judge(&experiment, &arms, &calculated);
    assert!(matches!(&absent[0].judgement, Judgement::NoData(why) if why.contains("max_ms")));
    // An arm that did not run is not judged.
    assert_eq!(judge(&experiment, &BTreeMap::new(), &calculated), []);
}

#[test]
fn the_result_document_states_promises_as_agreed() {
    let mut experiment = sample::experiment(&[]);
    let promises = [
        (
            Promise::Near {
                value: 440.0,
                tolerance: 0.1,
            },
            "10%",
        ),
        (
            Promise::Near {
                value: 440.0,
                tolerance: 0.025,
            },
            "2.5%",
        ),
        (
            Promise::Within {
                value: 240.5,
                tolerance: 2.5,
            },
            "2.5",
        ),
        (Promise::AtLeast(0.99), "at least"),
        (Promise::AtMost(36.0), "at most"),
    ];
    for (promise, text) in promises {
        let stated = expected(&expectation("a", promise), &BTreeMap::new());
        assert_eq!(stated.unwrap().tolerance, text);
    }
    experiment.expectations = vec![
        expectation("rtt.p.max_ms", Promise::AtMost(36.0)),
        expectation("rtt.p.max_ms", Promise::AtLeast(10.0)),
    ];
    let figures = ArmFigures {
        arm: "modem-only".into(),
        metrics: [("rtt.p.max_ms".to_owned(), 33.5)].into(),
    };
    let arms = BTreeMap::from([("modem-only".to_owned(), figures)]);
    let recording = sample::recording(140, &[]);
    let outcome = outcome(&experiment, 42, &[&recording], &arms);
    assert_eq!((outcome.seed, outcome.virtual_seconds), (42, 140.0));
    assert_eq!(outcome.kernel, "test");
    let arm = &outcome.arms["modem-only"];
    assert_eq!(arm.expected["rtt.p.max_ms#2"].value, 10.0);
    assert_eq!(arm.metrics["rtt.p.max_ms"], 33.5);
    assert_eq!(arm.expected["rtt.p.max_ms"].value, 36.0);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions become valid experiments and policies; figures become a ranking.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use weirgate_advise::{AskedLine, Goal, Match, Question, answer};
use weirgate_linklayer::LinkLayer;
use weirgate_measure::ArmFigures;
use weirgate_units::{Rate, Share, Size, Span};

fn question(goal: Goal, chosen: &str) -> Question {
    Question {
        line: AskedLine {
            rate: Rate::kbit(10_000),
            layer: LinkLayer::named("ethernet").unwrap(),
            delay: Span::from_millis(5),
            buffer: Size::bytes(100_000),
        },
        goal,
        chosen: chosen.parse().unwrap(),
        device: "eth1".to_owned(),
        lan: "eth0".to_owned(),
        seeds: 1,
    }
}

fn cap() -> Goal {
    Goal::Cap {
        limit: Rate::kbit(2000),
        stream: Rate::kbit(7500),
        packet: 1498,
        tcp: 2,
        always: false,
    }
}

fn prefer(leave: u32) -> Goal {
    Goal::Prefer {
        tcp: 2,
        others: 4,
        leave: Share::percent(leave),
    }
}

const VOICE: Goal = Goal::Voice { calls: 2, tcp: 2 };

#[test]
fn experiments_and_policies_are_accepted() {
    for (goal, chosen) in [
        (cap(), "udp"),
        (cap(), "port=5004"),
        (cap(), "dscp=AF41"),
        (prefer(10), "address=192.0.2.0/28"),
        (prefer(0), "dscp=AF21"),
        (VOICE, "dscp=EF"),
        (VOICE, "address=2001:db8::/64"),
    ] {
        for (rate, layer) in [(10_000, "ethernet"), (512, "adsl:pppoe-llc")] {
            let mut asked = question(goal.clone(), chosen);
            asked.line.rate = Rate::kbit(rate);
            asked.line.layer = LinkLayer::named(layer).unwrap();
            if let (Goal::Cap { limit, stream, .. }, 512) = (&mut asked.goal, rate) {
                (*limit, *stream) = (Rate::kbit(128), Rate::kbit(400));
            }
            asked.check().unwrap();
            let text = asked.experiment();
            let (experiment, problems) = weirgate_experiment::parse(&text);
            assert!(problems.is_empty(), "{problems:?}\n{text}");
            let policies = asked.policies();
            for arm in &experiment.unwrap().arms {
                for path in arm.policies() {
                    let text = &policies[path];
                    let (policy, problems) = weirgate_policy::parse(text);
                    assert!(policy.is_some(), "{problems:?}\n{text}");
                }
            }
        }
    }
}

/// A question either is refused, or its experiment and policies are accepted.
#[test]
fn what_the_lab_refuses_is_no_question() {
    let accepted = |asked: &Question| {
        if asked.check().is_err() {
            return false;
        }
        let text = asked.experiment();
        let (_, problems) = weirgate_experiment::parse(&text);
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        for text in asked.policies().values() {
            let (policy, problems) = weirgate_policy::parse(text);
            assert!(policy.is_some(), "{problems:?}\n{text}");
        }
        true
    };
    let (rates, layers) = (
        [24, 100, 10_000, 200_000],
        ["ethernet", "adsl:pppoe-llc", "vdsl2"],
    );
    let mut taken = 0;
    for (rate, layer) in rates
        .into_iter()
        .flat_map(|rate| layers.map(|layer| (rate, layer)))
    {
        let mut goals = vec![prefer(0), prefer(50)];
        for calls in [1, 100, 1_000] {
            goals.push(Goal::Voice { calls, tcp: 100 });
        }
        let streams = [10, 1_000, 20_000, 40_000, 1_000_000, 100_000_000];
        for (stream, packet) in streams
            .into_iter()
            .flat_map(|one| [64, 1500].map(|len| (one, len)))
        {
            goals.push(Goal::Cap {
                limit: Rate::kbit(8),
                stream: Rate::kbit(stream),
                packet,
                tcp: 100,
                always: true,
            });
        }
        for goal in goals {
            let mut asked = question(goal, "dscp=EF");
            asked.line.rate = Rate::kbit(rate);
            asked.line.layer = LinkLayer::named(layer).unwrap();
            taken += u32::from(accepted(&asked));
        }
    }
    assert!(taken > 50, "{taken}");
    let mut asked = question(VOICE, "dscp=EF");
    asked.seeds = 100;
    for (delay, buffer, taken) in [
        (0, 2_000, true),
        (10_000, 64_000_000, true),
        (10_001, 100_000, false),
        (5, 1_999, false),
        (5, 64_000_001, false),
    ] {
        asked.line.delay = Span::from_millis(delay);
        asked.line.buffer = Size::bytes(buffer);
        assert_eq!(accepted(&asked), taken, "{delay} ms, {buffer} bytes");
    }
}

#[test]
fn questions_without_sense_are_refused() {
    let refused = |goal: Goal, chosen: &str| {
        let refused = question(goal, chosen).check().unwrap_err();
        refused.to_string()
    };
    let of = |limit, stream| Goal::Cap {
        limit: Rate::kbit(limit),
        stream: Rate::kbit(stream),
        packet: 1498,
        tcp: 1,
        always: false,
    };
    assert!(refused(of(10_000, 12_000), "udp").contains("no limit on a link of 10mbit"));
    assert!(refused(of(2000, 1000), "udp").contains("keeps to 2mbit by itself"));
    assert!(refused(prefer(60), "address=10.0.0.1").contains("50% is the most"));
    assert!(refused(prefer(10), "udp").contains("not recognised by being UDP"));
    let many = Goal::Voice { calls: 60, tcp: 1 };
    assert!(refused(many, "dscp=EF").contains("ask for fewer"));
    let mut slow = question(VOICE, "dscp=EF");
    slow.line.rate = Rate::kbit(8);
    assert!(
        slow.check()
            .unwrap_err()
            .to_string()
            .contains("24kbit to 200mbit")
    );
    for wrong in ["", "dscp=", "dscp=FE", "port=0", "mac=1", "address=1\"2"] {
        assert!(wrong.parse::<Match>().is_err(), "{wrong}");
    }
}

/// Returns waits and losses for the settings of the question about calls.
fn figures(all: &[(&str, f64, f64)]) -> BTreeMap<String, ArmFigures> {
    let one = |(arm, wait, lost): &(&str, f64, f64)| {
        let metrics = BTreeMap::from([
            ("busy.rtt.chosen-echo.p99_ms".to_owned(), *wait),
            ("busy.loss.calls.ratio".to_owned(), *lost),
            ("busy.goodput.tcp.mean_kbit".to_owned(), 9_200.0),
        ]);
        let arm = (*arm).to_owned();
        (arm.clone(), ArmFigures { arm, metrics })
    };
    all.iter().map(one).collect()
}

#[test]
fn the_shortest_wait_without_loss_is_best_and_the_simpler_among_equals() {
    let asked = question(VOICE, "dscp=EF");
    let found = answer(
        &asked,
        &figures(&[
            ("as-it-is", 80.0, 0.0),
            ("short", 9.0, 0.02),
            ("weights", 15.0, 0.0),
            ("first", 12.1, 0.0),
            ("first-flows", 12.0, 0.0),
        ]),
    );
    let order: Vec<&str> = found.settings.iter().map(|one| &*one.name).collect();
    assert_eq!(
        order,
        ["first", "first-flows", "weights", "as-it-is", "short"]
    );
    let policy = found.policy.clone().unwrap();
    assert!(policy.contains("device = \"eth1\""), "{policy}");
    assert!(weirgate_policy::parse(&policy).0.is_some(), "{policy}");
    let text = found.to_string();
    assert!(text.contains("Best is `first`"), "{text}");
    assert!(text.contains("0.020!"), "{text}");
}

#[test]
fn where_nothing_does_it_no_policy_is_given() {
    let asked = question(VOICE, "dscp=EF");
    let found = answer(&asked, &figures(&[("short", 9.0, 0.02)]));
    assert_eq!(found.policy, None);
    assert!(
        found
            .to_string()
            .contains("No setting does what was asked for.")
    );
    let found = answer(
        &asked,
        &figures(&[("as-it-is", 5.0, 0.0), ("first", 6.0, 0.0)]),
    );
    assert_eq!(found.policy, None);
    assert!(found.to_string().contains("Nothing is better"));
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain's machines: routers that answer over ssh, ends that answer the orders of `weirgate
//! domain verify`, and packets that arrive at an end.

use super::is_plain;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;
use weirgate_domain::{Domain, Found, comparisons};
use weirgate_rollout::end::{Answer, Arrivals, Sending, answered};
use weirgate_rollout::ssh;
use weirgate_rollout::verify::remote::{Answers, answer, line};
use weirgate_rollout::verify::{figures, found};
use weirgate_units::PeerText;

/// Separates standard output from standard error; it does not occur in UTF-8.
const BESIDE: u8 = 0xff;

/// Used instead of an exit status if the machine was not reached.
const UNREACHED: u8 = 0xff;

/// The flow that the end sends, and the one that it receives.
const SENT: u32 = 64;
const HEARD: u32 = 128;
/// The secret number in packets of the latter.
const NUMBER: u64 = 7;

const DOMAIN: &str = r#"
version = 1
[router.hub]
role = "boundary"
[customer.near]
router = "hub"
device = "near0"
rate = "20mbit"
[customer.far]
router = "hub"
device = "far0"
rate = "20mbit"
[class.voice]
behaviour = "EF"
share = "20%"
[class.rest]
behaviour = "DF"
share = "60%"
[[service]]
name = "calls"
from = "near"
to = "far"
class = "voice"
rate = "500kbit"
delay = "50ms"
jitter = "20ms"
loss = "1%"
"#;

static PROMISED: LazyLock<Domain> = LazyLock::new(|| {
    let (domain, problems) = weirgate_domain::parse(DOMAIN);
    assert!(problems.is_empty(), "{problems:?}");
    domain.expect("a domain")
});

/// Fuzzes a router's exit status and output.
pub fn router(said: &[u8]) {
    let Some((status, said)) = said.split_first() else {
        return;
    };
    let end = said.iter().position(|byte| *byte == BESIDE);
    let (out, err) = said.split_at(end.unwrap_or(said.len()));
    let text = |bytes| PeerText::new(String::from_utf8_lossy(bytes));
    let answer = ssh::Answer {
        status: (*status != UNREACHED).then_some(i32::from(*status)),
        out: text(out),
        err: text(err.get(1..).unwrap_or_default()),
    };
    match found(&answer) {
        Found::AsPlanned => assert_eq!(*status, 0),
        Found::Differs(lines) => {
            for line in lines {
                is_plain(&line);
                assert!(!line.contains('\n'), "{line:?}");
            }
        }
        Found::Unknown(why) => is_plain(&why),
    }
}

/// Fuzzes the answers of `weirgate domain end`, line by line.
pub fn end(mut said: &[u8]) {
    let (sends, hears) = ([sending()], BTreeMap::from([(HEARD, NUMBER)]));
    let mut answers = Answers::default();
    // After an error, no further answers are read.
    while let Some(line) = line(&mut said) {
        let taken = answer(line).map_err(|why| format!("{why:#}"));
        let taken = taken.and_then(|answer| {
            super::planted(&answer);
            is_written_again(&answer);
            answers.take(answer, &sends, &hears)
        });
        if let Err(why) = taken {
            is_plain(&why);
            break;
        }
    }
    assert!(answers.trips.keys().all(|flow| *flow == SENT));
    assert!(answers.sent.keys().all(|flow| *flow == SENT));
    assert!(answers.arrived.keys().all(|flow| *flow == HEARD));
    let (sent, took) = answers.sent.get(&SENT).copied().unwrap_or_default();
    let trip = answers.trips.get(&SENT).copied().flatten();
    let arrived = answers.arrived.get(&HEARD).copied();
    let measured = figures(sent, took, trip, arrived);
    for comparison in comparisons(&PROMISED.services[0], &measured) {
        let is_number = comparison.measured.is_finite() && comparison.measured >= 0.0;
        assert!(is_number, "{comparison:?}");
    }
}

fn is_written_again(answer: &Answer) {
    let text = serde_json::to_string(answer).expect("an answer can be written");
    let again: Answer = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(format!("{answer:?}"), format!("{again:?}"));
}

fn sending() -> Sending {
    Sending {
        flow: SENT,
        number: 1,
        to: (IpAddr::V4(Ipv4Addr::LOCALHOST), 9).into(),
        tcp: false,
        from: Vec::new(),
        dscp: 10,
        packet: 200,
        rate: 500_000,
        burst: 400,
        milliseconds: 1_000,
    }
}

/// Fuzzes packets at an end, each after its length, from any sender.
pub fn packets(mut said: &[u8]) {
    let arrivals = Arrivals::of(BTreeMap::from([(HEARD, NUMBER)]));
    while let Some((length, rest)) = said.split_first() {
        let (packet, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        said = rest;
        let mut answer = packet.to_vec();
        let point = answered(&mut answer, &arrivals);
        assert_eq!(answer.len(), packet.len());
        // A sender that does not know a flow's number gets no answer.
        assert!(point.is_none() || arrivals.awaits(packet));
        assert!(point.is_some() || answer == packet);
    }
}

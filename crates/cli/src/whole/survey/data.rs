// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a survey for programs: JSON, and tables as CSV.

use crate::whole::survey::seen::Seen;
use crate::whole::survey::tables::{self, Rows, grouped, ports, protocol, sizes, version};
use serde_json::{Value, json};
use std::fmt::Write as _;
use weirgate_bpf::{Spread, SurveyCount, SurveyDirection};
use weirgate_linklayer::LinkLayer;
use weirgate_units::Rate;

/// Returns the bytes that arrived and left in every second, as CSV.
pub fn seconds(seen: &Seen) -> String {
    let head = String::from("second,arrived_bytes,left_bytes\r\n");
    let lines = seen.seconds.iter().enumerate();
    lines.fold(head, |mut text, (second, one)| {
        let [arrived, left] = one.bytes;
        let _ = write!(text, "{second},{arrived},{left}\r\n");
        text
    })
}

/// Returns the histogram of times between packets, as CSV: the counts of arriving and leaving
/// packets.
pub fn gaps(directions: &[SurveyDirection; 2]) -> String {
    let head = String::from("from_ns,to_ns,arrived,left\r\n");
    let steps = tables::gaps(directions).into_iter();
    steps.fold(head, |mut text, ((from, to), [arrived, left])| {
        let _ = write!(text, "{from},{to},{arrived},{left}\r\n");
        text
    })
}

fn counted(count: SurveyCount) -> Value {
    json!({ "packets": count.packets, "bytes": count.bytes })
}

pub fn document(seen: &Seen) -> Value {
    let table = |rows: Rows| -> Vec<Value> {
        let row = |(name, [arrives, leaves]): (String, [SurveyCount; 2])| json!({ "name": name, "arrives": counted(arrives), "leaves": counted(leaves) });
        rows.into_iter().map(row).collect()
    };
    let gaps = |gaps: &Spread| {
        let at = |part| gaps.at_most_ns(part);
        let step = |(from, to, count)| json!({ "from_ns": from, "to_ns": to, "count": count });
        let histogram: Vec<Value> = gaps.histogram().map(step).collect();
        json!({
            "mean_ns": gaps.mean_ns(),
            "half_ns": at(500),
            "p95_ns": at(950),
            "p99_ns": at(990),
            "histogram": histogram,
        })
    };
    let direction = |direction: usize| {
        let seconds = seen.seconds.iter();
        let rates: Vec<u64> = seconds.map(|one| one.rate(one.bytes, direction)).collect();
        let mut found = json!({
            "all": counted(seen.directions[direction].all),
            "gaps": gaps(&seen.directions[direction].gaps),
            "bits_of_each_second": rates,
        });
        if seen.link.is_some() {
            let seconds = seen.seconds.iter();
            let rates: Vec<u64> = seconds.map(|one| one.rate(one.wire, direction)).collect();
            found["wire_bytes"] = json!(seen.directions[direction].wire);
            found["wire_bits_of_each_second"] = json!(rates);
        }
        found
    };
    json!({
        "device": seen.device,
        "seconds": seen.time.as_secs_f64(),
        "rate_bits": seen.rate.map(Rate::as_bits_per_second),
        "link": seen.link.as_ref().map(LinkLayer::name),
        "arrives": direction(0),
        "leaves": direction(1),
        "versions": table(grouped(&seen.protocols, |one| Some(version(one).to_owned()))),
        "protocols": table(grouped(&seen.protocols, |one| Some(protocol(one)))),
        "ports": table(ports(seen)),
        "sizes": table(sizes(&seen.directions)),
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line behind a shaper. A shaper that counts wire bytes keeps the queue; one that counts
//! packet lengths may lose it to the modem.

use super::shaper::{Counting, Shaper, ShaperClass};
use super::situation::{Datagrams, Prediction, Situation};
use super::steady::Steady;
use super::wire::MTU;

/// The part of a queue that has drained when the metric `recovery` ends: it ends at a tenth of the
/// range.
const RECOVERED: f64 = 0.9;

/// Predicts for a shaper that counts wire bytes at one gate: at most one full packet is ahead of
/// the first class.
pub(super) fn one_packet(
    situation: &Situation,
    shaper: &Shaper,
    predictions: &mut Vec<Prediction>,
) {
    if situation.up.transfers.is_empty() || !situation.down.transfers.is_empty() {
        return;
    }
    let first = shaper.classes.iter().map(|class| class.priority).min();
    for asked in &situation.probes {
        let class = asked
            .probe
            .class
            .as_deref()
            .and_then(|name| shaper.class(name));
        if class.is_none_or(|class| Some(class.priority) != first) {
            continue;
        }
        let packet = situation.full_bits / situation.up.rate;
        predictions.push(Prediction {
            metric: situation.name(&format!("rtt.{}.max_ms", asked.probe.name)),
            value: (situation.idle(asked) + packet) * 1e3,
            derivation: format!(
                "one full packet in transmission, {:.2} ms, before a round trip of {:.2} ms",
                packet * 1e3,
                situation.idle(asked) * 1e3
            ),
        });
    }
}

/// Predicts shares behind a shaper that counts wire bytes: datagrams pass, a flooding class gets
/// its guarantee, and the upload gets the rest.
pub(super) fn shares(situation: &Situation, shaper: &Shaper, predictions: &mut Vec<Prediction>) {
    let [upload] = situation.up.transfers.as_slice() else {
        return;
    };
    if !situation.down.transfers.is_empty() {
        return;
    }
    let mut used = situation.probe_bits();
    for udp in &situation.up.datagrams {
        let class = udp.class.and_then(|name| shaper.class(name));
        let offered = udp.per_second * udp.wire_bits;
        let little = shaper
            .classes
            .iter()
            .all(|class| class.rate_bits >= offered);
        match class {
            Some(class) if outranked(shaper, class) => {
                flooding(situation, udp, class, predictions);
                used += offered.min(class.rate_bits);
            }
            // Any class is assured that much.
            _ if little => used += offered,
            _ => return,
        }
    }
    let rate = shaper.rate_bits.min(situation.up.rate);
    let kbit = (rate - used) / situation.full_bits * MTU as f64 * 8.0 / 1e3;
    if kbit > 0.0 {
        predictions.push(Prediction {
            metric: situation.name(&format!("iprate.{}.mean_kbit", upload.name)),
            value: kbit,
            derivation: format!(
                "{:.1} kbit/s of the wire less {:.1} of other packets, * 1500 * 8 / {:.0} bit",
                rate / 1e3,
                used / 1e3,
                situation.full_bits
            ),
        });
    }
}

/// Returns whether a class other than the first is served before this one. This one then borrows
/// nothing while the other has a backlog.
fn outranked(shaper: &Shaper, class: &ShaperClass) -> bool {
    let first = shaper.classes.iter().map(|other| other.priority).min();
    shaper
        .classes
        .iter()
        .any(|other| other.priority < class.priority && Some(other.priority) != first)
}

fn flooding(
    situation: &Situation,
    udp: &Datagrams,
    class: &ShaperClass,
    predictions: &mut Vec<Prediction>,
) {
    let assured = class.rate_bits / udp.wire_bits;
    let metric = situation.name(&format!("pps.{}.mean", udp.name));
    let (value, derivation) = if udp.per_second > assured {
        let text = format!(
            "class {} is assured {:.1} kbit/s of the wire; {:.0} bytes each: {assured:.1}/s",
            class.name,
            class.rate_bits / 1e3,
            udp.wire_bits / 8.0
        );
        (assured, text)
    } else {
        (
            udp.per_second,
            "less than its class is assured: all pass".to_owned(),
        )
    };
    predictions.push(Prediction {
        metric,
        value,
        derivation,
    });
}

/// Predicts for a shaper that counts packet lengths: small packets load the wire more than it
/// counts. Takes the backlog in the modem at the phase's start, in wire bits, and returns the
/// backlog at its end.
pub(super) fn naive(
    situation: &Situation,
    shaper: &Shaper,
    backlog_bits: f64,
    predictions: &mut Vec<Prediction>,
) -> f64 {
    let Counting::Length { extra, leaf_bytes } = shaper.counting else {
        return 0.0;
    };
    // With a download, the ACKs depend on the queue, so nothing is predicted.
    if situation.up.transfers.is_empty() || !situation.down.transfers.is_empty() {
        return 0.0;
    }
    let counted = |ip_bytes: u64| (ip_bytes + u64::from(extra)) as f64 * 8.0;
    let small: f64 = situation
        .up
        .datagrams
        .iter()
        .map(|udp| udp.per_second * counted(udp.ip_bytes))
        .chain(
            situation
                .probes
                .iter()
                .map(|a| a.per_second * counted(u64::from(a.probe.packet))),
        )
        .sum();
    let bulk = ((shaper.rate_bits - small) / counted(MTU)).max(0.0);
    let others = situation.up.datagram_bits() + situation.probe_bits();
    let load = bulk * situation.full_bits + others;
    let rate = situation.up.rate;
    let text = format!(
        "{bulk:.1} full packets/s pass beside what counts as {:.0} kbit/s; on the wire all are \
         {:.1} of {:.0} kbit/s",
        small / 1e3,
        load / 1e3,
        rate / 1e3
    );
    if load > rate {
        overloaded(situation, load, backlog_bits, &text, predictions)
    } else {
        // A full leaf drops the packet after the last one that fits.
        let leaf = leaf_bytes.map(|bytes| (bytes / (MTU + u64::from(extra))) as f64 + 1.0);
        drained(situation, load, backlog_bits, leaf, &text, predictions);
        0.0
    }
}

/// Predicts a queue that grows until all windows wait in the modem.
fn overloaded(
    situation: &Situation,
    load: f64,
    backlog_bits: f64,
    text: &str,
    predictions: &mut Vec<Prediction>,
) -> f64 {
    let rate = situation.up.rate;
    let steady = Steady::new(situation).up;
    let Some(segments) = situation.up.segments().filter(|_| steady.room > 0.0) else {
        return 0.0;
    };
    // The bound: all windows are in the modem, and the other packets among them.
    let at_most = segments * situation.full_bits / steady.room * rate;
    let buffer = (situation.up.buffer_packets() + 1.0) * situation.full_bits;
    if backlog_bits > at_most {
        // An earlier phase left more; it has the largest wait.
        return at_most;
    }
    let grown = backlog_bits + (load - rate) * situation.seconds;
    let reached = grown.min(at_most).min(buffer);
    for asked in &situation.probes {
        predictions.push(Prediction {
            metric: situation.name(&format!("rtt.{}.max_ms", asked.probe.name)),
            value: (reached / rate + situation.idle(asked)) * 1e3,
            derivation: format!(
                "{text}: the modem's queue grows by {:.1} kbit/s, to {:.0} kbit ({:.0} ms)",
                (load - rate) / 1e3,
                reached / 1e3,
                reached / rate * 1e3
            ),
        });
    }
    reached
}

/// Predicts how the spare rate of the line moves the windows from the modem back to the shaper.
/// This begins when the other packets have left.
///
/// When the shaper's leaf is full, a packet is lost. A transfer that is limited by its receiver's
/// window then sends nothing until the loss is repaired, and the modem's queue drains within a
/// round trip. `leaf` is the number of packets at which that happens.
fn drained(
    situation: &Situation,
    load: f64,
    backlog_bits: f64,
    leaf: Option<f64>,
    text: &str,
    predictions: &mut Vec<Prediction>,
) {
    let surplus = situation.up.rate - load;
    let Some(segments) = situation.up.segments() else {
        return;
    };
    // This holds only if the earlier phase ended with all windows in the modem.
    if backlog_bits < segments * situation.full_bits {
        return;
    }
    let first = backlog_bits / situation.up.rate;
    let (packets, end) = match leaf {
        Some(leaf) if leaf <= segments => (leaf, "until a loss in the shaper ends it"),
        _ => (segments * RECOVERED, "nine tenths of the windows"),
    };
    let seconds = first + packets * situation.full_bits / surplus;
    if seconds >= situation.seconds {
        return;
    }
    for asked in &situation.probes {
        predictions.push(Prediction {
            metric: situation.name(&format!("recovery.{}.s", asked.probe.name)),
            value: seconds,
            derivation: format!(
                "{text}; after {first:.1} s, when what else waited has left, {packets:.0} full \
                 packets return to the shaper at {:.1} kbit/s, {end}",
                surplus / 1e3
            ),
        });
    }
}

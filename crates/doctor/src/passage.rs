// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about the shaper's effect: the packets that its gates pass and delay, and packets that
//! bypass them.

use crate::finding::{Finding, Severity};
use weirgate_state::DeviceName;
use weirgate_units::Span;

/// The tolerated difference between the counters of a device and its queue, because they are not
/// read at the same time: a number of packets, and one part in this many.
const AT_ONCE: u64 = 8;
const PART: u64 = 10;
/// After this many packets, a gate that works has delayed some.
const TRIED: u64 = 10_000;

/// Packet counts of a device whose packets have a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The device.
    pub device: DeviceName,
    /// For packets that arrive at the device, the IFB with their gate.
    pub ifb: Option<DeviceName>,
    /// The observation time.
    pub looked: Span,
    /// Packets that left the device or, with `ifb`, arrived at it in this time.
    pub seen: u64,
    /// Packets that the gate's root qdisc passed in this time. With `ifb`, they include those that
    /// it dropped or stored.
    pub passed: u64,
    /// Packets that the root qdisc has passed since its creation.
    pub all: u64,
    /// How many packets it has delayed since then; `None` if the qdisc does not count them.
    pub held: Option<u64>,
}

/// Returns one finding for each gate.
#[must_use]
pub fn passages(passages: &[Passage]) -> Vec<Finding> {
    passages.iter().map(judged).collect()
}

fn judged(passage: &Passage) -> Finding {
    let Passage {
        looked,
        ifb,
        seen,
        passed,
        all,
        held,
        ..
    } = passage;
    let shaper = ifb.as_ref().map_or_else(
        || "its shaper".to_owned(),
        |ifb| format!("its shaper on {ifb}"),
    );
    let (verb, taken) = match ifb {
        Some(_) => ("arrived at", "received"),
        None => ("left", "sent"),
    };
    let finding = |severity, code, fact, why: String, remedy: &str| Finding {
        severity,
        code,
        subject: passage.device.to_string(),
        fact,
        why,
        remedy: remedy.to_owned(),
    };
    let time = crate::link::in_words(*looked);
    let beside = seen.saturating_sub(*passed);
    if beside > AT_ONCE + seen / PART {
        return finding(
            Severity::Fault,
            "passed-by",
            format!("in {time} {seen} packets {verb} it, but {shaper} {taken} {passed}"),
            format!(
                "{} % of these packets are not shaped: something bypasses the queue, such as a \
                 card that forwards by itself, an XDP program or a packet socket",
                beside * 100 / seen
            ),
            "look at the findings `hardware-offload`, `flow-offload` and `xdp`; `ss -0pb` lists \
             packet sockets",
        );
    }
    match (all, held) {
        (TRIED.., Some(0)) => finding(
            Severity::Note,
            "never-held",
            format!("{shaper} has sent {all} packets and never delayed one"),
            "if the line was full in that time, its queue is elsewhere, because the policy's rate \
             is above the line's"
                .to_owned(),
            "`weirgate probe HOST` measures the line's rate; lower `up` or `down` in [link] to \
             this rate",
        ),
        _ if *passed == 0 => finding(
            Severity::Note,
            "idle",
            format!("nothing passed {shaper} in {time}"),
            format!(
                "{seen} packets {verb} the device in this time, too few to tell whether any \
                 bypass the shaper, which has sent {all} packets{} so far",
                held_words(*held)
            ),
            "run `weirgate doctor` again while the line carries traffic",
        ),
        _ => finding(
            Severity::Note,
            "shapes",
            format!("{shaper} has sent {all} packets{}", held_words(*held)),
            format!(
                "in {time} {seen} packets {verb} the device and its shaper {taken} {passed}: none \
                 bypassed it"
            ),
            "nothing",
        ),
    }
}

fn held_words(held: Option<u64>) -> String {
    held.map_or_else(String::new, |held| {
        format!(", and {held} times a packet waited for the rate")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_one_verdict() {
        let device = DeviceName::new("wan").expect("a name");
        let passage = |seen, passed, all, held| Passage {
            device: device.clone(),
            ifb: None,
            looked: Span::from_millis(400),
            seen,
            passed,
            all,
            held,
        };
        for (one, severity, code) in [
            (
                passage(1000, 200, 50_000, Some(3)),
                Severity::Fault,
                "passed-by",
            ),
            (passage(1000, 0, 0, None), Severity::Fault, "passed-by"),
            (
                passage(1000, 900, 50_000, Some(3)),
                Severity::Note,
                "shapes",
            ),
            (passage(9, 1, 50_000, Some(3)), Severity::Note, "shapes"),
            // A qdisc that counts merged packets counts fewer.
            (passage(10, 400, 50_000, Some(3)), Severity::Note, "shapes"),
            // Nothing can be said of a line without traffic.
            (passage(0, 0, 0, Some(0)), Severity::Note, "idle"),
            (passage(8, 0, 50_000, Some(3)), Severity::Note, "idle"),
            (passage(5, 5, 9_999, Some(0)), Severity::Note, "shapes"),
            (passage(5, 5, 10_000, Some(0)), Severity::Note, "never-held"),
            (passage(5, 5, 10_000, None), Severity::Note, "shapes"),
        ] {
            let found = &passages(std::slice::from_ref(&one))[0];
            assert_eq!((found.severity, found.code), (severity, code), "{one:?}");
            assert!(found.why.contains(|c: char| c.is_ascii_digit()) || code == "never-held");
            assert_eq!(found.why.contains("none bypassed"), code == "shapes");
            // Arriving packets are judged alike.
            let ifb = DeviceName::new("ifb-wan");
            let arriving = passages(&[Passage { ifb, ..one }]);
            let found = &arriving[0];
            assert_eq!((found.severity, found.code), (severity, code));
            assert!(found.fact.contains("ifb-wan"), "{}", found.fact);
            assert_eq!(found.subject, "wan");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about one device: its offloads, its queues, and other users.

use crate::finding::{Finding, Question, Severity};
use crate::link::{Carrier, Flow, in_words};
use weirgate_state::{DeviceName, Interface};
use weirgate_units::Span;

/// If a merged packet takes the line longer, a promise is broken.
pub(crate) const NOTICEABLE: Span = Span::from_millis(5);

/// Features by which a qdisc gets several packets as one, with the words for ethtool.
const SEGMENTATION: [(&str, &str); 3] = [
    ("tx-generic-segmentation", "gso"),
    ("tx-tcp-segmentation", "tso"),
    ("tx-tcp6-segmentation", "tso"),
];
/// Features that merge arriving packets.
const RECEIVE: [(&str, &str); 3] = [
    ("rx-gro", "gro"),
    ("rx-gro-hw", "rx-gro-hw"),
    ("rx-lro", "lro"),
];

/// Judges every device that carries the link.
pub(crate) fn examine(question: &Question<'_>, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    for carrier in carriers {
        let Some(device) = question.machine.devices.get(&carrier.device) else {
            findings.push(missing(question, &carrier.device));
            continue;
        };
        state(carrier, device, findings);
        if let Some(flow) = &carrier.leaving {
            radio(carrier, device, flow, findings);
            merging(carrier, device, flow, true, findings);
            ring(&carrier.device, device, flow, findings);
            queues(&carrier.device, device, flow, findings);
        }
        if let Some(flow) = &carrier.arriving {
            merging(carrier, device, flow, false, findings);
        }
        owners(question, carrier, device, findings);
    }
}

fn missing(question: &Question<'_>, name: &DeviceName) -> Finding {
    let there: Vec<&str> = question
        .machine
        .devices
        .keys()
        .map(DeviceName::as_str)
        .filter(|other| *other != "lo")
        .collect();
    Finding {
        severity: Severity::Fault,
        code: "no-device",
        subject: name.to_string(),
        fact: "there is no such device in this network namespace".to_owned(),
        why: "the policy cannot be applied to it: 0 of its packets are shaped".to_owned(),
        remedy: format!(
            "write one that exists in [link]: {}; for a device that appears later, run `weirgate \
             keep`",
            if there.is_empty() {
                "none".to_owned()
            } else {
                there.join(", ")
            }
        ),
    }
}

fn state(carrier: &Carrier, device: &Interface, findings: &mut Vec<Finding>) {
    if device.up && device.carrier {
        return;
    }
    let (fact, remedy) = if device.up {
        (
            "it has no carrier",
            "look at its cable, modem or session".to_owned(),
        )
    } else {
        (
            "it is switched off",
            format!("`ip link set dev {} up`", carrier.device),
        )
    };
    findings.push(Finding {
        severity: Severity::Warning,
        code: "device-down",
        subject: carrier.device.to_string(),
        fact: fact.to_owned(),
        why: "it carries 0 packets".to_owned(),
        remedy,
    });
}

/// Reports a radio. mac80211 has a queue for each station with FQ-CoDel, and schedules stations by
/// airtime (net/mac80211/tx.c). These queues are behind the gate.
fn radio(carrier: &Carrier, device: &Interface, flow: &Flow, findings: &mut Vec<Finding>) {
    if !device.radio {
        return;
    }
    findings.push(Finding {
        severity: if flow.example {
            Severity::Note
        } else {
            Severity::Warning
        },
        code: "radio",
        subject: carrier.device.to_string(),
        fact: "it is a radio device, whose rate differs by station and place".to_owned(),
        why: format!(
            "while it carries less than {}, packets wait in the queue of mac80211, which knows 0 \
             classes and guarantees and shares airtime between stations",
            flow.at()
        ),
        remedy: if carrier.is_lan {
            "write `inbound = \"auto\"` or `\"ifb\"`, which shapes downloads at the wired \
             device; only the radio's own queue is then here"
                .to_owned()
        } else {
            "write its lowest rate in [link], or follow the rate with [track]".to_owned()
        },
    });
}

fn merging(
    carrier: &Carrier,
    device: &Interface,
    flow: &Flow,
    leaving: bool,
    findings: &mut Vec<Finding>,
) {
    let features = if leaving { SEGMENTATION } else { RECEIVE };
    let on = |feature: &&(&str, &str)| device.features.contains(feature.0);
    let mut words: Vec<&str> = features.iter().filter(on).map(|one| one.1).collect();
    words.dedup();
    if words.is_empty() {
        return;
    }
    let fixed = features
        .iter()
        .filter(on)
        .all(|feature| device.fixed.contains(feature.0));
    let time = flow.merged();
    let name = &carrier.device;
    let switches = words.join(" off ");
    let own = words
        .iter()
        .all(|word| ["gso", "tso", "gro"].contains(word));
    let remedy = if fixed {
        format!("its driver does not allow this to change: replace the device {name}")
    } else if own {
        format!("`weirgate apply` does this; by hand: `ethtool -K {name} {switches} off`")
    } else {
        format!("`ethtool -K {name} {switches} off`, each time the device appears")
    };
    findings.push(Finding {
        severity: if time > NOTICEABLE {
            Severity::Warning
        } else {
            Severity::Note
        },
        code: if leaving {
            "segmentation-offload"
        } else {
            "receive-offload"
        },
        subject: name.to_string(),
        fact: format!("{} on", list(&words)),
        why: format!(
            "up to 64 KB {} as one packet, which occupies {} for {}; urgent packets wait behind \
             it",
            if leaving { "leave" } else { "arrive merged" },
            flow.at(),
            in_words(time)
        ),
        remedy,
    });
}

fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("{one} is"),
        [many @ .., last] => format!("{} and {last} are", many.join(", ")),
    }
}

fn ring(name: &DeviceName, device: &Interface, flow: &Flow, findings: &mut Vec<Finding>) {
    let Some(ring) = device.tx_ring.filter(|ring| *ring > 1) else {
        return;
    };
    if device.bql == Some(true) || flow.example {
        return;
    }
    let line = flow.rate.as_bits_per_second();
    let speed = u64::from(device.speed_mbit.unwrap_or(0)) * 1_000_000;
    // The gate is the bottleneck if the device is faster than the line.
    let empty = speed > line + line / 20;
    let (limits, reason) = match device.bql {
        Some(_) => ("its driver does not limit it by bytes (BQL)", ""),
        None => (
            "it is not visible whether its driver limits it by bytes (BQL)",
            "",
        ),
    };
    findings.push(Finding {
        severity: if empty {
            Severity::Note
        } else {
            Severity::Warning
        },
        code: "deep-ring",
        subject: name.to_string(),
        fact: format!("its transmit ring holds {ring} packets, and {limits}{reason}"),
        why: if empty {
            format!(
                "it stays empty while the shaped rate is below the device's {} Mbit/s; a full \
                 ring would take {} at {}",
                device.speed_mbit.unwrap_or(0),
                in_words(flow.packets(ring)),
                flow.at()
            )
        } else {
            format!(
                "a full ring takes {} at {}, in addition to every queue of the policy",
                in_words(flow.packets(ring)),
                flow.at()
            )
        },
        remedy: format!("`ethtool -G {name} tx 64`, or as few as the driver accepts"),
    });
}

fn queues(name: &DeviceName, device: &Interface, flow: &Flow, findings: &mut Vec<Finding>) {
    // A veth has as many queues as there are processors, and no hardware.
    let virtual_only = device.kind.as_deref() == Some("veth");
    if device.tx_queues < 2 || flow.example || virtual_only {
        return;
    }
    let full = flow.packets(1).as_nanos().max(1);
    findings.push(Finding {
        severity: Severity::Note,
        code: "many-queues",
        subject: name.to_string(),
        fact: format!("it has {} transmit queues", device.tx_queues),
        why: format!(
            "one shaper replaces mq and feeds all of them: at {}, its lock is taken for {} full \
             packets a second",
            flow.at(),
            1_000_000_000 / full
        ),
        remedy: format!(
            "nothing below about 100 Mbit/s; above, `ethtool -L {name} combined 1` saves the \
             choice of a queue"
        ),
    });
}

fn owners(
    question: &Question<'_>,
    carrier: &Carrier,
    device: &Interface,
    findings: &mut Vec<Finding>,
) {
    let name = &carrier.device;
    let ours = question
        .applied
        .and_then(|state| state.devices.get(name))
        .is_some_and(|applied| applied.root.is_some());
    if let Some((kind, handle)) = device.root.as_ref().filter(|_| !ours) {
        let shaped = carrier.leaving.is_some();
        findings.push(Finding {
            severity: if shaped {
                Severity::Warning
            } else {
                Severity::Note
            },
            code: "foreign-root",
            subject: name.to_string(),
            fact: format!("its root qdisc is {kind} {handle}, which weirgate did not make"),
            why: "a device has one root: `apply` leaves this one alone and does nothing, so 0 \
                  packets are shaped by the policy"
                .to_owned(),
            remedy: format!(
                "`weirgate apply --adopt` replaces it; `tc qdisc del dev {name} root` removes it"
            ),
        });
    }
    if let Some(kind) = &device.clsact {
        let filters = device.filters;
        findings.push(Finding {
            severity: if filters > 0 {
                Severity::Warning
            } else {
                Severity::Note
            },
            code: "foreign-clsact",
            subject: name.to_string(),
            fact: format!(
                "it has a qdisc {kind} with {filters} filter(s), which weirgate did not make"
            ),
            why: if filters == 0 {
                "filters added there see packets before weirgate's rules do".to_owned()
            } else {
                format!(
                    "{filters} filter(s) see every packet before weirgate's rules do, and may \
                     redirect, drop or re-mark it; those of sqm redirect 100 % of arriving \
                     packets to its own IFB"
                )
            },
            remedy: format!(
                "`tc filter show dev {name} ingress` and `egress` show them; `tc qdisc del dev \
                 {name} {kind}` removes them"
            ),
        });
    }
    if let Some(program) = device.xdp {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "xdp",
            subject: name.to_string(),
            fact: format!("the XDP program {program} sees arriving packets before anything else"),
            why: "packets that it redirects or drops reach no queue: up to 100 % of them pass \
                  unshaped"
                .to_owned(),
            remedy: format!(
                "`bpftool prog show id {program}` shows it; `ip link set dev {name} xdp off` \
                 removes it"
            ),
        });
    }
}

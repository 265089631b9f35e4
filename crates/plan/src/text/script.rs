// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A state as a shell script of ip, tc, ethtool and nft commands that does not need weirgate, and
//! what such a script cannot express.

use crate::action::Action;
use crate::diff::hooks::ANY_PROGRAM;
use crate::diff::tree;
use crate::model::settle;
use crate::{Options, Problem, plan_with};
use std::fmt::Write as _;
use weirgate_state::{Device, HtbClass, Offloads, Qdisc, QdiscKind, Stab, State};
use weirgate_units::{Inserted as _, Rate, Span};

/// The offloads that devices usually have.
const OFFLOADED: Offloads = Offloads {
    tso: true,
    gso: true,
    gro: true,
    // GSO_MAX_SEGS, include/linux/netdevice.h.
    segments: Some(65_535),
};

/// The bytes of an ATM cell and of its payload (ITU-T I.361).
const CELL: (u32, u32) = (53, 48);

/// A script, and where it deviates from the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The script, for `sh`.
    pub script: String,
    /// What tc cannot express, one sentence each.
    pub inexact: Vec<String>,
}

/// Returns the devices of a state with nothing on them, as before any apply.
pub fn bare(state: &State) -> State {
    let devices = state.devices.iter();
    let own = devices.filter(|(_, device)| !device.owned_ifb);
    State {
        devices: own
            .map(|(name, device)| {
                let nothing = Device {
                    offloads: device.offloads.map(|_| OFFLOADED),
                    root: None,
                    ..device.clone()
                };
                (name.clone(), nothing)
            })
            .inserted(),
        ..State::default()
    }
}

/// Returns the script that creates a state on a machine that has nothing of it.
pub fn export(desired: &State) -> Result<Export, Vec<Problem>> {
    let plan = plan_with(&bare(desired), desired, &Options::default())?;
    let mut script = String::from(
        "#!/bin/sh\n# Written by `weirgate export`: makes the same state with ip, tc, ethtool and \
         nft.\n# Where a device has a root qdisc already, or a table or an IFB of these names is \
         there,\n# it stops; with `--adopt` it removes them first.\nset -eu\n\n",
    );
    script.push_str(&cleared(desired));
    let mut inexact = Vec::new();
    for (name, device) in &desired.devices {
        if let Some(root) = &device.root {
            doubts(name.as_str(), root, &mut inexact);
        }
    }
    for step in &plan.steps {
        let command = step.action.command();
        let mut lines: Vec<String> = inlined(command.lines().map(with_sets).collect());
        if let Action::SetHooks {
            device,
            after: Some(hooks),
            ..
        } = &step.action
        {
            lines.retain(|line| !line.contains(ANY_PROGRAM));
            // A qdisc for programs alone would stay empty, and would stop the next run.
            if lines.iter().all(|line| line.ends_with(" clsact")) {
                lines.clear();
            }
            if hooks.payload.is_some() {
                inexact.push(format!(
                    "{device}: the payload classifier, a program; rules with `payload` match nothing"
                ));
            }
            if hooks.virtual_queue.is_some() {
                inexact.push(format!(
                    "{device}: the filter that polices arriving packets, a program; nothing \
                     polices them"
                ));
            }
            if hooks.windows.is_some() {
                inexact.push(format!(
                    "{device}: receive windows that limit TCP, two programs; nothing limits it"
                ));
            }
            if hooks.order.is_some() {
                inexact.push(format!(
                    "{device}: the programs that keep segments in order when a connection \
                     changes its class; segments may be reordered"
                ));
            }
            if hooks.entering.is_some() || hooks.leaving.is_some() {
                inexact.push(format!(
                    "{device}: the traffic conditioner, a program; no packet is measured, marked \
                     or dropped by its colour"
                ));
            }
            if hooks.datagrams.is_some() {
                inexact.push(format!(
                    "{device}: the limit of datagram streams, a program; nothing limits them, and \
                     the rule that refuses them matches nothing"
                ));
            }
        }
        if lines.is_empty() {
            continue;
        }
        let origin = step.origin.to_string();
        if !origin.is_empty() {
            let _ = write!(script, "\n# {origin}");
        }
        let _ = write!(script, "\n{}\n", lines.join("\n"));
        if let Action::SetOffloads { device, .. } = &step.action {
            // Some devices do not permit switching every offload.
            let end = script.trim_end().len();
            script.truncate(end);
            let _ = writeln!(script, " || echo \"{device}: offloads stay\" >&2");
        }
    }
    if !inexact.is_empty() {
        let mut notes = String::from("# What tc cannot express:\n");
        for one in &inexact {
            let _ = writeln!(notes, "# - {one}");
        }
        script = script.replacen("set -eu\n", &format!("{notes}set -eu\n"), 1);
    }
    Ok(Export { script, inexact })
}

/// Returns the part of the script that checks whether something exists already, and removes it on
/// request. The kernel's default qdisc has the handle 0 (`qdisc_create_dflt`,
/// net/sched/sch_generic.c).
fn cleared(desired: &State) -> String {
    let mut checks = String::from(
        "adopt=${1:-}\nthere() {\n  [ \"$adopt\" = --adopt ] && return\n  \
         echo \"$0: $1 is there already; --adopt removes it\" >&2\n  exit 1\n}\n",
    );
    let mut removals = String::new();
    for (name, device) in &desired.devices {
        // Writing to a String cannot fail.
        let _ = if device.owned_ifb {
            let _ = writeln!(
                checks,
                "! ip link show dev {name} >/dev/null 2>&1 || there \"the device {name}\""
            );
            writeln!(removals, "  ip link del {name} 2>/dev/null || true")
        } else {
            let _ = writeln!(
                checks,
                "case $(tc qdisc show dev {name} root) in ''|*' 0: '*) ;; \
                 *) there \"a root qdisc of {name}\" ;; esac"
            );
            writeln!(
                removals,
                "  tc qdisc del dev {name} root 2>/dev/null || true"
            )
        };
    }
    for table in &desired.tables {
        let (family, name) = (if table.netdev { "netdev" } else { "inet" }, &table.name);
        let _ = writeln!(
            checks,
            "! nft list table {family} {name} >/dev/null 2>&1 || there \"the table {family} {name}\""
        );
    }
    // Tables are replaced in the transaction that creates them.
    if removals.is_empty() {
        return checks;
    }
    format!("{checks}if [ \"$adopt\" = --adopt ]; then\n{removals}fi\n")
}

/// Returns the lines with lists of IPv6 code points written into the rules. nft (1.0.6) never
/// matches a named list of them, because it compares other bits of the traffic class than it has
/// stored.
fn inlined(mut lines: Vec<String>) -> Vec<String> {
    let mut lists: Vec<(String, String)> = Vec::new();
    lines.retain(|line| {
        let list = line.trim_start().strip_prefix("set ").and_then(|line| {
            let (name, rest) = line.split_once(" { typeof ip6 dscp; ")?;
            let (_, elements) = rest.split_once("elements = ")?;
            Some((format!("@{name}"), elements.strip_suffix("; }")?.to_owned()))
        });
        let kept = list.is_none();
        lists.extend(list);
        kept
    });
    for line in &mut lines {
        for (name, elements) in &lists {
            if line.contains(name) {
                *line = line.replace(name, elements);
            }
        }
    }
    lines
}

/// Returns a line of a table. The comment that represents a set of segments without payload becomes
/// the set: IP length, and header lengths in words of four bytes.
fn with_sets(line: &str) -> String {
    let fields = line.strip_prefix("  # set ");
    let fields = fields.and_then(|rest| rest.strip_suffix(" of a segment without payload"));
    let Some((name, key)) = fields.and_then(|rest| rest.split_once(": each ")) else {
        return line.to_owned();
    };
    let words = 5..=15_u32;
    let elements: Vec<String> = if key.split(" . ").count() == 3 {
        let pairs = words
            .clone()
            .flat_map(|ip| words.clone().map(move |tcp| (ip, tcp)));
        let element = |(ip, tcp)| format!("{} . {ip} . {tcp}", 4 * (ip + tcp));
        pairs.map(element).collect()
    } else {
        let element = |tcp| format!("{} . {tcp}", 4 * tcp);
        words.map(element).collect()
    };
    format!(
        "  set {name} {{\n    typeof {key}; flags constant;\n    elements = {{ {} }}\n  }}",
        elements.join(", ")
    )
}

fn doubts(device: &str, qdisc: &Qdisc, out: &mut Vec<String>) {
    if let Some(stab) = &qdisc.stab
        && words(stab).is_none()
    {
        out.push(format!(
            "{device} {}: its size table (such as of PTM, 64 in 65 bytes); the script counts \
             overhead and minimum size only",
            qdisc.handle
        ));
    }
    let QdiscKind::Htb(htb) = &qdisc.kind else {
        return;
    };
    let rough = "buckets (burst, cburst): tc takes whole bytes and whole microseconds";
    if !out.iter().any(|one| one == rough) {
        out.push(rough.to_owned());
    }
    for class in tree::parents_first(htb) {
        class.leaf.iter().for_each(|leaf| doubts(device, leaf, out));
    }
}

/// Returns a bucket in bytes, at least one, because tc refuses an empty one.
pub(crate) fn bucket(rate: Rate, span: Span) -> u64 {
    let nanos = u128::from(settle::ticks(span).as_nanos());
    let bytes = (u128::from(rate.as_bits_per_second()) * nanos).div_ceil(8_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

/// Returns the words with which tc creates a table that charges the same for every packet that this
/// table covers; `None` if there are none.
pub(crate) fn words(stab: &Stab) -> Option<String> {
    let covers = stab.mtu.min(u32::from(u16::MAX));
    [false, true].into_iter().find_map(|atm| {
        // The charge of the longest packet gives the overhead, except for rounding to cells.
        (-64..=320_i32).find_map(|overhead| {
            let same = |length: u32| {
                let device = i64::from(length) - i64::from(stab.overhead);
                let device = u32::try_from(device).unwrap_or(0);
                stab.charge(device) == cost(length, overhead, stab.mpu, atm)
            };
            // Most overheads fail at the first lengths.
            let all = [1500, 1, 40, 64, 576].into_iter().chain(1..=covers);
            all.filter(|length| *length <= covers).all(same).then(|| {
                let layer = if atm { "atm" } else { "ethernet" };
                let relative = overhead + stab.overhead;
                format!(
                    "stab linklayer {layer} overhead {relative} mpu {} mtu 4096 tsize 4096",
                    stab.mpu
                )
            })
        })
    })
}

/// Returns what tc's table charges for an IP packet with this overhead.
fn cost(length: u32, overhead: i32, mpu: u32, atm: bool) -> u32 {
    let size = i64::from(length) + i64::from(overhead);
    let size = u32::try_from(size).unwrap_or(0).max(mpu);
    if atm {
        size.div_ceil(CELL.1) * CELL.0
    } else {
        size
    }
}

/// Returns a class as tc takes it.
pub(crate) fn class_text(class: &HtbClass) -> String {
    format!(
        "parent {} classid {} htb rate {} ceil {} burst {}b cburst {}b prio {} quantum {}",
        class.parent,
        class.id,
        class.rate,
        class.ceil,
        bucket(class.rate, class.buffer),
        bucket(class.ceil, class.cbuffer),
        class.prio,
        class.quantum
    )
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about devices whose other end can send merged packets. No offload of the device splits
//! them.

use crate::device::NOTICEABLE;
use crate::finding::{Finding, Question, Severity};
use crate::link::{Carrier, Flow, in_words};
use std::collections::BTreeMap;
use weirgate_policy::Inbound;
use weirgate_state::{DeviceName, Hook, Interface};

/// Kinds of devices (`IFLA_INFO_KIND`) whose other end is a network stack or a virtual machine, not
/// a wire. Its TCP sends up to 64 KB as one packet. A tap is of the kind `tun`.
const KINDS: [&str; 6] = ["veth", "netkit", "tun", "macvlan", "macvtap", "ipvlan"];

/// Judges every device at which packets arrive that are queued here.
pub(crate) fn examine(question: &Question<'_>, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    for carrier in carriers {
        let Some(flow) = &carrier.arriving else {
            continue;
        };
        let inbound = question.policy.map(|policy| policy.link.inbound.value);
        let is_link = !carrier.is_lan && !flow.example;
        if is_link && !matches!(inbound, Some(Inbound::Ifb | Inbound::Lan)) {
            continue;
        }
        let ways = ways(&question.machine.devices, &carrier.device);
        if !ways.is_empty() {
            findings.push(arriving(question, carrier, flow, &ways));
        }
    }
}

/// Returns the devices by which merged packets can come: the device itself, or ports of it, with
/// their kinds.
fn ways(devices: &BTreeMap<DeviceName, Interface>, name: &DeviceName) -> Vec<String> {
    let parts = devices
        .iter()
        .filter(|(own, device)| *own == name || device.master.as_ref() == Some(name));
    parts
        .filter_map(|(own, device)| {
            let kind = device.kind.as_deref().filter(|kind| KINDS.contains(kind))?;
            Some(format!("{own} ({kind})"))
        })
        .collect()
}

fn arriving(question: &Question<'_>, carrier: &Carrier, flow: &Flow, ways: &[String]) -> Finding {
    let name = &carrier.device;
    let time = flow.merged();
    let come = format!("packets can come merged by {}", ways.join(", "));
    if let Some(cutter) = cutter(question, name) {
        return Finding {
            severity: Severity::Note,
            code: "merged",
            subject: name.to_string(),
            fact: format!("{come}; {cutter} cuts them"),
            why: format!(
                "each of up to 64 KB is cut before the queue, where it would occupy {} for {}",
                flow.at(),
                in_words(time)
            ),
            remedy: "nothing".to_owned(),
        };
    }
    let by_ifb = question
        .policy
        .is_some_and(|policy| policy.link.inbound.value == Inbound::Ifb && !carrier.is_lan);
    let field = if by_ifb {
        "`merged = \"cut\"` and `inbound = \"lan\"`"
    } else {
        "`merged = \"cut\"`"
    };
    Finding {
        severity: if time > NOTICEABLE && !flow.example {
            Severity::Warning
        } else {
            Severity::Note
        },
        code: "merged",
        subject: name.to_string(),
        fact: format!("{come}, and nothing cuts them"),
        why: format!(
            "one of 64 KB occupies {} for {}; every bound that `check` states is for single \
             packets",
            flow.at(),
            in_words(time)
        ),
        remedy: format!(
            "write {field} in [link], or at every sender `ethtool -K DEVICE tso off gso off`"
        ),
    }
}

/// Returns the IFB device that cuts what arrives at a device.
fn cutter<'a>(question: &Question<'a>, name: &DeviceName) -> Option<&'a DeviceName> {
    let state = question.desired.or(question.applied)?;
    let mut chains = state.tables.iter().flat_map(|table| &table.chains);
    chains.find_map(|chain| match &chain.hook {
        Hook::Ingress {
            device,
            redirect_to,
        } if device == name => {
            let ifb = state.devices.get(redirect_to)?;
            ifb.offloads.is_some().then_some(redirect_to)
        }
        _ => None,
    })
}

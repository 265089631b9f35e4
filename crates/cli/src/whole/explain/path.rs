// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a packet through the kernel.

use crate::whole::explain::class::Class;
use crate::whole::explain::input::Item;
use crate::whole::explain::outcome::{About, Shown};
use crate::whole::explain::rules::{deciding, where_in};
use weirgate_explain::Direction;
use weirgate_policy::Inbound;
use weirgate_state::Hook;

/// Returns the path of a packet through the kernel, step by step.
pub fn kernel_path(about: &About<'_>, item: &Item, shown: &Shown, class: &Class) -> Vec<String> {
    let mut steps = Vec::new();
    let link = &about.policy.link;
    let fate = shown.last.as_ref().map(|last| &last.0);
    let passes = fate.map(|fate| fate.passes.as_slice()).unwrap_or_default();
    let path = shown.path.as_ref();
    let arrives = path.and_then(|path| path.arrives.as_ref());
    let ifb = item.direction == Direction::Down && link.inbound.value == Inbound::Ifb;
    match arrives {
        Some(device) => steps.push(format!("arrives on {device}")),
        None => steps.push("made by the router itself".to_owned()),
    }
    if let (Some(device), Some(fate)) = (arrives, fate)
        && about.simulator.looks_at(device)
    {
        let found = fate.payload.map_or("nothing yet", |found| found.name());
        steps.push(format!(
            "tc ingress of {device}: the first payloads of its flow reveal: {found}"
        ));
    }
    if !ifb && !link.bridge {
        steps.push("connection tracking".to_owned());
    }
    for pass in passes {
        let Some(table) = about.simulator.tables().get(pass.table) else {
            continue;
        };
        let chain = table.chains.iter().find(|chain| chain.name == pass.chain);
        let hook = match chain.map(|chain| &chain.hook) {
            Some(Hook::Ingress { device, .. }) => {
                format!("netdev ingress of {device}, before connection tracking and NAT")
            }
            Some(Hook::Output) => "output, where the sender's socket is known".to_owned(),
            Some(Hook::Postrouting { device }) => {
                format!("postrouting to {device}, priority mangle, before source NAT")
            }
            Some(Hook::Egress { device }) => {
                format!("netdev egress of {device}, bridged: no connection tracking")
            }
            _ => "hook".to_owned(),
        };
        let rule = deciding(about, pass).map(|(tried, _)| where_in(table, tried));
        steps.push(match rule {
            Some(rule) => format!("{hook}: {rule}"),
            None => format!(
                "{hook}: table {}, chain {}, no rule",
                table.name, pass.chain
            ),
        });
    }
    if let Some(id) = class.id {
        steps.push(format!("skb->priority = {id}"));
        let device = match (item.direction, link.inbound.value) {
            (Direction::Up, _) => Some(link.device.value.to_string()),
            (Direction::Down, Inbound::Ifb) => {
                steps.push(format!("fwd to {}", link.ifb.value));
                Some(link.ifb.value.to_string())
            }
            (Direction::Down, Inbound::Lan) => link.lan.first().map(|lan| lan.value.to_string()),
            (Direction::Down, _) => None,
        };
        if let Some(device) = device {
            steps.push(format!("queue on {device}: class {}", class.title()));
        }
        if ifb {
            steps.push("back to the stack: connection tracking, routing".to_owned());
        }
    }
    if item.direction == Direction::Down && item.own {
        steps.push("to the router itself".to_owned());
    }
    steps
}

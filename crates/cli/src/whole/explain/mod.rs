// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate explain`: shows what a policy does to packets, and why.
//!
//! The packets come as text, as a file of texts, as a capture (`input`), or as the packets of a
//! service (`service`). The explain crate runs the policy's tables on them. `text` and `json` print
//! the outcome (`outcome`), with a line for each rule of the policy (`rules`).

mod assumed;
pub mod class;
mod input;
mod json;
mod origin;
mod outcome;
mod path;
mod rules;
mod service;
mod text;
mod words;

use input::Item;
use outcome::{About, Shown};
use std::path::PathBuf;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_explain::{Counting, Devices, Direction, SECOND, Simulator};
use weirgate_policy::{Inbound, Policy};
use weirgate_state::{Capabilities, DeviceName};

/// What `weirgate explain` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The policy file [default: the installed one, where the first word is no file]
    policy: Option<PathBuf>,
    /// A packet, such as "tcp 192.168.1.10:40000 > 203.0.113.5:22 syn", or the name of a
    /// service, such as `ssh`; several form a sequence.
    packets: Vec<String>,
    /// A file of packets: a text with one packet per line, or a capture (pcap, pcapng);
    /// `-` for standard input.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Assume that a rule set is on or off, such as `games=off`.
    #[arg(long = "set", value_name = "NAME=on|off")]
    sets: Vec<String>,
    /// The time of the first packet, in UTC: `2026-03-01T22:30`, or `sat 22:30`.
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// For a capture: inside addresses, such as 192.0.2.0/24 [default: private ones].
    #[arg(long, value_name = "PREFIX")]
    inside: Vec<String>,
    /// Which packets make their connection count, which differs between kernels (docs/explain.md).
    #[arg(long, value_enum, default_value_t = Counts::Unassured)]
    counts: Counts,
    /// Show every rule that was tried, and the condition that failed.
    #[arg(long)]
    all: bool,
    /// With several links, use the link on this device.
    #[arg(long, value_name = "DEVICE", value_parser = policy::device)]
    link: Option<DeviceName>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// The packets that add their connection to a connection limit.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Counts {
    /// Any that comes to the rule (before Linux 6.19).
    Any,
    /// The first alone (Linux 6.19 to 7.1).
    First,
    /// Those of connections without traffic both ways so far (since Linux 7.2).
    Unassured,
}

impl From<Counts> for Counting {
    fn from(counts: Counts) -> Self {
        match counts {
            Counts::Any => Self::Any,
            Counts::First => Self::First,
            Counts::Unassured => Self::Unassured,
        }
    }
}

/// `weirgate explain`.
pub fn run(arguments: &Arguments) -> Outcome {
    let (file, words) = named(arguments)?;
    let loaded = policy::read(&file)?;
    let policy = loaded.link(arguments.link.as_ref())?;
    let state = loaded.compile(&Capabilities::all())?;
    let clock = match &arguments.time {
        Some(text) => Some(input::time(text).map_err(Failure::Input)?),
        None => None,
    };
    let mut simulator = Simulator::new(&state.tables)
        .counting(arguments.counts.into())
        .with_hooks(&state.hooks);
    let nat = "connections count as tracked only if a rule tests them";
    let mut general = vec![nat.to_owned()];
    switch(&mut simulator, policy, &arguments.sets)?;
    let inside = input::prefixes(&arguments.inside).map_err(Failure::Input)?;
    let from = arguments.from.as_deref();
    let (packets, services) = packets(policy, &words, &mut general)?;
    let items = input::items(&packets, from, &inside, policy.link.bridge)?;
    if items.is_empty() {
        return Err(Failure::Input(
            "weirgate: there is no packet; write one, such as \
             `\"tcp 192.168.1.10:40000 > 203.0.113.5:22 syn\"`, or a service, such as `ssh`, or \
             name a file with --from"
                .to_owned(),
        ));
    }
    if policy.link.inbound.value == Inbound::Ifb {
        general.push(format!(
            "downstream packets are seen where they arrive on {}, before connection tracking and \
             destination NAT: write their addresses on the wire there",
            policy.link.device.value
        ));
        let restores = |place: &weirgate_state::HookPrograms| place.restore.is_some();
        if state.hooks.values().any(restores) {
            general.push(format!(
                "their marks still hold the decisions that their connections keep: act_ctinfo \
                 looks up the connection as they arrive on {} and copies its mark's bits",
                policy.link.device.value
            ));
        }
    }
    if policy.looks_at_payloads() {
        general.push(
            "each device learns protocols from payloads itself, from packets that arrive on it, \
             with their addresses there; for 65536 flows at a time"
                .to_owned(),
        );
    }
    general.push(
        "upstream packets are seen before source NAT: write inside addresses; checksums count as \
         right and TCP segments as in window"
            .to_owned(),
    );
    let mut shown = Vec::new();
    let mut wrong = 0;
    for item in items {
        let one = pass(&mut simulator, policy, &item, clock);
        wrong += usize::from(one.1);
        shown.push((item, one.0));
    }
    let about = About {
        policy,
        simulator: &simulator,
        sources: &loaded.sources,
        name: &file,
        general,
        all: arguments.all || !services.is_empty(),
        services,
    };
    if arguments.json {
        output::data(&json::json(&about, &shown)?)?;
    } else {
        output::text(&text::text(&about, &shown))?;
    }
    if wrong > 0 {
        output::note(&format!(
            "weirgate: {wrong} of {} packets did not get the expected class",
            shown.len()
        ));
        return Ok(Status::Differs);
    }
    Ok(Status::Done)
}

/// Returns the policy's file and the words after it. If the first word is neither a file nor named
/// like one, it is a packet, and the installed policy is used.
fn named(arguments: &Arguments) -> Result<(PathBuf, Vec<String>), Failure> {
    let words = arguments.packets.clone();
    let Some(first) = &arguments.policy else {
        return Ok((PathBuf::from(policy::SITE), words));
    };
    let is_policy = first.exists()
        || first.as_os_str() == policy::STDIN
        || first.extension().is_some_and(|ending| ending == "toml");
    if is_policy {
        return Ok((first.clone(), words));
    }
    let installed = PathBuf::from(policy::SITE);
    if !installed.exists() {
        return Err(Failure::Input(format!(
            "weirgate: `{}` is not a file, and no policy is installed as {}; name a policy first",
            first.display(),
            policy::SITE
        )));
    }
    let packet = first.to_string_lossy().into_owned();
    Ok((installed, [vec![packet], words].concat()))
}

/// Returns the packets of the command line, and the services that it names.
///
/// A service's name is replaced by its packets. Services that match more of the same port are added
/// to the notes.
fn packets(
    policy: &Policy,
    arguments: &[String],
    general: &mut Vec<String>,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let (mut packets, mut named) = (Vec::new(), Vec::new());
    for argument in arguments {
        if !service::is_name(argument) {
            packets.push(argument.clone());
            continue;
        }
        named.push(argument.clone());
        packets.extend(service::packets(policy, argument)?);
        let wider = service::wider(policy, argument);
        if !wider.is_empty() {
            general.push(format!(
                "`{argument}` takes only packets that bear its marks; `{}` takes all of its port",
                wider.join("` or `")
            ));
        }
    }
    Ok((packets, named))
}

/// Runs an item's packets through the simulator. Returns the result of the last, and whether any
/// class differs from the expected one.
fn pass(
    simulator: &mut Simulator,
    policy: &Policy,
    item: &Item,
    clock: Option<i64>,
) -> (Shown, bool) {
    let path = path(policy, item);
    let mut wrong = false;
    let mut shown = Shown::default();
    for count in 0..u64::from(item.repeat.0) {
        let at = item.at.saturating_add(item.repeat.1.saturating_mul(count));
        let now = clock.map(|clock| clock.saturating_add((at / SECOND) as i64));
        let mut packet = item.packet.clone();
        packet.input = path.arrives.as_ref().map(ToString::to_string);
        let fate = simulator.pass(packet, &path, at, now.or(item.clock));
        let class = class::class_of_item(policy, item, &fate);
        if let Some(expected) = &item.expected
            && !fate.waits
        {
            wrong |= class.name.as_deref().unwrap_or("-") != expected;
        }
        *shown.classes.entry(class.title()).or_default() += 1;
        shown.last = Some((fate, class));
    }
    shown.path = Some(path);
    (shown, wrong)
}

/// Returns the devices through which a packet passes.
fn path(policy: &Policy, item: &Item) -> Devices {
    let link = &policy.link;
    let wan = Some(link.device.value.clone());
    let lan = link.lan.first().map(|lan| lan.value.clone());
    let elsewhere = || DeviceName::new("lan0");
    match item.direction {
        Direction::Up => Devices {
            arrives: if item.own {
                None
            } else {
                item.device.clone().or(lan).or_else(elsewhere)
            },
            leaves: wan,
        },
        Direction::Down => Devices {
            arrives: item.device.clone().or(wan),
            leaves: lan.filter(|_| !item.own),
        },
    }
}

/// Applies `--set NAME=on|off`.
fn switch(simulator: &mut Simulator, policy: &Policy, sets: &[String]) -> Result<(), Failure> {
    for text in sets {
        let (name, state) = text.split_once('=').unwrap_or((text, ""));
        let on = match state {
            "on" => true,
            "off" => false,
            _ => {
                return Err(Failure::Input(format!(
                    "weirgate: --set {text}: column {}: say `on` or `off`, such as `--set {name}=off`",
                    name.chars().count() + 1
                )));
            }
        };
        let known = policy.rulesets.iter().any(|set| set.name.value == name);
        if !known {
            let names: Vec<&str> = policy
                .rulesets
                .iter()
                .map(|set| set.name.value.as_str())
                .collect();
            let right = if names.is_empty() {
                "the policy has no rule sets".to_owned()
            } else {
                format!("its rule sets are {}", names.join(", "))
            };
            return Err(Failure::Input(format!(
                "weirgate: --set {text}: column 1: there is no rule set `{name}`; {right}"
            )));
        }
        for direction in Direction::BOTH {
            simulator.switch(&weirgate_compile::ruleset_chain(direction, name), on);
        }
    }
    Ok(())
}

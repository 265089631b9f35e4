// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy's text.

use crate::found::Found;
use crate::inbound::Inbound;
use crate::line::AccessLine;
use crate::purpose::{Purpose, TRACKED};
use weirgate_document::quoted;
use weirgate_linklayer::{DeviceKind, LinkLayer};
use weirgate_state::{Ability, DeviceName};
use weirgate_units::Rate;

/// The most lines that a policy has.
pub const MOST_LINES: usize = 40;

/// Lines of the second rule that some policies have.
const RULE_LINES: usize = 4;

/// Where comments begin, in characters.
const COLUMN: usize = 23;

/// The largest packet of Ethernet, which a policy need not name, and the range
/// that a policy takes.
const USUAL_MTU: u32 = 1500;
const MTUS: std::ops::RangeInclusive<u32> = 576..=2048;

/// Below this a full packet of 1500 bytes takes more than 6 ms, so the class
/// that goes first gets a queue with a bound, and more of the line.
const SLOW: Rate = Rate::kbit(2_000);
/// Acknowledgements of downloads that are so many times faster fill the upstream, where
/// packets are of the usual size; from the second on they would be reserved most of it,
/// and get this percentage.
const ASYMMETRIC: u64 = 10;
const EXTREME: u64 = 16;
const ACKNOWLEDGEMENTS: u64 = 60;
/// The parts of a changing downstream, as it is at a busy hour, between which it is followed.
const FLOOR: u64 = 8;
const CEILING: u64 = 4;
/// A class with the least share of a purpose, 5 %, has at least 1 kbit/s of it, which a class
/// must have.
const LEAST_FLOOR: Rate = Rate::kbit(32);

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// The kind of line.
    pub line: &'static AccessLine,
    /// Its rates on the wire, upstream.
    pub up: Rate,
    /// The same downstream.
    pub down: Rate,
    /// The host that they were measured with; `None` where they were given.
    pub measured: Option<String>,
    /// What matters.
    pub purpose: &'static Purpose,
    /// Ports of a server here.
    pub ports: Vec<u16>,
}

/// A rate as policies have it.
fn rate(rate: Rate) -> String {
    match rate.as_bits_per_second() {
        bits if bits % 1_000_000 == 0 => format!("{}mbit", bits / 1_000_000),
        bits => format!("{}kbit", bits / 1000),
    }
}

struct Text(String);

impl Text {
    /// A line without a comment.
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// A field with a comment, which may be empty.
    fn field(&mut self, name: &str, value: &str, comment: &str) {
        let field = format!("{name} = {value}");
        match comment {
            "" => self.line(&field),
            comment => self.line(&format!("{field:COLUMN$} # {comment}")),
        }
    }

    /// The same with a text as the value. Names of devices may have what a text
    /// must not.
    fn text(&mut self, name: &str, value: &str, comment: &str) {
        self.field(name, &quoted(value), comment);
    }

    /// The head of a second rule, apart from the first where there is room.
    fn second_rule(&mut self) {
        if self.0.lines().count() + RULE_LINES < MOST_LINES {
            self.line("");
        }
        self.line("[[rule]]");
    }
}

fn list<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let values: Vec<String> = values.map(quoted).collect();
    match &values[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Writes the policy of a link: at most [`MOST_LINES`] lines.
#[must_use]
pub fn policy(found: &Found, answers: &Answers) -> String {
    let mut text = Text(String::new());
    text.line("# Made by `weirgate init`. Every field: weirgate-policy(5). After a change, run");
    text.line("# `weirgate check`, then `weirgate apply --confirm 60s`.");
    text.line("version = 1");
    text.line("");
    link(&mut text, found, answers);
    let to_a_rate = Inbound::of(found, answers.purpose).queues();
    if answers.line.varies && to_a_rate && !found.lacks.contains(&Ability::Btf) {
        text.line("");
        text.line("[track]");
        text.field(
            "passive",
            "true",
            "the rate changes: it is followed by TCP's round trips",
        );
        let down = answers.down.as_bits_per_second();
        let floor = Rate::bits_per_second(down / FLOOR).max(LEAST_FLOOR.min(answers.down));
        let ceiling = Rate::bits_per_second(down.saturating_mul(CEILING));
        text.text("down-floor", &rate(floor), "and is never taken for less");
        text.text("down-ceiling", &rate(ceiling), "or for more");
    }
    let [up, down] = [answers.up, answers.down].map(Rate::as_bits_per_second);
    // Smaller packets ask for more acknowledgements.
    let down = down.saturating_mul(u64::from(USUAL_MTU)) / u64::from(mtu(found));
    if !answers.line.varies && down >= up.saturating_mul(ASYMMETRIC) {
        text.line("");
        text.line("[ack]");
        let reserve = if down < up.saturating_mul(EXTREME) {
            "true".to_owned()
        } else {
            quoted(&rate(Rate::bits_per_second(up / 100 * ACKNOWLEDGEMENTS)))
        };
        text.field(
            "reserve",
            &reserve,
            "so that uploads do not slow downloads down",
        );
        if let Some(queue) = queue(found, answers.up) {
            text.text("queue", &queue, "");
        }
    }
    classes(&mut text, found, answers);
    rules(&mut text, found, answers);
    text.0
}

/// The largest packet that the policy counts with.
fn mtu(found: &Found) -> u32 {
    if MTUS.contains(&found.mtu) {
        found.mtu
    } else {
        USUAL_MTU
    }
}

fn link(text: &mut Text, found: &Found, answers: &Answers) {
    let inbound = Inbound::of(found, answers.purpose);
    text.line("[link]");
    if let Some(bridge) = &found.bridge {
        text.field(
            "bridge",
            "true",
            &format!("the two are the ports of {bridge}"),
        );
    }
    text.text("device", found.device.as_str(), "towards the provider");
    if found.kind != DeviceKind::Ethernet {
        text.text("device-kind", found.kind.name(), "");
    }
    if !found.lan.is_empty() {
        let lan = list(found.lan.iter().map(DeviceName::as_str));
        text.field("lan", &lan, "towards the hosts");
        if found.lan_kind.counted() != DeviceKind::Ethernet.counted() {
            text.text("lan-kind", found.lan_kind.name(), "");
        }
    }
    let origin = match &answers.measured {
        Some(host) => format!("measured with {}", host.escape_debug()),
        None => answers.line.rates.to_owned(),
    };
    text.text("up", &rate(answers.up), &origin);
    text.text("down", &rate(answers.down), "");
    let layer = answers.line.layer(found.dial);
    let described = LinkLayer::names().find(|(name, _)| *name == layer);
    text.text("layer", layer, described.map_or("", |(_, words)| words));
    if let Some(margin) = answers.line.margin {
        text.text("margin", margin, "the rates are a guess");
        text.text("margin-down", margin, "");
    }
    if let Some(value) = inbound.value() {
        text.text("inbound", value, inbound.words());
    }
    if mtu(found) != USUAL_MTU {
        text.field(
            "mtu",
            &mtu(found).to_string(),
            &format!("as {} has", found.device),
        );
    }
    if between_hosts(found) {
        text.text("fair", "hosts", "every host gets an equal part of a class");
    }
}

/// Whether a class is shared between hosts, which takes cake and hosts.
fn between_hosts(found: &Found) -> bool {
    !found.lacks.contains(&Ability::Cake) && !found.lan.is_empty()
}

/// The queue of classes that name none, where the kernel has none of those that
/// could be theirs: one that holds 50 ms of the upstream.
fn queue(found: &Found, up: Rate) -> Option<String> {
    let kinds = [Ability::FqCodel, Ability::Sfq, Ability::Cake];
    let packets = up.as_bits_per_second() / 20 / 8 / u64::from(USUAL_MTU);
    let lacks = kinds.iter().all(|kind| found.lacks.contains(kind));
    lacks.then(|| format!("pfifo {}", packets.clamp(10, 1000)))
}

fn classes(text: &mut Text, found: &Found, answers: &Answers) {
    let Answers { purpose, .. } = answers;
    let other = queue(found, answers.up);
    let slow = answers.up < SLOW;
    // Less of a slow line is too little for a call.
    let share = if slow {
        purpose.share.max(30)
    } else {
        purpose.share
    };
    text.line("");
    text.line("[[class]]");
    text.text("name", "urgent", purpose.words);
    text.text(
        "share",
        &format!("{share}%"),
        "guaranteed; what it leaves, others use",
    );
    text.field("priority", "0", "");
    if slow {
        text.text(
            "queue",
            "bfifo 6kB",
            "on a slow line, so that its wait has a bound",
        );
    } else if let Some(queue) = &other {
        text.text("queue", queue, "this kernel has no fq_codel, sfq or cake");
    }
    text.line("");
    text.line("[[class]]");
    text.text("name", "normal", "");
    text.text("share", &format!("{}%", 100 - share), "");
    if let Some(queue) = &other {
        text.text("queue", queue, "");
    }
    text.field("default", "true", "whatever no rule names");
}

/// The code points of calls, which bridged packets have too (RFC 3246, RFC 5865).
const VOICE: &str = "[\"EF\", \"VA\"]";

fn rules(text: &mut Text, found: &Found, answers: &Answers) {
    let bridged = found.bridge.is_some();
    let all = answers.purpose.services.iter().copied();
    let services: Vec<&str> = all.filter(|one| !(bridged && *one == TRACKED)).collect();
    text.line("");
    text.line("[[rule]]");
    text.text("class", "urgent", "");
    text.field("service", &list(services.iter().copied()), "");
    if services.len() < answers.purpose.services.len() {
        text.second_rule();
        text.text("class", "urgent", "");
        text.field("dscp", VOICE, "calls that are marked so");
        text.text("length", "0-300", "");
    }
    if answers.purpose.serves && !answers.ports.is_empty() {
        let ports: Vec<String> = answers.ports.iter().map(u16::to_string).collect();
        text.second_rule();
        text.text("class", "urgent", "");
        text.field("protocol", "[\"tcp\", \"udp\"]", "");
        text.field(
            "local-port",
            &format!("[{}]", ports.join(", ")),
            "the server's ports",
        );
    }
}

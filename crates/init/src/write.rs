// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the policy's text.

use crate::found::Found;
use crate::inbound::Inbound;
use crate::line::AccessLine;
use crate::purpose::{Purpose, TRACKED};
use weirgate_document::quoted;
use weirgate_linklayer::{DeviceKind, LinkLayer};
use weirgate_state::{Ability, DeviceName};
use weirgate_units::Rate;

/// The maximum number of lines of a policy.
pub const MOST_LINES: usize = 40;

/// The length of the second rule of some policies, in lines.
const RULE_LINES: usize = 4;

/// The column of comments, in characters.
const COLUMN: usize = 23;

/// The largest Ethernet packet, the default of a policy; and the range that a policy accepts.
const USUAL_MTU: u32 = 1500;
const MTUS: std::ops::RangeInclusive<u32> = 576..=2048;

/// Below this rate a full packet of 1500 bytes takes more than 6 ms. The first class then gets a
/// bounded queue and a larger share of the line.
const SLOW: Rate = Rate::kbit(2_000);
/// If the downstream is this many times faster, acknowledgements of downloads of usual packets fill
/// the upstream. From the second ratio on, the reserve for them would take most of the upstream, so
/// it is limited to this percentage.
const ASYMMETRIC: u64 = 10;
const EXTREME: u64 = 16;
const ACKNOWLEDGEMENTS: u64 = 60;
/// The tracked range of a varying downstream, as parts of its rate at a busy hour.
const FLOOR: u64 = 8;
const CEILING: u64 = 4;
/// The minimum of the tracked range: a class with the smallest share of a purpose, 5 %, then has at
/// least 1 kbit/s, the minimum of a class.
const LEAST_FLOOR: Rate = Rate::kbit(32);

/// The answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// The kind of line.
    pub line: &'static AccessLine,
    /// Its upstream rate on the wire.
    pub up: Rate,
    /// Its downstream rate on the wire.
    pub down: Rate,
    /// The host with which the rates were measured; `None` if they were given.
    pub measured: Option<String>,
    /// The purpose.
    pub purpose: &'static Purpose,
    /// The ports of a local server.
    pub ports: Vec<u16>,
}

/// Formats a rate for a policy.
fn rate(rate: Rate) -> String {
    match rate.as_bits_per_second() {
        bits if bits % 1_000_000 == 0 => format!("{}mbit", bits / 1_000_000),
        bits => format!("{}kbit", bits / 1000),
    }
}

struct Text(String);

impl Text {
    /// Appends a line without a comment.
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// Appends a field with a comment, which may be empty.
    fn field(&mut self, name: &str, value: &str, comment: &str) {
        let field = format!("{name} = {value}");
        match comment {
            "" => self.line(&field),
            comment => self.line(&format!("{field:COLUMN$} # {comment}")),
        }
    }

    /// Appends a field whose value is a text. Names of devices may contain characters that must be
    /// escaped.
    fn text(&mut self, name: &str, value: &str, comment: &str) {
        self.field(name, &quoted(value), comment);
    }

    /// Appends the header of a second rule, after an empty line if there is room.
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
    // Smaller packets cause more acknowledgements.
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

/// Returns the largest packet that the policy assumes.
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
    if found.merging {
        text.text(
            "merged",
            "cut",
            "virtual devices bring several packets as one",
        );
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

/// Returns whether a class is shared fairly between hosts, which needs cake and hosts.
fn between_hosts(found: &Found) -> bool {
    !found.lacks.contains(&Ability::Cake) && !found.lan.is_empty()
}

/// Returns the default queue of classes if the kernel lacks all kinds that weirgate would choose: a
/// FIFO that holds 50 ms of the upstream.
fn queue(found: &Found, up: Rate) -> Option<String> {
    let packets = up.as_bits_per_second() / 20 / 8 / u64::from(USUAL_MTU);
    let lacks = found.has_no_queue_for_flows();
    lacks.then(|| format!("pfifo {}", packets.clamp(10, 1000)))
}

fn classes(text: &mut Text, found: &Found, answers: &Answers) {
    let Answers { purpose, .. } = answers;
    let other = queue(found, answers.up);
    let slow = answers.up < SLOW;
    // A smaller share of a slow line is not enough for a call.
    let share = if slow {
        purpose.share.max(30)
    } else {
        purpose.share
    };
    text.line("");
    text.line("[[class]]");
    text.text("name", "urgent", purpose.urgent);
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

/// The code points of calls, which rules for bridged packets can use (RFC 3246, RFC 5865).
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

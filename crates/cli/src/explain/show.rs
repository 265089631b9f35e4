// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weirgate explain` prints.

use crate::explain::input::Item;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weirgate_explain::{
    Devices, Direction, ESTABLISHED, Fate, INVALID, Level, NEW, Pass, RELATED, Simulator, Tried,
    UNTRACKED, Unknown,
};
use weirgate_keep::Source;
use weirgate_policy::{Inbound, Policy};
use weirgate_state::{Effect, Field, Frame, Hook, Origin, Rule, Table};
use weirgate_units::{Dscp, Handle};

/// What holds for all packets.
pub struct About<'a> {
    pub policy: &'a Policy,
    pub simulator: &'a Simulator,
    /// The policy's files, its own first.
    pub sources: &'a [Source],
    pub name: &'a Path,
    pub general: Vec<String>,
    pub all: bool,
}

/// What came of an item's packets.
#[derive(Default)]
pub struct Shown {
    /// The last one's.
    pub last: Option<(Fate, Class)>,
    /// How many got which class.
    pub classes: BTreeMap<String, usize>,
    pub path: Option<Devices>,
}

/// The class of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Class {
    /// Its name in the policy; `None` for none.
    pub name: Option<String>,
    /// Its number.
    pub id: Option<Handle>,
    /// Why it is that, where no rule says so.
    pub why: Option<&'static str>,
}

impl Class {
    /// `good (2:20)`.
    pub fn title(&self) -> String {
        match (&self.name, self.id) {
            (Some(name), Some(id)) => format!("{name} ({id})"),
            (None, Some(id)) => id.to_string(),
            _ => "none".to_owned(),
        }
    }
}

/// The class that a packet leaves with.
pub fn class_of(policy: &Policy, way: Direction, fate: &Fate) -> Class {
    let direction = match way {
        Direction::Up => weirgate_policy::Direction::Up,
        Direction::Down => weirgate_policy::Direction::Down,
    };
    let Some(scheduler) = weirgate_compile::scheduler(policy, direction) else {
        return Class {
            why: Some("the policy does not shape this direction"),
            ..Class::default()
        };
    };
    if fate.waits {
        return Class {
            why: Some("waits for its other fragments"),
            ..Class::default()
        };
    }
    let written = fate.passes.iter().rev().find_map(|pass| pass.class);
    let id = written.unwrap_or_else(|| scheduler.unseen());
    let member = scheduler.members.iter().find(|member| member.id == id);
    Class {
        name: member.map(|member| member.class.name.clone()),
        id: Some(id),
        why: match (written, member) {
            (None, _) => Some("no rule sees it; the qdisc's default class"),
            (Some(_), None) => Some("not shaped"),
            _ => None,
        },
    }
}

/// The class of an item's packet: as [`class_of`], but that what is for the
/// router itself never comes to a gate on the LAN device.
pub fn class_of_item(policy: &Policy, item: &Item, fate: &Fate) -> Class {
    let to_router = item.own && item.direction == Direction::Down;
    if to_router && policy.link.inbound.value == Inbound::Lan {
        return Class {
            why: Some("for the router itself, which no gate on the LAN device sees: not shaped"),
            ..Class::default()
        };
    }
    class_of(policy, item.direction, fate)
}

/// A rule's place in the policy.
struct Place {
    /// `home.toml:12`, or what else is the cause.
    name: String,
    /// The text there.
    quoted: Option<String>,
}

/// An origin as a place: its line, or the line of an included file that stands
/// in its reason.
fn place(about: &About<'_>, origin: &Origin) -> Place {
    let own = about.name.display().to_string();
    let (file, line) = if origin.line > 0 {
        (own.clone(), origin.line)
    } else {
        let included = origin.reason.split_once(" line ").and_then(|(file, rest)| {
            let line = rest.split(':').next()?.parse().ok()?;
            Some((file.to_owned(), line))
        });
        match included {
            Some(found) => found,
            None => {
                return Place {
                    name: own,
                    quoted: None,
                };
            }
        }
    };
    let text = if file == own {
        about.sources.first()
    } else {
        about
            .sources
            .iter()
            .find(|source| source.path.ends_with(&file))
    };
    let quoted = text.map(|source| quote(&source.text, line as usize));
    Place {
        name: format!("{file}:{line}"),
        quoted: quoted.filter(|quoted| !quoted.is_empty()),
    }
}

/// A table of the text, from its head to the next blank line, in one line.
fn quote(text: &str, line: usize) -> String {
    let mut lines = text.lines().skip(line.saturating_sub(1));
    let head = lines.next().unwrap_or_default().trim().to_owned();
    let rest: Vec<&str> = lines
        .map(|line| line.split(" #").next().unwrap_or_default().trim())
        .take_while(|line| !line.is_empty() && !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .take(8)
        .collect();
    if rest.is_empty() {
        return head;
    }
    format!("{head} {}", rest.join("; "))
}

fn rule_of<'a>(table: &'a Table, tried: &Tried) -> Option<&'a Rule> {
    let chain = table
        .chains
        .iter()
        .find(|chain| chain.name == tried.chain)?;
    chain.rules.get(tried.index)
}

/// What a rule did.
fn effects(about: &About<'_>, way: Direction, rule: &Rule, tried: &Tried) -> Vec<String> {
    let mut list: Vec<String> = rule
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Class(class) => {
                format!("class {}", class_named(about.policy, way, *class))
            }
            Effect::ClassOf { .. } => String::from("class of its host's group or limit"),
            Effect::MaxSegment(most) => {
                format!("lowers the largest segment that it announces to {most} bytes")
            }
            Effect::Mark { mask, value } => format!("mark {value:#x}/{mask:#x}"),
            Effect::ConnectionMark { mask, value } => {
                format!("keeps its decision on the connection (ct mark {value:#x}/{mask:#x})")
            }
            Effect::Dscp(_, dscp) => format!("writes DSCP {dscp}"),
        })
        .collect();
    if tried.without_connection {
        list.push("ends there: the packet has no connection".to_owned());
    }
    for level in &tried.levels {
        list.push(level_text(*level));
    }
    list
}

fn level_text(level: Level) -> String {
    match level {
        Level::Tokens(thousandths) => {
            let (whole, part) = (thousandths / 1000, thousandths % 1000 / 10);
            format!("the limit had room for {whole}.{part:02} such packets")
        }
        Level::Connections(count) => format!("{count} connections were open"),
        Level::Full => "the table of the limit is full, which matches nothing".to_owned(),
    }
}

fn class_named(policy: &Policy, way: Direction, id: Handle) -> String {
    let direction = match way {
        Direction::Up => weirgate_policy::Direction::Up,
        Direction::Down => weirgate_policy::Direction::Down,
    };
    let scheduler = weirgate_compile::scheduler(policy, direction);
    let members = scheduler
        .map(|scheduler| scheduler.members)
        .unwrap_or_default();
    let named = members.iter().find(|member| member.id == id);
    named.map_or_else(
        || format!("{id} (not shaped)"),
        |member| format!("{} ({id})", member.class.name),
    )
}

/// The rule that wrote the class the packet left with.
fn deciding<'a>(about: &'a About<'_>, pass: &'a Pass) -> Option<(&'a Tried, &'a Rule)> {
    let table = about.simulator.tables().get(pass.table)?;
    let writes = pass.matched().filter_map(|tried| {
        let rule = rule_of(table, tried)?;
        rule.class().map(|_| (tried, rule))
    });
    writes.last()
}

/// `inet weirgate, chain up, rule 7`.
fn where_in(table: &Table, tried: &Tried) -> String {
    let family = if table.netdev { "netdev" } else { "inet" };
    format!(
        "{family} {}, chain {}, rule {}",
        table.name,
        tried.chain,
        tried.index + 1
    )
}

/// The path through the kernel, step by step.
fn kernel_path(about: &About<'_>, item: &Item, shown: &Shown, class: &Class) -> Vec<String> {
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
            "tc ingress of {device}: what the first payloads of its flow betray: {found}"
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
            Some(Hook::Output) => "output, where the sender's control group is known".to_owned(),
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
            (Direction::Down, Inbound::Filter | Inbound::Police | Inbound::None) => None,
        };
        if let Some(device) = device {
            steps.push(format!("HTB on {device}: gate 1:, class {}", class.title()));
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

fn state_text(state: u32) -> &'static str {
    match state {
        INVALID => "invalid",
        ESTABLISHED => "established",
        RELATED => "related",
        NEW => "new",
        UNTRACKED => "untracked",
        _ => "unknown",
    }
}

/// What the outcome rests on that nobody said.
fn assumptions(item: &Item, fate: &Fate) -> Vec<String> {
    let mut list = item.taken.clone();
    let unknown = fate.passes.iter().flat_map(|pass| &pass.unknown);
    let mut seen: Vec<Unknown> = unknown.copied().collect();
    seen.sort_unstable();
    seen.dedup();
    for one in seen {
        list.push(
            match one {
                Unknown::CutOff => {
                    "the capture cut the packet off before a field that a rule looks at, which is \
                     taken for absent"
                }
                Unknown::Payload => "the payload is cut off; it is taken to betray nothing",
                Unknown::SourceMac => {
                    "the sender's MAC address is not known, and rules that ask for it do not \
                     match (write `mac`)"
                }
                Unknown::Sender => {
                    "whose socket sent it is not known, and rules that ask for it do not match \
                     (write `uid` and `gid`)"
                }
                Unknown::ControlGroup => {
                    "which control group sent it is not known, and rules that ask for one do not \
                     match (write `cgroup`)"
                }
                Unknown::Time => {
                    "no time was given, and schedules are asked at midnight of a Thursday (write \
                     --time)"
                }
                Unknown::Collected => {
                    "connections that ended still count here; the kernel strikes them off within \
                     about a second, and then the answer is another"
                }
            }
            .to_owned(),
        );
    }
    if let Some(connection) = &fate.connection
        && connection.first
        && item.packet.given == weirgate_explain::GivenConnection::default()
    {
        list.push("its connection was not known before: this is its first packet".to_owned());
    }
    list
}

/// Everything as text.
pub fn text(about: &About<'_>, shown: &[(Item, Shown)]) -> String {
    let mut out = String::new();
    for (index, (item, one)) in shown.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        item_text(&mut out, about, item, one);
    }
    out.push('\n');
    for line in &about.general {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "note: {line}");
    }
    out
}

fn item_text(out: &mut String, about: &About<'_>, item: &Item, one: &Shown) {
    let way = match item.direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    let time = weirgate_units::Span::from_nanos(item.at);
    let _ = writeln!(out, "{}", item.title);
    let Some((fate, class)) = &one.last else {
        return;
    };
    let why = class.why.map(|why| format!(": {why}")).unwrap_or_default();
    let _ = writeln!(out, "  {way} at {time}: class {}{why}", class.title());
    if one.classes.len() > 1 {
        let each: Vec<String> = one
            .classes
            .iter()
            .map(|(class, count)| format!("{count} in {class}"))
            .collect();
        let _ = writeln!(
            out,
            "  of {} packets {}; what follows is the last one's",
            item.repeat.0,
            each.join(", ")
        );
    }
    if let Some(expected) = &item.expected
        && !fate.waits
        && class.name.as_deref().unwrap_or("-") != expected
    {
        let _ = writeln!(out, "  EXPECTED class {expected}");
    }
    for pass in &fate.passes {
        let Some(table) = about.simulator.tables().get(pass.table) else {
            continue;
        };
        let last_word = deciding(about, pass).map(|(tried, _)| tried);
        for tried in &pass.tried {
            if let Some(rule) = rule_of(table, tried) {
                tried_text(
                    out,
                    about,
                    item.direction,
                    (table, rule, tried),
                    last_word == Some(tried),
                );
            }
        }
    }
    if let Some(connection) = &fate.connection {
        let _ = write!(out, "  connection: {}", state_text(connection.state));
        if connection.id.is_some() {
            let _ = write!(
                out,
                ", packet {}, {} bytes, mark {:#x}",
                connection.packets, connection.bytes, connection.mark
            );
        }
        out.push('\n');
    }
    let (before, after) = (item.packet.dscp(), fate.packet.dscp());
    if before != after {
        let name = |value: Option<u8>| {
            value
                .and_then(Dscp::new)
                .map_or_else(String::new, |dscp| dscp.to_string())
        };
        let _ = writeln!(
            out,
            "  leaves with DSCP {} instead of {}",
            name(after),
            name(before)
        );
    }
    let _ = writeln!(
        out,
        "  path: {}",
        kernel_path(about, item, one, class).join(" -> ")
    );
    for line in assumptions(item, fate) {
        let _ = writeln!(out, "  assumed: {line}");
    }
}

fn tried_text(
    out: &mut String,
    about: &About<'_>,
    way: Direction,
    (table, rule, tried): (&Table, &Rule, &Tried),
    decides: bool,
) {
    let failed = tried.failed.and_then(|at| rule.matches.get(at));
    if failed.is_some() && !about.all {
        return;
    }
    let place = place(about, &rule.origin);
    if let Some(failed) = failed {
        let alone = Rule {
            // In words, not as the places of bytes.
            frame: Frame::Plain,
            matches: vec![failed.clone()],
            counter: None,
            effects: Vec::new(),
            verdict: weirgate_state::RuleVerdict::Continue,
            origin: Origin::default(),
        };
        let levels: Vec<String> = tried
            .levels
            .iter()
            .map(|level| level_text(*level))
            .collect();
        let levels = if levels.is_empty() {
            String::new()
        } else {
            format!(" ({})", levels.join(", "))
        };
        let test = if failed.field() == Some(Field::Shape) {
            "no options, no later fragment".to_owned()
        } else {
            table.rule_text(&alone)
        };
        let frame = match rule.frame {
            Frame::Plain => "",
            Frame::Session(_) => " in PPPoE",
        };
        let _ = writeln!(
            out,
            "    not    {}: {}: fails at `{test}`{frame}{levels}",
            place.name, rule.origin.reason,
        );
        return;
    }
    let done = effects(about, way, rule, tried);
    // Jumps are shown with --all only: they decide nothing.
    if done.is_empty() && rule.counter.is_none() && !about.all {
        return;
    }
    let word = if decides { "decides" } else { "matches" };
    let _ = writeln!(out, "    {word}  {}: {}", place.name, rule.origin.reason);
    if let Some(quoted) = place.quoted {
        let _ = writeln!(out, "             | {quoted}");
    }
    if !done.is_empty() {
        let _ = writeln!(out, "             {}", done.join("; "));
    }
}

/// Everything as one JSON document.
pub fn json(about: &About<'_>, shown: &[(Item, Shown)]) -> Result<String, serde_json::Error> {
    let packets: Vec<Value> = shown
        .iter()
        .map(|(item, one)| item_json(about, item, one))
        .collect();
    let counters: BTreeMap<String, u64> = about
        .simulator
        .counters()
        .iter()
        .map(|((_, name), count)| (name.clone(), *count))
        .collect();
    serde_json::to_string_pretty(&json!({
        "policy": about.name.display().to_string(),
        "packets": packets,
        "counters": counters,
        "notes": about.general,
    }))
}

fn item_json(about: &About<'_>, item: &Item, one: &Shown) -> Value {
    let Some((fate, class)) = &one.last else {
        return Value::Null;
    };
    let mut rules = Vec::new();
    let mut decided = Value::Null;
    for pass in &fate.passes {
        let Some(table) = about.simulator.tables().get(pass.table) else {
            continue;
        };
        let last_word = deciding(about, pass).map(|(tried, _)| tried);
        for tried in &pass.tried {
            let Some(rule) = rule_of(table, tried) else {
                continue;
            };
            if tried.failed.is_some() && !about.all {
                continue;
            }
            let place = place(about, &rule.origin);
            let value = json!({
                "place": place.name,
                "text": place.quoted,
                "reason": rule.origin.reason,
                "counter": rule.counter,
                "at": where_in(table, tried),
                "matched": tried.failed.is_none(),
                "did": effects(about, item.direction, rule, tried),
            });
            if last_word == Some(tried) {
                decided = value.clone();
            }
            rules.push(value);
        }
    }
    let connection = fate.connection.as_ref().map(|connection| {
        json!({
            "number": connection.id,
            "state": state_text(connection.state),
            "packets": connection.packets,
            "bytes": connection.bytes,
            "mark": connection.mark,
        })
    });
    json!({
        "packet": item.title,
        "direction": match item.direction { Direction::Up => "up", Direction::Down => "down" },
        "time_ns": item.at,
        "class": class.name,
        "class_id": class.id.map(|id| id.to_string()),
        "why": class.why,
        "expected": item.expected,
        "classes": one.classes,
        "decided_by": decided,
        "rules": rules,
        "connection": connection,
        "dscp": { "before": item.packet.dscp(), "after": fate.packet.dscp() },
        "path": kernel_path(about, item, one, class),
        "assumed": assumptions(item, fate),
    })
}

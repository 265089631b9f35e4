// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a policy, and the parts that each of them has.

pub(crate) mod include;

use crate::class::ack::{self, Ack};
use crate::class::part::{self, GroupShare, HostCap};
use crate::class::{self, Class};
use crate::codes;
use crate::conditioner::{self, Conditioner};
use crate::field::{self, Cell, FieldKind, Row, Table};
use crate::file::include::Env;
use crate::link::inbound::{self, Policing};
use crate::link::track::{self, Track};
use crate::link::{self, Link};
use crate::marks::{self, Marks};
use crate::model::{Rule, Ruleset};
use crate::named::{group, schedule, service};
use crate::receive::{self, Receive};
use crate::rule;
use crate::rule::treatment::{self, DscpTreatment};
use std::collections::BTreeSet;
use weirgate_document::Reader;
use weirgate_units::Arrange as _;

/// The top level of a policy file.
pub(crate) const TABLE: Table = Table {
    name: "policy",
    about: "A shared link, its classes, and rules that assign packets to them",
    rows: &[&ROWS],
};

/// The parts of all files. Rules are in the order in which they are tried.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) link: Option<Link>,
    pub(crate) policing: Option<Policing>,
    pub(crate) receive: Option<Receive>,
    pub(crate) track: Option<Track>,
    pub(crate) ack: Option<Ack>,
    pub(crate) classes: Vec<Class>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) rulesets: Vec<Ruleset>,
    pub(crate) dscp: Option<DscpTreatment>,
    pub(crate) conditioners: Vec<Conditioner>,
    pub(crate) shares: Vec<GroupShare>,
    pub(crate) caps: Vec<HostCap>,
    pub(crate) marks: Option<Marks>,
    /// The kind and name of everything defined so far.
    defined: BTreeSet<(&'static str, String)>,
    /// Whether rules of the current file are not final by default.
    not_final: bool,
    /// Single rules and rule sets of the current file with their positions. They are tried in
    /// the order of the text.
    scheme: Vec<(usize, Vec<Rule>)>,
}

type PolicyRow = Row<Parts, Env>;

const ROWS: &[PolicyRow] = &[
    PolicyRow::new(
        "version",
        FieldKind::Integer(1, 1),
        "The version of this format; required in the policy itself",
        |cell, _| version(cell),
    ),
    PolicyRow::new(
        "include",
        FieldKind::List("services/ssh.toml"),
        "Other files that are read as parts of the policy",
        |cell, _| drop(cell.texts()),
    ),
    PolicyRow::new(
        "final",
        FieldKind::Boolean,
        "The default of `final` for the rules of this file",
        |cell, parts| parts.not_final = !cell.boolean().is_none_or(|flag| flag.value),
    )
    .default("true"),
    PolicyRow::new(
        "link",
        FieldKind::Table("link"),
        "The shared link; required in the policy itself",
        |cell, parts| parts.link = cell.table().map(link::read),
    ),
    PolicyRow::new(
        "inbound",
        FieldKind::Table("inbound"),
        "How arriving packets are policed instead of queued",
        |cell, parts| parts.policing = cell.table().map(inbound::read),
    ),
    PolicyRow::new(
        "receive",
        FieldKind::Table("receive"),
        "How the receiving side limits remote senders to a rate",
        |cell, parts| parts.receive = cell.table().map(receive::read),
    ),
    PolicyRow::new(
        "track",
        FieldKind::Table("track"),
        "How shaping follows a line whose rate changes",
        |cell, parts| parts.track = cell.table().map(track::read),
    ),
    PolicyRow::new(
        "ack",
        FieldKind::Table("ack"),
        "A reservation for TCP acknowledgements",
        |cell, parts| parts.ack = cell.table().and_then(ack::read),
    ),
    PolicyRow::new(
        "class",
        FieldKind::Tables("class"),
        "A part of the link",
        |cell, parts| {
            parts
                .classes
                .extend(cell.tables().into_iter().map(class::read));
        },
    ),
    PolicyRow::new(
        "share",
        FieldKind::Tables("share"),
        "A share of classes for a group of hosts",
        |cell, parts| {
            for table in cell.tables() {
                parts
                    .shares
                    .extend(part::read_share(table, &cell.context.groups));
            }
        },
    ),
    PolicyRow::new(
        "conditioner",
        FieldKind::Tables("conditioner"),
        "Meters packets, and passes, drops or marks them by colour",
        |cell, parts| {
            for table in cell.tables() {
                parts
                    .conditioners
                    .extend(conditioner::read(table, &cell.context.groups));
            }
        },
    ),
    PolicyRow::new(
        "cap",
        FieldKind::Tables("cap"),
        "A limit for each host of a group",
        |cell, parts| {
            for table in cell.tables() {
                parts
                    .caps
                    .extend(part::read_cap(table, &cell.context.groups));
            }
        },
    ),
    PolicyRow::new(
        "rule",
        FieldKind::Tables("rule"),
        "Which packets go into which class",
        |cell, parts| {
            for table in cell.tables() {
                let rule = rule::read(table, cell.context, None, !parts.not_final);
                parts.scheme.push((rule.span.start, vec![rule]));
            }
        },
    ),
    PolicyRow::new(
        "ruleset",
        FieldKind::Tables("ruleset"),
        "Rules that are switched on and off together",
        |cell, parts| {
            for table in cell.tables() {
                let start = table.span().start;
                let (set, rules) =
                    rule::read_set(table, cell.context, parts.rulesets.len(), !parts.not_final);
                parts.rulesets.push(set);
                parts.scheme.push((start, rules));
            }
        },
    ),
    PolicyRow::new(
        "group",
        FieldKind::Named("group"),
        "Addresses, ports or MAC addresses that rules list as @NAME",
        |cell, parts| {
            for (name, table) in cell.named() {
                parts.once(&table, "group", name.value.clone());
                group::read(name, table);
            }
        },
    ),
    PolicyRow::new(
        "service",
        FieldKind::Named("service"),
        "Conditions that rules use under one name",
        |cell, parts| {
            for (name, table) in cell.named() {
                parts.once(cell.table, "service", name.value.clone());
                service::read(&name, table, &cell.context.groups);
            }
        },
    ),
    PolicyRow::new(
        "schedule",
        FieldKind::Named("schedule"),
        "Times of day and week",
        |cell, parts| {
            for (name, table) in cell.named() {
                parts.once(&table, "schedule", name.value);
                schedule::read(table);
            }
        },
    ),
    PolicyRow::new(
        "dscp",
        FieldKind::Table("dscp"),
        "How code points are cleared or rewritten",
        |cell, parts| parts.dscp = cell.table().map(treatment::read_dscp),
    ),
    PolicyRow::new(
        "marks",
        FieldKind::Table("marks"),
        "The bits of packet and connection marks that weirgate uses",
        |cell, parts| parts.marks = cell.table().map(marks::read),
    ),
];

impl Parts {
    /// Reports a second definition with the same kind and name in another file.
    fn once(&mut self, reader: &Reader<'_, '_>, kind: &'static str, name: String) {
        let wrong = format!("another file has a {kind} `{name}` already");
        if !self.defined.insert((kind, name)) {
            reader.problems().error(
                codes::INCLUDE,
                reader.span(),
                wrong,
                "choose another name, or leave one of the files out",
            );
        }
    }
}

/// Fields that only the policy itself may have, and not an included file.
const OF_THE_POLICY: [&str; 8] = [
    "link", "inbound", "receive", "track", "ack", "dscp", "marks", "version",
];

/// Fields that the policy itself must have, with the hint for a policy without one.
const NEEDED: [(&str, &str); 3] = [
    ("version", "begin the policy with `version = 1`"),
    (
        "link",
        "describe the link: `[link]` with device, up and layer",
    ),
    (
        "class",
        "name at least one class: `[[class]]` with name and share",
    ),
];

/// Reads one file into `parts`. `main` is true for the policy itself.
pub(crate) fn read(root: &mut Reader<'_, '_>, env: &Env, main: bool, parts: &mut Parts) {
    parts.not_final = false;
    field::read(root, ROWS, env, parts);
    for (key, hint) in NEEDED {
        if main
            && !root.has(key)
            && !root.meant(key)
            && (key != "class" || parts.classes.is_empty())
        {
            root.missing::<()>(key, hint);
        }
    }
    for key in OF_THE_POLICY {
        if !main && root.has(key) {
            root.problems().error(
                codes::MISPLACED,
                root.span_of(key),
                format!("`{key}` belongs in the policy itself"),
                "leave it out of the included file",
            );
        }
    }
    parts.scheme.arrange_by_key(|(start, _)| *start);
    let rules = parts.scheme.drain(..).flat_map(|(_, rules)| rules);
    parts.rules.extend(rules);
}

fn version(cell: &mut Cell<'_, '_, '_, Env>) {
    if let Some(version) = cell.table.integer(cell.key, 0..=i64::MAX)
        && *version != 1
    {
        cell.error(
            codes::VERSION,
            version.span.clone(),
            format!(
                "this weirgate does not read policies of version {}",
                *version
            ),
            "write `version = 1`",
        );
    }
}

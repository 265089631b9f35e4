// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[rule]]` and `[[ruleset]]`. Module `reach` finds rules that hide each other.

pub(crate) mod mss;
pub(crate) mod treatment;

use crate::codes;
use crate::condition::facts::{Conditions, Known};
use crate::condition::meter::{self, Meter};
use crate::condition::{self, Condition, protocol};
use crate::field::{self, Cell, FieldKind, Row, Table, Word, row};
use crate::file::include::Env;
use crate::model::{Directions, Rule, Ruleset, ServiceMatch};
use crate::named::group::{USABLE, usable};
use crate::named::service;
use crate::read::implied;
use weirgate_document::{Reader, SourceSpan, Value, did_you_mean};
use weirgate_schedule::Schedule;
use weirgate_units::Dscp;

/// The fields of a rule other than conditions on a single packet.
#[derive(Default)]
struct Written {
    class: Option<Value<String>>,
    directions: Option<Directions>,
    name: Option<Value<String>>,
    last: Option<Value<bool>>,
    set_dscp: Option<Value<Dscp>>,
    mss: Option<Value<u16>>,
    keep: Option<SourceSpan>,
    services: Option<Vec<ServiceMatch>>,
    during: Option<Schedule>,
    rate: Option<Value<Meter>>,
    connections: Option<Value<Meter>>,
    never: Option<Conditions>,
}

type RuleRow = Row<Written, Env>;

/// The table `[[rule]]`.
pub(crate) const TABLE: Table = Table {
    name: "rule",
    about: "Assigns packets to classes: all conditions must hold; of a list, one element suffices",
    rows: &[condition::ALL[0], condition::ALL[1], &ROWS],
};

const ROWS: &[RuleRow] = &[
    row!(Written: "class": FieldKind::Text("interactive") => class,
        "The class of the packets"),
    RuleRow::new(
        "direction",
        Directions::KIND,
        "The directions in which the rule applies",
        |cell, rule| {
            if let Some(found) = cell.word() {
                rule.directions = Some(found.value);
            }
        },
    )
    .default("\"both\""),
    RuleRow::new(
        "name",
        FieldKind::Text("voice"),
        "The name of the rule's counter",
        |cell, rule| rule.name = name(cell, codes::COUNTER_NAME, "rule"),
    ),
    row!(Written: "final" => last, "Whether the rule is the last one for packets that match it")
        .default("that of the rule set or the file"),
    row!(Written: "set-dscp": FieldKind::Text("EF") => set_dscp,
        "The code point to write into the packet"),
    row!(Written: "mss": FieldKind::Integer(536, 65_495) => mss,
        "The largest MSS that matching SYNs and SYN-ACKs may announce")
    .formerly(&["segment"]),
    RuleRow::new(
        "keep",
        FieldKind::Boolean,
        "Whether one match decides for the whole connection, in both directions",
        |cell, rule| rule.keep = cell.flagged(),
    )
    .default("false"),
    RuleRow::new(
        "service",
        FieldKind::List("ssh"),
        "Services; a packet of any of them matches",
        |cell, rule| rule.services = service::named(cell),
    ),
    RuleRow::new(
        "during",
        FieldKind::Text("evening"),
        "The schedule of the rule",
        |cell, rule| rule.during = schedule(cell),
    ),
    RuleRow::new(
        "rate",
        FieldKind::Table("rate"),
        "A rate as a condition",
        |cell, rule| rule.rate = cell.table().and_then(|table| meter::read(table, false)),
    ),
    RuleRow::new(
        "connections",
        FieldKind::Table("connections"),
        "A number of connections as a condition",
        |cell, rule| rule.connections = cell.table().and_then(|table| meter::read(table, true)),
    ),
    RuleRow::new(
        "not",
        FieldKind::Table("not"),
        "Conditions of which none may hold",
        |cell, rule| {
            rule.never = cell
                .table()
                .map(|table| condition::read_never(table, &cell.context.groups));
        },
    ),
];

/// The table `[[ruleset]]`.
pub(crate) const RULESET: Table = Table {
    name: "ruleset",
    about: "Rules that are switched on and off together",
    rows: &[&SET_ROWS],
};

/// A rule set as written: its settings, the defaults of its rules, and its rules.
struct WrittenSet {
    name: Option<Value<String>>,
    enabled: bool,
    index: usize,
    last: bool,
    rules: Vec<Rule>,
}

type SetRow = Row<WrittenSet, Env>;

const SET_ROWS: &[SetRow] = &[
    SetRow::new(
        "name",
        FieldKind::Text("syn-limit"),
        "The name of the rule set",
        |cell, set| set.name = name(cell, codes::RULESET, "rule set"),
    )
    .needed("name the rule set, so that it can be switched on and off"),
    SetRow::new(
        "enabled",
        FieldKind::Boolean,
        "Whether the rule set is on when the policy is applied",
        |cell, set| set.enabled = cell.boolean().is_none_or(|flag| flag.value),
    )
    .default("true"),
    SetRow::new(
        "final",
        FieldKind::Boolean,
        "The default of `final` for its rules",
        |cell, set| {
            set.last = cell.boolean().map_or(set.last, |flag| flag.value);
        },
    )
    .default("that of the file"),
    SetRow::new(
        "rule",
        FieldKind::Tables("rule"),
        "The rules of the set",
        |cell, set| {
            let tables = cell.tables().into_iter();
            set.rules = tables
                .map(|table| read(table, cell.context, Some(set.index), set.last))
                .collect();
        },
    ),
];

/// Reads a rule, within its rule set if it is in one. `last` is the default for rules without
/// `final`.
pub(crate) fn read(
    mut table: Reader<'_, '_>,
    env: &Env,
    ruleset: Option<usize>,
    last: bool,
) -> Rule {
    let mut written = Written::default();
    field::read(&mut table, ROWS, env, &mut written);
    let effects = ["class", "set-dscp", "mss"];
    if !effects.into_iter().any(|key| table.has(key)) {
        table.problems().error(
            codes::NO_EFFECT,
            table.span(),
            "this rule does nothing",
            "name the `class` of its packets, or write `set-dscp` or `mss`",
        );
    }
    let when = condition::read(&mut table, &env.groups);
    if let (true, Some(second)) = (table.has("rate"), &written.connections) {
        table.problems().error(
            codes::METER,
            second.span.clone(),
            "a rule has `rate` or `connections`, not both",
            "make two rules, the first without `final`",
        );
    }
    let meter = written.rate.or(written.connections);
    let limits = ["service", "rate", "connections", "during", "not"];
    let limited = limits.into_iter().any(|key| table.has(key));
    let has_condition = condition::has_any(&mut table, &when) || limited;
    // A rule without a class is not final by default.
    let default_last = last && table.has("class");
    let last = written.last.map_or(default_last, |flag| flag.value);
    let rule = Rule {
        line: table.line(),
        span: table.span(),
        name: written.name,
        class: written.class,
        directions: written.directions.unwrap_or(Directions::Both),
        when,
        never: written.never,
        services: written.services.unwrap_or_default(),
        meter,
        during: written.during,
        last,
        keep: written.keep,
        set_dscp: written.set_dscp,
        mss: written.mss,
        ruleset,
    };
    mss::check(&table, &rule);
    // An unknown field was probably meant as a condition.
    if !has_condition && last && !table.has_unknown() {
        table.problems().error(
            codes::NO_CONDITION,
            table.span(),
            "a rule without a condition takes every packet",
            "add a condition; packets that no rule matches go to the class with `default = true`",
        );
    }
    protocol::one_version(&table, &rule.when);
    if let (Some(payload), Some(span), None) = (rule.payload(), rule.payload_span(), &rule.keep) {
        let name = payload.value.name();
        table.problems().error(
            codes::PAYLOAD,
            span,
            format!("only the first packets of a flow show that it is {name}"),
            "write `keep = true`, so that the decision holds for the whole connection",
        );
    }
    one_way(&table, &rule);
    rule
}

/// Reads `[[ruleset]]` and its rules.
pub(crate) fn read_set(
    mut table: Reader<'_, '_>,
    env: &Env,
    index: usize,
    last: bool,
) -> (Ruleset, Vec<Rule>) {
    let mut set = WrittenSet {
        name: None,
        enabled: true,
        index,
        last,
        rules: Vec::new(),
    };
    field::read(&mut table, SET_ROWS, env, &mut set);
    if set.rules.is_empty() && !table.has("rule") {
        table.problems().error(
            codes::RULESET,
            table.span(),
            "this rule set has no rules",
            "write its rules as `[[ruleset.rule]]`",
        );
    }
    let ruleset = Ruleset {
        line: table.line(),
        name: set.name.unwrap_or_else(|| implied(String::new(), &table)),
        enabled: set.enabled,
    };
    (ruleset, set.rules)
}

fn name(cell: &mut Cell<'_, '_, '_, Env>, code: &'static str, what: &str) -> Option<Value<String>> {
    let name = cell.text()?;
    if usable(&name.value) {
        return Some(name);
    }
    let wrong = format!("`{}` cannot be the name of a {what}", name.value);
    cell.error(code, name.span, wrong, USABLE);
    None
}

fn schedule(cell: &mut Cell<'_, '_, '_, Env>) -> Option<Schedule> {
    let (name, env) = (cell.text()?, cell.context);
    if let Some(found) = env.schedules.get(&name.value) {
        return Some(found.clone());
    }
    // A schedule that could not be read is already reported where it is defined.
    if env.broken_schedules.contains(&name.value) {
        return None;
    }
    let known = env.schedules.keys().map(String::as_str);
    let hint = did_you_mean(&name.value, known, || {
        format!("write a table `[schedule.{}]`", name.value)
    });
    let wrong = format!("there is no schedule `{}`", name.value);
    cell.error(codes::SCHEDULE, name.span, wrong, hint);
    None
}

/// Reports conditions that only upstream packets can fulfil, in a rule for downstream packets.
fn one_way(table: &Reader<'_, '_>, rule: &Rule) {
    if rule.directions != Directions::Down {
        return;
    }
    for when in std::iter::once(&rule.when).chain(&rule.never) {
        let inside = |one: Condition<'_>| match one.known() {
            Known::Input(what) | Known::Sender(what) => Some((one.span()?.clone(), what)),
            _ => None,
        };
        if let Some((span, what)) = when.iter().find_map(inside) {
            table.problems().error(
                codes::ONE_WAY,
                span,
                format!("only upstream packets show {what}, but this rule is for the downstream"),
                "write `direction = \"up\"`; with `keep = true` the answers follow",
            );
        }
    }
}

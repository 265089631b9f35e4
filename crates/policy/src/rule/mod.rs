// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[rule]]` and `[[ruleset]]`. Rules that hide each other are found in
//! `reach`.

pub(crate) mod segment;
pub(crate) mod treatment;

use crate::codes;
use crate::condition::meter;
use crate::condition::when;
use crate::file::include::Env;
use crate::model::{Directions, Rule, Ruleset};
use crate::named::group::{USABLE, usable};
use crate::named::service;
use crate::read::{directions, implied};
use weirgate_document::{Reader, Value, nearest};
use weirgate_units::Dscp;

/// A rule in its rule set, if it is in one, with what holds for rules that do
/// not say `final`.
pub(crate) fn read(
    mut table: Reader<'_, '_>,
    env: &Env,
    ruleset: Option<usize>,
    last: bool,
) -> Rule {
    let class = table.text("class");
    let set_dscp: Option<Value<Dscp>> = table.parsed("set-dscp");
    let effects = ["class", "set-dscp", "segment"];
    if !effects.into_iter().any(|key| table.has(key)) {
        table.problems().error(
            codes::NO_EFFECT,
            table.span(),
            "this rule does nothing",
            "name the `class` that packets go into, or write `set-dscp` or `segment`",
        );
    }
    let when = when::read(&mut table, &env.groups);
    let never = table
        .table("not")
        .map(|table| when::read_never(table, &env.groups));
    let services = service::named(&mut table, env);
    let meter = meter::read(&mut table);
    let during = schedule(&mut table, env);
    let limited = services.is_some() || meter.is_some() || during.is_some();
    let has_condition = when::has_any(&mut table, &when) || limited || never.is_some();
    let touched = ["service", "rate", "connections", "during", "not"];
    let tried = touched.into_iter().any(|key| table.has(key));
    // Without a class a rule leaves all to the next one.
    let stated = table.boolean("final");
    let default_last = last && (class.is_some() || table.has("class"));
    let last = stated.as_ref().map_or(default_last, |flag| flag.value);
    let keep = table.boolean("keep");
    let rule = Rule {
        line: table.line(),
        span: table.span(),
        name: name(&mut table, "name", codes::COUNTER_NAME, "rule"),
        class,
        directions: directions(&mut table),
        when,
        never,
        services: services.unwrap_or_default(),
        meter,
        during,
        last,
        keep: keep.filter(|flag| flag.value).map(|flag| flag.span),
        set_dscp,
        segment: segment::read(&mut table),
        ruleset,
    };
    segment::check(&table, &rule);
    // A field that is not known was meant as one, most likely.
    if !has_condition && !tried && last && !table.has_unknown() {
        table.problems().error(
            codes::NO_CONDITION,
            table.span(),
            "a rule without a condition takes every packet",
            "add a condition; what no rule matches goes to the class with `default = true`",
        );
    }
    when::one_version(&table, &rule.when);
    if let (Some(payload), Some(place), None) = (rule.payload(), rule.payload_span(), &rule.keep) {
        let name = payload.value.name();
        table.problems().error(
            codes::PAYLOAD,
            place,
            format!("only the first packets of a flow betray that it is {name}"),
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
    let name = name(&mut table, "name", codes::RULESET, "rule set");
    if name.is_none() && !table.has("name") {
        table.missing::<()>("name", "name the rule set, so that it can be switched");
    }
    let enabled = table.boolean("enabled").is_none_or(|flag| flag.value);
    let last = table.boolean("final").map_or(last, |flag| flag.value);
    let rules: Vec<Rule> = table
        .tables("rule")
        .into_iter()
        .map(|rule| read(rule, env, Some(index), last))
        .collect();
    if rules.is_empty() && !table.has("rule") {
        table.problems().error(
            codes::RULESET,
            table.span(),
            "this rule set has no rules",
            "write its rules as `[[ruleset.rule]]`",
        );
    }
    let set = Ruleset {
        line: table.line(),
        name: name.unwrap_or_else(|| implied(String::new(), &table)),
        enabled,
    };
    (set, rules)
}

fn name(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    code: &'static str,
    what: &str,
) -> Option<Value<String>> {
    let name = table.text(key)?;
    if usable(&name.value) {
        return Some(name);
    }
    let wrong = format!("`{}` cannot be the name of a {what}", name.value);
    table.problems().error(code, name.span, wrong, USABLE);
    None
}

fn schedule(table: &mut Reader<'_, '_>, env: &Env) -> Option<crate::Schedule> {
    let name = table.text("during")?;
    if let Some(found) = env.schedules.get(&name.value) {
        return Some(found.clone());
    }
    // One that could not be read has been reported where it stands.
    if env.broken_schedules.contains(&name.value) {
        return None;
    }
    let hint = match nearest(&name.value, env.schedules.keys().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write a table `[schedule.{}]`", name.value),
    };
    let wrong = format!("there is no schedule `{}`", name.value);
    table
        .problems()
        .error(codes::SCHEDULE, name.span, wrong, hint);
    None
}

/// Conditions that only upstream packets have, in a rule for downstream ones.
fn one_way(table: &Reader<'_, '_>, rule: &Rule) {
    if rule.directions != Directions::Down {
        return;
    }
    for when in std::iter::once(&rule.when).chain(&rule.never) {
        let mac = when.macs.first().map(|mac| (&mac.span, "a MAC address"));
        let device = when.interfaces.first();
        let device = device.map(|device| (&device.span, "the device it came in through"));
        let from = when.from.as_ref();
        let from = from.map(|from| (&from.span, "whose it is"));
        let user = when.users.first().or(when.groups.first());
        let user = user.map(|user| (&user.span, "who sent it"));
        let group = when.control_groups.first();
        let group = group.map(|group| (&group.span, "which control group sent it"));
        if let Some((span, what)) = mac.or(device).or(from).or(user).or(group) {
            table.problems().error(
                codes::ONE_WAY,
                span.clone(),
                format!("a downstream packet does not show {what} on the inside"),
                "write `direction = \"up\"`; with `keep = true` the answers follow",
            );
        }
    }
}

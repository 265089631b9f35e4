// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The output of `weirgate explain --json`.

use crate::whole::explain::assumed::assumptions;
use crate::whole::explain::input::Item;
use crate::whole::explain::origin::policy_text;
use crate::whole::explain::outcome::{About, Shown};
use crate::whole::explain::path::kernel_path;
use crate::whole::explain::rules::{deciding, effects, rule_of, where_in};
use crate::whole::explain::text::state_text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weirgate_units::Inserted as _;

/// Returns the whole answer as one JSON document.
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
        .inserted();
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
            let text = policy_text(about, &rule.origin);
            let value = json!({
                "place": text.name,
                "text": text.quoted,
                "reason": rule.origin.reason,
                "service": rule.origin.service,
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
        "direction": item.direction.name(),
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate rules` and `weirgate ruleset`: show the counters of rules, and switch rule sets on and
//! off.

use crate::policy::apply::{Printed, make, refused, site, unread};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use weirgate_compile::ruleset_chain;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{KeepError, Memory, Request};
use weirgate_policy::Direction;
use weirgate_state::{Hook, State, Table};
use weirgate_units::Inserted as _;

/// A rule's counter, as it is printed.
#[derive(Serialize)]
struct Counted {
    /// The counter's name, which stays while the meaning of the rule stays.
    name: String,
    /// The chain of the rule.
    chain: String,
    /// False if the rule set is switched off.
    on: bool,
    packets: u64,
    bytes: u64,
    /// The line in the policy; 0 if the rule comes from an included file or from weirgate.
    line: u32,
    /// The purpose, in the words of the policy's compiler.
    reason: String,
}

/// `weirgate rules`.
pub fn list(state: &Path, json: bool) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let Some(memory) = Memory::read(&site.folders).map_err(unread)? else {
            output::data(if json { "[]" } else { "nothing is applied" })?;
            return Ok(Status::Done);
        };
        let mut all = Vec::new();
        for table in &memory.applied.tables {
            let counters = site.kernel.rule_counters(table.netdev, &table.name).await;
            let counters = counters.map_err(|error| unread(error.into()))?;
            all.extend(counted(table, |name| {
                let counter = counters.get(name).copied().unwrap_or_default();
                (counter.packets, counter.bytes)
            }));
        }
        if json {
            output::data(&serde_json::to_string_pretty(&all)?)?;
            return Ok(Status::Done);
        }
        output::data(&format!("{:>12} {:>14}  rule", "packets", "bytes"))?;
        for one in &all {
            let place = match one.line {
                0 => String::new(),
                line => format!("line {line}: "),
            };
            let off = if one.on { "" } else { " (switched off)" };
            output::data(&format!(
                "{:>12} {:>14}  {} ({place}{}){off}",
                one.packets, one.bytes, one.name, one.reason
            ))?;
        }
        Ok(Status::Done)
    })
}

/// Returns the counters of a table, each once, in the order of chains and rules.
fn counted(table: &Table, read: impl Fn(&str) -> (u64, u64)) -> Vec<Counted> {
    let mut found: Vec<Counted> = Vec::new();
    let mut seen = BTreeSet::new();
    for chain in &table.chains {
        for rule in &chain.rules {
            let Some(name) = rule.counter.as_ref().filter(|name| seen.insert(*name)) else {
                continue;
            };
            let (packets, bytes) = read(name);
            found.push(Counted {
                name: name.clone(),
                chain: chain.name.clone(),
                on: chain.hook != Hook::Switched { on: false },
                packets,
                bytes,
                line: rule.origin.line,
                reason: rule.origin.reason.clone(),
            });
        }
    }
    found
}

/// `weirgate ruleset` without a name: lists the rule sets and which of them are on.
pub fn sets(state: &Path, json: bool) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let memory = Memory::read(&site.folders).map_err(unread)?;
        let sets = memory.as_ref().map(|memory| switches(&memory.applied));
        if json {
            output::data(&serde_json::to_string_pretty(&sets.unwrap_or_default())?)?;
            return Ok(Status::Done);
        }
        let Some(sets) = sets else {
            output::data("nothing is applied")?;
            return Ok(Status::Done);
        };
        if sets.is_empty() {
            output::data("the policy has no rule sets")?;
        }
        for (name, on) in sets {
            output::data(&format!("{name} {}", if on { "on" } else { "off" }))?;
        }
        Ok(Status::Done)
    })
}

/// Reads `on` or `off`.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(String::from("say `on` or `off`")),
    }
}

/// `weirgate ruleset NAME on|off`.
pub fn switch(state: &Path, name: &str, on: bool, confirm: Option<Duration>) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let lock = site.lock().await.map_err(refused)?;
        let Some(entry) = site.confirmed().map_err(refused)? else {
            let text = "nothing is applied, so there is no rule set to switch";
            return Err(refused(KeepError::Nothing(text.to_owned())));
        };
        let mut wanted = entry.desired;
        if !turn(&mut wanted, name, on) {
            return Err(unknown(name, &wanted));
        }
        let planned = site.plan(&wanted, false).await.map_err(refused)?;
        let request = Request {
            sources: entry.sources,
            from: None,
            confirm,
            links: None,
        };
        make(&site, &lock, planned, request, Printed::Steps).await
    })
}

fn unknown(name: &str, state: &State) -> Failure {
    let known: Vec<String> = switches(state).into_keys().collect();
    let hint = match known.as_slice() {
        [] => String::from("the applied policy has no rule sets"),
        known => format!("the applied policy has {}", known.join(", ")),
    };
    Failure::Input(format!("weirgate: there is no rule set `{name}` ({hint})"))
}

/// Returns the rule sets by name. A `-` in a name is `_` here, as in nftables.
pub fn switches(state: &State) -> BTreeMap<String, bool> {
    let chains = state.tables.iter().flat_map(|table| &table.chains);
    let of = |chain: &weirgate_state::Chain| {
        let Hook::Switched { on } = chain.hook else {
            return None;
        };
        let prefixes = Direction::BOTH.map(|direction| ruleset_chain(direction, ""));
        let mut names = prefixes
            .iter()
            .filter_map(|prefix| chain.name.strip_prefix(prefix));
        Some((names.next()?.to_owned(), on))
    };
    chains.filter_map(of).inserted()
}

/// Switches a rule set in every direction that has it. Returns whether it exists.
fn turn(state: &mut State, name: &str, on: bool) -> bool {
    let names = Direction::BOTH.map(|direction| ruleset_chain(direction, name));
    let chains = state.tables.iter_mut().flat_map(|table| &mut table.chains);
    let mut found = false;
    for chain in chains.filter(|chain| names.contains(&chain.name)) {
        if matches!(chain.hook, Hook::Switched { .. }) {
            chain.hook = Hook::Switched { on };
            found = true;
        }
    }
    found
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of the kernel's numbers under a policy, for `metrics`, `watch` and `top`.

use crate::policy::apply::{self, site};
use crate::policy::promises;
use crate::policy::show::without_windows;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weirgate_compile::{CheckReport, FullQueue, compile};
use weirgate_console::exit::Failure;
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::policy::SITE;
use weirgate_keep::{DirectionRate, Folders, History, Memory, RatesNow};
use weirgate_policy::Policy;
use weirgate_state::State;
use weirgate_watch::{ClassLegend, Legend, LineNow, RuleLegend, Sorter, Sources};

/// Makes the sorter that tells the classes of connections, from a policy and its compiled state.
type Sort = fn(Policy, State) -> Sorter;

/// Returns the legend of the policy file, or without one of the applied policy. If the policy
/// cannot be read, classes have only numbers, and a note says so.
pub fn legend(state: &Path, file: Option<&Path>, sort: Sort) -> Result<Legend, Failure> {
    let mut legend = named(state, file, sort)?;
    legend.applied = applied(state);
    Ok(legend)
}

/// Returns the files on which the legend depends. Call this before [`legend`].
pub fn sources(here: Option<&Folders>, file: Option<&Path>) -> Sources {
    let state = here.map(|folders| folders.state.clone());
    let files = file.map(Path::to_owned).into_iter().chain(state);
    Sources::of(files.chain([PathBuf::from(SITE)]))
}

/// Returns the number of the applied state, confirmed or not; 0 if there is none. Returns `None` if
/// the history may not be read.
fn applied(state: &Path) -> Option<u64> {
    let head = History::of(&Folders::here(state).ok()?).head().ok()?;
    // A pending state without a deadline is not applied yet.
    let waits = head.pending.filter(|pending| pending.deadline.is_some());
    Some(waits.map_or(head.confirmed.unwrap_or(0), |pending| pending.number))
}

fn named(state: &Path, file: Option<&Path>, sort: Sort) -> Result<Legend, Failure> {
    if let Some(file) = file {
        let loaded = policy::read(file)?;
        return Ok(of(loaded.policies(), &file.display().to_string(), sort));
    }
    match site(state).and_then(|site| site.in_force().map_err(apply::unread)) {
        // An entry that has only links has no policy.
        Ok(Some(entry)) if entry.desired != State::default() => {
            let loaded = policy::again(&entry.sources)?;
            let path = entry.sources.first().map(|source| source.path.clone());
            let source = format!("{} (state {})", path.unwrap_or_default(), entry.number);
            let mut legend = of(loaded.policies(), &source, sort);
            let memory = Folders::here(state).map(|folders| Memory::read(&folders));
            if let Ok(Ok(Some(memory))) = memory {
                let links = loaded.policies().iter();
                let missing = links.filter_map(|policy| without_windows(&memory.applied, policy));
                legend.arriving.extend(missing.map(str::to_owned));
            }
            Ok(legend)
        }
        Ok(_) => Ok(Legend::default()),
        Err(failure) => {
            output::note(&failure.text());
            Ok(installed(Path::new(SITE), sort))
        }
    }
}

/// Returns the legend of the installed policy, for users who may not read the applied one. The
/// packaged `watch` runs without rights, and the policy file is usually readable by all.
fn installed(site: &Path, sort: Sort) -> Legend {
    let name = site.display();
    if let Some(Ok(loaded)) = site.is_file().then(|| policy::read(site)) {
        output::note(&format!(
            "weirgate: names and promises come from {name}, which may be newer than the applied \
                 policy"
        ));
        of(loaded.policies(), &name.to_string(), sort)
    } else {
        output::note(
            "weirgate: the applied policy cannot be read, so classes have numbers for names; \
                 name it with --policy",
        );
        Legend::default()
    }
}

/// Returns the legend of these policies.
pub fn of(policies: &[Policy], source: &str, sort: Sort) -> Legend {
    let mut legend = Legend {
        source: source.to_owned(),
        ..Legend::default()
    };
    let reports: Vec<CheckReport> = policies.iter().map(promises).collect();
    let arriving = reports.iter().filter_map(|report| report.policed.clone());
    legend.arriving = arriving.collect();
    for direction in reports.into_iter().flat_map(|report| report.directions) {
        let name = direction.direction.to_string();
        let name = if name.starts_with("up") { "up" } else { "down" };
        let gate = direction.gate.as_bits_per_second();
        legend
            .links
            .push((name.to_owned(), direction.device.clone(), gate));
        for class in direction.classes {
            let bound = match &class.full {
                FullQueue::Bound(bound) => Some(bound.wait.as_nanos().div_ceil(1000)),
                FullQueue::NoHardBound { .. } => None,
            };
            let objective = class.objective.and_then(|objective| objective.delay);
            legend.classes.push(ClassLegend {
                device: direction.device.clone(),
                direction: name.to_owned(),
                name: class.name,
                handle: class.id,
                guaranteed: class.guaranteed.wire.as_bits_per_second(),
                maximum: class.maximum.wire.as_bits_per_second(),
                bound,
                objective: objective.map(|delay| delay.as_nanos().div_ceil(1000)),
            });
        }
    }
    let links = policies.iter();
    let inside = links.flat_map(|policy| &policy.link.lan);
    legend.inside = inside.map(|device| device.value.to_string()).collect();
    let links = policies.iter();
    let states = links.filter_map(|policy| {
        let state = compile(policy, &weirgate_bpf::most_capabilities()).0?;
        Some((policy.link.device.value.clone(), state))
    });
    let state = weirgate_domain::together(states.collect()).unwrap_or_default();
    for (device, at) in &state.hooks {
        if at.entering.is_some() || at.leaving.is_some() {
            legend.conditioned.push(device.clone());
        }
        if at.virtual_queue.is_some() || at.windows.is_some() {
            legend.policed.push(device.clone());
        }
    }
    let mut seen = BTreeSet::new();
    for table in &state.tables {
        legend.tables.push((table.netdev, table.name.clone()));
        for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
            let counter = rule
                .counter
                .as_ref()
                .filter(|name| seen.insert((*name).clone()));
            legend.rules.extend(counter.map(|counter| RuleLegend {
                counter: counter.clone(),
                reason: rule.origin.reason.clone(),
                line: rule.origin.line,
            }));
        }
    }
    // Connection tracking does not say which of several links a connection takes.
    if let [policy] = policies {
        legend.sorter = sort(policy.clone(), state);
    }
    legend
}

/// Returns the line rates that `weirgate keep` has set. The list is empty without `[track]` or read
/// permission.
pub fn tracked(folders: &Folders) -> Vec<LineNow> {
    let Ok(Some(rates)) = RatesNow::read(folders) else {
        return Vec::new();
    };
    let line = |one: &DirectionRate| LineNow {
        device: rates.device.clone(),
        direction: one.direction.clone(),
        rate: one.rate,
        floor: one.floor,
        ceiling: one.ceiling,
        reason: one.reason.clone(),
        blind: rates.blind,
    };
    rates.directions.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_what_is_applied_has_the_names_of_what_is_installed() {
        let none: Sort = |_, _| Sorter::default();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
        let legend = installed(&folder.join("home.toml"), none);
        assert!(legend.source.ends_with("home.toml"));
        assert!(legend.classes.iter().any(|class| class.name == "urgent"));
        let [arriving] = &legend.arriving[..] else {
            panic!("{:?}", legend.arriving)
        };
        assert!(
            arriving.contains(
                "windows: TCP connections with few segments in a round trip are limited to"
            ),
            "{arriving}"
        );
        assert!(
            installed(&folder.join("none.toml"), none)
                .classes
                .is_empty()
        );
    }
}

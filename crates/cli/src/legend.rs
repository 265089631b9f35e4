// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's numbers stand for under a policy, for `watch` and `top`.

use crate::exit::Failure;
use crate::shape::site;
use crate::{output, policy};
use std::collections::BTreeSet;
use std::path::Path;
use weirgate_compile::{FullQueue, check_report, compile};
use weirgate_policy::Policy;
use weirgate_state::Capabilities;
use weirgate_watch::{ClassLegend, Legend, RuleLegend};

/// The legend of a policy's file, else of the policy that is applied. Where
/// that cannot be read, classes have only numbers, and that is said.
pub fn legend(state: &Path, file: Option<&Path>) -> Result<Legend, Failure> {
    if let Some(file) = file {
        let loaded = policy::read(file)?;
        return Ok(of(loaded.policy(), &file.display().to_string()));
    }
    match site(state).and_then(|site| site.confirmed().map_err(crate::shape::refused)) {
        Ok(Some(entry)) => {
            let loaded = policy::again(&entry.sources)?;
            let path = entry.sources.first().map(|source| source.path.clone());
            let source = format!("{} (state {})", path.unwrap_or_default(), entry.number);
            Ok(of(loaded.policy(), &source))
        }
        Ok(None) => Ok(Legend::default()),
        Err(failure) => {
            output::note(&failure.text());
            output::note(
                "weirgate: the applied policy cannot be read, so classes are called by their \
                 numbers; name it with --policy",
            );
            Ok(Legend::default())
        }
    }
}

fn of(policy: &Policy, source: &str) -> Legend {
    let mut legend = Legend {
        source: source.to_owned(),
        ..Legend::default()
    };
    for direction in check_report(policy).directions {
        let way = direction.direction.to_string();
        let way = if way.starts_with("up") { "up" } else { "down" };
        let gate = direction.gate.as_bits_per_second();
        legend
            .links
            .push((way.to_owned(), direction.device.clone(), gate));
        for class in direction.classes {
            let bound = match &class.full {
                FullQueue::Bound(bound) => Some(bound.wait.as_nanos().div_ceil(1000)),
                FullQueue::NoHardBound { .. } => None,
            };
            legend.classes.push(ClassLegend {
                device: direction.device.clone(),
                direction: way.to_owned(),
                name: class.name,
                handle: class.id,
                guaranteed: class.guaranteed.wire.as_bits_per_second(),
                maximum: class.maximum.wire.as_bits_per_second(),
                bound,
            });
        }
    }
    let inside = policy.link.lan.iter();
    legend.inside = inside.map(|device| device.value.to_string()).collect();
    let state = compile(policy, &Capabilities::all()).0.unwrap_or_default();
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
    legend
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes to a single circuit.

use crate::files::{rate, raw};
use crate::keys::{Key, KeyKind};
use crate::model::{Circuit, Pair, Plan};
use weirgate_document::did_you_mean;
use weirgate_units::{Arrange as _, Rate};

/// A circuit with the name of its site, for callers without the whole list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct One {
    /// The circuit. Its index of a site is not valid.
    pub circuit: Circuit,
    /// The name of its site; `None` for the link.
    pub site: Option<String>,
}

/// The requested changes to a circuit. `None` leaves a property unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The site above it; an empty name for the link.
    pub site: Option<String>,
    /// The plan, which then sets the rates; an empty name for no plan.
    pub plan: Option<String>,
    /// Rates of its own: minimum down and up, maximum down and up.
    pub rates: [Option<Rate>; 4],
    /// For each kind, in the order of [`KeyKind::ALL`], the complete new set of keys.
    pub keys: [Option<Vec<Key>>; KeyKind::ALL.len()],
    /// Whether it is suspended.
    pub suspended: Option<bool>,
}

impl Asked {
    /// Returns the circuit `id` after the changes; `old` is its current state, if it exists. An
    /// error contains the problem and a hint.
    pub fn of(&self, id: &str, old: Option<&One>, plans: &[Plan]) -> Result<One, String> {
        let site = self.site.as_deref().filter(|site| !site.is_empty());
        for (of, name) in [("circuit", Some(id)), ("site", site)] {
            if let Some(Err((message, hint))) = name.map(|name| raw::named(name, of)) {
                return Err(format!("{message}; {hint}"));
            }
        }
        let name = |asked: &Option<String>, had: Option<&String>| match asked {
            Some(name) => Some(name.clone()).filter(|name| !name.is_empty()),
            None => had.cloned(),
        };
        let had = old.map(|old| &old.circuit);
        let plan = name(&self.plan, had.and_then(|had| had.plan.as_ref()));
        let of_new_plan = self.plan.as_ref().map(|plan| !plan.is_empty());
        let from = match &self.plan {
            Some(wanted) if !wanted.is_empty() => {
                let found = plans.iter().find(|plan| plan.name == *wanted);
                let plan = found.ok_or_else(|| {
                    let names = plans.iter().map(|plan| &*plan.name);
                    let hint = did_you_mean(wanted, names, || {
                        "name one of the list in force, or give rates".to_owned()
                    });
                    format!("there is no plan `{wanted}`; {hint}")
                })?;
                Some((plan.terms.least, plan.terms.most))
            }
            _ => had.map(|had| (had.least, had.most)),
        };
        let from = from.map(|(least, most)| [least.down, least.up, most.down, most.up]);
        let mut rates = [Rate::default(); 4];
        for (number, rate) in rates.iter_mut().enumerate() {
            let column = raw::RATES[number];
            let least = number < 2;
            let known = from.map(|from| from[number]);
            *rate = match self.rates[number].or(known) {
                Some(rate) => rate,
                None if least => Rate::default(),
                None => {
                    return Err(format!(
                        "the circuit `{id}` has no `{column}`; give it, or name a plan"
                    ));
                }
            };
            if !rate::is_in_range(*rate, least) {
                return Err(format!(
                    "`{column}` of {rate} is out of range; {}",
                    rate::range(least)
                ));
            }
        }
        for direction in 0..2 {
            let (least, most) = (rates[direction], rates[direction + 2]);
            if least > most {
                return Err(format!(
                    "the circuit `{id}` is guaranteed {least}, and may have {most} at most; give \
                     a smaller `{}`, or a larger `{}`",
                    raw::RATES[direction],
                    raw::RATES[direction + 2]
                ));
            }
        }
        let mut keys = Vec::new();
        for (kind, asked) in KeyKind::ALL.into_iter().zip(&self.keys) {
            let own = had.into_iter().flat_map(|had| &had.keys);
            let own = own.filter(|key| asked.is_none() && key.kind() == kind);
            keys.extend(own.chain(asked.iter().flatten()));
        }
        keys.arrange();
        keys.dedup();
        let [least, most] = [0, 2].map(|first| Pair {
            down: rates[first],
            up: rates[first + 1],
        });
        let is_plans = |number: usize| {
            let stays = had.is_some_and(|had| had.of_plan[number]);
            self.rates[number].is_none() && of_new_plan.unwrap_or(stays)
        };
        let of = plan.as_ref();
        let of = of.and_then(|name| plans.iter().find(|plan| plan.name == *name));
        Ok(One {
            site: name(&self.site, old.and_then(|old| old.site.as_ref())),
            circuit: Circuit {
                id: id.to_owned(),
                parent: None,
                plan,
                least,
                most,
                burst: of.map_or_else(Pair::default, |plan| plan.terms.burst),
                of_plan: [0, 1, 2, 3].map(is_plans),
                keys,
                suspended: self
                    .suspended
                    .unwrap_or(had.is_some_and(|had| had.suspended)),
            },
        })
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines the contents of all files, and checks them against each other.

use crate::codes::{DEEP, HOURS, NAME, ORDER, RATE, SOLD, TWICE, UNKNOWN, UNREACHED, UNUSED};
use crate::files::located::{FileSpan, Mistakes};
use crate::files::network::{DOWN, UP};
use crate::files::raw::{Collected, PlacedKey, RATES, RawCircuit, RawPlan, RawSite};
use crate::hash::Known;
use crate::keys::Key;
use crate::label::Label;
use crate::model::{Circuit, List, Pair, Plan, Quota, Site, Terms, Times};
use std::collections::hash_map::Entry;
use weirgate_document::did_you_mean;
use weirgate_units::{Arrange as _, Direction, Rate};

/// The most circuits and sites of a list.
pub(crate) const MOST_CIRCUITS: usize = 2_000_000;
pub(crate) const MOST_SITES: usize = 65_000;

/// How many names are compared with an unknown one for a suggestion. The limit bounds the time
/// when many names are wrong.
const COMPARED: usize = 2_000;

/// Checks everything and makes the list, which is valid only if no error was reported.
pub(crate) fn check(all: Collected<'_>, mistakes: &Mistakes<'_>) -> List {
    let Collected {
        sites,
        plans,
        circuits,
        keys,
        has_network,
        ..
    } = all;
    let by_site = names(
        sites.iter().map(|site| (&*site.name, &site.at)),
        "site",
        mistakes,
    );
    not_reserved(&sites, mistakes);
    for plan in &plans {
        let of = || format!("the plan `{}`", plan.name);
        let place = |number| plan.rates.pair_at(number, plan.at.file);
        ordered(&plan.rates.rates, place, of, mistakes);
    }
    let (plans, times): (Vec<RawPlan>, _) =
        plans.into_iter().partition(|plan| plan.times.is_none());
    let by_plan = names(
        plans.iter().map(|plan| (&*plan.name, &plan.at)),
        "plan",
        mistakes,
    );
    let planned = planned(&plans, times, &by_plan, mistakes);
    for (many, most, what) in [
        (circuits.len(), MOST_CIRCUITS, "circuits"),
        (sites.len(), MOST_SITES, "sites"),
    ] {
        if many > most {
            let message = format!("there are {many} {what}");
            mistakes.error(
                DEEP,
                &FileSpan::default(),
                message,
                format!("a list has at most {most}"),
            );
        }
    }
    if let Some(first) = circuits
        .iter()
        .find(|one| !has_network && !one.parent.is_empty())
    {
        let message = "no file has sites, so all circuits are below the link itself";
        mistakes.warning(
            UNUSED,
            &first.parent_at,
            message,
            "give the network.json too",
        );
    }
    let keys = owned(&circuits, &keys, mistakes);
    let made = circuits.iter().zip(keys).map(|(raw, keys)| {
        let parent = match &*raw.parent {
            "" => None,
            _ if !has_network => None,
            name => found(name, &by_site, "site", &raw.parent_at, mistakes),
        };
        let plan = match &*raw.plan {
            "" => None,
            name => found(name, &by_plan, "plan", &raw.plan_at, mistakes),
        };
        let plan_rates = plan.and_then(|plan| plans.get(plan));
        let [least, most] = resolved(raw, plan_rates, mistakes);
        let own = raw.rates.rates;
        Circuit {
            id: raw.id.clone().into_owned(),
            parent,
            plan: plan_rates.map(|plan| plan.name.clone()),
            least,
            most,
            burst: plan_rates.map_or_else(Pair::default, |plan| plan.burst),
            of_plan: own.map(|own| plan_rates.is_some() && own.is_none()),
            suspended: raw.suspended,
            keys,
        }
    });
    let circuits: Vec<Circuit> = made.collect();
    let list = List {
        sites: sites
            .iter()
            .map(|raw| Site {
                name: raw.name.clone(),
                parent: raw.parent,
                most: most(raw, mistakes),
            })
            .collect(),
        circuits,
        plans: planned,
    };
    sold(&list, &sites, mistakes);
    list
}

/// Reports sites with a name that figures use for something else.
fn not_reserved(sites: &[RawSite], mistakes: &Mistakes<'_>) {
    for (name, of) in [
        (Label::LINK_NAME, "the link itself"),
        (Label::OTHERS_NAME, "the packets of no circuit"),
    ] {
        for site in sites.iter().filter(|site| site.name == name) {
            let message = format!("the site `{name}` has the name that figures use for {of}");
            mistakes.error(NAME, &site.at, message, "give it another name");
        }
    }
}

/// Returns the maximum rate of a site. A site that lacks a rate is reported.
fn most(raw: &RawSite, mistakes: &Mistakes<'_>) -> Option<Pair> {
    match raw.rates {
        _ if raw.is_virtual || raw.wrong => None,
        [Some(down), Some(up)] => Some(Pair { down, up }),
        _ => {
            let message = format!("the site `{}` lacks a rate", raw.name);
            let hint = format!(
                "write `\"{DOWN}\": 1000, \"{UP}\": 1000`, or `\"virtual\": true` for none"
            );
            mistakes.error(RATE, &raw.rates_at, message, hint);
            None
        }
    }
}

/// Returns the plans, each with its lines for special hours.
fn planned(
    plans: &[RawPlan],
    times: Vec<RawPlan>,
    by_plan: &Names<'_>,
    mistakes: &Mistakes<'_>,
) -> Vec<Plan> {
    let mut made: Vec<Plan> = plans
        .iter()
        .map(|raw| Plan {
            name: raw.name.clone(),
            terms: terms(raw),
            times: Vec::new(),
            quota: Quota {
                most: raw.quota,
                beyond: beyond(raw, plans, by_plan, mistakes),
            },
        })
        .collect();
    for raw in times {
        let plan = by_plan.places.get(&*raw.name);
        match plan.and_then(|plan| made.get_mut(*plan)) {
            Some(plan) => plan
                .times
                .extend(raw.times.as_ref().map(|(schedule, written)| Times {
                    schedule: schedule.clone(),
                    written: written.clone(),
                    terms: terms(&raw),
                })),
            None => mistakes.error(
                HOURS,
                &raw.at,
                format!(
                    "the plan `{}` has lines only for certain hours or days",
                    raw.name
                ),
                "add a line without hours and days, for all other times",
            ),
        }
    }
    made
}

fn terms(raw: &RawPlan) -> Terms {
    let [least, most] = pairs(&raw.rates.rates);
    Terms {
        least,
        most,
        burst: raw.burst,
    }
}

/// Returns the plan that applies once the quota of `raw` is used up.
fn beyond(
    raw: &RawPlan,
    plans: &[RawPlan],
    by_plan: &Names<'_>,
    mistakes: &Mistakes<'_>,
) -> Option<String> {
    if raw.beyond.is_empty() {
        return None;
    }
    let other = found(&raw.beyond, by_plan, "plan", &raw.beyond_at, mistakes)?;
    let other = plans.get(other)?;
    if other.quota != Pair::default() {
        mistakes.error(
            HOURS,
            &raw.beyond_at,
            format!("the plan `{}` has a quota itself", other.name),
            "name one without a quota, or leave the field empty for 64 kbit/s",
        );
    }
    Some(other.name.clone())
}

/// Converts four rates to the pairs of minimum and maximum.
fn pairs(rates: &[Option<Rate>; 4]) -> [Pair; 2] {
    let of = |number: usize| rates[number].unwrap_or_default();
    [0, 2].map(|first| Pair {
        down: of(first),
        up: of(first + 1),
    })
}

/// Names in the order of the files, each of which may occur once.
struct Names<'n> {
    all: Vec<(&'n str, &'n FileSpan)>,
    /// The index of each name.
    places: Known<&'n str, usize>,
}

fn names<'n>(
    all: impl Iterator<Item = (&'n str, &'n FileSpan)>,
    of: &str,
    mistakes: &Mistakes<'_>,
) -> Names<'n> {
    let all: Vec<(&str, &FileSpan)> = all.collect();
    let mut places: Known<&str, usize> = Known::default();
    for (number, (name, at)) in all.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        let first = *places.entry(name).or_insert(number);
        if let Some((_, first)) = all.get(first).filter(|_| first != number) {
            let message = format!(
                "the {of} `{name}` is there twice, first in {}",
                mistakes.named(first)
            );
            mistakes.error(TWICE, at, message, "give one of them another name");
        }
    }
    Names { all, places }
}

/// Returns the index of a name that must exist; reports it otherwise.
fn found(
    name: &str,
    names: &Names<'_>,
    of: &str,
    at: &FileSpan,
    mistakes: &Mistakes<'_>,
) -> Option<usize> {
    if let Some(number) = names.places.get(name) {
        return Some(*number);
    }
    let known = names.all.iter().map(|(known, _)| *known);
    let hint = did_you_mean(name, known.take(COMPARED), || match of {
        "plan" if names.all.is_empty() => "give the file of plans too".to_owned(),
        _ => format!("name a {of} of the list, or leave the field empty"),
    });
    mistakes.error(UNKNOWN, at, format!("there is no {of} `{name}`"), hint);
    None
}

/// Returns the minimum and maximum of a circuit. Rates of its own take precedence over its
/// plan's.
fn resolved(raw: &RawCircuit<'_>, plan: Option<&RawPlan>, mistakes: &Mistakes<'_>) -> [Pair; 2] {
    let mut rates = raw.rates.rates;
    if let Some(plan) = plan {
        for (own, of_plan) in rates.iter_mut().zip(plan.rates.rates) {
            *own = own.or(of_plan);
        }
    }
    let of = || format!("the circuit `{}`", raw.id);
    let known = raw.plan.is_empty() || plan.is_some_and(|plan| !plan.rates.wrong);
    if !raw.rates.wrong && known {
        for (number, rate) in rates.iter().enumerate().skip(2) {
            if rate.is_none() {
                let message = format!("{} has no `{}`", of(), RATES[number]);
                mistakes.error(
                    RATE,
                    &raw.rates.place(number, raw.at.file),
                    message,
                    "write a number of Mbit/s, or name a plan",
                );
            }
        }
        let place = |number| raw.rates.pair_at(number, raw.at.file);
        ordered(&rates, place, of, mistakes);
    }
    pairs(&rates)
}

/// Reports each direction whose minimum exceeds its maximum. `place` returns the span of a
/// direction's minimum and maximum.
fn ordered(
    rates: &[Option<Rate>; 4],
    place: impl Fn(usize) -> FileSpan,
    of: impl Fn() -> String,
    mistakes: &Mistakes<'_>,
) {
    for number in 0..2 {
        if let (Some(least), Some(most)) = (rates[number], rates[number + 2])
            && least > most
        {
            let of = of();
            let message = format!("{of} is guaranteed {least}, and may have {most} at most");
            mistakes.error(
                ORDER,
                &place(number),
                message,
                format!(
                    "write a smaller `{}`, or a larger `{}`",
                    RATES[number],
                    RATES[number + 2]
                ),
            );
        }
    }
}

/// Returns the keys of each circuit. A key that another circuit has too is an error.
fn owned(
    circuits: &[RawCircuit<'_>],
    keys: &[(usize, PlacedKey)],
    mistakes: &Mistakes<'_>,
) -> Vec<Vec<Key>> {
    let mut counts = vec![0_usize; circuits.len()];
    for (circuit, _) in keys {
        counts[*circuit] += 1;
    }
    let mut all: Vec<Vec<Key>> = counts.iter().copied().map(Vec::with_capacity).collect();
    let mut owners: Known<Key, usize> = Known::default();
    owners.reserve(keys.len());
    for (circuit, (key, at)) in keys {
        let owner = match owners.entry(*key) {
            Entry::Vacant(free) => {
                free.insert(*circuit);
                all[*circuit].push(*key);
                continue;
            }
            Entry::Occupied(owned) => *owned.get(),
        };
        let other = &circuits[owner];
        if owner == *circuit {
            let message = format!("`{key}` is there twice in the circuit `{}`", other.id);
            mistakes.warning(TWICE, at, message, "once is enough");
            continue;
        }
        let first = mistakes.named(&other.at);
        let message = format!("`{key}` is of the circuit `{}` too, in {first}", other.id);
        mistakes.error(TWICE, at, message, "leave it to one of them");
    }
    for (raw, _) in circuits.iter().zip(counts).filter(|(_, count)| *count == 0) {
        mistakes.warning(
            UNREACHED,
            &raw.at,
            format!(
                "no key identifies which packets belong to the circuit `{}`",
                raw.id
            ),
            "give its addresses or prefixes, MAC, VLAN or PPPoE session",
        );
    }
    // Most lists of keys are already sorted.
    for own in all.iter_mut().filter(|own| !own.is_sorted()) {
        own.arrange();
    }
    all
}

/// Warns about sites whose circuits are guaranteed more than the site's rate: one warning for
/// all.
fn sold(list: &List, sites: &[RawSite], mistakes: &Mistakes<'_>) {
    let guaranteed =
        [Direction::Down, Direction::Up].map(|direction| list.guaranteed_bytes_s(direction));
    let over = |number: &usize| {
        let most = list.sites.get(*number).and_then(|site| site.most);
        most.is_some_and(|most| {
            let most = [most.down, most.up].map(Rate::as_bytes_per_second);
            (0..2).any(|direction| guaranteed[direction][*number] > most[direction])
        })
    };
    let over: Vec<usize> = (0..sites.len()).filter(over).collect();
    if let Some((first, raw)) = over
        .first()
        .and_then(|first| Some((*first, sites.get(*first)?)))
    {
        let [down, up] =
            [0, 1].map(|direction| Rate::bytes_per_second(guaranteed[direction][first]));
        let message = format!(
            "below `{}`, {down} down and {up} up are guaranteed, which is more than it has (sites with that: {})",
            raw.name,
            over.len()
        );
        mistakes.warning(
            SOLD,
            &raw.at,
            message,
            "when all use their guarantees at once, they share by round robin",
        );
    }
}

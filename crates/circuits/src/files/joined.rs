// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines the devices of one circuit, which must agree on parent, plan and rates.

use crate::codes::DIFFERS;
use crate::files::located::{FileSpan, Mistakes};
use crate::files::raw::{Collected, PlacedKey, RATES, RawCircuit};
use weirgate_units::Rate;

/// Adds a device and its keys to its circuit; `suspended_at` is the span of the field
/// `Suspended`.
pub(crate) fn join<'t>(
    own: RawCircuit<'t>,
    keys: &mut Vec<PlacedKey>,
    suspended_at: &FileSpan,
    mistakes: &Mistakes<'_>,
    into: &mut Collected<'t>,
) {
    let place = into.by_id.entry(own.id.clone());
    let place = *place.or_insert(into.circuits.len());
    into.keys.extend(keys.drain(..).map(|key| (place, key)));
    let Some(known) = into.circuits.get(place) else {
        into.circuits.push(own);
        return;
    };
    let (name, known_at) = (&own.id, known.at.clone());
    let differs = |what: &str, at: &FileSpan, has: &str, had: &str| {
        let first = mistakes.named(&known_at);
        let message =
            format!("{what} of the circuit `{name}` is `{has}` here, and `{had}` in {first}");
        let hint = "write the same for all devices of a circuit";
        mistakes.error(DIFFERS, at, message, hint);
    };
    if own.parent != known.parent {
        differs("the parent", &own.parent_at, &own.parent, &known.parent);
    }
    if own.plan != known.plan {
        differs("the plan", &own.plan_at, &own.plan, &known.plan);
    }
    if own.suspended != known.suspended {
        let word = |is: bool| if is { "yes" } else { "no" };
        let (has, had) = (word(own.suspended), word(known.suspended));
        differs("`Suspended`", suspended_at, has, had);
    }
    if !own.rates.wrong && !known.rates.wrong {
        for (number, what) in RATES.iter().enumerate() {
            let (has, had) = (own.rates.rates[number], known.rates.rates[number]);
            if has != had {
                let text = |rate: Option<Rate>| rate.map_or_else(String::new, |it| it.to_string());
                let at = own.rates.place(number, own.at.file);
                differs(&format!("`{what}`"), &at, &text(has), &text(had));
            }
        }
    }
}

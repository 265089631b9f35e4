// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field `kit` of an arm: a discipline of the kit on the gateway's device.
//!
//! Only the form is checked here. Crate `aqm` knows which disciplines there are, and their
//! parameters.

use super::codes;
use super::registry::{Field, Own, Table, Text, Texts, Within, rate};
use crate::Kit;
use weirgate_document::Reader;
use weirgate_linklayer::LinkLayer;
use weirgate_units::Rate;

pub(super) const KIT: Field<Own> = Field::new(
    "kit",
    Own("table"),
    "A discipline of the kit at the root of `wan`, in place of a policy. If it keeps an average \
     queue, the average is sampled as often as queues: `average.wan.mean_bytes`",
);

const DISCIPLINE: Field<Text> = Field::new(
    "discipline",
    Text,
    "Its name, or for a discipline of your own the path of its folder, source or built file, \
     relative to the experiment file",
)
.required("name it: `discipline = \"meredt\"`");
const RATE: Field<Within<Rate>> = Field::new(
    "rate",
    rate(Rate::kbit(1), Rate::kbit(100_000_000)),
    "The rate to which it shapes",
);
const LINK: Field<Text> = Field::new(
    "link",
    Text,
    "The link layer by which it counts bytes; only with `rate`",
);
const SET: Field<Texts> = Field::new(
    "set",
    Texts("`name=value`"),
    "Parameters, or `preset=NAME`, as for `weirgate aqm load`",
);

pub(super) const TABLE: Table = Table::new(
    "[arm.kit]",
    "A discipline of the kit",
    &[&DISCIPLINE, &RATE, &LINK, &SET],
);

pub(super) fn kit(table: &mut Reader<'_, '_>) -> Option<Kit> {
    let mut table = table.table(KIT.name)?;
    let discipline = DISCIPLINE.get(&mut table);
    let rate = RATE.get(&mut table);
    let layer = LINK.get(&mut table);
    if let Some(layer) = &layer {
        let found = LinkLayer::named(&layer.value);
        let wrong = match (found, RATE.is_in(&mut table)) {
            (Err(unknown), _) => Some((unknown.to_string(), "see docs/link-layer.md")),
            (Ok(_), false) => Some((
                "`link` says what packets cost on the wire".to_owned(),
                "add `rate`, the wire's",
            )),
            (Ok(_), true) => None,
        };
        if let Some((message, hint)) = wrong {
            let place = layer.span.clone();
            table.problems().error(codes::SETTING, place, message, hint);
        }
    }
    let mut set = Vec::new();
    for setting in SET.get(&mut table).unwrap_or_default() {
        let named = setting.value.split_once('=');
        if named.is_some_and(|(name, value)| !name.trim().is_empty() && !value.trim().is_empty()) {
            set.push(setting.value);
            continue;
        }
        let message = format!("`{}` sets no parameter", setting.value);
        let hint = "write `name=value`, as for `weirgate aqm load`";
        let place = setting.span.clone();
        table.problems().error(codes::SETTING, place, message, hint);
    }
    Some(Kit {
        discipline: discipline?.value,
        rate,
        layer: layer.map(|layer| layer.value),
        set,
    })
}

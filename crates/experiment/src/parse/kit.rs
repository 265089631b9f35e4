// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field `kit` of an arm: a discipline of the kit on the gateway's device.
//!
//! Which disciplines there are, and which parameters they have, crate `aqm`
//! knows; the form is checked here.

use super::{codes, field};
use crate::Kit;
use weirgate_document::Reader;
use weirgate_linklayer::LinkLayer;
use weirgate_units::Rate;

pub(super) fn kit(table: &mut Reader<'_, '_>) -> Option<Kit> {
    let mut table = table.table("kit")?;
    let discipline = if table.has("discipline") {
        table.text("discipline")
    } else {
        table.missing("discipline", "name it: `discipline = \"meredt\"`")
    };
    let (least, most) = (Rate::kbit(1), Rate::kbit(100_000_000));
    let rate = field::rate(&mut table, "rate", least, most);
    let layer = table.text("link");
    if let Some(layer) = &layer {
        let found = LinkLayer::named(&layer.value);
        let wrong = match (found, table.has("rate")) {
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
    for setting in table.text_list("set").unwrap_or_default() {
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

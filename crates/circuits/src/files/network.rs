// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `network.json` of LibreQoS: the tree of sites.
//!
//! An object maps the names of sites to their fields: `downloadBandwidthMbps`,
//! `uploadBandwidthMbps` and optionally `children`. A site that is `virtual` has no limit.

use crate::codes::{DEEP, JSON};
use crate::files::json::Json;
use crate::files::raw::{RawSite, identifier};
use crate::files::table::Cell;
use jsonc_parser::ast::{Object, Value};

/// The largest number of levels of sites. The engine has eight levels, including the link and
/// the circuits.
const LEVELS: usize = 6;

/// The names of the fields for a site's rates.
pub(crate) const DOWN: &str = "downloadBandwidthMbps";
pub(crate) const UP: &str = "uploadBandwidthMbps";
const CHILDREN: &str = "children";
const VIRTUAL: &str = "virtual";
const ID: &str = "id";

/// The fields of a site that have an effect.
const FIELDS: [&str; 4] = [DOWN, UP, CHILDREN, VIRTUAL];

/// Other fields that LibreQoS and its integrations write, which are ignored.
const KNOWN: [&str; 6] = [
    "type",
    ID,
    "name",
    "uisp_device",
    "uisp_site",
    "parent_site",
];

/// Reads the sites of an object and everything below them.
pub(crate) fn sites(
    json: &Json<'_, '_, '_>,
    all: &Object<'_>,
    parent: Option<usize>,
    level: usize,
    into: &mut Vec<RawSite>,
) {
    for one in &all.properties {
        if level > LEVELS {
            let message = format!("the site is at level {level} of sites");
            json.error(
                DEEP,
                &one.name,
                message,
                "the tree has at most six levels of sites",
            );
            return;
        }
        let Value::Object(fields) = &one.value else {
            let hint = format!("write `{{ \"{DOWN}\": 1000, \"{UP}\": 1000 }}`");
            json.error(JSON, &one.value, "the site is no object", &hint);
            continue;
        };
        let name = json.cell(one.name.as_str(), &one.name);
        let children = site(json, &name, fields, parent, into);
        let own = into.len().checked_sub(1);
        if let Some(children) = children {
            sites(json, children, own, level + 1, into);
        }
    }
}

/// Reads one site; returns the object of its children.
fn site<'o, 'a>(
    json: &Json<'_, '_, '_>,
    name: &Cell<'_>,
    fields: &'o Object<'a>,
    parent: Option<usize>,
    into: &mut Vec<RawSite>,
) -> Option<&'o Object<'a>> {
    let mut site = RawSite {
        name: String::new(),
        id: None,
        at: json.mistakes.at(&name.span),
        parent,
        rates: [None; 2],
        rates_at: json.mistakes.at(&name.span),
        wrong: json.twice(fields),
        is_virtual: false,
    };
    let mut children = None;
    for field in &fields.properties {
        match (field.name.as_str(), &field.value) {
            (word @ (DOWN | UP), value) => match json.rate(value, false) {
                Some(rate) => site.rates[usize::from(word == UP)] = Some(rate),
                None => site.wrong = true,
            },
            (CHILDREN, Value::Object(own)) => children = Some(own),
            (CHILDREN, Value::NullKeyword(_)) => {}
            (CHILDREN, value) => {
                json.error(
                    JSON,
                    value,
                    "`children` is no object",
                    "write `{ \"SITE\": { ... } }`",
                );
            }
            (VIRTUAL, value) => {
                site.is_virtual = json.flag(VIRTUAL, value).unwrap_or_default();
            }
            // Overrides can name a site by this identifier.
            (ID, Value::StringLit(id)) => site.id = Some(id.value.trim().to_owned()),
            (word, _) if KNOWN.contains(&word) => {}
            _ => json.unknown(field, "a site", &FIELDS),
        }
    }
    // Keep a site without a name, so that the errors of its children have a place.
    let known = identifier(name, "site", json.mistakes).unwrap_or_default();
    known.clone_into(&mut site.name);
    into.push(site);
    children
}

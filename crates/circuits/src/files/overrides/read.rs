// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a file of overrides: an object with an array for each kind.
//!
//! Each object in an array of adjustments has a `type` that determines its other fields. The
//! format is that of LibreQoS' crate `lqos_overrides`, which writes all arrays and ignores
//! unknown fields.

use super::fields::{CIRCUIT, DEVICE, MAY_BE_ZERO, Of, Unused, get, is_empty};
use super::sites::{self, Named, SiteChange};
use super::{Change, Overrides, What, devices};
use crate::codes::JSON;
use crate::files::json::Json;
use crate::files::raw::SQM;
use crate::files::table::Cell;
use jsonc_parser::ast::{Object, Value};
use weirgate_document::did_you_mean;

/// The sections of a file; the second is the former name of the first.
const DEVICES: &str = "persistent_devices";
const DEVICES_BEFORE: &str = "devices_to_append";
const CIRCUITS: &str = "circuit_adjustments";
const SITES: &str = "network_adjustments";
const EXCLUDED: &str = "rtt_excluded_circuits";
const UISP: &str = "uisp";
const SECTIONS: [&str; 6] = [DEVICES, DEVICES_BEFORE, CIRCUITS, SITES, EXCLUDED, UISP];

/// The field that names the kind of an adjustment.
const TYPE: &str = "type";

const PARENT: &str = "parent_node";
const SITE: &str = "site_name";
const SITE_ID: &str = "node_id";
const NODE: &str = "node_name";
const VIRTUAL: &str = "virtual";

/// Fields of rates: of circuits in the order of the columns, of sites down and up.
const BANDWIDTHS: [&str; 4] = [
    "min_download_bandwidth",
    "min_upload_bandwidth",
    "max_download_bandwidth",
    "max_upload_bandwidth",
];
const SITE_BANDWIDTHS: [&str; 2] = ["download_bandwidth_mbps", "upload_bandwidth_mbps"];

/// A kind of adjustment.
struct Kind {
    /// The value of `type`.
    word: &'static str,
    /// Its other fields; they do not matter if the kind is not used.
    fields: &'static [&'static str],
    becomes: Becomes,
}

/// The effect of an adjustment.
enum Becomes {
    Change(fn(&Json<'_, '_, '_>, &Object<'_>, &mut Overrides)),
    /// It is ignored; the hint tells what applies instead.
    Nothing(&'static str),
}

const OF_CIRCUITS: &[Kind] = &[
    Kind {
        word: "circuit_adjust_speed",
        fields: &[
            CIRCUIT,
            BANDWIDTHS[0],
            BANDWIDTHS[1],
            BANDWIDTHS[2],
            BANDWIDTHS[3],
        ],
        becomes: Becomes::Change(|json, fields, into| speed(Of::Circuit, json, fields, into)),
    },
    Kind {
        word: "device_adjust_speed",
        fields: &[
            DEVICE,
            BANDWIDTHS[0],
            BANDWIDTHS[1],
            BANDWIDTHS[2],
            BANDWIDTHS[3],
        ],
        becomes: Becomes::Change(|json, fields, into| speed(Of::Device, json, fields, into)),
    },
    Kind {
        word: "device_adjust_sqm",
        fields: &[],
        becomes: Becomes::Nothing(SQM),
    },
    Kind {
        word: "remove_circuit",
        fields: &[CIRCUIT],
        becomes: Becomes::Change(|json, fields, into| {
            change(Of::Circuit, What::Remove, json, fields, into);
        }),
    },
    Kind {
        word: "remove_device",
        fields: &[DEVICE],
        becomes: Becomes::Change(|json, fields, into| {
            change(Of::Device, What::Remove, json, fields, into);
        }),
    },
    Kind {
        word: "reparent_circuit",
        fields: &[CIRCUIT, PARENT],
        becomes: Becomes::Change(|json, fields, into| {
            if let Some(parent) = json.text(fields, PARENT) {
                let at = json.mistakes.at(&parent.span);
                let what = What::Parent(parent.text.to_owned(), at);
                change(Of::Circuit, what, json, fields, into);
            }
        }),
    },
];

const OF_SITES: &[Kind] = &[
    Kind {
        word: "adjust_site_speed",
        fields: &[SITE, SITE_ID, SITE_BANDWIDTHS[0], SITE_BANDWIDTHS[1]],
        becomes: Becomes::Change(|json, fields, into| {
            let mut rates = [None; 2];
            for (number, rate, _) in json.rates(fields, &SITE_BANDWIDTHS, &[false; 2]).0 {
                rates[number] = Some(rate);
            }
            // LibreQoS uses only the identifier if there is one.
            let id = get(fields, SITE_ID).and_then(|id| json.text_of(id));
            let id = id.filter(|id| !id.text.is_empty());
            let by_id = id.is_some();
            if let Some(site) = id.or_else(|| json.text(fields, SITE)) {
                site_change(&site, by_id, sites::What::Rates(rates), json, into);
            }
        }),
    },
    Kind {
        word: "set_node_virtual",
        fields: &[NODE, VIRTUAL],
        becomes: Becomes::Change(|json, fields, into| {
            let site = json.text(fields, NODE);
            let Some(is) = get(fields, VIRTUAL) else {
                let hint = "write `\"virtual\": true`, or `false`";
                json.error(JSON, fields, "`virtual` is missing", hint);
                return;
            };
            if let Some((site, is)) = site.zip(json.flag(VIRTUAL, &is.value)) {
                site_change(&site, false, sites::What::Virtual(is), json, into);
            }
        }),
    },
    Kind {
        word: "topology_parent_override",
        fields: &[],
        becomes: Becomes::Nothing(
            "it is for LibreQoS' topology manager; move the site in network.json",
        ),
    },
];

/// Returns whether an object is a file of overrides: the fields of a tree of sites are all
/// objects.
pub(crate) fn is_overrides(object: &Object<'_>) -> bool {
    let mut fields = object.properties.iter();
    fields.any(|field| {
        let name = field.name.as_str();
        let is_site = matches!(field.value, Value::Object(_));
        name != UISP && SECTIONS.contains(&name) && !is_site
    })
}

/// Reads the top-level object of a file.
pub(crate) fn read(json: &Json<'_, '_, '_>, object: &Object<'_>, into: &mut Overrides) {
    json.twice(object);
    let mut unused = Unused::default();
    for section in &object.properties {
        let name = section.name.as_str();
        match (name, &section.value) {
            (UISP, Value::NullKeyword(_)) => {}
            (UISP, Value::Object(of)) => {
                let mut all = of.properties.iter();
                if let Some(first) = all.find(|field| !is_empty(&field.value)) {
                    let hint = "LibreQoS has none of it; say rates by `adjust_site_speed`";
                    unused.count(UISP, json.span(&first.name), hint);
                }
            }
            (UISP, value) => json.error(JSON, value, "`uisp` is no object", "write `null`"),
            (EXCLUDED, Value::Array(list)) => {
                for one in &list.elements {
                    let hint = "nothing here judges circuits by their RTT";
                    unused.count(EXCLUDED, json.span(one), hint);
                }
            }
            (name, Value::Array(list)) if SECTIONS.contains(&name) => {
                for one in &list.elements {
                    let Value::Object(fields) = one else {
                        let message = format!("one of `{name}` is no object");
                        json.error(JSON, one, message, "write `{ ... }`");
                        continue;
                    };
                    if json.twice(fields) {
                        continue;
                    }
                    match name {
                        CIRCUITS => adjustment(OF_CIRCUITS, json, fields, &mut unused, into),
                        SITES => adjustment(OF_SITES, json, fields, &mut unused, into),
                        _ => devices::read(json, fields, &mut unused, into),
                    }
                }
            }
            (name, value) if SECTIONS.contains(&name) => {
                let message = format!("`{name}` is no list");
                json.error(JSON, value, message, "write `[ ... ]`");
            }
            _ => json.unknown(section, "a file of overrides", &SECTIONS),
        }
    }
    unused.tell(json);
}

/// Reads an adjustment of one of these kinds.
fn adjustment(
    kinds: &[Kind],
    json: &Json<'_, '_, '_>,
    fields: &Object<'_>,
    unused: &mut Unused,
    into: &mut Overrides,
) {
    let Some(word) = json.text(fields, TYPE) else {
        return;
    };
    let Some(kind) = kinds.iter().find(|kind| kind.word == word.text) else {
        let words: Vec<&str> = kinds.iter().map(|kind| kind.word).collect();
        let hint = did_you_mean(word.text, words.iter().copied(), || {
            format!("write one of {}", words.join(", "))
        });
        let message = format!("there is no adjustment `{}`", word.text);
        json.mistakes.error(JSON, &word.span, message, hint);
        return;
    };
    match kind.becomes {
        Becomes::Nothing(hint) => unused.count(kind.word, word.span, hint),
        Becomes::Change(take) => {
            for field in &fields.properties {
                let name = field.name.as_str();
                if name != TYPE && !kind.fields.contains(&name) {
                    json.unknown(field, &format!("`{}`", kind.word), kind.fields);
                }
            }
            take(json, fields, into);
        }
    }
}

fn change(of: Of, what: What, json: &Json<'_, '_, '_>, fields: &Object<'_>, into: &mut Overrides) {
    if let Some((id, at)) = json.id(fields, of) {
        let change = Change {
            of,
            id: id.to_owned(),
            at,
            what,
            used: false,
        };
        into.add_change(change, json.mistakes.all);
    }
}

fn speed(of: Of, json: &Json<'_, '_, '_>, fields: &Object<'_>, into: &mut Overrides) {
    let (rates, _) = json.rates(fields, &BANDWIDTHS, &MAY_BE_ZERO);
    change(of, What::Rates(rates), json, fields, into);
}

fn site_change(
    site: &Cell<'_>,
    by_id: bool,
    what: sites::What,
    json: &Json<'_, '_, '_>,
    into: &mut Overrides,
) {
    let named = if by_id { Named::Id } else { Named::Name };
    into.sites.push(SiteChange {
        site: named(site.text.to_owned()),
        at: json.mistakes.at(&site.span),
        what,
    });
}

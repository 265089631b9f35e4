// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices in a file of overrides: fields that correspond to the columns of `ShapedDevices.csv`.

use super::Overrides;
use super::fields::{CIRCUIT, DEVICE, MAY_BE_ZERO, Of, Unused, get, is_empty};
use crate::codes::{ADDRESS, JSON, KEY};
use crate::files::json::Json;
use crate::files::located::FileSpan;
use crate::files::raw::{RawCircuit, RawRates, SQM};
use crate::keys::{Key, KeyKind, Prefix, parts};
use jsonc_parser::ast::{Object, Value};
use std::borrow::Cow;

/// The fields of rates, in the order of the columns.
const RATES: [&str; 4] = [
    "download_min_mbps",
    "upload_min_mbps",
    "download_max_mbps",
    "upload_max_mbps",
];

const PARENT: &str = "parent_node";
const MAC: &str = "mac";

/// The fields of addresses, with their IP version.
const ADDRESSES: [(&str, u8); 2] = [("ipv4", 4), ("ipv6", 6)];

/// The hint about their syntax.
const PREFIXES: &str = "write `[ [\"100.64.0.1\", 32] ]`";

/// Fields that circuits do not use, with a hint what applies instead.
const NOT_USED: [(&str, &str); 3] = [
    ("parent_node_id", "the site above is that of `parent_node`"),
    ("anchor_node_id", "the site above is that of `parent_node`"),
    ("sqm_override", SQM),
];

const FOR_PEOPLE: [&str; 3] = ["circuit_name", "device_name", "comment"];

/// Reads a device and its circuit.
pub(super) fn read(
    json: &Json<'_, '_, '_>,
    fields: &Object<'_>,
    unused: &mut Unused,
    into: &mut Overrides,
) {
    tell_unknown(json, fields, unused);
    let mistakes = json.mistakes;
    let mut keys = Vec::new();
    for (name, version) in ADDRESSES {
        match get(fields, name).map(|field| &field.value) {
            Some(Value::Array(list)) => {
                let all = list.elements.iter();
                keys.extend(all.filter_map(|one| prefix(json, one, version)));
            }
            None => {}
            Some(other) => json.error(JSON, other, format!("`{name}` is no list"), PREFIXES),
        }
    }
    if let Some(macs) = get(fields, MAC).and_then(|mac| json.text_of(mac)) {
        for mac in parts(macs.text) {
            match KeyKind::Mac.read(mac) {
                Ok(key) => keys.push((key, mistakes.at(&macs.span))),
                Err((message, hint)) => mistakes.error(KEY, &macs.span, message, hint),
            }
        }
    }
    let (found, wrong) = json.rates(fields, &RATES, &MAY_BE_ZERO);
    let mut rates = RawRates {
        spans: std::array::from_fn(|_| json.span(fields)),
        wrong,
        ..RawRates::default()
    };
    for (number, rate, at) in found {
        rates.rates[number] = Some(rate);
        rates.spans[number] = at.span;
    }
    let parent = get(fields, PARENT).and_then(|parent| json.text_of(parent));
    let circuit = json.id(fields, Of::Circuit);
    let device = json.id(fields, Of::Device);
    let (Some((circuit, at)), Some((device, device_at))) = (circuit, device) else {
        return;
    };
    let (parent, parent_at) = match parent {
        Some(parent) => (parent.text, mistakes.at(&parent.span)),
        None => ("", at.clone()),
    };
    let own = RawCircuit {
        id: circuit.to_owned().into(),
        parent: parent.to_owned().into(),
        parent_at,
        plan: Cow::default(),
        plan_at: at.clone(),
        rates,
        suspended: false,
        at,
    };
    into.add_device(device, (own, keys), device_at, mistakes.all);
}

/// Warns about fields that are not used.
fn tell_unknown(json: &Json<'_, '_, '_>, fields: &Object<'_>, unused: &mut Unused) {
    let known = [CIRCUIT, DEVICE, PARENT, MAC];
    let addresses = ADDRESSES.iter().map(|(name, _)| *name);
    let known: Vec<&str> = known.into_iter().chain(addresses).chain(RATES).collect();
    for field in &fields.properties {
        let name = field.name.as_str();
        if let Some((name, hint)) = NOT_USED.iter().find(|(word, _)| *word == name) {
            if !is_empty(&field.value) {
                unused.count(name, json.span(&field.name), hint);
            }
        } else if !known.contains(&name) && !FOR_PEOPLE.contains(&name) {
            json.unknown(field, "a device", &known);
        }
    }
}

/// Reads a prefix: an array of an address and a prefix length.
fn prefix(json: &Json<'_, '_, '_>, one: &Value<'_>, version: u8) -> Option<(Key, FileSpan)> {
    let text = match one {
        Value::Array(pair) => match &*pair.elements {
            [Value::StringLit(address), Value::NumberLit(length)] => {
                Some(format!("{}/{}", address.value.trim(), length.value))
            }
            _ => None,
        },
        _ => None,
    };
    let Some(text) = text else {
        let message = "this is no address with its number of bits";
        json.error(JSON, one, message, PREFIXES);
        return None;
    };
    match Prefix::read(&text, version) {
        Ok(prefix) => Some((Key::Address(prefix), json.mistakes.at(&json.span(one)))),
        Err((message, hint)) => {
            json.error(ADDRESS, one, message, &hint);
            None
        }
    }
}

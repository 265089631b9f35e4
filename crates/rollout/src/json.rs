// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a domain, as fields of a command's JSON document.

use crate::part::Part;
use serde_json::{Value, json};
use weirgate_console::json::Document;
use weirgate_domain::{Check, Comparison, Delay, Domain, Fate, Found, Service, Verification};
use weirgate_units::Span;

/// Puts the promises of each port and service into the document, and those that cannot be kept.
/// Rates are in bits per second on the wire, those of services in bits of IP packets. Times are in
/// milliseconds.
pub fn put_check(document: &Document, domain: &Domain, check: &Check) {
    if !document.is_wanted() {
        return;
    }
    let loads = check.loads.iter().map(|load| {
        let port = &check.ports[load.port.0];
        json!({
            "router": port.router,
            "device": port.device,
            "towards": port.towards,
            "line_bit_s": port.rate.as_bits_per_second(),
            "class": load.class,
            "promised_bit_s": load.promised.as_bits_per_second(),
            "guaranteed_bit_s": load.guaranteed.as_bits_per_second(),
            "allowed_bit_s": load.allowed.as_bits_per_second(),
        })
    });
    document.put("loads", loads.collect());
    let services = domain.services.iter().zip(&check.delays);
    let services = services.map(|(service, delay)| {
        let mut value = named(service);
        let ms = |span: Option<Span>| Value::from(span.map(Span::as_millis_f64));
        value["rate_bit_s"] = service.rate.as_bits_per_second().into();
        value["delay_ms"] = ms(delay.as_ref().map(Delay::worst));
        value["delay_promised_ms"] = ms(service.delay);
        value["jitter_ms"] = ms(delay.as_ref().map(Delay::variation));
        value["jitter_promised_ms"] = ms(service.jitter);
        value
    });
    document.put("services", services.collect());
    let findings = check.findings.iter();
    let findings = findings
        .map(|one| json!({ "line": one.line, "message": one.what, "changes": one.changes }));
    document.put("findings", findings.collect());
    document.put("notes", check.notes.clone().into());
}

/// Puts a verification into the document. Each measurement is in the unit that it names.
pub(crate) fn put_verification(document: &Document, found: &Verification<'_>) {
    if !document.is_wanted() {
        return;
    }
    document.put("when", found.when.as_str().into());
    let routers = found.routers.iter().map(|(name, state)| {
        let (state, why) = match state {
            Found::AsPlanned => ("as-planned", Vec::new()),
            Found::Differs(steps) => ("differs", steps.clone()),
            Found::Unknown(why) => ("unknown", vec![why.clone()]),
        };
        json!({ "router": name, "state": state, "why": why })
    });
    document.put("routers", routers.collect());
    let services = found.domain.services.iter().zip(&found.services);
    let services = services.map(|(service, fate)| {
        let mut value = named(service);
        let (promises, why) = match fate {
            Fate::Judged(all) => (&all[..], None),
            Fate::NotMeasured(why) => (&[][..], Some(why.as_str())),
        };
        let promise = |one: &Comparison| {
            let since = found.since.get(&(service.name.clone(), one.quantity));
            json!({
                "what": one.quantity.to_string(),
                "unit": one.quantity.unit(),
                "promised": one.promised,
                "measured": one.measured,
                "kept": one.kept,
                "since": since.map(|state| state.when.as_str()),
            })
        };
        value["promises"] = promises.iter().map(promise).collect();
        value["not_measured"] = why.into();
        value
    });
    document.put("services", services.collect());
}

fn named(service: &Service) -> Value {
    json!({
        "name": service.name,
        "from": service.from,
        "to": service.to,
        "class": service.class,
    })
}

/// Appends an entry about a part of a router to a list of the document.
pub(crate) fn add(document: &Document, list: &str, part: &Part, name: &str, value: Value) {
    let mut entry = json!({ "router": part.router, "circuits": part.is_circuits });
    entry[name] = value;
    document.add(list, entry);
}

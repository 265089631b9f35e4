// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements compared with promises; policies of routers as one text.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use std::collections::BTreeMap;
use weirgate_domain::{
    Domain, Fate, Found, Measured, Quantity, Since, Verification, check, code_point, comparisons,
    divide, parse, router_policies, together,
};
use weirgate_state::Capabilities;
use weirgate_units::Span;

const FIVE: &str = include_str!("domains/five-hops.toml");

fn five() -> Domain {
    let (domain, problems) = parse(FIVE);
    assert!(problems.is_empty(), "{problems:?}");
    domain.unwrap()
}

fn measured(sent: u64, received: u64) -> Measured {
    Measured {
        sent,
        received,
        seconds: 1.0,
        round_trip: Span::from_millis(10),
        variation: Span::from_millis(3),
    }
}

#[test]
fn a_promise_is_judged_by_its_figure() {
    let domain = five();
    let service = &domain.services[0];
    assert_eq!(code_point(&domain, service).value(), 46);
    assert_eq!(code_point(&domain, &domain.services[1]).value(), 10);
    let kept = |measured: &Measured| -> Vec<(Quantity, bool)> {
        let all = comparisons(service, measured).into_iter();
        all.map(|one| (one.quantity, one.kept)).collect()
    };
    let mut some = service.clone();
    for (percent, kept) in [("0.1%", false), ("1%", true)] {
        some.loss = Some(percent.parse().unwrap());
        let loss = comparisons(&some, &measured(625, 624))[3];
        assert_eq!((loss.quantity, loss.kept), (Quantity::Loss, kept));
    }
    let all = [
        Quantity::Rate,
        Quantity::Delay,
        Quantity::Jitter,
        Quantity::Loss,
    ];
    assert_eq!(kept(&measured(625, 625)), all.map(|one| (one, true)));
    // One packet of 625 is lost, which breaks only the promise of no loss.
    let one = all.map(|one| (one, one != Quantity::Loss));
    assert_eq!(kept(&measured(625, 624)), one);
    // Nothing arrives: no promise is kept.
    assert_eq!(kept(&measured(625, 0)), all.map(|one| (one, false)));
    // 5 ms there, and 26 ms in addition.
    let mut late = measured(625, 625);
    late.variation = Span::from_millis(26);
    let late = kept(&late);
    assert_eq!(late[1], (Quantity::Delay, false));
    assert_eq!(late[2], (Quantity::Jitter, false));
}

fn verification(domain: &Domain, fates: Vec<Fate>, when: &str, before: Since) -> (String, Since) {
    let check = check(domain);
    let mut found = Verification {
        domain,
        check: &check,
        when: when.to_owned(),
        routers: BTreeMap::from([("two".to_owned(), Found::Differs(vec!["a step".to_owned()]))]),
        services: fates,
        since: Since::new(),
    };
    found.remember(before);
    (found.to_string(), found.since)
}

#[test]
fn it_is_said_since_when() {
    let domain = five();
    let fates = |received| {
        let judged = |service| Fate::Judged(comparisons(service, &measured(625, received)));
        domain.services.iter().map(judged).collect::<Vec<_>>()
    };
    let (_, since) = verification(&domain, fates(625), "first", Since::new());
    let (text, since) = verification(&domain, fates(624), "second", since);
    assert!(text.contains("kept since first"), "{text}");
    let page = text.lines().count();
    assert!(page < 66, "{page} lines: {text}");
    assert!(
        text.contains(
            "telephone of alfa: a loss of 0 % was promised, 0.16 % measured, BROKEN since second"
        ),
        "{text}"
    );
    snapshot("it_is_said_since_when", &text);
    // A changed promise is judged separately.
    let mut other = domain.clone();
    other.services[0].loss = Some("0.1%".parse().unwrap());
    let judged = |service| Fate::Judged(comparisons(service, &measured(625, 624)));
    let fates_then = other.services.iter().map(judged).collect();
    let (text, _) = verification(&other, fates_then, "then", since.clone());
    assert!(text.contains("BROKEN since then"), "{text}");
    // A service that was not measured keeps its earlier result.
    let none = vec![Fate::NotMeasured("no reason".to_owned()); domain.services.len()];
    let (text, since) = verification(&domain, none, "third", since);
    assert!(text.contains("not measured: no reason"), "{text}");
    let (text, _) = verification(&domain, fates(624), "fourth", since);
    assert!(text.contains("BROKEN since second"), "{text}");
    assert!(
        text.contains("passes the router `two`, which is the likely cause"),
        "{text}"
    );
}

#[test]
fn suspects_are_what_only_broken_services_pass() {
    let other = FIVE.to_owned()
        + "\n[customer.gamma]\nrouter = \"two\"\ndevice = \"gamma0\"\nrate = \"10mbit\"\n\
           [[service]]\nname = \"half\"\nfrom = \"alfa\"\nto = \"gamma\"\nclass = \"voice\"\n\
           rate = \"100kbit\"\n";
    let other = other.replace(
        "[router.two]\nrole = \"interior\"",
        "[router.two]\nrole = \"boundary\"",
    );
    let (domain, problems) = parse(&other);
    let domain = domain.unwrap_or_else(|| panic!("{problems:?}"));
    let check = check(&domain);
    let fate =
        |received| move |service: &_| Fate::Judged(comparisons(service, &measured(100, received)));
    let mut services: Vec<Fate> = domain.services.iter().map(fate(100)).collect();
    services[0] = fate(50)(&domain.services[0]);
    let found = Verification {
        domain: &domain,
        check: &check,
        when: String::new(),
        routers: BTreeMap::new(),
        services,
        since: Since::new(),
    };
    let suspects = found.suspects();
    let names: Vec<&str> = suspects
        .iter()
        .map(|port| check.ports[port.0].router.as_str())
        .collect();
    // `books` is of another class and clears no result.
    assert_eq!(names, ["two", "three", "east"]);
}

#[test]
fn each_router_has_one_policy_that_is_one() {
    let domain = five();
    let texts = router_policies(&domain, &check(&domain));
    assert_eq!(texts.len(), 5);
    for (router, text) in &texts {
        let mut parts = Vec::new();
        for part in divide(text) {
            let (policy, problems) = weirgate_policy::parse(&part);
            let policy = policy.unwrap_or_else(|| panic!("{router}: {problems:?}"));
            let line = text.lines().nth(policy.link.device.line as usize - 1);
            assert!(line.unwrap().starts_with("device = "), "{router}: {line:?}");
            let (state, problems) = weirgate_compile::compile(&policy, &Capabilities::all());
            let state = state.unwrap_or_else(|| panic!("{router}: {problems:?}"));
            parts.push((policy.link.device.value.clone(), state));
        }
        let checked = check(&domain);
        let own = checked
            .ports
            .iter()
            .filter(|port| port.router == *router)
            .count();
        let whole = together(parts).unwrap();
        assert_eq!(whole.devices.len(), own, "{router}");
        assert!(whole.devices.values().all(|one| one.root.is_some()));
    }
}

#[test]
fn machines_have_names_that_ssh_can_take() {
    for (host, right) in [
        ("admin@west.example", true),
        ("2001:db8::1", true),
        ("-oProxyCommand=x", false),
        ("west; reboot", false),
        ("", false),
    ] {
        let text = FIVE.replace(
            "[router.west]\nrole = \"boundary\"",
            &format!("[router.west]\nrole = \"boundary\"\nhost = \"{host}\""),
        );
        assert_eq!(parse(&text).0.is_some(), right, "{host}");
    }
}

#[test]
fn drop_precedences_are_told_apart_where_the_router_can() {
    let text = FIVE.replace(
        "[router.two]\nrole = \"interior\"",
        "[router.two]\nrole = \"interior\"\nengine = \"kit\"",
    );
    let (domain, problems) = parse(&text);
    let domain = domain.unwrap_or_else(|| panic!("{problems:?}"));
    let check = check(&domain);
    assert!(check.findings.is_empty(), "{:?}", check.findings);
    let texts = router_policies(&domain, &check);
    for (router, text) in &texts {
        let kit = router == "two";
        assert_eq!(text.contains("kind = \"wred\""), kit, "{router}: {text}");
        assert_eq!(text.contains("engine = \"kit\""), kit, "{router}");
    }
    for part in divide(&texts["two"]) {
        let (policy, problems) = weirgate_policy::parse(&part);
        let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
        let (state, problems) = weirgate_compile::compile(&policy, &Capabilities::all());
        assert!(state.is_some(), "{problems:?}");
    }
    let report = weirgate_domain::Report {
        domain: &domain,
        check: &check,
        details: false,
    };
    let named = "AF's drop precedences are not distinguished at east, one, three, west:";
    assert!(report.to_string().contains(named), "{report}");
    let (none, problems) = parse(&text.replace("\"kit\"", "\"cake\""));
    assert!(none.is_none());
    assert!(problems[0].message.contains("`cake`"), "{problems:?}");
}

fn snapshot(name: &str, text: &str) {
    weirgate_testing::golden(format!("crates/domain/tests/snapshots/{name}.txt"), text);
}

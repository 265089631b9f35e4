// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that keep connections in order when they change class: where they are used.

use weirgate_compile::{check_report, compile, scheduler};
use weirgate_document::Severity;
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::{Capabilities, HookPrograms, Order};

const SITE: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\ninbound = \"lan\"\nlayer = \"docsis\"\nmoves = \"in-order\"\n\
    [[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n";

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

/// Returns the devices with the programs, and the report.
fn kept(source: &str, kernel: &Capabilities) -> (Vec<String>, Vec<(&'static str, Severity)>) {
    let (state, problems) = compile(&policy(source), kernel);
    let own = |place: &HookPrograms| place.order == Some(Order {});
    let places = state.iter().flat_map(|state| &state.hooks);
    let devices = places.filter(|(_, place)| own(place));
    let reported = problems.iter().map(|one| (one.code, one.severity));
    (
        devices.map(|(name, _)| name.to_string()).collect(),
        reported.collect(),
    )
}

#[test]
fn programs_are_where_acknowledgements_come_in() {
    let all = Capabilities::all();
    assert_eq!(
        kept(SITE, &all),
        (vec!["lan".into(), "wan".into()], Vec::new())
    );
    let at_once = SITE.replace("in-order", "at-once");
    assert_eq!(kept(&at_once, &all), (Vec::new(), Vec::new()));
    let unsaid = SITE.replace("moves = \"in-order\"\n", "");
    assert_eq!(kept(&unsaid, &all), (Vec::new(), Vec::new()));
    let up = SITE.replace("down = \"50mbit\"\ninbound = \"lan\"\n", "");
    assert_eq!(kept(&up, &all), (vec!["wan".into()], Vec::new()));
    let bridge = SITE.replace("moves", "bridge = true\nmoves");
    assert_eq!(kept(&bridge, &all).0, ["lan", "wan"]);
}

#[test]
fn what_it_cannot_is_reported() {
    let all = Capabilities::all();
    let doubted = vec![("C226", Severity::Warning)];
    let ifb = SITE.replace("inbound = \"lan\"\n", "");
    assert_eq!(kept(&ifb, &all), (vec!["wan".into()], doubted.clone()));
    let cake = SITE
        .replace("down = \"50mbit\"\ninbound = \"lan\"\n", "")
        .replace("moves", "engine = \"cake\"\nmoves");
    assert_eq!(kept(&cake, &all).1, doubted);
    let without = Capabilities {
        payload: false,
        ..all
    };
    let refused = vec![("C226", Severity::Error)];
    assert_eq!(kept(SITE, &without), (Vec::new(), refused));
}

#[test]
fn check_says_where() {
    let notes = |source: &str| -> Vec<bool> {
        let report = check_report(&policy(source));
        let reported =
            |notes: &Vec<String>| notes.iter().any(|one| one.contains("changes its class"));
        report
            .directions
            .iter()
            .map(|it| reported(&it.notes))
            .collect()
    };
    assert_eq!(notes(SITE), [true, true]);
    assert_eq!(
        notes(&SITE.replace("inbound = \"lan\"\n", "")),
        [true, false]
    );
    assert_eq!(notes(&SITE.replace("in-order", "at-once")), [false, false]);
}

/// A connection that is kept in order stays in a class whose rule its longer packets do not
/// match.
#[test]
fn full_packets_stay_in_a_class_of_small_ones() {
    let largest = |source: &str| {
        let small = "[[class]]\nname = \"small\"\nshare = \"10%\"\n\
            [[rule]]\nclass = \"small\"\nlength = \"0-100\"\n";
        let source = source.replace("100%", "90%");
        let policy = policy(&format!("{source}{small}"));
        [Direction::Up, Direction::Down].map(|direction| {
            let scheduler = scheduler(&policy, direction).expect("shaped");
            let largest = scheduler.named("small").expect("a class").largest;
            (largest, largest == scheduler.full_packet)
        })
    };
    let [up, down] = largest(SITE);
    assert!(up.1 && down.1);
    let ifb = SITE.replace("inbound = \"lan\"\n", "");
    let [up, down] = largest(&ifb);
    assert!(up.1 && !down.1);
    let [up, down] = largest(&SITE.replace("in-order", "at-once"));
    assert_eq!((up, down), ((118, false), (118, false)));
}

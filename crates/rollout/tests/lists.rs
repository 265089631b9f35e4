// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of circuits in a domain file: all mistakes of all files are reported in one run, and each
//! router gets its part.

use std::fs;
use std::path::Path;
use weirgate_circuits::Direction;
use weirgate_circuits::kept::{Kept, Ports, compared};
use weirgate_console::exit::Failure;
use weirgate_domain::Domain;
use weirgate_rollout::circuits::lists;
use weirgate_rollout::part::Texts;

const FOLDER: &str = "../../tests/circuits/divided";

fn parsed(text: &str) -> Domain {
    let (domain, problems) = weirgate_domain::parse(text);
    domain.unwrap_or_else(|| panic!("{problems:?}"))
}

#[test]
fn every_mistake_of_all_lists_is_told_in_one_run() {
    let path = Path::new(FOLDER).join("domain.toml");
    let text = fs::read_to_string(&path).expect("a file");
    let Err(Failure::Input(told)) = lists(&path, &text, &parsed(&text)) else {
        panic!("it is refused");
    };
    let told = told.replace(&format!("{FOLDER}/"), "");
    weirgate_testing::golden("tests/circuits/divided.txt", &format!("{told}\n"));
}

/// Returns the circuits of this domain's routers, with the files beside it.
fn made(domain: &str, files: &[(&str, &str)]) -> Texts {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let path = folder.path().join("domain.toml");
    match lists(&path, domain, &parsed(domain)) {
        Ok(lists) => lists.texts(),
        Err(failure) => panic!("{}", failure.text()),
    }
}

const NETWORK: &str = r#"{"Region": {"virtual": true, "children": {
    "North": {"downloadBandwidthMbps": 900, "uploadBandwidthMbps": 900, "children": {
        "AP": {"downloadBandwidthMbps": 300, "uploadBandwidthMbps": 100}}},
    "South": {"downloadBandwidthMbps": 800, "uploadBandwidthMbps": 800}}}}"#;

const PLANS: &str = "Plan,Download Max Mbps,Upload Max Mbps\nhome,100,20\n";

#[test]
fn each_router_has_what_is_below_its_sites() {
    let domain = r#"
        version = 1
        [circuits]
        files = ["devices.csv", "network.json", "plans.csv"]
        [router.north.circuits]
        sites = ["North"]
        access = "access0"
        core = "core0"
        rate = ["9gbit", "1gbit"]
        queues = 4
        [router.south]
        other-circuits = true
        [router.south.circuits]
        sites = ["South"]
        core = "core1"
        [router.pop.circuits]
        files = ["pop.csv", "plans.csv"]
        access = "access0"
        [router.west]
        role = "interior"
        [router.east]
        role = "interior"
        other-circuits = true
    "#;
    let devices = "Circuit ID,Parent Node,IPv4,Plan\n1,AP,192.0.2.1,home\n2,South,192.0.2.2,home\n\
                   3,North,192.0.2.3,home\n";
    let pop = "Circuit ID,IPv4,Plan\np1,198.51.100.1,home\n";
    let files = [
        ("devices.csv", devices),
        ("network.json", NETWORK),
        ("plans.csv", PLANS),
        ("pop.csv", pop),
    ];
    let texts = made(domain, &files);
    let read = |router: &str| {
        let sent = Ports::read(&texts[router]).expect("a text");
        assert_eq!(sent.only, router != "south");
        sent.lists
    };
    let ids = |kept: &Kept| {
        let ids = kept.list.circuits.iter().map(|one| one.id.clone());
        ids.collect::<Vec<_>>().join(" ")
    };
    let [(access, down), (core, up)] = &read("north")[..] else {
        panic!("two devices");
    };
    assert_eq!((&**access, &**core), ("access0", "core0"));
    assert_eq!(
        [down.direction, up.direction],
        [Direction::Down, Direction::Up]
    );
    let rates = [down, up].map(|kept| kept.link.map(|rate| rate.to_string()));
    assert_eq!(rates, [Some("9gbit".to_owned()), Some("1gbit".to_owned())]);
    assert_eq!(
        (down.queues, ids(down), &down.list),
        (Some(4), "1 3".to_owned(), &up.list)
    );
    // A router's part does not have what is above its sites.
    let sites = down.list.sites.iter();
    let sites: Vec<_> = sites.map(|site| (&*site.name, site.parent)).collect();
    assert_eq!(sites, [("North", None), ("AP", Some(0))]);
    let [(core, south)] = &read("south")[..] else {
        panic!("one device");
    };
    assert_eq!((&**core, ids(south)), ("core1", "2".to_owned()));
    assert_eq!(
        (ids(&read("pop")[0].1), south.link),
        ("p1".to_owned(), None)
    );

    // A router without circuits in the domain must have none, unless its list is its own.
    assert_eq!(read("west"), []);
    assert!(!texts.contains_key("east"));

    // Changes are reported by kind and by name, in any order.
    let mut other = down.clone();
    other.list.circuits.reverse();
    assert_eq!(compared(Some(down), &other), [] as [&str; 0]);
    other.link = None;
    other.list.circuits.pop();
    other.list.circuits[0].suspended = true;
    other.list.circuits[0].id = "new".to_owned();
    other.list.sites[1].most = None;
    assert_eq!(
        compared(Some(down), &other),
        [
            "the direction, the rate or the queues of the whole change",
            "changed sites: 1 (AP)",
            "new circuits: 1 (new)",
            "removed circuits: 2 (1, 3)",
        ]
    );
    assert_eq!(
        compared(None, down),
        [
            "there is no list",
            "new sites: 2 (AP, North)",
            "new plans: 1 (home)",
            "new circuits: 2 (1, 3)",
        ]
    );
}

#[test]
fn what_a_box_reads_is_checked() {
    for (text, part) in [
        ("", "no list of circuits for devices"),
        ("only", "no list of circuits for devices"),
        ("only\n\n", "no list of circuits for devices"),
        (
            "access0\n----\n{}\n----\nPlan\n----\nCircuit ID",
            "names no device",
        ),
        ("\n----\n{}\n----\nPlan\n----\nCircuit ID", "no device"),
        (
            "a b c\n----\n{}\n----\nPlan\n----\nCircuit ID",
            "no list of circuits",
        ),
    ] {
        let why = Ports::read(text).expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
    }
    let empty = Ports {
        ports: Vec::new(),
        only: false,
    };
    let empty = empty.write(&weirgate_circuits::List::default());
    let of = |heads: &str| Ports::read(&[heads, &*empty].concat());
    let head = "circuits 1 down 0 0";
    assert!(of(&format!("a {head}")).is_ok());
    let why = of(&format!("a {head}\na {head}")).expect_err("twice");
    assert!(why.contains("twice"), "{why}");
    let many: Vec<String> = (0..17).map(|one| format!("a{one} {head}")).collect();
    let why = of(&many.join("\n")).expect_err("too many");
    assert!(why.contains("more than 16"), "{why}");
}

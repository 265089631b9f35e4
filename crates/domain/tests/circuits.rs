// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routers with circuits in a domain file.

use weirgate_domain::{CircuitsOf, check, parse, router_policies};

const ALONE: &str = r#"version = 1
[circuits]
files = ["devices.csv"]
[router.north.circuits]
sites = ["North"]
access = "access0"
core = "core0"
rate = "9gbit"
"#;

/// Returns the first error, with line and column.
fn refused(text: &str) -> String {
    let (domain, problems) = parse(text);
    assert!(domain.is_none(), "{text}");
    let first = problems.first().expect("a problem");
    let (line, column) = first.line_column(text);
    format!("{line}:{column} {} {}", first.code, first.message)
}

#[test]
fn routers_may_have_circuits_alone() {
    let (domain, problems) = parse(ALONE);
    assert_eq!(problems, []);
    let domain = domain.expect("a domain");
    let own = domain.routers["north"].circuits.as_ref().expect("circuits");
    assert!(matches!(&own.of, CircuitsOf::Sites(sites) if sites[0].value == "North"));
    let check = check(&domain);
    assert_eq!((check.findings.len(), check.ports.len()), (0, 0));
    // No plan is made for a router with circuits, so the router's own policy stays.
    assert!(router_policies(&domain, &check).is_empty());
    // A port needs classes, and a router without circuits a role.
    let more = format!("{ALONE}[router.south]\n[class.all]\nbehaviour = \"DF\"\nshare = \"1%\"\n");
    let (_, problems) = parse(&more);
    let missing: Vec<&str> = problems.iter().map(|one| &*one.message).collect();
    assert_eq!(
        missing,
        ["`customer` is missing", "`role` is missing in `south`"]
    );
}

#[test]
fn what_is_wrong_has_its_place() {
    let with = |from: &str, to: &str| {
        assert!(ALONE.contains(from), "{from}");
        refused(&ALONE.replace(from, to))
    };
    let sites = "sites = [\"North\"]\n";
    for (from, to, told) in [
        (sites, "", "4:1 N109 neither `files` nor `sites` is there"),
        (sites, "sites = []\n", "5:1 N105 the list `sites` is empty"),
        (
            sites,
            "sites = [\"North\"]\nfiles = [\"a.csv\"]\n",
            "5:1 N109 both `files` and `sites` are there",
        ),
        (
            sites,
            "files = [\"a.csv\"]\n",
            "3:10 N109 no router has a part of this list",
        ),
        (
            "files = [\"devices.csv\"]\n",
            "",
            "2:1 D002 `files` is missing in `circuits`",
        ),
        (
            "[circuits]\nfiles = [\"devices.csv\"]\n",
            "",
            "2:1 N104 there is no list that these sites are of",
        ),
        (
            "core0",
            "access0",
            "7:8 N102 device `access0` of router `north` is used already",
        ),
        (
            "access0",
            "a/0",
            "6:10 N102 `a/0` cannot be a device's name",
        ),
        (
            "access = \"access0\"\ncore = \"core0\"\n",
            "",
            "4:1 N109 the circuits have neither `access` nor `core`",
        ),
    ] {
        assert_eq!(with(from, to), told);
    }
}

#[test]
fn a_device_has_circuits_or_a_port() {
    let mixed = r#"version = 1
[class.rest]
behaviour = "DF"
share = "60%"
[router.west]
role = "boundary"
[router.west.circuits]
files = ["west.csv"]
access = "alfa0"
[customer.alfa]
router = "west"
device = "alfa0"
rate = "10mbit"
"#;
    let told = "9:10 N102 device `alfa0` of router `west` is used already";
    assert_eq!(refused(mixed), told);
    let (domain, problems) = parse(&mixed.replace("access = \"alfa0\"", "access = \"access0\""));
    assert!(domain.is_some(), "{problems:?}");
}

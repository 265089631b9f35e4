// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests files of links: their meaning, and their mistakes.

#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use weirgate_links::{Links, Use, parse, routing};
use weirgate_state::{IpVersion, LinkPath, Marking, Routing};

const TWO: &str = r#"
version = 1
use = "balance"

[health]
every = "250ms"
silence = "1500ms"

[[link]]
name = "fibre"
device = "wan0"
gateway = ["192.0.2.1", "2001:db8::1"]
weight = 3
probe = "192.0.2.9"

[[link]]
name = "lte"
device = "wan1"
gateway = "198.51.100.1"

[[rule]]
from = "10.0.2.0/24"
use = ["lte", "fibre"]
"#;

fn links(text: &str) -> Links {
    let (links, problems) = parse(text);
    assert!(problems.is_empty(), "{problems:?}");
    links.unwrap()
}

/// Returns paths where each device's next hops are those of the file.
fn paths(links: &Links) -> Vec<LinkPath> {
    let hops = |gateways: &[std::net::IpAddr]| {
        let version = |one: &std::net::IpAddr| {
            if one.is_ipv4() {
                IpVersion::V4
            } else {
                IpVersion::V6
            }
        };
        gateways
            .iter()
            .map(|one| (version(one), Some(*one)))
            .collect::<BTreeMap<_, _>>()
    };
    let path = |link: &weirgate_links::Link| LinkPath {
        index: None,
        up: true,
        running: true,
        hops: hops(&link.gateways),
        addresses: BTreeSet::new(),
    };
    links.links.iter().map(path).collect()
}

fn text(routing: &Routing) -> Vec<String> {
    let rules = routing.rules.iter().map(ToString::to_string);
    rules
        .chain(routing.routes.iter().map(ToString::to_string))
        .collect()
}

#[test]
fn both_links_up() {
    let links = links(TWO);
    assert_eq!(
        (links.usage, links.links[0].weight, links.links[1].weight),
        (Use::Balance, 3, 1)
    );
    let wanted = routing(&links, &[true, true], &paths(&links));
    assert_eq!(
        text(&wanted),
        [
            "ip -4 rule pref 7700 lookup 254 suppress_prefixlength 0",
            "ip -6 rule pref 7700 lookup 254 suppress_prefixlength 0",
            "ip -4 rule pref 7710 oif wan0 lookup 7701",
            "ip -6 rule pref 7710 oif wan0 lookup 7701",
            "ip -4 rule pref 7711 oif wan1 lookup 7702",
            "ip -4 rule pref 7720 fwmark 0x100/0xf00 lookup 7701",
            "ip -6 rule pref 7720 fwmark 0x100/0xf00 lookup 7701",
            "ip -4 rule pref 7721 fwmark 0x200/0xf00 lookup 7702",
            "ip -4 rule pref 7730 lookup 7701",
            "ip -6 rule pref 7730 lookup 7701",
            "ip -4 route default via 192.0.2.1 dev wan0 table 7701",
            "ip -6 route default via 2001:db8::1 dev wan0 table 7701",
            "ip -4 route default via 198.51.100.1 dev wan1 table 7702",
        ]
    );
    assert_eq!(
        wanted.marks.unwrap().lines(),
        [
            "prerouting: iifname wan0 ct mark & 0xf00 == 0 set ct mark 0x100",
            "prerouting: iifname wan0 accept",
            "prerouting: iifname wan1 ct mark & 0xf00 == 0 set ct mark 0x200",
            "prerouting: iifname wan1 accept",
            "prerouting: ct mark & 0xf00 == 0x100 set mark 0x100 accept",
            "prerouting: ct mark & 0xf00 == 0x200 set mark 0x200 accept",
            "prerouting: from 10.0.2.0/24 mark 0x200",
            // The second link has no path for IPv6.
            "prerouting: from 0.0.0.0/0 3/4 mark 0x100",
            "prerouting: from 0.0.0.0/0 mark 0x200",
            "output: ct mark & 0xf00 == 0x100 set mark 0x100 accept",
            "output: ct mark & 0xf00 == 0x200 set mark 0x200 accept",
            "postrouting: oifname wan0 ct mark & 0xf00 == 0 set ct mark 0x100",
            "postrouting: oifname wan1 ct mark & 0xf00 == 0 set ct mark 0x200",
        ]
    );
}

#[test]
fn the_first_link_is_given_up() {
    let links = links(TWO);
    let wanted = routing(&links, &[false, true], &paths(&links));
    // Its probes still leave through it, and nothing else. IPv6 has no other path.
    let rules: Vec<String> = wanted.rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        rules,
        [
            "ip -4 rule pref 7700 lookup 254 suppress_prefixlength 0",
            "ip -6 rule pref 7700 lookup 254 suppress_prefixlength 0",
            "ip -4 rule pref 7710 oif wan0 lookup 7701",
            "ip -6 rule pref 7710 oif wan0 lookup 7701",
            "ip -4 rule pref 7711 oif wan1 lookup 7702",
            "ip -4 rule pref 7721 fwmark 0x200/0xf00 lookup 7702",
            "ip -4 rule pref 7730 lookup 7702",
        ]
    );
    // With one link there is nothing to distribute.
    assert!(
        !wanted
            .marks
            .unwrap()
            .lines()
            .iter()
            .any(|line| line.contains("3/4"))
    );
}

#[test]
fn a_device_that_is_gone_has_no_rule() {
    let links = links(TWO);
    let mut paths = paths(&links);
    paths[1].up = false;
    let wanted = routing(&links, &[true, true], &paths);
    assert!(text(&wanted).iter().all(|line| !line.contains("wan1")));
    paths[0].up = false;
    let nothing = routing(&links, &[true, true], &paths);
    assert!(nothing.rules.is_empty() && nothing.routes.is_empty());
}

/// A rule with protocols and ports becomes one for each combination. Ports without a protocol are
/// those of TCP and UDP.
#[test]
fn a_rule_by_port() {
    let rule = |fields: &str| {
        let links = links(&format!("{TWO}\n[[rule]]\n{fields}\nuse = \"fibre\"\n"));
        let wanted = routing(&links, &[true, true], &paths(&links));
        let marks = wanted.marks.unwrap();
        assert_eq!(Marking::of_lines(&marks.lines()), Some(marks.clone()));
        let all = marks.lines();
        let own = all.iter().filter_map(|line| {
            let line = line.strip_prefix("prerouting: ")?;
            line.strip_suffix(" mark 0x100").map(str::to_owned)
        });
        own.filter(|line| !line.starts_with("from 0.0.0.0/0") && !line.starts_with("iifname"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rule("protocol = \"udp\"\nto-port = [\"5060-5061\", 53]"),
        ["udp 5060-5061", "udp 53"]
    );
    assert_eq!(rule("to-port = 443"), ["tcp 443", "udp 443"]);
    assert_eq!(
        rule("protocol = [\"esp\", \"tcp\"]\nto = \"203.0.113.0/24\""),
        ["to 203.0.113.0/24 50", "to 203.0.113.0/24 tcp"]
    );
}

/// Returns the codes of the mistakes in a text.
fn codes(text: &str) -> Vec<&'static str> {
    let (links, problems) = parse(text);
    assert!(links.is_none(), "{text}");
    problems.iter().map(|problem| problem.code).collect()
}

#[test]
fn mistakes_are_told_all_at_once() {
    let text = r#"
version = 2
use = "both"
marks = "0x30"

[health]
every = "1s"
silence = "2s"

[[link]]
device = "wan0"
gateway = ["192.0.2.1", "192.0.2.2"]
probe = "224.0.0.1"

[[link]]
device = "wan0"

[[rule]]
from = "10.0.2.1/24"
use = ["lte"]
"#;
    let mut found = codes(text);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "L101", "L103", "L104", "L105", "L105", "L105", "L106", "L107", "L108"
        ]
    );
    assert_eq!(codes("version = 1\n"), ["D002"]);
    let hosts =
        "\nprobe = [\"224.0.0.1\", \"0.0.0.0\", \"192.0.2.1\", \"192.0.2.2\", \"192.0.2.3\"]\n";
    let probes = format!("version = 1\n[[link]]\ndevice = \"wan0\"{hosts}");
    assert_eq!(codes(&probes), ["L105", "L105", "L105"]);
    let rule = |fields: &str| codes(&format!("{TWO}\n[[rule]]\n{fields}\nuse = \"fibre\"\n"));
    assert_eq!(
        rule("protocol = \"tpc\"\nto-port = [0, \"9-8\"]"),
        ["L109", "L110", "L110"]
    );
    assert_eq!(rule("protocol = \"icmp\"\nto-port = 7"), ["L109"]);
    assert_eq!(
        rule("protocol = \"icmpv6\"\nfrom = \"10.0.0.0/8\""),
        ["L109"]
    );
    assert_eq!(
        rule("protocol = \"icmp\"\nto = \"2001:db8::/32\""),
        ["L109"]
    );
    let some = (1..17).map(|port| port.to_string()).collect::<Vec<_>>();
    let ports = some.join(", ");
    assert_eq!(
        rule(&format!(
            "protocol = [\"tcp\", \"udp\", \"sctp\"]\nto-port = [{ports}]"
        )),
        ["L102"]
    );
    let many = (1..18).map(|port| port.to_string()).collect::<Vec<_>>();
    let ports = many.join(", ");
    let one = format!("protocol = \"tcp\"\nto-port = [{ports}]");
    assert_eq!(rule(&one), ["L102"]);
    let nine = "[[link]]\ndevice = \"a\"\n".repeat(9);
    assert!(codes(&format!("version = 1\n{nine}")).contains(&"L102"));
}

proptest! {
    /// Any text is parsed without a panic.
    #[test]
    fn any_text_is_harmless(text in "[\\[\\]a-z0-9.=\" \n/x-]{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("version = 1\n[[link]]\ndevice = \"a\"\n{text}"));
    }
}

/// The parts that the guide shows form a valid file.
#[test]
fn the_guide_shows_a_file_of_links() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/guides/several-links.md"
    );
    let page = fs::read_to_string(page).unwrap();
    let pieces = page.split("```toml links\n").skip(1);
    let pieces = pieces.map(|piece| piece.split("```").next().unwrap());
    let shown = links(&pieces.collect::<String>());
    assert_eq!((shown.links.len(), shown.rules.len()), (2, 2));
}

/// Returns the messages and hints of the mistakes in a text.
fn told(text: &str) -> Vec<String> {
    let told = parse(text).1.into_iter();
    told.map(|one| format!("{}; {}", one.message, one.hint))
        .collect()
}

#[test]
fn advice_on_times_does_not_contradict_their_ranges() {
    const LINK: &str = "[[link]]\ndevice = \"wan0\"\n";
    let of = |times: &str| told(&format!("version = 1\n[health]\n{times}\n{LINK}"));
    // Four times a wrong `every` would be more than the longest silence.
    assert_eq!(
        of("every = \"20min\"\nsilence = \"10s\""),
        ["`every` is out of range; write a time from 100ms to 1min"]
    );
    assert_eq!(
        of("every = \"100ms\"\nsilence = \"200ms\""),
        ["`silence` is out of range; write a time from 400ms to 1h"]
    );
    assert_eq!(
        of("every = \"1s\"\nsilence = \"3s\""),
        ["`silence` is 3s, shorter than four times `every`; write `silence = \"4s\"` or more"]
    );
    let unstated = of("every = \"5s\"").join("\n");
    assert!(unstated.contains(" by default, shorter than"), "{unstated}");
}

#[test]
fn a_rule_that_names_no_link_is_told_so() {
    let text = format!("{TWO}\n[[rule]]\nuse = []\n");
    let told = told(&text);
    assert!(told[0].starts_with("`use` names no link; "), "{told:?}");
    assert_eq!(codes(&text), ["L107"]);
    assert_eq!(codes(&format!("{TWO}\n[[rule]]\n")), ["D002"]);
    // Another type is one mistake, not also a missing field.
    assert_eq!(codes(&format!("{TWO}\n[[rule]]\nuse = true\n")), ["D004"]);
}

/// A link without a path for an IP version is not chosen for its connections, nor balanced over.
#[test]
fn a_rule_takes_the_first_link_that_has_the_version() {
    let links = links(&format!(
        "{TWO}\n[[rule]]\nprotocol = \"tcp\"\nto-port = 443\nuse = [\"lte\", \"fibre\"]\n"
    ));
    let wanted = routing(&links, &[true, true], &paths(&links));
    let choices = wanted.marks.unwrap().choices;
    let shown = choices
        .iter()
        .map(|choice| (choice.of.to_string(), choice.links.clone()));
    let [fibre, lte] = [0, 1].map(|number| links.mark(number));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("from 10.0.2.0/24 ".to_owned(), vec![(lte, 1)]),
            ("from 0.0.0.0/0 tcp 443 ".to_owned(), vec![(lte, 1)]),
            ("from ::/0 tcp 443 ".to_owned(), vec![(fibre, 1)]),
            ("from 0.0.0.0/0 ".to_owned(), vec![(fibre, 3), (lte, 1)]),
        ]
    );
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packets beside every file of services: explain and the kernel put them into the expected
//! class, with IPv4 and IPv6, in both directions.

use crate::router::{Router, in_namespace, path};
use std::time::Instant;
use weirgate_compile::compile;
use weirgate_explain::{Direction, PacketLine, Simulator, parse_line};
use weirgate_state::{Capabilities, State, Table};

const SITE: &str = r#"version = 1
link = { device = "wan", lan = "lan", up = "10mbit", down = "50mbit", inbound = "lan", layer = "raw" }
[[class]]
name = "hit"
share = "50%"
[[class]]
name = "rest"
share = "50%"
default = true
[[rule]]
class = "hit"
"#;

/// Returns a policy with a class for a service's packets, and one for others.
pub fn state(conditions: &str) -> State {
    let source = format!("{SITE}{conditions}\n");
    let (policy, problems) = weirgate_policy::parse(&source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
    compile(&policy, &Capabilities::all()).0.unwrap()
}

/// The compiler's reason of the default class's rule.
const NO_RULE: &str = "what no rule matches";

/// Returns the test's name of a class; without a rule it is the rest.
pub fn name(tables: &[Table], class: Option<weirgate_units::Handle>) -> &'static str {
    let rules = tables.iter().flat_map(|table| &table.chains);
    let mut rules = rules.flat_map(|chain| &chain.rules);
    let rest = rules.any(|rule| rule.class() == class && rule.origin.reason == NO_RULE);
    match class {
        Some(_) if rest => "rest",
        Some(_) => "hit",
        None => "-",
    }
}

/// Returns the packets of each service in a file.
fn read(text: &str) -> Vec<(String, Vec<(usize, PacketLine)>)> {
    let mut found: Vec<(String, Vec<(usize, PacketLine)>)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(service) = line.strip_prefix("# service: ") {
            found.push((service.to_owned(), Vec::new()));
        }
        let parsed = parse_line(line).unwrap_or_else(|wrong| panic!("{index}: {wrong:?}"));
        if let Some(parsed) = parsed {
            found.last_mut().unwrap().1.push((index + 1, parsed));
        }
    }
    found
}

#[test]
fn packets_of_every_service_get_the_class_expected_of_them() {
    let folder = weirgate_testing::root().join("policies/services");
    let mut files = 0;
    let mut packets = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let Some(stem) = file.file_stem().filter(|_| file.extension().is_some()) else {
            continue;
        };
        let stem = stem.to_string_lossy().into_owned();
        let sequences = folder.join("tests").join(format!("{stem}.packets"));
        let text = std::fs::read_to_string(&sequences)
            .unwrap_or_else(|error| panic!("{}: {error}", sequences.display()));
        files += 1;
        for (service, lines) in read(&text) {
            assert!(!lines.is_empty(), "{stem}: {service}");
            packets += lines.len();
            let place = format!("{stem}.packets, service {service}");
            // Further conditions of the rule, such as keeping its decision.
            let (service, more) = service.split_once(' ').unwrap_or((&service, ""));
            let conditions = format!("service = \"{service}\"\n{more}");
            in_namespace(move || check(&place, &conditions, &lines));
        }
    }
    assert!(files >= 14, "{files} files");
    println!("{files} files, {packets} lines");
}

/// SYN limits (requirements A24): in total and for a host, as the rate of a rule with services of
/// the library.
const LIMITS: [(&str, &str); 6] = [
    (
        "service = \"tcp-syn\"\nrate = { within = \"20/min\", burst = 4, per = \"all\" }",
        "up tcp 192.168.0.2:40000 > 203.0.113.6:25 syn x 2 => hit
         up tcp [2001:db8:1::2]:40000 > [2001:db8:9::1]:25 syn x 2 => hit
         up tcp 192.168.0.3:40000 > 203.0.113.7:25 syn x 5 => rest
         up tcp [2001:db8:1::3]:40000 > [2001:db8:9::1]:25 syn => rest
         down tcp 203.0.113.6:40000 > 192.168.0.2:80 syn x 4 => hit
         down tcp [2001:db8:9::1]:40000 > [2001:db8:1::2]:80 syn => rest
         down tcp 203.0.113.6:80 > 192.168.0.2:40000 ack => rest",
    ),
    (
        "service = \"tcp-syn\"\nport = [80, 22]\n\
         rate = { within = \"10/min\", burst = 2, per = \"all\" }",
        "up tcp 192.168.0.2:40000 > 203.0.113.6:25 syn x 3 => rest
         up tcp 192.168.0.2:40000 > 203.0.113.6:80 syn x 2 => hit
         up tcp 192.168.0.2:40001 > 203.0.113.6:22 syn => rest
         down tcp [2001:db8:9::1]:40000 > [2001:db8:1::2]:22 syn x 2 => hit
         down tcp [2001:db8:9::1]:40000 > [2001:db8:1::2]:80 syn => rest",
    ),
    (
        "service = \"tcp-synack\"\nrate = { within = \"20/min\", burst = 3, per = \"all\" }",
        "up tcp 192.168.0.2:80 > 203.0.113.6:40000 syn,ack x 3 => hit
         up tcp [2001:db8:1::2]:80 > [2001:db8:9::1]:40000 syn,ack => rest
         down tcp 203.0.113.6:80 > 192.168.0.2:40000 syn,ack x 3 => hit
         down tcp [2001:db8:9::1]:80 > [2001:db8:1::2]:40000 syn,ack => rest
         up tcp 192.168.0.2:80 > 203.0.113.6:40000 syn => rest",
    ),
    (
        "service = \"tcp-syn\"\nrate = { within = \"4/min\", burst = 4, per = \"local\" }",
        "up tcp 192.168.0.2:40000 > 203.0.113.6:25 syn x 4 => hit
         up tcp 192.168.0.2:40000 > 203.0.113.7:25 syn => rest
         up tcp 192.168.0.3:40000 > 203.0.113.6:25 syn x 4 => hit
         up tcp [2001:db8:1::2]:40000 > [2001:db8:9::1]:25 syn x 4 => hit
         up tcp [2001:db8:1::2]:40000 > [2001:db8:9::2]:25 syn => rest
         down tcp 203.0.113.6:40000 > 192.168.0.2:80 syn x 4 => hit
         down tcp 203.0.113.7:40000 > 192.168.0.2:80 syn => rest",
    ),
    (
        "service = \"tcp-synack\"\nrate = { within = \"4/min\", burst = 4, per = \"local\" }",
        "up tcp 192.168.0.2:80 > 203.0.113.6:40000 syn,ack x 3 => hit
         up tcp 192.168.0.2:25 > 203.0.113.7:40000 syn,ack => hit
         up tcp 192.168.0.2:80 > 203.0.113.8:40000 syn,ack => rest
         up tcp 192.168.0.3:80 > 203.0.113.6:40000 syn,ack x 4 => hit
         up tcp [2001:db8:1::2]:80 > [2001:db8:9::1]:40000 syn,ack x 4 => hit
         up tcp [2001:db8:1::2]:80 > [2001:db8:9::2]:40000 syn,ack => rest
         up tcp 192.168.0.3:40001 > 203.0.113.6:80 syn => rest
         down tcp 203.0.113.6:80 > 192.168.0.2:40000 syn,ack x 4 => hit
         down tcp 203.0.113.7:80 > 192.168.0.2:40000 syn,ack => rest",
    ),
    (
        "service = \"tcp-syn\"\nrate = { within = \"4/min\", burst = 4, per = \"remote\" }",
        "up tcp 192.168.0.2:40000 > 203.0.113.6:25 syn x 4 => hit
         up tcp 192.168.0.3:40000 > 203.0.113.6:25 syn => rest
         up tcp 192.168.0.3:40000 > 203.0.113.7:25 syn x 4 => hit
         down tcp [2001:db8:9::1]:40000 > [2001:db8:1::2]:80 syn x 4 => hit
         down tcp [2001:db8:9::1]:40000 > [2001:db8:1::3]:80 syn => rest
         down tcp [2001:db8:9::2]:40000 > [2001:db8:1::3]:80 syn => hit",
    ),
];

#[test]
fn syn_limits_hold_for_all_and_for_each_host() {
    for (conditions, text) in LIMITS {
        let lines: Vec<(usize, PacketLine)> = text
            .lines()
            .zip(1..)
            .map(|(line, number)| (number, parse_line(line).unwrap().unwrap()))
            .collect();
        in_namespace(move || check(conditions, conditions, &lines));
    }
}

fn check(place: &str, conditions: &str, lines: &[(usize, PacketLine)]) {
    let state = state(conditions);
    let router = Router::with(&state.tables, &state.hooks);
    classified(&router, &state, place, lines);
    // A script cannot include a program for payloads.
    if state.hooks.is_empty() {
        let lines = lines.to_vec();
        let place = format!("script: {place}");
        in_namespace(move || {
            let router = Router::exported(&state.tables);
            classified(&router, &state, &place, &lines);
        });
    }
}

fn classified(router: &Router, state: &State, place: &str, lines: &[(usize, PacketLine)]) {
    let State { tables, hooks, .. } = state;
    let mut simulator = Simulator::new(tables).with_hooks(hooks);
    let start = Instant::now();
    for (number, line) in lines {
        let up = line.direction == Some(Direction::Up);
        for _ in 0..line.repeat.0 {
            let (seen, before, _) = router.pass(up, &[&line.packet]);
            let now = (before - start).as_nanos() as u64;
            let fate = simulator.pass(line.packet.clone(), &path(up), now, None);
            let own = fate.passes.iter().rev().find_map(|pass| pass.class);
            let kernel = seen.and_then(|seen| seen.class);
            let expected = line.expected.as_deref().unwrap();
            assert_eq!(
                name(tables, own),
                expected,
                "explain: {place}, line {number}"
            );
            assert_eq!(
                name(tables, kernel),
                expected,
                "kernel: {place}, line {number}"
            );
        }
    }
}

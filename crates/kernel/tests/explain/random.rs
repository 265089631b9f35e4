// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For any policy and packets, explain and the kernel agree on every packet's class and code point,
//! and on every rule's counter.

use crate::draw::{CLASSES, Drawn, sequence};
use crate::router::{Router, in_namespace, path};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use weirgate_compile::compile;
use weirgate_explain::{Fate, Packet, Simulator, Unknown};
use weirgate_state::{Capabilities, Content, DeviceName, HookPrograms, IpVersion, Key, Table};

/// The number of sequences for a policy: one router gets them all, so that its state persists.
const SEQUENCES: usize = 50;

const SITE: &str = r#"version = 1
link = { device = "wan", lan = "lan", up = "10mbit", down = "50mbit", INBOUND, layer = "raw" }
"#;

/// The rest of the group besides [`CLASSES`], and another group.
const GROUPS: &str = r#"macs = ["02:00:00:00:00:08", "02:00:5e:10:00:02"]
[group.n]
names = ["a.example"]
"#;

/// Conditions and effects, which can be combined.
const PARTS: [&str; 54] = [
    "protocol = [\"tcp\", \"udp\"]",
    "protocol = \"udp\"",
    "protocol = \"tcp\"",
    "protocol = [\"esp\", \"gre\"]",
    "local-port = [22, \"5000-5010\"]",
    "remote-port = \"@g\"",
    "port = [80, 443, 53]",
    "port = \"1-1030\"",
    "local-address = \"@g\"",
    "remote-address = [\"203.0.113.6/31\", \"2001:db8:9::1\"]",
    "remote-address = \"@n\"",
    "not = { remote-address = \"@n\" }",
    "dscp = [\"EF\", \"CS1\"]",
    "tos = \"minimize-delay\"",
    "length = [\"0-128\", \"600-700\"]",
    "length = \"0-52\"",
    "service = [\"ssh\", \"dns\"]",
    "service = \"web\"",
    "service = [\"tcp-ack\", \"ping\"]",
    "service = \"tcp-handshake\"",
    "service = [\"vpn\", \"voice\", \"p2p\"]",
    "tcp-flags = \"syn/syn,ack,rst,fin\"",
    "pure-ack = true",
    "fragment = \"later\"",
    "fragment = \"later\"",
    "icmp-type = [\"echo-request\", \"destination-unreachable\"]",
    "local-mac = \"@g\"",
    "interface = \"lan\"",
    "from = \"forwarded\"",
    "from = \"router\"",
    "mark = \"0x10/0xf0\"",
    "not = { local-address = \"@g\", remote-port = 25, dscp = \"LE\" }",
    "not = { protocol = \"tcp\", port = 80 }",
    "keep = true",
    "keep = true",
    "payload = \"bittorrent\"",
    "payload = \"edonkey\"",
    "payload = [\"gnutella\", \"directconnect\"]",
    "service = \"p2p-payload\"",
    "final = true",
    "set-dscp = \"AF41\"",
    "rate = { over = \"20/s\", burst = 3 }",
    "rate = { within = \"9kB/s\", per = \"connection\" }",
    "rate = { over = \"9/min\", per = \"all\" }",
    "rate = { over = \"5/s\", per = \"remote\" }",
    "rate = { within = \"2/min\", per = \"local\", burst = 2 }",
    "connections = { over = 2, per = \"local\" }",
    "connections = { over = 3, per = \"remote\" }",
    "connection = { state = [\"new\", \"related\"] }",
    "connection = { state = \"established\" }",
    "connection = { state = \"invalid\" }",
    "connection = { bytes-over = \"1kB\" }",
    "connection = { packets-over = 3 }",
    "connection = { packets-over = 2, mean-size = \"0-300\" }",
];

/// Returns parts of classes and limits for the hosts of a group, and a class whose delay requires
/// small segments.
fn parts(variant: usize) -> (&'static str, &'static str) {
    let share = "[[share]]\ngroup = \"g\"\nshare = \"30%\"\nclasses = [\"good\", \"rest\"]\n";
    let cap = "[[cap]]\ngroup = \"g\"\nclass = \"bad\"\nup = \"200kbit\"\ndown = \"1mbit\"\n";
    let both = "[[share]]\ngroup = \"g\"\nshare = \"30%\"\nclasses = [\"good\"]\n\
                [[cap]]\ngroup = \"g\"\nclass = \"bad\"\nup = \"200kbit\"\n";
    match variant % 7 {
        1 => (share, ""),
        3 => (cap, ""),
        5 => (both, "delay = \"10ms\"\n"),
        6 => ("", "delay = \"10ms\"\n"),
        _ => ("", ""),
    }
}

/// Returns a policy whose rules have a few of the parts each.
fn policy(rules: &[(Vec<usize>, bool, u8)], variant: usize) -> String {
    let inbound = ["inbound = \"lan\"", "inbound = \"ifb\""][variant % 2];
    let mut text = String::new();
    if variant.is_multiple_of(3) {
        text += "final = false\n";
    }
    text += &SITE.replace("INBOUND", inbound);
    text += CLASSES;
    text += GROUPS;
    if variant % 4 == 1 {
        text += "[ack]\nreserve = true\n";
    }
    match variant % 5 {
        1 => text += "[dscp]\nwash = \"both\"\nexcept = [\"NQB\"]\n",
        2 => text += "[dscp]\nmap = { CS1 = \"LE\", LE = \"CS3\" }\n",
        3 => text += "[dscp]\ndistrust = \"down\"\n",
        _ => {}
    }
    let (shares, delay) = parts(variant);
    text += shares;
    if !delay.is_empty() {
        text = text.replace(
            "\"10mbit\", down = \"50mbit\"",
            "\"1mbit\", down = \"5mbit\"",
        );
        text = text.replace("priority = 0\n", &("priority = 0\n".to_owned() + delay));
    }
    let body = text.replacen("version = 1\n", "", 1);
    let mut text = format!("version = 1\n{body}");
    for (index, (parts, set, class)) in rules.iter().enumerate() {
        let mut keys: Vec<&str> = Vec::new();
        let mut body = String::new();
        for part in parts {
            let part = PARTS[*part];
            let key = part.split(' ').next().unwrap_or_default();
            let counts = |key: &str| key == "rate" || key == "connections";
            if keys.contains(&key) || keys.iter().any(|k| counts(k) && counts(key)) {
                continue;
            }
            keys.push(key);
            body = body + part + "\n";
        }
        if body.contains("payload") && !keys.contains(&"keep") {
            body += "keep = true\n";
        }
        let class = ["first", "good", "bad", "rest"][usize::from(*class % 4)];
        let head = if *set {
            format!("[[ruleset]]\nname = \"set-{index}\"\n[[ruleset.rule]]\n")
        } else {
            "[[rule]]\n".to_owned()
        };
        let rule = format!("{head}class = \"{class}\"\n{body}");
        // Check each rule alone with the site, so that a contradiction affects only that rule.
        let errors = |text: &str| {
            let (_, problems) = weirgate_policy::parse(text);
            problems
                .iter()
                .any(|one| one.severity == weirgate_document::Severity::Error)
        };
        if !errors(&(text.clone() + &rule)) {
            text += &rule;
        }
    }
    text
}

/// Returns the tables of a policy, and the programs that they need for payloads.
fn state(source: &str) -> (Vec<Table>, Places) {
    let (policy, problems) = weirgate_policy::parse(source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}\n{source}"));
    let (state, problems) = compile(&policy, &Capabilities::all());
    let mut state = state.unwrap_or_else(|| panic!("{problems:?}\n{source}"));
    // Sets of names as if they were resolved.
    for set in state.tables.iter_mut().flat_map(|table| &mut table.sets) {
        if let Content::Refreshed(names) = &mut set.content {
            names.found = match set.key {
                Key::Address(IpVersion::V4) => vec![0xcb00_7107],
                _ => vec![0x2001_0db8_0009_0000_0000_0000_0000_0002],
            };
        }
    }
    // Some kernels that run these tests cannot restore marks.
    for place in state.hooks.values_mut() {
        place.restore = None;
    }
    state.hooks.retain(|_, place| !place.is_bare());
    (state.tables, state.hooks)
}

type Places = BTreeMap<DeviceName, HookPrograms>;

/// The results of a policy's run.
#[derive(Debug, Default)]
struct Tally {
    sequences: usize,
    packets: usize,
    /// Sequences that were not run: an earlier rate limit was too close to decide, or the kernel
    /// may or may not have removed an ended connection from a count.
    left_out: (usize, usize),
    /// Packets that were not forwarded.
    lost: usize,
    /// Packets whose class was not the default.
    classes: BTreeMap<String, usize>,
    /// Packets of flows with a recognised payload.
    betrayed: usize,
}

/// Returns the class of a packet when it leaves the last chain in the simulator.
fn class(fate: &Fate) -> Option<weirgate_units::Handle> {
    fate.passes.iter().rev().find_map(|pass| pass.class)
}

/// Returns the part of a packet after the IP headers that rules may change, without checksums;
/// `None` for a fragment.
fn behind(packet: &Packet) -> Option<Vec<u8>> {
    let headers = packet.headers();
    if headers.protocol != 6 || headers.more || headers.fragment != 0 {
        return None;
    }
    let mut bytes = packet
        .bytes
        .get(headers.transport..packet.ip_length())?
        .to_vec();
    bytes.get_mut(16..18)?.fill(0);
    Some(bytes)
}

fn counts_connections(tables: &[Table]) -> bool {
    let sets = tables.iter().flat_map(|table| &table.sets);
    sets.into_iter()
        .any(|set| matches!(set.content, Content::Meter { timeout: None, .. }))
}

/// Returns the counters that differ, as text.
fn counters_differ(router: &Router, simulator: &Simulator, tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        for (name, count) in router.counters(table.netdev) {
            let key = (table.netdev, name.clone());
            let own = simulator.counters().get(&key).copied().unwrap_or(0);
            if own != count {
                let _ = write!(text, "counter {name}: explain {own}, the kernel {count}; ");
            }
        }
    }
    text
}

/// Runs sequences through the kernel and the simulator. The text describes their first difference.
fn compare(
    source: &str,
    (tables, places): (&[Table], &Places),
    sequences: &[Vec<Drawn>],
) -> Result<Tally, String> {
    let router = Router::with(tables, places);
    let mut simulator = Simulator::new(tables).with_hooks(places);
    let paced = counts_connections(tables);
    let start = Instant::now();
    let mut tally = Tally::default();
    let mut jitter = Duration::from_micros(200);
    let mut log = String::new();
    for (number, sequence) in sequences.iter().enumerate() {
        let _ = writeln!(log, "sequence {number}");
        for drawn in sequence {
            let pause = drawn.pause.max(if paced { 5 } else { 0 });
            if pause > 0 {
                std::thread::sleep(Duration::from_millis(pause));
            }
            let parts: Vec<_> = drawn.parts.iter().collect();
            let (seen, before, after) = router.pass(drawn.up, &parts);
            jitter = jitter.max(after - before);
            let middle = before - start + (after - before) / 2;
            let now = middle.as_nanos() as u64;
            let mut fate = None;
            let (mut head, mut joined) = (None, false);
            for part in &drawn.parts {
                let one = simulator.pass(part.clone(), &path(drawn.up), now, None);
                let slack = one.passes.iter().map(|pass| pass.slack).min();
                let unsure = one
                    .passes
                    .iter()
                    .any(|pass| pass.unknown.contains(&Unknown::Collected));
                let rest = sequences.len() - number;
                if unsure {
                    tally.left_out.1 = rest;
                    return Ok(tally);
                }
                if slack.is_some_and(|slack| u128::from(slack) < 2 * jitter.as_nanos()) {
                    tally.left_out.0 = rest;
                    return Ok(tally);
                }
                joined |= one.waits;
                if part.headers().fragment == 0 {
                    head = class(&one);
                }
                // The class of the first fragment is observed first.
                let first = drawn.parts.len() == 1 || fate.is_none();
                if first || fate.as_ref().is_some_and(|f: &Fate| f.waits) {
                    fate = Some(one);
                }
            }
            let fate = fate.ok_or("no parts")?;
            // A reassembled packet keeps the class of its first fragment.
            let early = fate.passes.iter().any(|pass| pass.netdev);
            let wanted = if joined && early { head } else { class(&fate) };
            let found = seen.as_ref().and_then(|seen| seen.class);
            let dscp = fate.packet.dscp();
            let came = seen.as_ref().and_then(|seen| seen.packet.dscp());
            let _ = writeln!(
                log,
                "  {} {} x {:02x?} -> {wanted:?} {dscp:?} {:?}",
                if drawn.up { "up" } else { "down" },
                drawn.parts.len(),
                &drawn.parts[0].bytes[..drawn.parts[0].bytes.len().min(64)],
                fate.connection
            );
            let came_behind = seen.as_ref().and_then(|seen| behind(&seen.packet));
            let same = came_behind.is_none() || came_behind == behind(&fate.packet);
            if wanted != found || dscp != came || !same {
                let other = counters_differ(&router, &simulator, tables);
                return Err(format!(
                    "sequence {number} {seen:02x?}: explain says {wanted:?} {dscp:?}, the kernel {found:?} \
                     {came:?}; {other}\n{source}\n{log}\n{:#?}\n{:?}",
                    fate.passes
                        .iter()
                        .flat_map(|pass| &pass.tried)
                        .collect::<Vec<_>>(),
                    fate.connection,
                ));
            }
            tally.packets += 1;
            tally.betrayed += usize::from(fate.payload.is_some());
            tally.lost += usize::from(seen.is_none());
            let key = wanted.map_or_else(String::new, |class| class.to_string());
            *tally.classes.entry(key).or_default() += 1;
        }
        let other = counters_differ(&router, &simulator, tables);
        if !other.is_empty() {
            return Err(format!("sequence {number}: {other}\n{source}\n{log}"));
        }
        tally.sequences += 1;
    }
    Ok(tally)
}

/// Runs random policies until `sequences` sequences have been compared.
fn run(sequences: usize, seed: u8) -> Tally {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let parts = prop::collection::vec(0..PARTS.len(), 1..4);
    let rules = prop::collection::vec((parts, prop::bool::weighted(0.2), any::<u8>()), 12..13);
    let list = prop::collection::vec(sequence(), SEQUENCES..=SEQUENCES);
    let mut all = Tally::default();
    let mut variant = 0;
    while all.sequences < sequences {
        let drawn = rules.new_tree(&mut runner).unwrap().current();
        let packets = list.new_tree(&mut runner).unwrap().current();
        let source = policy(&drawn, variant);
        let (tables, places) = state(&source);
        let text = source.clone();
        let tally = in_namespace(move || compare(&text, (&tables, &places), &packets))
            .unwrap_or_else(|error| panic!("policy {variant}: {error}"));
        all.sequences += tally.sequences;
        all.packets += tally.packets;
        all.left_out.0 += tally.left_out.0;
        all.left_out.1 += tally.left_out.1;
        all.lost += tally.lost;
        all.betrayed += tally.betrayed;
        for (class, count) in tally.classes {
            *all.classes.entry(class).or_default() += count;
        }
        variant += 1;
    }
    println!("{variant} policies, {all:?}");
    all
}

/// `WEIRGATE_SEQUENCES` sets the number, for `cargo xtask explain-random`.
#[test]
fn explain_and_the_kernel_agree_on_random_sequences() {
    let wanted = std::env::var("WEIRGATE_SEQUENCES").ok();
    let count = wanted.and_then(|text| text.parse().ok()).unwrap_or(300);
    let all = run(count, 7);
    assert!(all.left_out.0 + all.left_out.1 < all.sequences, "{all:?}");
    assert!(all.classes.len() >= 4, "{all:?}");
    assert!(all.betrayed > count / 10, "{all:?}");
}

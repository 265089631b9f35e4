// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the production policy `policies/kollegiegaarden.packets` through explain and the kernel,
//! with its order, its re-marking, its rule sets and its groups. Also tests the counting of lengths
//! in the thesis.

use crate::router::{Router, in_namespace, path};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use weirgate_compile::{check_report, compile};
use weirgate_explain::{Direction, PacketLine, Simulator, parse_line};
use weirgate_policy::Policy;
use weirgate_state::Capabilities;
use weirgate_units::Handle;

/// A rate in the policy permits one more packet after this time: a slower run is a different
/// sequence.
const PATIENCE: Duration = Duration::from_millis(50);

fn read(text: &str) -> Vec<(usize, PacketLine)> {
    let numbered = text.lines().zip(1..);
    numbered
        .filter_map(|(line, number)| {
            let parsed = parse_line(line).unwrap_or_else(|wrong| panic!("{number}: {wrong:?}"));
            parsed.map(|parsed| (number, parsed))
        })
        .collect()
}

/// Returns the names of classes.
fn names(policy: &Policy) -> BTreeMap<Handle, String> {
    let report = check_report(policy);
    let classes = report
        .directions
        .into_iter()
        .flat_map(|direction| direction.classes);
    classes.map(|class| (class.id, class.name)).collect()
}

/// Sends all packets. Returns deviations, and the time since the first SYN, which rates count.
fn wrong(policy: &Policy, lines: &[(usize, PacketLine)]) -> (Vec<String>, Duration) {
    let state = compile(policy, &Capabilities::all()).0.unwrap();
    // Receive windows are written into acknowledgements, which does not change the class.
    let mut arriving = state.hooks.clone();
    for place in arriving.values_mut() {
        place.windows = None;
    }
    let router = Router::with(&state.tables, &arriving);
    let mut simulator = Simulator::new(&state.tables).with_hooks(&arriving);
    let names = names(policy);
    let name = |class: Option<Handle>| {
        let class = class.and_then(|class| names.get(&class));
        class.map_or("-", String::as_str).to_owned()
    };
    let start = Instant::now();
    let mut limits = None;
    let mut found = Vec::new();
    for (number, line) in lines {
        let up = line.direction == Some(Direction::Up);
        let syn = line.packet.bytes.get(33).is_some_and(|flags| flags & 2 > 0);
        if syn && line.packet.bytes.first() == Some(&0x45) {
            limits.get_or_insert_with(Instant::now);
        }
        for _ in 0..line.repeat.0 {
            let (seen, before, _) = router.pass(up, &[&line.packet]);
            let now = (before - start).as_nanos() as u64;
            let fate = simulator.pass(line.packet.clone(), &path(up), now, None);
            let own = name(fate.passes.iter().rev().find_map(|pass| pass.class));
            let kernel = name(seen.and_then(|seen| seen.class));
            let expected = line.expected.as_deref().unwrap();
            if own != expected || kernel != expected {
                found.push(format!(
                    "line {number}: {expected} expected, explain {own}, kernel {kernel}"
                ));
            }
        }
    }
    let took = limits.map_or(Duration::ZERO, |start| start.elapsed());
    (found, took)
}

#[test]
fn the_production_policy_classifies_as_its_packets_say() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../policies/kollegiegaarden"
    );
    let text = |kind: &str| std::fs::read_to_string(format!("{folder}.{kind}")).unwrap();
    let (policy, problems) = weirgate_policy::parse(&text("toml"));
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
    let lines = read(&text("packets"));
    assert!(lines.len() > 60);
    for _ in 0..20 {
        let (policy, lines) = (policy.clone(), lines.clone());
        let (found, took) = in_namespace(move || wrong(&policy, &lines));
        if took < PATIENCE {
            assert_eq!(found, Vec::<String>::new());
            return;
        }
    }
    panic!("the machine had no {PATIENCE:?} for the packets that rates count");
}

/// ack_extra: a rule for each length from 64 to 84 bytes, only for its counter.
#[test]
fn acknowledgements_are_counted_by_length() {
    let mut source = String::from(
        "version = 1\nfinal = false\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
         down = \"50mbit\"\ninbound = \"lan\"\nlayer = \"raw\"\n[[class]]\nname = \"ack\"\n\
         share = \"50%\"\n[[class]]\nname = \"rest\"\nshare = \"50%\"\ndefault = true\n",
    );
    for length in 64..=84 {
        let _ = write!(
            source,
            "[[rule]]\nname = \"length-{length}\"\nclass = \"ack\"\ndirection = \"up\"\n\
             protocol = \"tcp\"\ntcp-flags = \"ack/syn,ack,fin\"\nlength = {length}\n"
        );
    }
    let (policy, problems) = weirgate_policy::parse(&source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
    in_namespace(move || {
        let state = compile(&policy, &Capabilities::all()).0.unwrap();
        let router = Router::new(&state.tables);
        let names = names(&policy);
        // One packet of 60 bytes, two of 61, and so on, with both IP versions.
        for (times, length) in (60..=90).enumerate() {
            for ends in [
                "192.168.0.2:1 > 203.0.113.6:2",
                "[2001:db8:1::2]:1 > [2001:db8:9::1]:2",
            ] {
                let text = format!("up tcp {ends} ack len {length}");
                let line = parse_line(&text).unwrap().unwrap();
                for _ in 0..=times {
                    let (seen, ..) = router.pass(true, &[&line.packet]);
                    let class = seen.and_then(|seen| seen.class);
                    let class = class.and_then(|class| names.get(&class)).unwrap();
                    let expected = if (64..=84).contains(&length) {
                        "ack"
                    } else {
                        "rest"
                    };
                    assert_eq!(class, expected, "{text}");
                }
            }
        }
        let counters = router.counters(false);
        for length in 64..=84_u64 {
            // A rule's named counter counts both IP versions.
            let of_it = |name: &&String| name.starts_with(&format!("up_length_{length}"));
            let packets: u64 = counters
                .keys()
                .filter(of_it)
                .map(|name| counters[name])
                .sum();
            assert_eq!(packets, 2 * (length - 60 + 1), "{length}: {counters:?}");
        }
    });
}

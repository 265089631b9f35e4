// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of parts of classes for groups, and limits for hosts.

use super::{htb, policy};
use std::collections::BTreeSet;
use weirgate_compile::compile;
use weirgate_policy::Policy;
use weirgate_state::{Capabilities, DeviceName, Htb, State};
use weirgate_units::{Handle, Rate};

/// Returns a valid policy with divided classes: `parts` has its shares and caps.
fn divided(parts: &str) -> Policy {
    policy(&format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\ndown = \"50mbit\"\n\
         layer = \"raw\"\ninbound = \"lan\"\n\
         [group.sales]\naddresses = [\"192.0.2.0/25\", \"2001:db8:1::/48\"]\n\
         [group.boss]\naddresses = [\"192.0.2.7\"]\n\
         [group.guests]\naddresses = [\"198.51.100.0/26\", \"2001:db8:2::/62\"]\n\
         [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\nqueue = \"pfifo 20\"\n\
         [[class]]\nname = \"normal\"\nshare = \"60%\"\ndefault = true\n\
         [[class]]\nname = \"bulk\"\nshare = \"20%\"\npriority = 6\n\
         [[rule]]\nclass = \"urgent\"\nport = 22\n[[rule]]\nclass = \"bulk\"\nport = 6881\n{parts}"
    ))
}

fn inner_of(state: &State, device: &str) -> Htb {
    let device = &state.devices[&DeviceName::new(device).expect("a name")];
    let outer = htb(device.root.as_ref().expect("shaped"));
    htb(outer.classes[0].leaf.as_ref().expect("the scheduler")).clone()
}

#[test]
fn groups_have_parts_of_classes() {
    let policy = divided(
        "[[share]]\ngroup = \"boss\"\nshare = \"10%\"\nclasses = \"normal\"\n\
         [[share]]\ngroup = \"sales\"\nshare = \"40%\"\nceiling = \"5mbit\"\n",
    );
    let (state, problems) = compile(&policy, &Capabilities::all());
    assert!(problems.is_empty(), "{problems:#?}");
    let state = state.expect("compiles");
    let inner = inner_of(&state, "wan");
    let named = |text: &str| {
        let found = inner
            .classes
            .iter()
            .filter(|class| class.origin.reason.starts_with(text));
        found.collect::<Vec<_>>()
    };
    let whole = named("class normal: ")
        .into_iter()
        .find(|class| class.leaf.is_none());
    let whole = whole.expect("the whole class");
    let below: Vec<_> = inner
        .classes
        .iter()
        .filter(|class| class.parent == whole.id)
        .collect();
    assert_eq!(below.len(), 3);
    let sum: u64 = below
        .iter()
        .map(|class| class.rate.as_bits_per_second())
        .sum();
    let rate = whole.rate.as_bits_per_second();
    assert!(sum <= rate && rate - sum < 100, "{sum} of {rate}");
    let sales = named("class normal/sales")[0];
    assert_eq!(sales.ceil, Rate::kbit(5_000));
    assert_eq!(sales.rate.as_bits_per_second(), rate * 4 / 10 / 8 * 8);
    // One rule for each divided class and IP version; the boss is not in sales.
    let up = state.tables[0]
        .chains
        .iter()
        .find(|chain| chain.name == "up_end");
    let rules = &up.expect("the end").rules;
    assert_eq!(rules.len(), 7, "{rules:#?}");
    let text = state.tables[0].nft_text();
    let boss = named("class normal/boss")[0].id;
    let host = format!(
        "192.0.2.0-192.0.2.6 : {}, 192.0.2.7 : {boss}, 192.0.2.8-",
        sales.id
    );
    assert!(text.contains(&host), "{text}");
    assert!(state.tables[0].faults().is_empty());
    for class in &inner.classes {
        assert!(class.ceil >= class.rate && class.buffer.as_nanos() <= 60_000_000_000);
    }
}

#[test]
fn hosts_have_limits() {
    let caps = "[[cap]]\ngroup = \"guests\"\nclass = \"bulk\"\nup = \"1mbit\"\ndown = \"2mbit\"\n";
    let (state, problems) = compile(&divided(caps), &Capabilities::all());
    assert!(problems.is_empty(), "{problems:#?}");
    let state = state.expect("compiles");
    for (device, ceil) in [("wan", 1_000), ("lan", 2_000)] {
        let inner = inner_of(&state, device);
        let hosts = inner
            .classes
            .iter()
            .filter(|class| class.ceil == Rate::kbit(ceil));
        // 64 addresses and 4 networks of 64 bits.
        assert_eq!(hosts.clone().count(), 68);
        assert!(
            hosts
                .clone()
                .all(|class| class.leaf.is_some() && class.rate == Rate::bits_per_second(8))
        );
        let guaranteed: u64 = inner
            .classes
            .iter()
            .filter(|class| class.leaf.is_some())
            .map(|class| class.rate.as_bits_per_second())
            .sum();
        assert!(
            guaranteed
                < Rate::kbit(if device == "wan" { 8_000 } else { 40_000 }).as_bits_per_second()
        );
    }
    // Bounds of other classes include one packet of each host, if they are above.
    let plain = weirgate_compile::check_report(&divided(""));
    let capped = weirgate_compile::check_report(&divided(caps));
    for (before, after) in plain.directions.iter().zip(&capped.directions) {
        let lone = |report: &weirgate_compile::DirectionReport, name: &str| {
            let class = report.classes.iter().find(|class| class.name == name);
            class.expect("there").lone.as_ref().expect("a bound").wait
        };
        assert_eq!(lone(before, "urgent"), lone(after, "urgent"));
        assert_eq!(lone(before, "normal"), lone(after, "normal"));
        assert!(lone(before, "bulk") < lone(after, "bulk"));
    }
}

/// Conditioners and receive windows compare the class of a packet, and a host with a limit has
/// one of its own.
#[test]
fn hosts_with_limits_stay_in_their_class() {
    let with = |group: &str, rest: &str| {
        let few = "[group.few]\naddresses = [\"203.0.113.4\", \"203.0.113.5\"]\n";
        let cap = format!("[[cap]]\ngroup = \"{group}\"\nclass = \"bulk\"\nup = \"1mbit\"\n");
        compile(&divided(&format!("{few}{cap}{rest}")), &Capabilities::all())
    };
    let wan = DeviceName::new("wan").expect("a name");
    let conditioner = "[[conditioner]]\nname = \"limit\"\nat = \"leave\"\nclass = \"bulk\"\n\
        meter = \"bucket\"\nrate = \"1mbit\"\nburst = \"3kB\"\n";
    let (state, problems) = with("few", conditioner);
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let inner = inner_of(&state, "wan");
    let bulk = inner.classes.iter().filter(|class| {
        let origin = class.origin.to_string();
        class.leaf.is_some() && (origin.contains("class bulk"))
    });
    let bulk: BTreeSet<Handle> = bulk.map(|class| class.id).collect();
    assert_eq!(bulk.len(), 3);
    let leaving = state.hooks[&wan].leaving.as_ref().expect("a conditioner");
    let found = leaving.conditioners[0].classes.iter().copied();
    assert_eq!(found.collect::<BTreeSet<_>>(), bulk);
    let protect = "[receive]\nrate = \"50%\"\nprotect = [\"bulk\"]\n";
    let (state, problems) = with("few", protect);
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let windows = state.hooks[&wan].windows.as_ref().expect("windows");
    let free = windows
        .classes
        .iter()
        .filter(|(_, rate)| *rate == Rate::default());
    assert_eq!(free.map(|(id, _)| *id).collect::<BTreeSet<_>>(), bulk);
    for (rest, code) in [(conditioner, "C221"), (protect, "C219")] {
        let (state, problems) = with("guests", rest);
        assert!(state.is_none() && problems.iter().any(|one| one.code == code));
    }
}

/// Receive windows know one class of acknowledgements.
#[test]
fn hosts_with_limits_do_not_divide_acknowledgements_of_windows() {
    let policy = |cap: &str| {
        let text = format!(
            "{}[group.few]\naddresses = [\"203.0.113.4\"]\n[ack]\n\
             [receive]\nrate = \"50%\"\nprotect = [\"all\"]\n\
             [[cap]]\ngroup = \"few\"\nup = \"1mbit\"\n{cap}",
            super::SITE.replace("queue = \"cake\"\n", "")
        );
        let (_, problems) = compile(&policy(&text), &Capabilities::all());
        problems.into_iter().map(|one| one.code).collect::<Vec<_>>()
    };
    assert_eq!(policy("class = \"all\"\n"), [] as [&str; 0]);
    assert_eq!(policy(""), ["C219"]);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The printed bounds against the kit's shaper, built for this machine.

use weirgate_aqm::{Discipline, Link, Packet, Settings, Shaper, ShaperRule};
use weirgate_compile::{check_report, compile};
use weirgate_policy::{Policy, parse};
use weirgate_state::{Capabilities, DeviceName, Kit, QdiscKind};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

/// Returns the upstream shaper that a policy describes.
fn kit(policy: &Policy) -> Kit {
    let (state, problems) = compile(policy, &Capabilities::all());
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let wan = &state.devices[&DeviceName::new("wan").expect("a name")];
    match wan.root.as_ref().map(|root| &root.kind) {
        Some(QdiscKind::Kit(kit)) => kit.clone(),
        other => panic!("{other:?}"),
    }
}

/// A class has saved up a large burst, and begins to send it just before a packet of an equal
/// arrives. The packet waits for a turn of that class, not for its burst.
#[test]
fn a_large_burst_of_an_equal_takes_turns() {
    let policy = policy(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\nlayer = \"raw\"\n\
         engine = \"kit\"\n\
         [[class]]\nname = \"a\"\nshare = \"50%\"\ndefault = true\nqueue = \"pfifo 100\"\n\
         [[class]]\nname = \"b\"\nshare = \"50%\"\nqueue = \"pfifo 100\"\nburst = 30000\n\
         [[rule]]\nclass = \"b\"\ndscp = \"EF\"\n",
    );
    let report = check_report(&policy);
    let own = &report.directions[0].classes[0];
    assert_eq!(own.name, "a");
    let kit = kit(&policy);
    let link = Link {
        rate_bytes_s: kit.gate.as_bits_per_second() / 8,
        mtu_bytes: 1514,
        ..Link::default()
    };
    let tail = Settings::new(Discipline::named("droptail").expect("a discipline"));
    let classes: Vec<(ShaperRule, Settings)> = kit
        .classes
        .iter()
        .map(|class| {
            let rule = ShaperRule {
                guarantee_bytes_s: class.guarantee.as_bits_per_second() / 8,
                ceiling_bytes_s: class
                    .ceiling
                    .map_or(0, |rate| rate.as_bits_per_second() / 8),
                weight: u64::from(class.weight),
                credit_ns: class.credit.as_nanos(),
                priority: class.prio.into(),
                classid: u32::from(class.id.minor),
            };
            (rule, tail.clone())
        })
        .collect();
    let mut shaper = Shaper::new(&link, &classes, 0);
    let (a, b) = (
        shaper.classify(own.id.minor.into()),
        1 - shaper.classify(own.id.minor.into()),
    );
    let arrive = |shaper: &mut Shaper<()>, class: usize, now: u64| {
        let packet = Packet {
            arrived_ns: now,
            len: 1514,
            wire: own.largest,
            flow: class as u32,
            ecn: 0,
        };
        shaper.arrive(class, &packet, 0, ());
    };
    // So far the class was active, and its equal was not.
    for at in 0..25 {
        let now = S + at * 4 * MS;
        arrive(&mut shaper, a, now);
        assert!(shaper.depart(now).sent.is_some());
    }
    let begin = S + 100 * MS;
    for _ in 0..40 {
        arrive(&mut shaper, b, begin);
    }
    let first = shaper.depart(begin).sent;
    assert!(first.is_some_and(|(class, ..)| class == b));
    arrive(&mut shaper, a, begin);
    let mut now = begin;
    loop {
        let departure = shaper.depart(now);
        match departure.sent {
            Some((class, ..)) if class == a => break,
            Some(_) => {}
            None => now = departure.opens_ns.expect("something is queued"),
        }
    }
    let lone = own.lone.as_ref().expect("a bound");
    let waited = now - begin;
    assert!(waited <= lone.wait.as_nanos(), "{waited} ns, {lone:?}");
}

/// Above 100 Mbit/s, packets leave in groups of 0.1 ms, which a packet and the modem wait for.
#[test]
fn groups_of_fast_links_are_in_the_bounds() {
    let with = |engine: &str, up: &str| {
        let source = format!(
            "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{up}\"\n\
             layer = \"raw\"\nengine = \"{engine}\"\n\
             [[class]]\nname = \"a\"\nshare = \"100%\"\ndefault = true\n"
        );
        let up = check_report(&policy(&source)).directions.remove(0);
        let lone = up.classes[0].lone.clone().expect("a bound");
        (lone.wait.as_nanos(), up.line_extra.as_nanos())
    };
    assert_eq!(with("kit", "50mbit").0, with("htb", "50mbit").0);
    assert_eq!(with("kit", "50mbit").1, 50_000);
    let (wait, extra) = with("kit", "500mbit");
    assert_eq!((wait, extra), (with("htb", "500mbit").0 + 100_000, 150_000));
}

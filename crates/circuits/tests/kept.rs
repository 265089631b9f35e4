// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of stored lists, and of single circuits.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_circuits::kept::{Kept, gone, put};
use weirgate_circuits::{
    Asked, Circuit, Direction, File, Key, KeyKind, List, Mac, One, Pair, Plan, Prefix, Quota,
    Session, Site, Terms, Times, Vlan, read,
};
use weirgate_schedule::{Clock, Day, Schedule, hours};
use weirgate_units::{Rate, Size};

fn pair(down: u64, up: u64) -> Pair {
    Pair {
        down: Rate::kbit(down),
        up: Rate::kbit(up),
    }
}

/// Generates names with special characters of the files.
fn name() -> impl Strategy<Value = String> {
    "[a-c#,\"\\\\ü-]([a-c#,\"\\\\ü -]{0,4}[a-c#,\"\\\\ü-])?"
}

/// Returns a plan that may have bursts, hours and a quota.
fn plan(name: String, most: u64, more: u8) -> Plan {
    let is = |bit: u8| more >> bit & 1 == 1;
    let size = |bit: u8, unit: u64| Pair {
        down: Size::bytes(u64::from(is(bit)) * unit * 5 / 4),
        up: Size::bytes(u64::from(is(bit + 1)) * unit * 7),
    };
    let terms = |most: u64, bit: u8| Terms {
        least: pair(0, 1),
        most: pair(most, most + 7),
        burst: size(bit, 1_000_000),
    };
    let hours = hours("22:00-06:00").expect("hours");
    let times = Times {
        schedule: Schedule::new(&[Day::Fri, Day::Mon], &[hours], &Clock::default()),
        written: ["22:00-06:00", "fri mon", ""].map(str::to_owned),
        terms: terms(most + 1, 2),
    };
    Plan {
        name,
        terms: terms(most, 0),
        times: vec![times; usize::from(more >> 6)],
        quota: Quota {
            most: size(4, 1_000_000_000),
            beyond: None,
        },
    }
}

/// Generates lists of a few circuits below a few sites, with plans.
fn lists() -> impl Strategy<Value = List> {
    let sites = prop::collection::btree_map(name(), (any::<bool>(), any::<bool>()), 0..5);
    let plans = prop::collection::btree_map(name(), (1_u64..100_000, any::<u8>()), 0..3);
    let circuit = (
        0_usize..6,
        0_usize..4,
        1_u64..1_000_000,
        any::<(bool, u8, [bool; 4])>(),
    );
    let circuits = prop::collection::btree_map(name(), circuit, 0..8);
    (sites, plans, circuits).prop_map(|(sites, plans, circuits)| {
        let sites: Vec<Site> = sites
            .into_iter()
            .enumerate()
            .map(|(number, (name, (below, limited)))| Site {
                name,
                // At most two levels, in the order in which they are written.
                parent: number.checked_sub(1).filter(|_| below),
                most: limited.then(|| pair(10_000, 2_001)),
            })
            .collect();
        let plans: Vec<Plan> = plans
            .into_iter()
            .map(|(name, (most, more))| plan(name, most, more))
            .collect();
        let circuits = circuits.into_iter().enumerate().map(
            |(number, (id, (site, plan, most, (suspended, host, of_plan))))| {
                let number = number as u8;
                let four = std::net::Ipv4Addr::new(10, number, 0, host);
                let six = std::net::Ipv6Addr::new(0x2001, 0xdb8, number.into(), 0, 0, 0, 0, 0);
                let plan = plans.get(plan);
                let terms = plan.map(|plan| plan.terms).unwrap_or_default();
                let of_plan = of_plan.map(|own| own && plan.is_some());
                let rate = |number: usize, own: u64, plans: Rate| {
                    if of_plan[number] {
                        plans
                    } else {
                        Rate::kbit(own)
                    }
                };
                Circuit {
                    id,
                    parent: (site < sites.len()).then_some(site),
                    plan: plan.map(|plan| plan.name.clone()),
                    least: Pair {
                        down: rate(0, 1, terms.least.down),
                        up: rate(1, 0, terms.least.up),
                    },
                    most: Pair {
                        down: rate(2, most, terms.most.down),
                        up: rate(3, 12_345, terms.most.up),
                    },
                    burst: terms.burst,
                    of_plan,
                    keys: [
                        Prefix::new(four.into(), 32).map(Key::Address),
                        Prefix::new(six.into(), 48).map(Key::Address),
                        Session::new(1 + u16::from(number), None).map(Key::Session),
                        Vlan::new(100, Some(1 + u16::from(number))).map(Key::Vlan),
                        Mac::new([2, 0, 0, 0, number, host]).map(Key::Mac),
                    ]
                    .into_iter()
                    .map(|key| key.expect("a key"))
                    // Some circuits have only addresses, and some all kinds of keys.
                    .take(2 + usize::from(host % 2) * 3)
                    .collect(),
                    suspended,
                }
            },
        );
        List {
            circuits: circuits.collect(),
            sites,
            plans,
        }
    })
}

/// Returns each circuit with its site by name, in order of identifiers.
fn by_id(list: &List) -> BTreeMap<String, (Option<String>, Circuit)> {
    let site = |circuit: &Circuit| Some(list.sites[circuit.parent?].name.clone());
    let own = list.circuits.iter().map(|circuit| {
        let alone = Circuit {
            parent: None,
            ..circuit.clone()
        };
        (circuit.id.clone(), (site(circuit), alone))
    });
    own.collect()
}

proptest! {
    #[test]
    fn what_is_kept_is_the_same_list(list in lists(), up in any::<bool>(), link in 0_u64..3) {
        let kept = Kept {
            direction: if up { Direction::Up } else { Direction::Down },
            link: (link > 0).then(|| Rate::kbit(link)),
            queues: (link > 1).then_some(7),
            list,
        };
        let text = kept.write();
        let again = Kept::read(&text, "").expect("what was written");
        prop_assert_eq!(by_id(&again.list), by_id(&kept.list));
        prop_assert_eq!(&again.list.plans, &kept.list.plans);
        prop_assert_eq!((again.direction, again.link), (kept.direction, kept.link));
        prop_assert_eq!(again.queues, kept.queues);
        // Texts of versions without queues lack that field.
        if let Some(older) = text.strip_prefix("circuits 1 down 0 0\n") {
            let older = Kept::read(&format!("circuits 1 down 0\n{older}"), "").expect("a list");
            prop_assert_eq!((older.link, older.queues), (None, None));
        }
        // Each circuit is found without reading the others.
        for (id, (site, circuit)) in by_id(&kept.list) {
            let (one, plans) = Kept::circuit(&text, "", &id).expect("what was written");
            let one = one.expect("a circuit");
            prop_assert_eq!((one.site, one.circuit), (site, circuit));
            prop_assert_eq!(&plans, &kept.list.plans);
        }
        prop_assert!(Kept::circuit(&text, "", "nobody").expect("a text").0.is_none());
    }

    #[test]
    fn changes_are_what_they_say(list in lists(), changes in prop::collection::vec((0_usize..8, any::<bool>()), 0..12)) {
        let kept = Kept { direction: Direction::Down, link: None, queues: None, list };
        let text = kept.write();
        let mut expected = by_id(&kept.list);
        let ids: Vec<String> = expected.keys().cloned().collect();
        let mut lines = String::new();
        for (number, (which, goes)) in changes.into_iter().enumerate() {
            let id = ids.get(which).cloned().unwrap_or_else(|| format!("new {which}"));
            if goes {
                expected.remove(&id);
                lines.push_str(&gone(&id));
                continue;
            }
            let (old, plans) = Kept::circuit(&text, &lines, &id).expect("a text");
            prop_assert_eq!(old.is_some(), expected.contains_key(&id));
            // Fields that are not named stay unchanged.
            let mut keys = [const { None }; 4];
            let kind = number % 4;
            let text = [
                format!("10.99.{number}.0/24"),
                format!("{}", 1_000 + number),
                format!("200.{}", 1 + number),
                String::new(),
            ];
            keys[kind] = Some(KeyKind::ALL[kind].read_all(&text[kind]).expect("a key"));
            let asked = Asked {
                rates: [None, None, Some(Rate::kbit(500 + number as u64)), Some(Rate::kbit(20_000))],
                keys,
                ..Asked::default()
            };
            let one = asked.of(&id, old.as_ref(), &plans).expect("a circuit");
            for other in KeyKind::ALL {
                let of = |one: &One| -> Vec<Key> {
                    one.circuit.keys.iter().copied().filter(|key| key.kind() == other).collect()
                };
                let had = match &asked.keys[KeyKind::ALL.iter().position(|own| *own == other).expect("a kind")] {
                    Some(asked) => asked.clone(),
                    None => old.as_ref().map_or_else(Vec::new, of),
                };
                prop_assert_eq!(of(&one), had);
            }
            lines.push_str(&put(&one));
            expected.insert(id, (one.site, one.circuit));
        }
        let again = Kept::read(&text, &lines).expect("what was written");
        prop_assert_eq!(by_id(&again.list), expected);
    }

    #[test]
    fn any_text_is_a_list_or_none(text in "(?s).{0,80}", changes in "(?s).{0,40}") {
        let _ = Kept::read(&text, "");
        let _ = Kept::circuit(&text, &changes, "1");
        let whole = Kept { direction: Direction::Up, link: None, queues: None, list: List::default() }.write();
        prop_assert!(Kept::read(&whole, &changes).is_err() || changes.lines().next().is_none());
    }
}

/// A request is checked as a file's line would be.
#[test]
fn what_is_asked_for_is_judged() {
    let plans = [Plan {
        name: "home".to_owned(),
        terms: Terms {
            least: pair(5_000, 1_000),
            most: pair(100_000, 20_000),
            ..Terms::default()
        },
        ..Plan::default()
    }];
    let home = Asked {
        plan: Some("home".to_owned()),
        keys: [
            Some(KeyKind::Address.read_all("192.0.2.1").expect("an address")),
            None,
            Some(KeyKind::Vlan.read_all("100.20 7").expect("VLANs")),
            None,
        ],
        ..Asked::default()
    };
    let one = home.of("1042", None, &plans).expect("a circuit");
    assert_eq!(one.circuit.most, pair(100_000, 20_000));
    // One rate changes; the rest stays.
    let faster = Asked {
        rates: [None, None, Some(Rate::kbit(200_000)), None],
        suspended: Some(true),
        ..Asked::default()
    };
    let other = faster.of("1042", Some(&one), &plans).expect("a circuit");
    assert_eq!(other.circuit.most, pair(200_000, 20_000));
    // Values of the circuit's own stay when the plan changes; the rest follows the plan.
    assert_eq!(one.circuit.of_plan, [true; 4]);
    assert_eq!(other.circuit.of_plan, [true, true, false, true]);
    assert_eq!(other.circuit.keys, one.circuit.keys);
    assert_eq!(one.circuit.keys.len(), 3);
    assert!(other.circuit.suspended && other.circuit.plan.as_deref() == Some("home"));
    let refusal = |asked: Asked, id: &str| asked.of(id, None, &plans).expect_err("a mistake");
    for (asked, id, expected) in [
        (home.clone(), "", "has no identifier"),
        (Asked::default(), "1", "has no `Download Max Mbps`"),
        (
            Asked {
                plan: Some("hone".to_owned()),
                ..Asked::default()
            },
            "1",
            "did you mean `home`?",
        ),
        (
            Asked {
                rates: [Some(Rate::kbit(200_000)), None, None, None],
                ..home.clone()
            },
            "1",
            "is guaranteed 200mbit, and may have 100mbit at most",
        ),
        (
            Asked {
                rates: [None, None, Some(Rate::bits_per_second(5)), None],
                ..home.clone()
            },
            "1",
            "out of range",
        ),
    ] {
        let text = refusal(asked, id);
        assert!(text.contains(expected), "{text}");
    }
    let wrong = |kind: KeyKind, text| kind.read_all(text).expect_err("a mistake");
    let text = wrong(KeyKind::Address, "10.0.0.1/24,10.0.0.2 10.0.0.300");
    assert!(text.contains("write `10.0.0.0/24`"), "{text}");
    // All mistakes are reported.
    assert!(text.contains("`10.0.0.300` is no address"), "{text}");
    assert_eq!(KeyKind::Mac.read_all(" , "), Ok(Vec::new()));
}

/// A text of an earlier version has no columns of sessions, VLANs and MACs; later changes may have
/// them.
#[test]
fn what_an_earlier_version_kept_is_read() {
    let text = "circuits 1 down 0\n----\n{\"S\":{\"virtual\":true}}\n----\n\
                Plan,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps\n----\n\
                Circuit ID,Parent Node,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,\
                Download Max Mbps,Upload Max Mbps,Plan,Suspended\n\
                \"1\",\"S\",10.0.0.1 10.0.1.0/24,2001:db8::/48,0,0,2,1,,yes\n\
                \"2\",\"\",10.0.0.2,,0,0,2,1,,";
    let kept = Kept::read(text, "").expect("a list");
    let [first, second] = &*kept.list.circuits else {
        panic!("{:?}", kept.list.circuits);
    };
    assert!(first.suspended && first.keys.len() == 3);
    let (one, plans) = Kept::circuit(text, "", "2").expect("a text");
    let asked = Asked {
        keys: [
            None,
            None,
            None,
            KeyKind::Mac.read_all("02:00:5e:10:00:01").ok(),
        ],
        ..Asked::default()
    };
    let changed = asked.of("2", one.as_ref(), &plans).expect("a circuit");
    assert_eq!(changed.circuit.keys.len(), second.keys.len() + 1);
    let lines = put(&changed);
    let (again, _) = Kept::circuit(text, &lines, "2").expect("a text");
    assert_eq!(again.as_ref(), Some(&changed));
    let kept = Kept::read(text, &lines).expect("a list");
    assert_eq!(kept.list.circuits[0], *first);
    assert_eq!(kept.list.circuits[1], changed.circuit);
    // The written text has the new columns.
    assert_eq!(Kept::read(&kept.write(), ""), Ok(kept));
}

/// A change that was cut off or altered is ignored.
#[test]
fn a_damaged_change_is_found() {
    let text = "Circuit ID,IPv4,Download Max Mbps,Upload Max Mbps\n1,10.0.0.1,2,2\n";
    let list = read(&[File { name: "a", text }]).list.expect("a list");
    let kept = Kept {
        direction: Direction::Down,
        link: None,
        queues: Some(3),
        list,
    };
    let text = kept.write();
    let whole = gone("1");
    assert_eq!(Kept::read(&text, &whole).expect("a list").list.circuits, []);
    for at in 0..whole.len() - 1 {
        let damaged = format!("{}{}", &whole[..at], &whole[at + 1..]);
        assert!(Kept::read(&text, &damaged).is_err(), "{damaged}");
    }
}

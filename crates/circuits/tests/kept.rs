// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists as they are kept, and circuits one by one.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_circuits::kept::{Kept, gone, put};
use weirgate_circuits::rows::Direction;
use weirgate_circuits::{Asked, Circuit, File, List, Pair, Plan, Prefix, Site, read};
use weirgate_units::Rate;

fn pair(down: u64, up: u64) -> Pair {
    Pair {
        down: Rate::kbit(down),
        up: Rate::kbit(up),
    }
}

/// Names with what has a meaning in the files.
fn name() -> impl Strategy<Value = String> {
    "[a-c#,\"\\\\ü-]([a-c#,\"\\\\ü -]{0,4}[a-c#,\"\\\\ü-])?"
}

/// Lists of a few circuits below a few sites, with plans.
fn lists() -> impl Strategy<Value = List> {
    let sites = prop::collection::btree_map(name(), (any::<bool>(), any::<bool>()), 0..5);
    let plans = prop::collection::btree_map(name(), 1_u64..100_000, 0..3);
    let circuit = (
        0_usize..6,
        0_usize..4,
        1_u64..1_000_000,
        any::<(bool, u8)>(),
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
            .map(|(name, most)| Plan {
                name,
                least: pair(0, 1),
                most: pair(most, most + 7),
            })
            .collect();
        let circuits = circuits.into_iter().enumerate().map(
            |(number, (id, (site, plan, most, (suspended, host))))| {
                let number = number as u8;
                let four = std::net::Ipv4Addr::new(10, number, 0, host);
                let six = std::net::Ipv6Addr::new(0x2001, 0xdb8, number.into(), 0, 0, 0, 0, 0);
                Circuit {
                    id,
                    parent: (site < sites.len()).then_some(site),
                    plan: plans.get(plan).map(|plan| plan.name.clone()),
                    least: pair(1, 0),
                    most: pair(most, 12_345),
                    prefixes: vec![
                        Prefix::new(four.into(), 32).expect("an address"),
                        Prefix::new(six.into(), 48).expect("a prefix"),
                    ],
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

/// What each circuit is, with its site by name, in the order of identifiers.
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
        // Texts from before there were queues say nothing of them.
        if let Some(older) = text.strip_prefix("circuits 1 down 0 0\n") {
            let older = Kept::read(&format!("circuits 1 down 0\n{older}"), "").expect("a list");
            prop_assert_eq!((older.link, older.queues), (None, None));
        }
        // Each is found without the others.
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
            let address = format!("10.99.{number}.0/24").parse().expect("a prefix");
            let asked = Asked {
                rates: [None, None, Some(Rate::kbit(500 + number as u64)), Some(Rate::kbit(20_000))],
                prefixes: Some(vec![address]),
                ..Asked::default()
            };
            let one = asked.of(&id, old.as_ref(), &plans).expect("a circuit");
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

/// What is asked for is judged as a file's line would be.
#[test]
fn what_is_asked_for_is_judged() {
    let plans = [Plan {
        name: "home".to_owned(),
        least: pair(5_000, 1_000),
        most: pair(100_000, 20_000),
    }];
    let home = Asked {
        plan: Some("home".to_owned()),
        prefixes: Some(vec!["192.0.2.1".parse().expect("an address")]),
        ..Asked::default()
    };
    let one = home.of("1042", None, &plans).expect("a circuit");
    assert_eq!(one.circuit.most, pair(100_000, 20_000));
    // One rate is another; the rest stays.
    let faster = Asked {
        rates: [None, None, Some(Rate::kbit(200_000)), None],
        suspended: Some(true),
        ..Asked::default()
    };
    let other = faster.of("1042", Some(&one), &plans).expect("a circuit");
    assert_eq!(other.circuit.most, pair(200_000, 20_000));
    assert_eq!(other.circuit.prefixes, one.circuit.prefixes);
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
    assert!(
        "10.0.0.1/24"
            .parse::<Prefix>()
            .expect_err("no prefix")
            .contains("write `10.0.0.0/24`")
    );
    assert!("10.0.0.300".parse::<Prefix>().is_err());
}

/// A change that was cut off or altered is no change.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests plans between random states, executed on a model of a kernel.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_plan::{Options, inverse, plan, plan_with, run, verify};
use weirgate_state::{
    Bfifo, Chain, Device, DeviceName, Field, FqCodel, Hook, Htb, HtbClass, IpVersion, Match,
    Offloads, Origin, Pfifo, Qdisc, QdiscKind, Rule, Sfq, Shared, Stab, State, Table,
};
use weirgate_units::{Handle, Rate, Size, Span};

/// Strategies are boxed, so that the nested structure is on the heap. It is too large for the stack
/// of a test thread in a build without optimisation.
///
/// Generates a leaf, or a nested HTB with two classes. Its handle follows from the class, or is
/// shared with other classes' leaves of another state.
fn leaf(slot: u16) -> BoxedStrategy<Option<Qdisc>> {
    let handle = prop_oneof![
        Just(0x10 + slot),
        Just(0x20 + slot),
        Just(0x10 + (slot + 1) % 4)
    ];
    let kind = prop_oneof![
        (1_u32..4).prop_map(|limit| QdiscKind::Pfifo(Pfifo { limit })),
        (1_u64..4).prop_map(|limit| QdiscKind::Bfifo(Bfifo {
            limit: Size::bytes(limit * 1000)
        })),
        (0_u32..2).prop_map(|quantum| QdiscKind::Sfq(Sfq {
            limit: 127,
            perturb: 10,
            quantum: quantum * 1514
        })),
        (1_u32..3, 1_u64..9).prop_map(|(flows, ms)| QdiscKind::FqCodel(FqCodel {
            limit: 10,
            flows,
            target: Span::from_millis(ms),
            interval: Span::from_millis(100),
            quantum: 300,
            ecn: true,
            memory_limit: 1 << 20,
            // An optional setting that is changed in place.
            ce_threshold: (ms % 2 == 0).then(|| Span::from_millis(1)),
        })),
    ];
    proptest::option::of((handle, kind).prop_map(|(major, kind)| Qdisc {
        handle: Handle::new(major, 0),
        stab: None,
        kind,
        origin: Origin::default(),
    }))
    .boxed()
}

/// Generates classes 1 to 4 of `major`, each present or not. Its parent is the qdisc or a class
/// with a lower number; only the lowest classes have leaves.
fn classes(major: u16) -> BoxedStrategy<Vec<HtbClass>> {
    let one = |slot: u16| {
        (0..slot + 1, any::<bool>(), 1_u64..4, 0_u64..200, leaf(slot)).prop_map(
            move |(parent, present, rate, nanos, leaf)| {
                (
                    present,
                    HtbClass {
                        id: Handle::new(major, slot + 1),
                        parent: Handle::new(major, parent),
                        rate: Rate::bits_per_second(rate * 1000 + 3),
                        ceil: Rate::kbit(rate + 1),
                        buffer: Span::from_nanos(nanos),
                        cbuffer: Span::from_micros(5),
                        prio: (rate % 3) as u8,
                        quantum: 1500,
                        leaf: leaf.map(Box::new),
                        origin: Origin::default(),
                    },
                )
            },
        )
    };
    (one(0), one(1), one(2), one(3))
        .prop_map(move |(a, b, c, d)| {
            let mut list: Vec<HtbClass> = Vec::new();
            for (present, mut class) in [a, b, c, d] {
                if !present {
                    continue;
                }
                if class.parent.minor != 0 && !list.iter().any(|other| other.id == class.parent) {
                    class.parent = Handle::new(major, 0);
                }
                let taken = |handle: Handle| {
                    list.iter().any(|other| {
                        other
                            .leaf
                            .as_ref()
                            .is_some_and(|leaf| leaf.handle == handle)
                    })
                };
                if class.leaf.as_ref().is_some_and(|leaf| taken(leaf.handle)) {
                    class.leaf = None;
                }
                list.push(class);
            }
            let parents: Vec<Handle> = list.iter().map(|class| class.parent).collect();
            for class in &mut list {
                if parents.contains(&class.id) {
                    class.leaf = None;
                }
            }
            list
        })
        .boxed()
}

fn root() -> BoxedStrategy<Option<Qdisc>> {
    let stab = proptest::option::of((-4_i32..4, vec(1_u16..200, 1..4)).prop_map(
        |(overhead, data)| Stab {
            overhead,
            cell_align: 0,
            cell_log: 2,
            size_log: 0,
            mpu: 0,
            mtu: 8,
            data,
        },
    ));
    let nested = (classes(2), 1_u16..3).prop_map(|(classes, default_minor)| Qdisc {
        handle: Handle::new(2, 0),
        stab: None,
        kind: QdiscKind::Htb(Htb {
            default_minor,
            r2q: 10,
            direct: None,
            classes,
        }),
        origin: Origin::default(),
    });
    let tree = (
        prop_oneof![Just(1_u16), Just(0x11)],
        stab,
        1_u16..3,
        classes(1),
        proptest::option::of(nested),
    )
        .prop_map(|(major, stab, default_minor, mut classes, nested)| {
            for class in &mut classes {
                class.id.major = major;
                class.parent.major = major;
                if class
                    .leaf
                    .as_ref()
                    .is_some_and(|leaf| leaf.handle.major == major)
                {
                    class.leaf = None;
                }
            }
            let outer: Vec<u16> = classes
                .iter()
                .filter_map(|class| class.leaf.as_ref())
                .map(|leaf| leaf.handle.major)
                .collect();
            let parents: Vec<Handle> = classes.iter().map(|class| class.parent).collect();
            if let Some(mut nested) = nested
                && let Some(home) = classes.iter_mut().find(|c| !parents.contains(&c.id))
            {
                if let QdiscKind::Htb(htb) = &mut nested.kind {
                    for class in &mut htb.classes {
                        let clash = |leaf: &Qdisc| {
                            outer.contains(&leaf.handle.major) || leaf.handle.major == major
                        };
                        if class.leaf.as_deref().is_some_and(clash) {
                            class.leaf = None;
                        }
                    }
                }
                home.leaf = Some(Box::new(nested));
            }
            Qdisc {
                handle: Handle::new(major, 0),
                stab,
                kind: QdiscKind::Htb(Htb {
                    default_minor,
                    r2q: 10,
                    direct: Some(0),
                    classes,
                }),
                origin: Origin::default(),
            }
        });
    proptest::option::weighted(0.8, tree).boxed()
}

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

fn rule() -> impl Strategy<Value = Rule> {
    (0_u16..3, 1_u16..4).prop_map(|(port, class)| {
        let port = u128::from(port);
        let matches = vec![
            Match::version_is(IpVersion::V4),
            Match::one(Field::Protocol, 6),
            Match::range(Field::SourcePort, port, port + 10),
        ];
        Rule::classify(matches, Handle::new(1, class), Origin::default())
    })
}

fn state() -> impl Strategy<Value = State> {
    let device = |owned_ifb| {
        (root(), any::<bool>()).prop_map(move |(root, tso)| Device {
            owned_ifb,
            offloads: (!owned_ifb).then_some(Offloads {
                tso,
                gso: true,
                gro: false,
                segments: tso.then_some(1),
            }),
            root,
            origin: Origin::default(),
        })
    };
    let table = vec(rule(), 0..3).prop_map(|rules| Table {
        netdev: false,
        name: String::from("weirgate"),
        sets: Shared::default(),
        chains: vec![Chain {
            name: String::from("up"),
            hook: Hook::Postrouting {
                device: name("wan"),
            },
            rules: rules.into(),
        }],
    });
    (
        device(false),
        device(false),
        proptest::option::of(device(true)),
        proptest::option::of(table),
    )
        .prop_map(|(wan, lan, ifb, table)| {
            let mut devices = BTreeMap::from([(name("wan"), wan), (name("lan"), lan)]);
            devices.extend(ifb.map(|ifb| (name("ifb-wan"), ifb)));
            State {
                devices,
                tables: table.into_iter().collect(),
                ..State::default()
            }
        })
}

/// Returns a state as a kernel would report it: one that the model has held.
fn held(state: &State) -> State {
    let mut bare = state.clone();
    bare.tables.clear();
    bare.devices.retain(|_, device| !device.owned_ifb);
    for device in bare.devices.values_mut() {
        device.root = None;
    }
    run(&plan(&bare, state).unwrap().steps, &bare).unwrap()
}

fn outer(tree: Option<&Qdisc>) -> &[HtbClass] {
    match tree.map(|tree| &tree.kind) {
        Some(QdiscKind::Htb(htb)) => &htb.classes,
        _ => &[],
    }
}

fn has_class(tree: Option<&Qdisc>, id: Handle) -> bool {
    outer(tree).iter().any(|class| class.id == id)
}

/// Returns the class below which a tree has another scheduler.
fn scheduler(tree: Option<&Qdisc>) -> Option<Handle> {
    let below = |class: &&HtbClass| {
        let leaf = class.leaf.as_ref();
        leaf.is_some_and(|leaf| matches!(leaf.kind, QdiscKind::Htb(_)))
    };
    outer(tree).iter().find(below).map(|class| class.id)
}

const OVER: Options<'static> = Options {
    previous: None,
    replace_foreign: true,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_plan_leads_to_what_was_desired(a in state(), b in state()) {
        let a = held(&a);
        let steps = plan_with(&a, &b, &OVER).unwrap().steps;
        let after = run(&steps, &a).unwrap();
        prop_assert_eq!(verify(&after, &b), vec![]);
        prop_assert_eq!(plan_with(&after, &b, &OVER).unwrap().steps, vec![]);
    }

    #[test]
    fn the_inverse_restores(a in state(), b in state()) {
        let a = held(&a);
        let steps = plan_with(&a, &b, &OVER).unwrap().steps;
        let after = run(&steps, &a).unwrap();
        let back = run(&inverse(&steps, &a).unwrap(), &after).unwrap();
        prop_assert_eq!(verify(&back, &a), vec![]);
        prop_assert_eq!(plan_with(&back, &a, &OVER).unwrap().steps, vec![]);
    }

    #[test]
    fn what_shapes_is_never_gone_meanwhile(a in state(), b in state()) {
        let a = held(&a);
        let steps = plan_with(&a, &b, &OVER).unwrap().steps;
        let meanwhile: Vec<State> = (0..=steps.len())
            .map(|count| run(&steps[..count], &a).unwrap())
            .collect();
        for (device, wanted) in &b.devices {
            let trees: Vec<Option<&Qdisc>> = meanwhile
                .iter()
                .map(|state| state.devices.get(device).and_then(|one| one.root.as_ref()))
                .collect();
            if trees[0].is_none() || wanted.root.is_none() {
                continue;
            }
            prop_assert!(trees.iter().all(Option::is_some), "{device} has no root meanwhile");
            // A scheduler below a class that stays is replaced by the next one.
            let schedulers: Vec<Option<Handle>> = trees
                .iter()
                .map(|tree| scheduler(*tree))
                .collect();
            let ends = (schedulers[0], schedulers[schedulers.len() - 1]);
            if let (Some(old), Some(new)) = ends
                && old == new
                && trees.iter().all(|tree| has_class(*tree, old))
            {
                prop_assert!(schedulers.iter().all(|one| *one == Some(old)));
            }
        }
    }

    #[test]
    fn nothing_to_do_is_an_empty_plan(a in state()) {
        let a = held(&a);
        prop_assert_eq!(plan(&a, &a).unwrap().steps, vec![]);
    }

    #[test]
    fn verify_sees_whatever_a_plan_would_change(a in state(), b in state()) {
        let a = held(&a);
        let steps = plan_with(&a, &b, &OVER).unwrap().steps;
        prop_assert_eq!(verify(&a, &b).is_empty(), steps.is_empty());
    }

    #[test]
    fn states_survive_being_saved(a in state()) {
        let text = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<State>(&text).unwrap(), a);
    }
}

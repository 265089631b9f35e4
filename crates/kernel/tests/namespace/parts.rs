// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests divided classes: maps to classes, and a thousand hosts with limits.

use crate::harness::{apply, in_namespace, name, observe, origin, whole};
use std::time::Instant;
use weirgate_plan::{plan, verify};
use weirgate_state::{
    Content, Effect, Field, Frame, IpVersion, Key, Match, Rule, RuleVerdict, Set, State, TCP,
};
use weirgate_units::Handle;

const BASE: Handle = Handle::new(2, 0x10);

/// Returns rules that read the class, look it up in a map, and lower the MSS.
fn divided(elements: &[(u128, u128, Handle)], version: IpVersion) -> State {
    let map = String::from("parts_up_normal");
    let rules = [
        Rule {
            frame: Frame::Plain,
            matches: vec![
                Match::version_is(version),
                Match::one(Field::Class, u128::from(BASE.as_u32())),
            ],
            counter: None,
            effects: vec![Effect::ClassOf {
                field: Field::Source(version),
                map: map.clone(),
            }],
            verdict: RuleVerdict::Continue,
            origin: origin(3),
        },
        Rule {
            frame: Frame::Plain,
            matches: vec![
                Match::one(Field::Protocol, u128::from(TCP)),
                Match::tcp_flags(2, 2),
                Match::one(Field::Class, 7).negated(),
            ],
            counter: None,
            effects: vec![Effect::MaxSegment(1_012)],
            verdict: RuleVerdict::Final,
            origin: origin(4),
        },
    ];
    let mut state = whole(&rules);
    for table in &mut state.tables {
        table.sets.push(Set {
            name: map.clone(),
            key: Key::Address(version),
            content: Content::Classes(elements.to_vec()),
            origin: origin(3),
        });
    }
    state
}

#[test]
fn maps_to_classes_are_read_back() {
    in_namespace(|kernel| async move {
        let (one, two) = (Handle::new(2, 0x4a6b), Handle::new(2, 0x7162));
        let net = 0xc000_0200_u128;
        let v6 = 0x2001_0db8_u128 << 96;
        let cases = [
            (
                IpVersion::V4,
                vec![(net, net, one), (net + 9, net + 9, two)],
            ),
            (
                IpVersion::V4,
                vec![
                    (net, net + 6, one),
                    (net + 7, net + 7, two),
                    (net + 8, net + 255, one),
                ],
            ),
            (
                IpVersion::V6,
                vec![(v6, v6 | 0xffff, two), (v6 | 0x1_0000, v6 | 0x1_ffff, one)],
            ),
            (IpVersion::V6, vec![(0, u128::MAX, one)]),
        ];
        for (version, elements) in cases {
            let desired = divided(&elements, version);
            apply(&kernel, &desired, None).await;
            let after = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&after, &desired), vec![], "{elements:?}");
            assert_eq!(plan(&after, &desired).unwrap().steps, vec![]);
        }
        // A changed class of one of the addresses is detected.
        let wrong = divided(&[(0, u128::MAX, two)], IpVersion::V6);
        let after = observe(&kernel, &[&wrong]).await;
        assert!(!verify(&after, &wrong).is_empty());
        let text = crate::harness::run("nft list ruleset");
        assert!(
            text.contains("classid") && text.contains("maxseg size set 1012"),
            "{text}"
        );
    });
}

/// A set with one range up to the largest key, which has no end element, is distinguished from a
/// set with one key.
#[test]
fn ranges_of_all_keys_are_read_back() {
    in_namespace(|kernel| async move {
        let all = u128::from(u32::MAX);
        for elements in [
            vec![(0, all)],
            vec![(5, all)],
            vec![(0, 0)],
            vec![(all, all)],
        ] {
            let mut desired = divided(&[(7, 7, BASE)], IpVersion::V4);
            for table in &mut desired.tables {
                table.sets.push(Set {
                    name: String::from("everyone"),
                    key: Key::Address(IpVersion::V4),
                    content: Content::Fixed(elements.clone()),
                    origin: origin(3),
                });
            }
            apply(&kernel, &desired, None).await;
            let after = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&after, &desired), vec![], "{elements:?}");
            assert_eq!(plan(&after, &desired).unwrap().steps, vec![]);
        }
    });
}

/// 1000 hosts with limits on both devices, with their map: applied within a second, read back, and
/// one limit changed.
#[test]
fn a_thousand_hosts_have_limits() {
    const POLICY: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"far\"\nup = \"100mbit\"\n\
        layer = \"raw\"\n[group.guests]\naddresses = [\"198.18.0.0/23\", \"198.19.0.0/24\", \
        \"198.20.0.0/25\", \"198.21.0.0/26\", \"198.22.0.0/27\", \"198.23.0.0/29\"]\n\
        [[class]]\nname = \"own\"\nshare = \"70%\"\npriority = 1\nqueue = \"sfq\"\n\
        [[class]]\nname = \"guests\"\nshare = \"30%\"\ndefault = true\n\
        [[rule]]\nclass = \"own\"\nport = 22\n\
        [[cap]]\ngroup = \"guests\"\nclass = \"guests\"\nup = \"2mbit\"\n";
    in_namespace(|kernel| async move {
        let state = |text: &str| -> Option<State> {
            let (policy, problems) = weirgate_policy::parse(text);
            let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
            let all = weirgate_state::Capabilities::all();
            weirgate_compile::compile(&policy, &all).0
        };
        let kinds = kernel.capabilities().await.unwrap();
        let mut desired = state(POLICY).unwrap();
        if !kinds.has_qdisc("fq_codel") {
            fifos(&mut desired);
        }
        let before = observe(&kernel, &[&desired]).await;
        let begin = Instant::now();
        let steps = plan(&before, &desired).unwrap();
        let planned = begin.elapsed();
        kernel.apply(&steps).await.unwrap();
        let applied = begin.elapsed();
        println!(
            "{} steps planned in {planned:?}, applied in {applied:?}",
            steps.steps.len()
        );
        let after = observe(&kernel, &[&desired]).await;
        assert_eq!(verify(&after, &desired), vec![]);
        assert!(steps.steps.len() > 2_000);
        let other = POLICY.replace("2mbit", "3mbit");
        let mut changed = state(&other).unwrap();
        if !kinds.has_qdisc("fq_codel") {
            fifos(&mut changed);
        }
        let steps = plan(&after, &changed).unwrap().steps;
        let text: Vec<String> = steps.iter().map(|step| step.action.to_string()).collect();
        assert!(
            text.iter().all(|step| step.contains("change class")),
            "{text:?}"
        );
        assert!(after.devices.contains_key(&name("wan")));
    });
}

/// Replaces the leaves for a kernel without fq_codel.
fn fifos(state: &mut State) {
    use weirgate_state::{Pfifo, Qdisc, QdiscKind};
    fn walk(qdisc: &mut Qdisc) {
        match &mut qdisc.kind {
            QdiscKind::Htb(htb) => {
                let leaves = htb
                    .classes
                    .iter_mut()
                    .filter_map(|class| class.leaf.as_mut());
                leaves.for_each(|leaf| walk(leaf));
            }
            other => *other = QdiscKind::Pfifo(Pfifo { limit: 100 }),
        }
    }
    let roots = state
        .devices
        .values_mut()
        .filter_map(|device| device.root.as_mut());
    roots.for_each(walk);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Property tests: no bytes from a kernel make a decoder panic or hang.

use crate::nft;
use crate::nft::decode;
use crate::nft::sets::{self, ConstantSet, Sets};
use crate::tc::decode::{Entry, tree};
use crate::tc::listed;
use crate::tc::stats::counters;
use crate::{link, tc};
use proptest::collection::vec;
use proptest::prelude::*;
use weirgate_plan::QdiscParent;
use weirgate_state::{
    Chain, Content, Count, DeviceName, Field, Hook, Htb, HtbClass, IpVersion, Key, Match, Meter,
    Origin, Pfifo, Qdisc, QdiscKind, Rule, Set, Stab, Table,
};
use weirgate_units::{Handle, Rate, Span};

/// Returns one attribute; `wrong` is added to its length.
fn attribute(kind: u16, payload: &[u8], wrong: u16) -> Vec<u8> {
    let length = (payload.len() as u16 + 4).wrapping_add(wrong);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns an error of a length, which is mostly 0.
fn wrong() -> impl Strategy<Value = u16> {
    prop_oneof![30 => Just(0_u16), 1 => any::<u16>()]
}

/// Returns contents of the sizes that the kernel's structs have, or of others.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 4),
        vec(any::<u8>(), 20),
        vec(any::<u8>(), 44),
        vec(any::<u8>(), 0..60),
        (0_u32..20).prop_map(|small| small.to_be_bytes().to_vec()),
        (0_u32..20).prop_map(|small| small.to_ne_bytes().to_vec()),
    ]
}

/// Returns a nest of attributes, each of a kind once, some nested again.
fn nest() -> impl Strategy<Value = Vec<u8>> {
    content().prop_recursive(3, 40, 12, |inner| {
        vec((1_u16..20, inner, wrong()), 0..12).prop_map(|items| {
            items
                .iter()
                .flat_map(|(kind, payload, wrong)| attribute(*kind, payload, *wrong))
                .collect()
        })
    })
}

/// Returns an entry of a listing of qdiscs or classes, with few handles so that they collide.
fn traffic_control() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        4 => Just("htb"),
        1 => prop_oneof![
            Just("fq_codel"), Just("sfq"), Just("red"), Just("cake"), Just("pfifo"), Just("tbf"),
        ],
    ];
    let parents = prop_oneof![Just(u32::MAX), Just(0x1_0000), Just(0x1_0001)];
    let parts = (nest(), nest(), nest());
    (0_u32..3, 0_u32..3, parents, kind, parts).prop_map(
        |(major, minor, parent, kind, (options, stats, stab))| {
            let mut bytes = vec![0; 8];
            bytes.extend(((major << 16) | minor).to_ne_bytes());
            bytes.extend(parent.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(attribute(1, format!("{kind}\0").as_bytes(), 0));
            bytes.extend(attribute(2, &options, 0));
            bytes.extend(attribute(7, &stats, 0));
            bytes.extend(attribute(8, &stab, 0));
            bytes
        },
    )
}

/// Returns an entry of a listing that is a chain and a rule at once.
fn netfilter() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        Just("payload"),
        Just("immediate"),
        Just("bitwise"),
        Just("meta"),
        Just("cmp"),
        Just("range"),
        Just("lookup"),
        Just("fwd"),
    ];
    let expressions = vec((name, nest()), 0..6).prop_map(|list| -> Vec<u8> {
        list.iter()
            .flat_map(|(name, data)| {
                let name = attribute(1, format!("{name}\0").as_bytes(), 0);
                attribute(1, &[name, attribute(2, data, 0)].concat(), 0)
            })
            .collect()
    });
    let hook = (0_u32..5, prop_oneof![Just(-150_i32), Just(0)]).prop_map(|(number, priority)| {
        [
            attribute(1, &number.to_be_bytes(), 0),
            attribute(2, &priority.to_be_bytes(), 0),
            attribute(3, b"lo\0", 0),
        ]
        .concat()
    });
    (expressions, hook, nest(), any::<bool>()).prop_map(|(expressions, hook, user, rule)| {
        [
            vec![0; 4],
            attribute(1, b"t\0", 0),
            attribute(2, b"c\0", 0),
            attribute(3, b"c\0", 0),
            attribute(4, if rule { &expressions } else { &hook }, 0),
            attribute(7, &user, 0),
        ]
        .concat()
    })
}

/// Returns a message after its netlink header, with a small header of its own.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let header = prop_oneof![Just(vec![0; 4]), Just(vec![0; 16]), vec(any::<u8>(), 0..24),];
    let loose = (header, nest()).prop_map(|(header, rest)| [header, rest].concat());
    prop_oneof![1 => loose, 4 => traffic_control(), 4 => netfilter()]
}

/// Returns every kind of match.
fn matches() -> Vec<Match> {
    let empty = Match::TcpPayloadEmpty {
        version: IpVersion::V4,
        negated: false,
    };
    let meter = Meter {
        field: Field::Source(IpVersion::V6),
        set: String::from("m"),
        count: Count::Packets {
            rate: 4,
            per: 1,
            burst: 5,
        },
        over: true,
    };
    vec![
        Match::version_is(IpVersion::V6),
        Match::range(Field::SourcePort, 1, 9),
        Match::one(Field::Dscp(IpVersion::V6), 46),
        Match::tcp_flags(2, 2),
        empty,
        Match::range(Field::IcmpType(IpVersion::V6), 1, 4),
        Match::text(Field::InputDevice, "lo").negated(),
        Match::range(Field::Source(IpVersion::V6), 1 << 100, 1 << 101),
        Match::within(Field::SourcePort, "s"),
        Match::one(Field::ConnectionMark { mask: 0xff }, 3),
        Match::range(Field::ConnectionBytes, 9, 99),
        Match::Meter(meter),
    ]
}

/// Returns every kind of rule, class and qdisc as weirgate writes it: requests and listings have
/// one form.
fn valid() -> Vec<Vec<u8>> {
    let lo = DeviceName::new("lo").unwrap();
    let all = matches();
    let rules = all.iter().map(|one| Rule {
        counter: Some(String::from("c1")),
        ..Rule::classify(
            vec![one.clone()],
            Handle::new(1, 2),
            Origin::new(3, "a rule"),
        )
        .guarded()
    });
    let set = |name: &str, key, content| Set {
        name: String::from(name),
        key,
        content,
        origin: Origin::default(),
    };
    let dynamic = Content::Meter {
        size: 9,
        timeout: Some(5),
    };
    let table = Table {
        netdev: true,
        name: String::from("t"),
        sets: vec![
            set("s", Key::Short, Content::Fixed(vec![(1, 2), (9, 9)])),
            set("m", Key::Address(IpVersion::V6), dynamic),
        ]
        .into(),
        chains: vec![Chain {
            name: String::from("c"),
            hook: Hook::Ingress {
                device: lo.clone(),
                redirect_to: lo,
            },
            rules: rules.collect(),
        }],
    };
    let class = HtbClass {
        id: Handle::new(1, 1),
        parent: Handle::new(1, 0),
        rate: Rate::kbit(100_000_000),
        ceil: Rate::kbit(100_000_000),
        buffer: Span::from_nanos(64),
        cbuffer: Span::from_nanos(64),
        prio: 1,
        quantum: 1,
        leaf: None,
        origin: Origin::default(),
    };
    let root = Qdisc {
        handle: Handle::new(1, 0),
        stab: Some(Stab {
            overhead: 1,
            cell_align: 0,
            cell_log: 0,
            size_log: 0,
            mpu: 0,
            mtu: 9,
            data: vec![1, 2],
        }),
        kind: QdiscKind::Htb(Htb {
            default_minor: 1,
            r2q: 10,
            direct: Some(0),
            classes: Vec::new(),
        }),
        origin: Origin::default(),
    };
    let leaf = Qdisc {
        handle: Handle::new(2, 0),
        stab: None,
        kind: QdiscKind::Pfifo(Pfifo { limit: 9 }),
        origin: Origin::default(),
    };
    let mut messages = vec![
        tc::encode::add_qdisc(1, QdiscParent::Root, &root).finish(),
        tc::encode::add_class(1, &class).finish(),
        tc::encode::add_qdisc(1, QdiscParent::Class(class.id), &leaf).finish(),
    ];
    let requests = nft::encode::set(&table, |_| Some(1)).unwrap();
    messages.extend(requests.into_iter().map(|request| request.message.finish()));
    // The part after the netlink header.
    messages.iter().map(|raw| raw[16..].to_vec()).collect()
}

fn decode_all(all: &[Vec<u8>]) -> (Option<Qdisc>, Table) {
    let entries = || -> Vec<Entry<'_>> { all.iter().filter_map(|m| Entry::of(m)).collect() };
    for entry in entries() {
        let _ = counters(&entry);
    }
    for payload in all {
        let _ = link::read(payload);
    }
    let _ = sets::elements(all);
    for payload in all {
        let _ = sets::listed(payload, "t");
        let _ = nft::object::counter(payload, "t");
    }
    let _ = sets::fixed(String::from("s"), Key::Short, true, all);
    let _ = sets::is_on(true, all);
    let sets = Sets {
        constants: ConstantSet::ALL.into_iter().collect(),
        own: Vec::new(),
        switches: [(String::from("c"), Some(true))].into(),
    };
    let device = |index: u32| DeviceName::new(format!("dev{index}"));
    let _ = decode::table(false, "t", all, all, sets.clone(), device);
    let mut classes = entries();
    classes.retain(|entry| entry.handle & 0xffff != 0);
    for parent in listed::filter_parents(&entries(), &classes) {
        let point = listed::FilterPoint {
            parent,
            chains: all.to_vec(),
            filters: all.to_vec(),
        };
        if let Some(listed) = listed::tree(&entries(), &classes, &[point]) {
            let _ = listed::requests(1, &listed, true);
        }
    }
    (
        tree(&entries(), &classes, &[]),
        decode::table(true, "t", all, all, sets, device),
    )
}

#[test]
fn what_is_written_is_understood() {
    let (root, table) = decode_all(&valid());
    let QdiscKind::Htb(htb) = root.unwrap().kind else {
        panic!("the root is not read");
    };
    assert_eq!(htb.classes.len(), 1);
    assert!(htb.classes[0].leaf.is_some());
    let chain = table.chains.iter().find(|chain| chain.rules.len() == 12);
    let read = |rule: &Rule| !rule.matches.iter().any(|m| matches!(m, Match::Other(_)));
    assert!(chain.unwrap().rules.iter().all(read));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn decoders_are_total(messages in vec(message(), 1..9), raw in vec(any::<u8>(), 0..200)) {
        let mut all = messages;
        all.push(raw);
        decode_all(&all);
    }

    #[test]
    fn decoders_bear_damage(changes in vec((any::<usize>(), any::<usize>(), any::<u8>()), 1..12)) {
        let mut all = valid();
        for (message, offset, value) in changes {
            let count = all.len();
            let message = &mut all[message % count];
            match offset % (message.len() + 8) {
                offset if offset < message.len() => message[offset] = value,
                _ => message.truncate(usize::from(value)),
            }
        }
        decode_all(&all);
    }
}

/// Kernels whose answers come from a script.
#[cfg(feature = "played")]
mod played {
    use crate::error::KernelError;
    use crate::{Kernel, PlayedAnswer};
    use libc::{EAFNOSUPPORT, EINVAL, EPERM};
    use nlink::netlink::message::{NLM_F_DUMP_INTR, NlMsgType};
    use tokio::runtime::{Builder, Runtime};
    use weirgate_state::{FIRST_PRIORITY, IpVersion, Routing, RoutingRule};

    /// Returns the end of a dump, or an error, for the request that is `back` requests before the
    /// newest.
    fn answer(kind: u16, flags: u16, back: u32, errno: i32) -> PlayedAnswer {
        let mut bytes = 20_u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(back.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend((-errno).to_ne_bytes());
        PlayedAnswer {
            bytes,
            later: false,
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn devices(answers: Vec<PlayedAnswer>) -> Result<usize, KernelError> {
        let devices = runtime().block_on(Kernel::played(answers).devices());
        devices.map(|devices| devices.len())
    }

    #[test]
    fn an_error_of_another_request_is_not_heard() {
        let end = answer(NlMsgType::DONE, 0, 0, 0);
        let other = answer(NlMsgType::ERROR, 0, 7, 1);
        assert_eq!(devices(vec![other, end.clone()]).unwrap(), 0);
        let own = answer(NlMsgType::ERROR, 0, 0, 1);
        let refused = devices(vec![own, end]);
        assert!(
            matches!(refused, Err(KernelError::Refused(_))),
            "{refused:?}"
        );
    }

    #[test]
    fn a_dump_that_is_interrupted_begins_anew_and_not_for_ever() {
        let end = answer(NlMsgType::DONE, 0, 0, 0);
        let broken = answer(NlMsgType::DONE, NLM_F_DUMP_INTR, 0, 0);
        assert_eq!(devices(vec![broken.clone(), end]).unwrap(), 0);
        let never = devices(vec![broken; 5]);
        assert!(
            matches!(never, Err(KernelError::Unsteady { .. })),
            "{never:?}"
        );
    }

    #[test]
    fn a_kernel_without_rules_for_ipv6_has_none() {
        let end = answer(NlMsgType::DONE, 0, 0, 0);
        let no_rules = answer(NlMsgType::DONE, 0, 0, EAFNOSUPPORT);
        // Devices, the table of marks, and rules and routes of both IP versions.
        let mut answers = vec![end; 6];
        answers[4] = no_rules;
        let routing = runtime().block_on(async { Kernel::played(answers).routing().await });
        assert_eq!(routing.unwrap(), Routing::default());
    }

    #[test]
    fn the_refused_step_of_routing_is_reported_and_not_what_follows() {
        // Six listings, the devices again, and the refusal; then the kernel answers no more.
        let mut answers = vec![answer(NlMsgType::DONE, 0, 0, 0); 7];
        answers.push(answer(NlMsgType::ERROR, 0, 0, EPERM));
        let rule = RoutingRule {
            priority: FIRST_PRIORITY,
            version: IpVersion::V4,
            mark: None,
            bound_to: None,
            table: 254,
            no_default: true,
        };
        let wanted = Routing {
            rules: [rule].into(),
            ..Routing::default()
        };
        let set = async { Kernel::played(answers).set_routing(&wanted).await };
        let error = runtime().block_on(set).unwrap_err();
        assert!(error.is_denied(), "{error}");
    }

    #[test]
    fn a_kernel_that_does_not_list_connections_drops_none() {
        let refused = |errno| vec![answer(NlMsgType::ERROR, 0, 0, errno)];
        let dropped = |errno| {
            runtime().block_on(async {
                let kernel = Kernel::played(refused(errno));
                kernel.drop_connections(0xf00, 0x100).await
            })
        };
        dropped(EINVAL).unwrap();
        assert!(dropped(EPERM).is_err());
    }

    #[test]
    fn a_kernel_that_ends_in_the_middle_is_an_error() {
        assert!(devices(Vec::new()).is_err());
    }
}

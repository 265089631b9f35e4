// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One rule as nf_tables expressions.
//!
//! Every match is one test: something is loaded, masked perhaps, and compared.
//! What a match presupposes (the IP version, the protocol) is a test of its
//! own before it, which reading back leaves out again, so that a rule and its
//! canonical form are written alike.

use super::sets::ConstantSet;
use nlink::netlink::nftables::{
    CmpOp, Expr, LookupExpr, MetaKey, PayloadBase, RangeOp, Register, Verdict,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use weirgate_state::{DeviceName, IpVersion, Match, Rule};
use weirgate_units::Dscp;

/// How a rule or chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The packet goes on.
    Accept,
    /// The packet goes to another device, by index.
    Forward(u32),
}

/// What is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Meta(MetaKey),
    Network(u32, u32),
    Transport(u32, u32),
}

/// What it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Equal(Vec<u8>),
    Unequal(Vec<u8>),
    Within(Vec<u8>, Vec<u8>),
    In(ConstantSet),
}

/// A load of one field, or of several side by side for a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) fields: Vec<(Load, Option<Vec<u8>>)>,
    pub(super) condition: Condition,
}

pub(super) const REGISTERS: [Register; 3] = [Register::R0, Register::Reg32_01, Register::Reg32_02];

fn one(load: Load, mask: Option<Vec<u8>>, condition: Condition) -> Test {
    Test {
        fields: vec![(load, mask)],
        condition,
    }
}

fn number(load: Load, from: u16, to: u16) -> Test {
    let bytes = |value: u16| value.to_be_bytes().to_vec();
    let condition = if from == to {
        Condition::Equal(bytes(from))
    } else {
        Condition::Within(bytes(from), bytes(to))
    };
    one(load, None, condition)
}

/// A device name as `meta iifname` holds it: 16 bytes, padded.
fn name_bytes(device: &DeviceName) -> Vec<u8> {
    let mut bytes = device.as_str().as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

pub(super) fn version_test(netdev: bool, version: IpVersion) -> Test {
    if netdev {
        // Ethertypes; a netdev table has no nfproto of its own.
        let ethertype: [u8; 2] = match version {
            IpVersion::V4 => [0x08, 0x00],
            IpVersion::V6 => [0x86, 0xdd],
        };
        one(
            Load::Meta(MetaKey::Protocol),
            None,
            Condition::Equal(ethertype.to_vec()),
        )
    } else {
        let family = match version {
            IpVersion::V4 => 2,
            IpVersion::V6 => 10,
        };
        one(
            Load::Meta(MetaKey::NfProto),
            None,
            Condition::Equal(vec![family]),
        )
    }
}

fn protocol_test(protocol: u8) -> Test {
    one(
        Load::Meta(MetaKey::L4Proto),
        None,
        Condition::Equal(vec![protocol]),
    )
}

fn prefix_mask(length: usize, prefix: u8) -> Option<Vec<u8>> {
    let bits = usize::from(prefix);
    if bits >= length * 8 {
        return None;
    }
    let byte = |index: usize| match bits.saturating_sub(index * 8) {
        left @ 0..=7 => !(0xff_u8 >> left),
        _ => 0xff,
    };
    Some((0..length).map(byte).collect())
}

fn address_test(address: IpAddr, prefix: u8, offsets: (u32, u32)) -> Test {
    let (offset, bytes) = match address {
        IpAddr::V4(v4) => (offsets.0, v4.octets().to_vec()),
        IpAddr::V6(v6) => (offsets.1, v6.octets().to_vec()),
    };
    one(
        Load::Network(offset, bytes.len() as u32),
        prefix_mask(bytes.len(), prefix),
        Condition::Equal(bytes),
    )
}

/// The DS field: the second byte of IPv4, bits 4 to 9 of IPv6.
fn dscp_test(version: IpVersion, dscp: Dscp) -> Test {
    match version {
        IpVersion::V4 => one(
            Load::Network(1, 1),
            Some(vec![0xfc]),
            Condition::Equal(vec![dscp.value() << 2]),
        ),
        IpVersion::V6 => one(
            Load::Network(0, 2),
            Some(vec![0x0f, 0xc0]),
            Condition::Equal((u16::from(dscp.value()) << 6).to_be_bytes().to_vec()),
        ),
    }
}

pub(super) fn empty_test(version: IpVersion) -> Test {
    let data_offset = (Load::Transport(12, 2), Some(vec![0xf0, 0]));
    match version {
        IpVersion::V4 => Test {
            fields: vec![
                (Load::Network(2, 2), None),
                (Load::Network(0, 2), Some(vec![0x0f, 0])),
                data_offset,
            ],
            condition: Condition::In(ConstantSet::TcpEmptyV4),
        },
        IpVersion::V6 => Test {
            fields: vec![(Load::Network(4, 2), None), data_offset],
            condition: Condition::In(ConstantSet::TcpEmptyV6),
        },
    }
}

/// The tests of a canonical rule, what they presuppose first.
pub(super) fn tests(rule: &Rule, netdev: bool) -> Vec<Test> {
    let versions: BTreeSet<IpVersion> = rule.matches.iter().filter_map(Match::version).collect();
    let protocols: BTreeSet<u8> = rule.matches.iter().filter_map(Match::protocol).collect();
    let any_port = |m: &Match| matches!(m, Match::SourcePort(..) | Match::DestinationPort(..));
    let mut tests: Vec<Test> = versions
        .into_iter()
        .map(|version| version_test(netdev, version))
        .collect();
    if protocols.is_empty() && rule.matches.iter().any(any_port) {
        tests.push(one(
            Load::Meta(MetaKey::L4Proto),
            None,
            Condition::In(ConstantSet::PortProtocols),
        ));
    }
    tests.extend(protocols.into_iter().map(protocol_test));
    tests.extend(rule.matches.iter().filter_map(|m| match m {
        // Written above, and refused by the plan.
        Match::Version(_) | Match::Protocol(_) | Match::Other(_) => None,
        Match::Source { address, prefix } => Some(address_test(*address, *prefix, (12, 8))),
        Match::Destination { address, prefix } => Some(address_test(*address, *prefix, (16, 24))),
        Match::SourcePort(from, to) => Some(number(Load::Transport(0, 2), *from, *to)),
        Match::DestinationPort(from, to) => Some(number(Load::Transport(2, 2), *from, *to)),
        Match::Dscp(version, dscp) => Some(dscp_test(*version, *dscp)),
        Match::Length(IpVersion::V4, from, to) => Some(number(Load::Network(2, 2), *from, *to)),
        Match::Length(IpVersion::V6, from, to) => Some(number(
            Load::Network(4, 2),
            from.saturating_sub(40),
            to.saturating_sub(40),
        )),
        Match::TcpFlags { mask, value } => Some(one(
            Load::Transport(13, 1),
            Some(vec![*mask]),
            Condition::Equal(vec![*value]),
        )),
        Match::TcpPayloadEmpty(version) => Some(empty_test(*version)),
        Match::Icmpv6Type(from, to) => Some(one(
            Load::Transport(0, 1),
            None,
            if from == to {
                Condition::Equal(vec![*from])
            } else {
                Condition::Within(vec![*from], vec![*to])
            },
        )),
        Match::InputDevice(device) => Some(one(
            Load::Meta(MetaKey::IifName),
            None,
            Condition::Equal(name_bytes(device)),
        )),
        Match::NotInputDevice(device) => Some(one(
            Load::Meta(MetaKey::IifName),
            None,
            Condition::Unequal(name_bytes(device)),
        )),
    }));
    tests
}

/// The sets that the rules look things up in.
pub(crate) fn sets_used<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    netdev: bool,
) -> BTreeSet<ConstantSet> {
    rules
        .flat_map(|rule| tests(&rule.canonical(), netdev))
        .filter_map(|test| match test.condition {
            Condition::In(set) => Some(set),
            _ => None,
        })
        .collect()
}

/// The rule's expressions: its tests, the class, the end.
pub(crate) fn write(rule: &Rule, netdev: bool, end: End) -> Vec<Expr> {
    let mut out = Vec::new();
    for test in tests(&rule.canonical(), netdev) {
        write_test(&mut out, test);
    }
    out.push(Expr::Immediate {
        dreg: Register::R0,
        // `skb->priority` is in the host's order.
        data: rule.class.as_u32().to_ne_bytes().to_vec(),
    });
    out.push(Expr::MetaSet {
        key: MetaKey::Priority,
        sreg: Register::R0,
    });
    out.extend(write_end(end));
    out
}

/// The expressions of an end alone.
pub(crate) fn write_end(end: End) -> Vec<Expr> {
    match end {
        End::Accept => vec![Expr::Verdict(Verdict::Accept)],
        End::Forward(index) => vec![
            Expr::Immediate {
                dreg: Register::R0,
                data: index.to_ne_bytes().to_vec(),
            },
            Expr::Fwd {
                sreg_dev: Register::R0,
                sreg_addr: None,
            },
        ],
    }
}

/// The first rule of a postrouting chain: other devices' packets go on.
pub(crate) fn write_other_devices(device: &DeviceName) -> Vec<Expr> {
    let mut out = Vec::new();
    write_test(
        &mut out,
        one(
            Load::Meta(MetaKey::OifName),
            None,
            Condition::Unequal(name_bytes(device)),
        ),
    );
    out.extend(write_end(End::Accept));
    out
}

fn write_test(out: &mut Vec<Expr>, test: Test) {
    for ((load, mask), register) in test.fields.iter().zip(REGISTERS) {
        out.push(match load {
            Load::Meta(key) => Expr::Meta {
                dreg: register,
                key: *key,
            },
            Load::Network(offset, len) => Expr::Payload {
                dreg: register,
                base: PayloadBase::Network,
                offset: *offset,
                len: *len,
            },
            Load::Transport(offset, len) => Expr::Payload {
                dreg: register,
                base: PayloadBase::Transport,
                offset: *offset,
                len: *len,
            },
        });
        if let Some(mask) = mask {
            out.push(Expr::Bitwise {
                sreg: register,
                dreg: register,
                len: mask.len() as u32,
                mask: mask.clone(),
                xor: vec![0; mask.len()],
            });
        }
    }
    let sreg = Register::R0;
    out.push(match test.condition {
        Condition::Equal(data) => Expr::Cmp {
            sreg,
            op: CmpOp::Eq,
            data,
        },
        Condition::Unequal(data) => Expr::Cmp {
            sreg,
            op: CmpOp::Neq,
            data,
        },
        Condition::Within(from, to) => Expr::Range {
            sreg,
            op: RangeOp::Eq,
            from,
            to,
        },
        Condition::In(set) => LookupExpr::new(set.name(), sreg).into(),
    });
}

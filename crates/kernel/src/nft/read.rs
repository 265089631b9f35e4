// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rule from its nf_tables expressions. Only what [`rule::write`] writes is
//! understood; everything else is named as unknown.

use super::rule::{self, Condition, End, Load, REGISTERS, Test};
use super::sets::ConstantSet;
use nlink::netlink::nftables::{CmpOp, MetaKey, PayloadBase, RangeOp, Register, RuleExpr, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_state::{DeviceName, IpVersion, Match, Origin, Rule};
use weirgate_units::{Dscp, Handle};

/// What was read of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// A rule of weirgate's form, with its end.
    Rule(Rule, End),
    /// An end without tests or class.
    Tail(End),
    /// Packets of devices other than this go on.
    OtherDevices(DeviceName),
    /// Anything else, described.
    Unknown(String),
}

/// Reads a rule's expressions. `sets` are those of the table whose elements
/// are as they should be.
pub(crate) fn read(exprs: &[RuleExpr], netdev: bool, sets: &BTreeSet<ConstantSet>) -> Read {
    match read_whole(exprs, netdev, sets) {
        Some(read) => read,
        None => Read::Unknown(format!("{exprs:?}")),
    }
}

fn read_whole(exprs: &[RuleExpr], netdev: bool, sets: &BTreeSet<ConstantSet>) -> Option<Read> {
    let mut rest = exprs;
    let mut tests = Vec::new();
    while let Some((test, after)) = read_test(rest, sets) {
        tests.push(test);
        rest = after;
    }
    let class = match rest {
        [
            RuleExpr::Immediate { dreg, data, .. },
            RuleExpr::MetaSet {
                key: MetaKey::Priority,
                sreg,
                ..
            },
            after @ ..,
        ] if dreg == sreg => {
            rest = after;
            Some(Handle::from_u32(word(data)?))
        }
        _ => None,
    };
    let end = match rest {
        [RuleExpr::Verdict(Verdict::Accept)] => End::Accept,
        [
            RuleExpr::Immediate { dreg, data, .. },
            RuleExpr::Fwd {
                sreg_dev,
                sreg_addr: None,
                ..
            },
        ] if dreg == sreg_dev => End::Forward(word(data)?),
        _ => return None,
    };
    if let Some(class) = class {
        let matches = tests
            .iter()
            .map(|test| read_match(test, netdev))
            .collect::<Option<Vec<Meaning>>>()?;
        let found = Rule {
            matches: matches
                .into_iter()
                .filter_map(|meaning| match meaning {
                    Meaning::Match(found) => Some(found),
                    Meaning::Implied => None,
                })
                .collect(),
            class,
            origin: Origin::default(),
        };
        // The form written is the only one accepted: tests left out or in
        // another order are another rule.
        let canonical = found.canonical();
        return (rule::tests(&canonical, netdev) == tests).then_some(Read::Rule(canonical, end));
    }
    match tests.as_slice() {
        [] => Some(Read::Tail(end)),
        [Test { fields, condition }] if end == End::Accept => {
            let Condition::Unequal(name) = condition else {
                return None;
            };
            let by_name = fields == &[(Load::Meta(MetaKey::OifName), None)];
            by_name.then_some(Read::OtherDevices(device_name(name)?))
        }
        _ => None,
    }
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn device_name(bytes: &[u8]) -> Option<DeviceName> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    DeviceName::new(std::str::from_utf8(&bytes[..end]).ok()?)
}

/// The first word of the first register has two names.
fn slot(register: Register) -> Option<usize> {
    if register == Register::Reg32_00 {
        return Some(0);
    }
    REGISTERS.iter().position(|own| *own == register)
}

/// One test from the front of the expressions, and the rest.
fn read_test<'a>(
    exprs: &'a [RuleExpr],
    sets: &BTreeSet<ConstantSet>,
) -> Option<(Test, &'a [RuleExpr])> {
    let mut fields: BTreeMap<usize, (Load, Option<Vec<u8>>)> = BTreeMap::new();
    let mut rest = exprs;
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        let condition = match first {
            RuleExpr::Meta { dreg, key, .. } => {
                fields.insert(slot(*dreg)?, (Load::Meta(*key), None));
                continue;
            }
            RuleExpr::Payload {
                dreg,
                base,
                offset,
                len,
                ..
            } => {
                let load = match base {
                    PayloadBase::Network => Load::Network(*offset, *len),
                    PayloadBase::Transport => Load::Transport(*offset, *len),
                    _ => return None,
                };
                fields.insert(slot(*dreg)?, (load, None));
                continue;
            }
            RuleExpr::Bitwise {
                sreg,
                dreg,
                mask,
                xor,
                ..
            } => {
                if sreg != dreg || xor.iter().any(|byte| *byte != 0) {
                    return None;
                }
                fields.get_mut(&slot(*sreg)?)?.1 = Some(mask.clone());
                continue;
            }
            RuleExpr::Cmp { sreg, op, data, .. } if slot(*sreg)? == 0 => match op {
                CmpOp::Eq => Condition::Equal(data.clone()),
                CmpOp::Neq => Condition::Unequal(data.clone()),
                _ => return None,
            },
            RuleExpr::Range {
                sreg,
                op: RangeOp::Eq,
                from,
                to,
                ..
            } if slot(*sreg)? == 0 => Condition::Within(from.clone(), to.clone()),
            RuleExpr::Lookup {
                set,
                sreg,
                dreg: None,
                invert: false,
                ..
            } if slot(*sreg)? == 0 => {
                Condition::In(*sets.iter().find(|known| known.name() == set)?)
            }
            _ => return None,
        };
        let in_order = fields.keys().copied().eq(0..fields.len());
        return in_order.then(|| {
            let test = Test {
                fields: fields.into_values().collect(),
                condition,
            };
            (test, rest)
        });
    }
}

fn bounds(condition: &Condition) -> Option<(u16, u16)> {
    let value = |bytes: &[u8]| match bytes {
        [one] => Some(u16::from(*one)),
        [high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    };
    match condition {
        Condition::Equal(bytes) => Some((value(bytes)?, value(bytes)?)),
        Condition::Within(from, to) => Some((value(from)?, value(to)?)),
        _ => None,
    }
}

/// What a test says.
enum Meaning {
    /// This match.
    Match(Match),
    /// Nothing by itself: another match implies it.
    Implied,
}

/// The match of one test; `None` for a test that weirgate never writes. Whether it is the exact form is checked by writing it again.
fn read_match(test: &Test, netdev: bool) -> Option<Meaning> {
    for version in [IpVersion::V4, IpVersion::V6] {
        if *test == rule::version_test(netdev, version) {
            return Some(Meaning::Match(Match::Version(version)));
        }
        if *test == rule::empty_test(version) {
            return Some(Meaning::Match(Match::TcpPayloadEmpty(version)));
        }
    }
    if test.condition == Condition::In(ConstantSet::PortProtocols) {
        return Some(Meaning::Implied);
    }
    let [(load, mask)] = test.fields.as_slice() else {
        return None;
    };
    let equal = match &test.condition {
        Condition::Equal(bytes) => Some(bytes.as_slice()),
        _ => None,
    };
    let found = match (load, mask) {
        (Load::Meta(MetaKey::L4Proto), None) => match equal? {
            [number] => Match::Protocol(*number),
            _ => return None,
        },
        (Load::Meta(MetaKey::IifName), None) => match &test.condition {
            Condition::Equal(name) => Match::InputDevice(device_name(name)?),
            Condition::Unequal(name) => Match::NotInputDevice(device_name(name)?),
            _ => return None,
        },
        (Load::Network(12 | 8, 4 | 16), mask) => {
            let (address, prefix) = read_address(equal?, mask.as_deref())?;
            Match::Source { address, prefix }
        }
        (Load::Network(16 | 24, 4 | 16), mask) => {
            let (address, prefix) = read_address(equal?, mask.as_deref())?;
            Match::Destination { address, prefix }
        }
        (Load::Network(1, 1), Some(_)) => {
            Match::Dscp(IpVersion::V4, Dscp::new(equal?.first()? >> 2)?)
        }
        (Load::Network(0, 2), Some(_)) => {
            let (value, _) = bounds(&test.condition)?;
            Match::Dscp(IpVersion::V6, Dscp::new((value >> 6) as u8)?)
        }
        (Load::Network(2, 2), None) => {
            let (from, to) = bounds(&test.condition)?;
            Match::Length(IpVersion::V4, from, to)
        }
        (Load::Network(4, 2), None) => {
            let (from, to) = bounds(&test.condition)?;
            Match::Length(IpVersion::V6, from.checked_add(40)?, to.checked_add(40)?)
        }
        (Load::Transport(0, 2), None) => {
            let (from, to) = bounds(&test.condition)?;
            Match::SourcePort(from, to)
        }
        (Load::Transport(2, 2), None) => {
            let (from, to) = bounds(&test.condition)?;
            Match::DestinationPort(from, to)
        }
        (Load::Transport(0, 1), None) => {
            let (from, to) = bounds(&test.condition)?;
            Match::Icmpv6Type(u8::try_from(from).ok()?, u8::try_from(to).ok()?)
        }
        (Load::Transport(13, 1), Some(mask)) => Match::TcpFlags {
            mask: *mask.first()?,
            value: *equal?.first()?,
        },
        _ => return None,
    };
    Some(Meaning::Match(found))
}

fn read_address(bytes: &[u8], mask: Option<&[u8]>) -> Option<(IpAddr, u8)> {
    let address: IpAddr = if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        Ipv4Addr::from(v4).into()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()
    };
    let prefix = match mask {
        None => bytes.len() * 8,
        Some(mask) => mask.iter().map(|byte| byte.count_ones() as usize).sum(),
    };
    Some((address, prefix as u8))
}

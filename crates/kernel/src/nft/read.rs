// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a rule from its nf_tables expressions. It understands only what `rule::write` writes;
//! everything else is returned as unknown.
//!
//! Over 500 lines, because each reader takes expressions off the front of a rule and passes the
//! rest to the next: none of them can be understood alone.

use super::field::{self, Load, Source};
use super::rule::{self, End, REGISTERS};
use super::sets::ConstantSet;
use nlink::netlink::nftables::{
    ByteorderOp, CmpOp, CtKey, DynsetOp, ExthdrOp, LimitExpr, LimitKind, MetaKey,
    NFT_REJECT_ICMPX_PORT_UNREACH, NFT_REJECT_ICMPX_UNREACH, ObjectType, ObjrefExpr, PayloadBase,
    RangeOp, Register, RuleExpr, TCPOPT_MAXSEG, Verdict as NftVerdict,
};
use std::collections::BTreeSet;
use weirgate_state::{
    Count, DeviceName, Effect, Field, Frame, ICMP, ICMPV6, IpVersion, Match, Meter, Origin, Rule,
    RuleVerdict, Values, switch_name,
};
use weirgate_units::{Dscp, Handle};

/// The result of reading one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// A rule of weirgate's form, with its end if it has one.
    Rule(Rule, Option<End>),
    /// Accepts packets of devices other than this one.
    OtherDevices(DeviceName),
    /// Anything else, described.
    Unknown(String),
}

/// What is known about a rule's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) netdev: bool,
    /// Constant sets that have the right elements.
    pub(crate) constants: &'a BTreeSet<ConstantSet>,
    /// The chains with a switch.
    pub(crate) switched: &'a BTreeSet<String>,
}

/// Reads a rule's expressions.
pub(crate) fn read(exprs: &[RuleExpr], known: Known<'_>) -> Read {
    other_devices(exprs)
        .or_else(|| read_whole(exprs, known))
        .unwrap_or_else(|| Read::Unknown(format!("{exprs:?}")))
}

fn other_devices(exprs: &[RuleExpr]) -> Option<Read> {
    match exprs {
        [
            RuleExpr::Meta {
                key: MetaKey::OifName,
                ..
            },
            RuleExpr::Cmp {
                op: CmpOp::Neq,
                data,
                ..
            },
            RuleExpr::Verdict(NftVerdict::Accept),
        ] => Some(Read::OtherDevices(DeviceName::new(field::text(data)?)?)),
        _ => None,
    }
}

fn read_whole(exprs: &[RuleExpr], known: Known<'_>) -> Option<Read> {
    let mut rest = exprs;
    let mut matches: Vec<Match> = Vec::new();
    let frame = frame(exprs);
    while let Some((found, after)) = read_match(rest, known, frame, version(&matches)) {
        matches.push(found);
        rest = after;
    }
    let counter = match rest.split_first() {
        Some((
            RuleExpr::Objref(ObjrefExpr::Named {
                object_type: ObjectType::Counter,
                name,
            }),
            after,
        )) => {
            rest = after;
            Some(name.clone())
        }
        _ => None,
    };
    let mut effects = Vec::new();
    while let Some((effect, after)) = read_effect(rest, frame, known.netdev) {
        effects.push(effect);
        rest = after;
    }
    let (verdict, end) = read_verdict(rest, known)?;
    let rule = Rule {
        frame,
        matches,
        counter,
        effects,
        verdict,
        origin: Origin::default(),
    };
    Some(Read::Rule(rule, end))
}

/// Returns where a rule finds the IP packet.
fn frame(exprs: &[RuleExpr]) -> Frame {
    let of = |expr: &RuleExpr| match expr {
        RuleExpr::Payload {
            base: PayloadBase::Network,
            offset,
            len,
            ..
        } => field::frame(Load::Network(*offset, *len)),
        _ => None,
    };
    exprs.iter().find_map(of).unwrap_or_default()
}

/// Returns the IP version of the ICMP for which the matches so far tested.
fn version(matches: &[Match]) -> Option<IpVersion> {
    let of = |number: u8| Match::one(Field::Protocol, u128::from(number));
    matches.iter().rev().find_map(|m| {
        let v4 = (*m == of(ICMP)).then_some(IpVersion::V4);
        v4.or_else(|| (*m == of(ICMPV6)).then_some(IpVersion::V6))
    })
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Returns whether a register is the one of this slot. The first word of the first register has two
/// names.
fn is_slot(register: Register, slot: usize) -> bool {
    REGISTERS.get(slot) == Some(&register) || (slot == 0 && register == Register::Reg32_00)
}

/// Reads what is loaded into a register. Returns it with the remaining expressions.
fn read_source(exprs: &[RuleExpr], slot: usize) -> Option<(Source, &[RuleExpr])> {
    let (first, mut rest) = exprs.split_first()?;
    let (load, register) = field::loaded(first)?;
    if !is_slot(register, slot) {
        return None;
    }
    let mut source = Source {
        load,
        mask: None,
        turned: None,
    };
    if let Some((
        RuleExpr::Bitwise {
            sreg,
            dreg,
            mask,
            xor,
            ..
        },
        after,
    )) = rest.split_first()
        && is_slot(*sreg, slot)
        && is_slot(*dreg, slot)
        && xor.iter().all(|byte| *byte == 0)
    {
        source.mask = Some(mask.clone());
        rest = after;
    }
    if let Some((
        RuleExpr::Byteorder {
            sreg,
            dreg,
            op: ByteorderOp::Hton,
            len,
            size,
            ..
        },
        after,
    )) = rest.split_first()
        && is_slot(*sreg, slot)
        && is_slot(*dreg, slot)
        && len == size
    {
        source.turned = Some(*len);
        rest = after;
    }
    Some((source, rest))
}

/// Reads one match from the front of the expressions. Returns it with the rest.
fn read_match<'a>(
    exprs: &'a [RuleExpr],
    known: Known<'_>,
    frame: Frame,
    version: Option<IpVersion>,
) -> Option<(Match, &'a [RuleExpr])> {
    if let Some(found) = read_empty(exprs, known, frame) {
        return Some(found);
    }
    let (source, rest) = read_source(exprs, 0)?;
    let field = field::field(&source, frame, known.netdev, version)?;
    let (first, rest) = rest.split_first()?;
    // A value that is not of an IP version is another ethertype.
    let field = match first {
        RuleExpr::Cmp { data, .. }
            if known.netdev
                && field == Field::Version
                && field::value(field, true, data).is_none() =>
        {
            Field::EtherType
        }
        _ => field,
    };
    let value = |bytes: &[u8]| field::value(field, known.netdev, bytes);
    let test = |negated, values| Match::Test {
        field,
        negated,
        values,
    };
    let found = match first {
        RuleExpr::Cmp { sreg, op, data, .. } if is_slot(*sreg, 0) => {
            let negated = match op {
                CmpOp::Eq => false,
                CmpOp::Neq => true,
                _ => return None,
            };
            let values = if field.is_text() {
                Values::Text(field::text(data)?)
            } else {
                let value = value(data)?;
                Values::Range(value, value)
            };
            test(negated, values)
        }
        RuleExpr::Range {
            sreg, op, from, to, ..
        } if is_slot(*sreg, 0) => {
            let negated = matches!(op, RangeOp::Neq);
            test(negated, Values::Range(value(from)?, value(to)?))
        }
        RuleExpr::Lookup {
            set,
            sreg,
            dreg: None,
            invert,
            ..
        } if is_slot(*sreg, 0) => {
            let constant = ConstantSet::ALL.iter().any(|known| known.name() == set);
            if constant {
                return None;
            }
            test(*invert, Values::Set(set.clone()))
        }
        RuleExpr::Dynset {
            set,
            op,
            sreg_key,
            sreg_data: None,
            timeout: None,
            invert: false,
            statements,
            ..
        } if is_slot(*sreg_key, 0) => {
            let (count, over) = read_count(*op, statements)?;
            Match::Meter(Meter {
                field,
                set: set.clone(),
                count,
                over,
            })
        }
        _ => return None,
    };
    Some((found, rest))
}

fn read_count(op: DynsetOp, statements: &[RuleExpr]) -> Option<(Count, bool)> {
    match (op, statements) {
        (DynsetOp::Update, [RuleExpr::Limit(limit)]) => {
            let LimitExpr {
                rate, unit, burst, ..
            } = limit;
            let per = unit.to_u64() as u32;
            let count = match limit.kind {
                LimitKind::Packets => Count::Packets {
                    rate: *rate,
                    per,
                    burst: *burst,
                },
                LimitKind::Bytes if per == 1 => Count::Bytes {
                    rate: *rate,
                    burst: *burst,
                },
                _ => return None,
            };
            Some((count, limit.over))
        }
        (DynsetOp::Add, [RuleExpr::Connlimit { count, over, .. }]) => {
            Some((Count::Connections(*count), *over))
        }
        _ => None,
    }
}

fn read_empty<'a>(
    exprs: &'a [RuleExpr],
    known: Known<'_>,
    frame: Frame,
) -> Option<(Match, &'a [RuleExpr])> {
    IpVersion::BOTH.into_iter().find_map(|version| {
        let mut rest = exprs;
        for (slot, wanted) in rule::empty_sources(version, frame).iter().enumerate() {
            let (found, after) = read_source(rest, slot)?;
            if found != *wanted {
                return None;
            }
            rest = after;
        }
        let wanted = rule::empty_set(version);
        match rest.split_first()? {
            (
                RuleExpr::Lookup {
                    set,
                    sreg,
                    dreg: None,
                    invert,
                    ..
                },
                after,
            ) if is_slot(*sreg, 0) && set == wanted.name() && known.constants.contains(&wanted) => {
                let negated = *invert;
                Some((Match::TcpPayloadEmpty { version, negated }, after))
            }
            _ => None,
        }
    })
}

/// Reads a class from a map.
fn read_class_of(exprs: &[RuleExpr], frame: Frame, netdev: bool) -> Option<(Effect, &[RuleExpr])> {
    let (source, rest) = read_source(exprs, 0)?;
    match rest {
        [
            RuleExpr::Lookup {
                set,
                sreg,
                dreg: Some(dreg),
                invert: false,
                ..
            },
            RuleExpr::MetaSet {
                key: MetaKey::Priority,
                sreg: written,
                ..
            },
            after @ ..,
        ] if is_slot(*sreg, 0) && is_slot(*dreg, 0) && is_slot(*written, 0) => {
            let field = field::field(&source, frame, netdev, None)?;
            let map = set.clone();
            Some((Effect::ClassOf { field, map }, after))
        }
        _ => None,
    }
}

fn read_effect(exprs: &[RuleExpr], frame: Frame, netdev: bool) -> Option<(Effect, &[RuleExpr])> {
    if let Some(found) = read_class_of(exprs, frame, netdev) {
        return Some(found);
    }
    match exprs {
        [
            RuleExpr::Immediate { dreg, data, .. },
            RuleExpr::MetaSet {
                key: MetaKey::Priority,
                sreg,
                ..
            },
            after @ ..,
        ] if dreg == sreg => Some((Effect::Class(Handle::from_u32(word(data)?)), after)),
        [
            RuleExpr::Immediate { dreg, data, .. },
            RuleExpr::ExthdrSet {
                sreg,
                op: ExthdrOp::TcpOpt,
                exthdr_type: TCPOPT_MAXSEG,
                offset: rule::MAXSEG_OFFSET,
                len: 2,
                ..
            },
            after @ ..,
        ] if dreg == sreg => {
            let bytes = data.get(..2)?.try_into().ok()?;
            Some((Effect::MaxSegment(u16::from_be_bytes(bytes)), after))
        }
        [
            RuleExpr::Meta {
                key: MetaKey::Mark, ..
            },
            RuleExpr::Bitwise { mask, xor, .. },
            RuleExpr::MetaSet {
                key: MetaKey::Mark, ..
            },
            after @ ..,
        ] => {
            let mask = !word(mask)?;
            let value = word(xor)?;
            Some((Effect::Mark { mask, value }, after))
        }
        [
            RuleExpr::Ct {
                key: CtKey::Mark, ..
            },
            RuleExpr::Bitwise { mask, xor, .. },
            RuleExpr::CtSet {
                key: CtKey::Mark, ..
            },
            after @ ..,
        ] => {
            let mask = !word(mask)?;
            let value = word(xor)?;
            Some((Effect::ConnectionMark { mask, value }, after))
        }
        [
            RuleExpr::Payload {
                base: PayloadBase::Network,
                offset: 0,
                len: 2,
                ..
            },
            RuleExpr::Bitwise { mask, xor, .. },
            RuleExpr::PayloadSet {
                base: PayloadBase::Network,
                offset: 0,
                len: 2,
                ..
            },
            after @ ..,
        ] => {
            let (version, dscp) = IpVersion::BOTH.into_iter().find_map(|version| {
                let each = (0..64).filter_map(Dscp::new);
                each.map(|dscp| (version, dscp)).find(|(version, dscp)| {
                    let (keep, set) = rule::dscp_word(*version, dscp.value());
                    mask[..] == keep && xor[..] == set
                })
            })?;
            Some((Effect::Dscp(version, dscp), after))
        }
        _ => None,
    }
}

fn read_verdict(exprs: &[RuleExpr], known: Known<'_>) -> Option<(RuleVerdict, Option<End>)> {
    Some(match exprs {
        [] => (RuleVerdict::Continue, None),
        [RuleExpr::Verdict(NftVerdict::Accept)] => (RuleVerdict::Final, Some(End::Accept)),
        [RuleExpr::Verdict(NftVerdict::Return)] => (RuleVerdict::Return, None),
        [
            RuleExpr::Reject {
                reject_type: NFT_REJECT_ICMPX_UNREACH,
                icmp_code: Some(NFT_REJECT_ICMPX_PORT_UNREACH),
                ..
            },
        ] => (RuleVerdict::Refuse, None),
        [RuleExpr::Verdict(NftVerdict::JumpTo(name))] => {
            (RuleVerdict::Jump(name.as_str().to_owned()), None)
        }
        [RuleExpr::Verdict(NftVerdict::GotoTo(name))] => {
            (RuleVerdict::Goto(name.as_str().to_owned()), None)
        }
        [
            RuleExpr::Immediate { dreg, data, .. },
            RuleExpr::Fwd {
                sreg_dev,
                sreg_addr: None,
                ..
            },
        ] if dreg == sreg_dev => (RuleVerdict::Final, Some(End::Forward(word(data)?))),
        [
            load @ RuleExpr::Meta { .. },
            RuleExpr::Lookup {
                set,
                dreg: Some(Register::Verdict),
                invert: false,
                ..
            },
        ] => {
            let (source, _) = read_source(std::slice::from_ref(load), 0)?;
            let wanted = field::source(Field::Version, Frame::Plain, known.netdev);
            let chain = known
                .switched
                .iter()
                .find(|chain| switch_name(chain) == *set)?;
            (source == wanted).then(|| (RuleVerdict::Jump(chain.clone()), None))?
        }
        _ => return None,
    })
}

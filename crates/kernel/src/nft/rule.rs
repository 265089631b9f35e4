// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes one rule as nf_tables expressions: its matches, counter, effects and verdict.

use super::field::{self, Load, Source};
use super::sets::ConstantSet;
use nlink::netlink::nftables::{
    ChainName, CmpOp, CtKey, DynsetExpr, DynsetOp, ElementStatement, Expr, ExthdrOp, LimitExpr,
    LimitUnit, LookupExpr, MetaKey, NFT_REJECT_ICMPX_PORT_UNREACH, NFT_REJECT_ICMPX_UNREACH,
    ObjectType, ObjrefExpr, PayloadBase, PayloadCsum, RangeOp, Register, TCPOPT_MAXSEG,
    Verdict as NftVerdict,
};
use std::collections::BTreeSet;
use weirgate_state::{
    Count, DeviceName, Effect, Field, Frame, IpVersion, Match, Meter, Rule, RuleVerdict, Values,
    switch_name,
};
use weirgate_units::Inserted as _;

/// The offset of the value in the TCP option for the maximum segment size (RFC 9293 section 3.2).
pub(super) const MAXSEG_OFFSET: u32 = 2;

/// How a rule or chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The packet is accepted.
    Accept,
    /// The packet goes to another device, by index.
    Forward(u32),
}

/// The context on which a rule's expressions depend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleContext<'a> {
    pub(crate) netdev: bool,
    pub(crate) end: End,
    /// The chains with a switch.
    pub(crate) switched: &'a BTreeSet<String>,
}

pub(super) const REGISTERS: [Register; 3] = [Register::R0, Register::Reg32_01, Register::Reg32_02];

/// Returns the sources of a segment's lengths, which are loaded side by side; none for an IP
/// version that the frame does not have.
pub(super) fn empty_sources(version: IpVersion, frame: Frame) -> Vec<Source> {
    let plain = |load| Source {
        load,
        mask: None,
        turned: None,
    };
    let masked = |load, mask: Vec<u8>| Source {
        load,
        mask: Some(mask),
        turned: None,
    };
    let (ip, data_offset) = match (frame, frame.fixed()) {
        (Frame::Session(other), Some(_)) if other != version => return Vec::new(),
        (_, Some((ip, header))) => {
            let (ip, header) = (ip as u32, header as u32);
            (ip, Load::Network(ip + header + 12, 2))
        }
        (_, None) => (0, Load::Transport(12, 2)),
    };
    let data_offset = masked(data_offset, vec![0xf0, 0]);
    match version {
        IpVersion::V4 => vec![
            plain(Load::Network(ip + 2, 2)),
            masked(Load::Network(ip, 2), vec![0x0f, 0]),
            data_offset,
        ],
        IpVersion::V6 => vec![plain(Load::Network(ip + 4, 2)), data_offset],
    }
}

pub(super) fn empty_set(version: IpVersion) -> ConstantSet {
    match version {
        IpVersion::V4 => ConstantSet::TcpEmptyV4,
        IpVersion::V6 => ConstantSet::TcpEmptyV6,
    }
}

/// Returns the constant sets that the rules use.
pub(crate) fn sets_used<'a>(rules: impl Iterator<Item = &'a Rule>) -> BTreeSet<ConstantSet> {
    rules
        .flat_map(|rule| &rule.matches)
        .filter_map(|m| match m {
            Match::TcpPayloadEmpty { version, .. } => Some(empty_set(*version)),
            _ => None,
        })
        .inserted()
}

/// Returns the rule's expressions; `None` if a chain's name is invalid.
pub(crate) fn write(rule: &Rule, context: RuleContext<'_>) -> Option<Vec<Expr>> {
    let mut out = Vec::new();
    for one in &rule.matches {
        write_match(&mut out, one, rule.frame, context.netdev);
    }
    if let Some(counter) = &rule.counter {
        out.push(
            ObjrefExpr::Named {
                object_type: ObjectType::Counter,
                name: counter.clone(),
            }
            .into(),
        );
    }
    for effect in &rule.effects {
        write_effect(&mut out, effect, rule.frame, context.netdev);
    }
    let name = |name: &str| ChainName::new(name).ok();
    match &rule.verdict {
        RuleVerdict::Continue => {}
        RuleVerdict::Final => out.extend(write_end(context.end)),
        RuleVerdict::Jump(chain) if context.switched.contains(chain) => {
            field::write(
                &mut out,
                &field::source(Field::Version, Frame::Plain, context.netdev),
                Register::R0,
            );
            let map = LookupExpr::new(switch_name(chain), Register::R0);
            out.push(map.dreg(Register::Verdict).into());
        }
        RuleVerdict::Jump(chain) => out.push(Expr::Verdict(NftVerdict::JumpTo(name(chain)?))),
        RuleVerdict::Goto(chain) => out.push(Expr::Verdict(NftVerdict::GotoTo(name(chain)?))),
        RuleVerdict::Return => out.push(Expr::Verdict(NftVerdict::Return)),
        RuleVerdict::Refuse => out.push(Expr::Reject {
            reject_type: NFT_REJECT_ICMPX_UNREACH,
            icmp_code: NFT_REJECT_ICMPX_PORT_UNREACH,
        }),
    }
    Some(out)
}

/// Returns the expressions of an end alone.
pub(crate) fn write_end(end: End) -> Vec<Expr> {
    match end {
        End::Accept => vec![Expr::Verdict(NftVerdict::Accept)],
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

/// Returns the first rule of a postrouting chain: it accepts packets of other devices.
pub(crate) fn write_other_devices(device: &DeviceName) -> Vec<Expr> {
    let mut out = vec![
        Expr::Meta {
            dreg: Register::R0,
            key: MetaKey::OifName,
        },
        Expr::Cmp {
            sreg: Register::R0,
            op: CmpOp::Neq,
            data: field::raw_text(device.as_str()),
        },
    ];
    out.extend(write_end(End::Accept));
    out
}

fn write_match(out: &mut Vec<Expr>, one: &Match, frame: Frame, netdev: bool) {
    let sreg = Register::R0;
    match one {
        Match::Test {
            field,
            negated,
            values,
        } => {
            field::write(out, &field::source(*field, frame, netdev), sreg);
            out.push(write_values(*field, *negated, values, netdev));
        }
        Match::TcpPayloadEmpty { version, negated } => {
            for (source, register) in empty_sources(*version, frame).iter().zip(REGISTERS) {
                field::write(out, source, register);
            }
            let lookup = LookupExpr::new(empty_set(*version).name(), sreg);
            out.push(if *negated { lookup.invert() } else { lookup }.into());
        }
        Match::Meter(meter) => {
            field::write(out, &field::source(meter.field, frame, netdev), sreg);
            out.push(write_meter(meter, sreg));
        }
        // The plan has refused this.
        Match::Other(_) => {}
    }
}

fn write_values(field: Field, negated: bool, values: &Values, netdev: bool) -> Expr {
    let sreg = Register::R0;
    let raw = |value| field::raw(field, netdev, value);
    let cmp = |data| Expr::Cmp {
        sreg,
        op: if negated { CmpOp::Neq } else { CmpOp::Eq },
        data,
    };
    match values {
        Values::Text(text) => cmp(field::raw_text(text)),
        Values::Range(from, to) => {
            let (from, to) = (raw(*from), raw(*to));
            if from == to {
                cmp(from)
            } else {
                Expr::Range {
                    sreg,
                    op: if negated { RangeOp::Neq } else { RangeOp::Eq },
                    from,
                    to,
                }
            }
        }
        Values::Set(name) => {
            let lookup = LookupExpr::new(name.clone(), sreg);
            if negated { lookup.invert() } else { lookup }.into()
        }
    }
}

fn write_meter(meter: &Meter, sreg: Register) -> Expr {
    let over = |limit: LimitExpr| if meter.over { limit.over() } else { limit };
    let (op, statement): (DynsetOp, ElementStatement) = match &meter.count {
        Count::Packets { rate, per, burst } => {
            let unit = unit(*per);
            let limit = LimitExpr::packets(*rate, unit).burst(*burst);
            (DynsetOp::Update, over(limit).into())
        }
        Count::Bytes { rate, burst } => {
            let rate = nlink::Bytes::new(*rate);
            let limit = LimitExpr::bytes(rate, LimitUnit::Second).burst(*burst);
            (DynsetOp::Update, over(limit).into())
        }
        Count::Connections(count) => (
            DynsetOp::Add,
            ElementStatement::Connlimit {
                count: *count,
                over: meter.over,
            },
        ),
    };
    DynsetExpr::new(op, meter.set.clone(), sreg)
        .statement(statement)
        .into()
}

pub(super) fn unit(per: u32) -> LimitUnit {
    match per {
        60 => LimitUnit::Minute,
        3600 => LimitUnit::Hour,
        86400 => LimitUnit::Day,
        _ => LimitUnit::Second,
    }
}

/// Returns the mask of the bits that stay in the word with the code point, and the code point in
/// its place.
pub(super) fn dscp_word(version: IpVersion, dscp: u8) -> ([u8; 2], [u8; 2]) {
    match version {
        IpVersion::V4 => ([0xff, 0x03], [0, dscp << 2]),
        IpVersion::V6 => ([0xf0, 0x3f], (u16::from(dscp) << 6).to_be_bytes()),
    }
}

/// Returns the expression that writes `value` into the bits of `mask` of the word in the first
/// register.
fn bits_written(mask: u32, value: u32) -> Expr {
    Expr::Bitwise {
        sreg: Register::R0,
        dreg: Register::R0,
        len: 4,
        mask: (!mask).to_ne_bytes().to_vec(),
        xor: value.to_ne_bytes().to_vec(),
    }
}

fn write_effect(out: &mut Vec<Expr>, effect: &Effect, frame: Frame, netdev: bool) {
    let register = Register::R0;
    match effect {
        Effect::Class(class) => out.extend([
            Expr::Immediate {
                dreg: register,
                // `skb->priority` is in host byte order.
                data: class.as_u32().to_ne_bytes().to_vec(),
            },
            Expr::MetaSet {
                key: MetaKey::Priority,
                sreg: register,
            },
        ]),
        Effect::ClassOf { field, map } => {
            // `skb->priority` is in host byte order, and so are the map's data.
            field::write(out, &field::source(*field, frame, netdev), register);
            out.push(LookupExpr::new(map.clone(), register).dreg(register).into());
            out.push(Expr::MetaSet {
                key: MetaKey::Priority,
                sreg: register,
            });
        }
        Effect::MaxSegment(bytes) => out.extend([
            Expr::Immediate {
                dreg: register,
                data: bytes.to_be_bytes().to_vec(),
            },
            Expr::ExthdrSet {
                sreg: register,
                op: ExthdrOp::TcpOpt,
                exthdr_type: TCPOPT_MAXSEG,
                offset: MAXSEG_OFFSET,
                len: 2,
            },
        ]),
        Effect::Mark { mask, value } => out.extend([
            Expr::Meta {
                dreg: register,
                key: MetaKey::Mark,
            },
            bits_written(*mask, *value),
            Expr::MetaSet {
                key: MetaKey::Mark,
                sreg: register,
            },
        ]),
        Effect::ConnectionMark { mask, value } => out.extend([
            Expr::Ct {
                dreg: register,
                key: CtKey::Mark,
            },
            bits_written(*mask, *value),
            Expr::CtSet {
                key: CtKey::Mark,
                sreg: register,
            },
        ]),
        Effect::Dscp(version, dscp) => {
            // Rewrite a whole 16-bit word, because checksums are computed over words.
            let (mask, xor) = dscp_word(*version, dscp.value());
            let (csum, csum_offset) = match version {
                IpVersion::V4 => (PayloadCsum::Inet, 10),
                IpVersion::V6 => (PayloadCsum::None, 0),
            };
            out.extend([
                Expr::Payload {
                    dreg: register,
                    base: PayloadBase::Network,
                    offset: 0,
                    len: 2,
                },
                Expr::Bitwise {
                    sreg: register,
                    dreg: register,
                    len: 2,
                    mask: mask.to_vec(),
                    xor: xor.to_vec(),
                },
                Expr::PayloadSet {
                    sreg: register,
                    base: PayloadBase::Network,
                    offset: 0,
                    len: 2,
                    csum,
                    csum_offset,
                    l4_pseudo_header: false,
                },
            ]);
        }
    }
}

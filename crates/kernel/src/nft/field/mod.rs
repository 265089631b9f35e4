// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How each field is loaded into a register, and the form of its values there.

mod control_group;

use super::bytes::{key_value, last, number, of_key};
use nlink::netlink::nftables::{
    ByteorderOp, CtKey, Expr, ExthdrOp, MetaKey, PayloadBase, Register, RuleExpr,
};
use weirgate_state::{Field, Frame, Header, IpVersion, Variant};

/// What an expression loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Meta(MetaKey),
    Connection(CtKey),
    /// The control group of the sender's socket, at this level below the root.
    ControlGroup(u8),
    LinkLayer(u32, u32),
    Network(u32, u32),
    Transport(u32, u32),
    /// Offset and flags in the fragment header of IPv6 (RFC 8200 section 4.5). A packet without
    /// that header ends the rule (`nft_exthdr_ipv6_eval`, net/netfilter/nft_exthdr.c).
    Fragment,
}

/// The next-header number of the fragment header, the place of the offset in it, and its length.
const FRAGMENT: (u8, u32, u32) = (44, 2, 2);

/// A load, the mask that is applied, and the length that is converted to network byte order so that
/// ranges compare correctly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) load: Load,
    pub(super) mask: Option<Vec<u8>>,
    pub(super) turned: Option<u32>,
}

/// The length of a text field: `IFNAMSIZ`, `NF_CT_HELPER_NAME_LEN`.
const TEXT: usize = 16;

/// Ethertypes of the IP versions, for tables without nfproto.
const ETHERTYPES: [(u128, [u8; 2]); 2] = [(4, [0x08, 0x00]), (6, [0x86, 0xdd])];
/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
const FAMILIES: [(u128, u8); 2] = [(4, 2), (6, 10)];

/// Returns how a field is loaded from a packet in this frame.
pub(super) fn source(field: Field, frame: Frame, netdev: bool) -> Source {
    let found = plain_source(field, netdev);
    match frame.location(field) {
        Some((offset, length)) => Source {
            load: Load::Network(offset as u32, length as u32),
            ..found
        },
        None => found,
    }
}

fn plain_source(field: Field, netdev: bool) -> Source {
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
    let turned = |load, length| Source {
        load,
        mask: None,
        turned: Some(length),
    };
    // Converted, because ranges of values are compared byte by byte.
    let mark = |load, mask: u32| Source {
        load,
        mask: Some(mask.to_ne_bytes().to_vec()),
        turned: Some(4),
    };
    match field {
        Field::Version if netdev => plain(Load::Meta(MetaKey::Protocol)),
        Field::EtherType => plain(Load::Meta(MetaKey::Protocol)),
        Field::PppProtocol => plain(Load::Network(6, 2)),
        Field::Version => plain(Load::Meta(MetaKey::NfProto)),
        Field::Protocol => plain(Load::Meta(MetaKey::L4Proto)),
        Field::InputDevice => plain(Load::Meta(MetaKey::IifName)),
        Field::InputKind => plain(Load::Meta(MetaKey::IifType)),
        Field::SourceMac => plain(Load::LinkLayer(6, 6)),
        Field::User => turned(Load::Meta(MetaKey::SkUid), 4),
        Field::Group => turned(Load::Meta(MetaKey::SkGid), 4),
        Field::ControlGroup { level } => plain(Load::ControlGroup(level)),
        Field::Mark { mask } => mark(Load::Meta(MetaKey::Mark), mask),
        Field::ConnectionMark { mask } => mark(Load::Connection(CtKey::Mark), mask),
        Field::ConnectionState { mask } => {
            masked(Load::Connection(CtKey::State), mask.to_ne_bytes().to_vec())
        }
        Field::ConnectionBytes => turned(Load::Connection(CtKey::Bytes), 8),
        Field::ConnectionPackets => turned(Load::Connection(CtKey::Pkts), 8),
        Field::ConnectionMeanSize => turned(Load::Connection(CtKey::AvgPkt), 8),
        Field::Class => plain(Load::Meta(MetaKey::Priority)),
        Field::ConnectionId => plain(Load::Connection(CtKey::Id)),
        Field::Helper => plain(Load::Connection(CtKey::Helper)),
        Field::Moment => turned(Load::Meta(MetaKey::TimeNs), 8),
        Field::Hour => turned(Load::Meta(MetaKey::TimeHour), 4),
        Field::Day => plain(Load::Meta(MetaKey::TimeDay)),
        Field::FragmentOffset(IpVersion::V6) => Source {
            load: Load::Fragment,
            mask: field.bits().map(|bits| last(length(field), bits.into())),
            turned: None,
        },
        field => Source {
            load: in_header(field),
            mask: field.bits().map(|bits| last(length(field), bits.into())),
            turned: None,
        },
    }
}

/// Returns the load of header bytes. Every other field has a load of its own; a test checks that no
/// field is left out.
fn in_header(field: Field) -> Load {
    let Some(bytes) = field.header_bytes() else {
        return Load::Network(0, 0);
    };
    let (offset, length) = (bytes.offset as u32, bytes.length as u32);
    match bytes.header {
        Header::Ip => Load::Network(offset, length),
        Header::Upper => Load::Transport(offset, length),
    }
}

/// Returns the number of bytes of a field in a header.
fn length(field: Field) -> usize {
    if field == Field::FragmentOffset(IpVersion::V6) {
        return FRAGMENT.2 as usize;
    }
    field.header_bytes().map_or(0, |bytes| bytes.length)
}

/// Returns the frame of a rule with this load; `None` if it may be any.
pub(super) fn frame(load: Load) -> Option<Frame> {
    let Load::Network(offset, length) = load else {
        return None;
    };
    let bytes = (offset as usize, length as usize);
    let holds = |frame: &Frame| frame.field_at(bytes, 0).is_some();
    Frame::SESSIONS.into_iter().find(holds)
}

/// Returns the field whose [`source`] is exactly this one. `version` is the one for whose ICMP an
/// earlier match tested.
pub(super) fn field(
    source: &Source,
    frame: Frame,
    netdev: bool,
    version: Option<IpVersion>,
) -> Option<Field> {
    let mask = match source.mask.as_deref().unwrap_or_default() {
        [one] => u32::from(*one),
        mask => mask.try_into().map_or(0, u32::from_ne_bytes),
    };
    let level = match source.load {
        Load::ControlGroup(level) => level,
        _ => 0,
    };
    let every = |version| {
        Field::every(Variant {
            version,
            mask,
            level,
        })
    };
    // Both versions have the ICMP type at the same place.
    let distinct = |field: &Field| {
        !(frame.is_plain() && matches!(field, Field::IcmpType(of) if Some(*of) != version))
    };
    let mut fields = IpVersion::BOTH.into_iter().flat_map(every).filter(distinct);
    fields.find(|field| self::source(*field, frame, netdev) == *source)
}

/// Returns a value in the form of a register.
pub(super) fn raw(field: Field, netdev: bool, value: u128) -> Vec<u8> {
    match field {
        Field::Version if netdev => ETHERTYPES
            .iter()
            .find(|known| known.0 == value)
            .map_or(vec![0, 0], |known| known.1.to_vec()),
        Field::Version => FAMILIES
            .iter()
            .find(|known| known.0 == value)
            .map_or(vec![0], |known| vec![known.1]),
        Field::EtherType | Field::PppProtocol => last(2, value),
        Field::InputKind => (value as u16).to_ne_bytes().to_vec(),
        Field::ConnectionState { .. } | Field::Class => (value as u32).to_ne_bytes().to_vec(),
        Field::ConnectionBytes | Field::ConnectionPackets | Field::ConnectionMeanSize => {
            last(8, value)
        }
        other => match other.key() {
            Some(key) => of_key(key, other.raw(value)),
            None => last(length(other), other.raw(value)),
        },
    }
}

/// Returns the value of these bytes: the inverse of [`raw`].
pub(super) fn value(field: Field, netdev: bool, bytes: &[u8]) -> Option<u128> {
    if bytes.len() > 16 {
        return None;
    }
    let whole = match field.key() {
        Some(key) => key_value(key, bytes),
        None => number(bytes),
    };
    let found = match field {
        Field::Version if netdev => ETHERTYPES.iter().find(|known| known.1 == bytes)?.0,
        Field::EtherType if ETHERTYPES.iter().any(|known| known.1 == bytes) => return None,
        Field::Version => FAMILIES.iter().find(|known| [known.1] == bytes)?.0,
        Field::InputKind => u128::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
        Field::ConnectionState { .. } | Field::Class => {
            u128::from(u32::from_ne_bytes(bytes.try_into().ok()?))
        }
        // Keep bits outside the mask: no packet has such a value.
        _ if field.mask().is_some() => whole,
        _ => field.of_raw(whole),
    };
    (raw(field, netdev, found) == bytes).then_some(found)
}

/// Returns a text in the form of a register, padded with zeros.
pub(super) fn raw_text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(TEXT, 0);
    bytes
}

/// Returns the text of these bytes.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    (raw_text(text) == bytes).then(|| text.to_owned())
}

/// Returns what an expression loads, and into which register.
pub(super) fn loaded(expr: &RuleExpr) -> Option<(Load, Register)> {
    Some(match expr {
        RuleExpr::Meta { dreg, key, .. } => (Load::Meta(*key), *dreg),
        RuleExpr::Ct { dreg, key, .. } => (Load::Connection(*key), *dreg),
        RuleExpr::Payload {
            dreg,
            base,
            offset,
            len,
            ..
        } => {
            let load = match base {
                PayloadBase::LinkLayer => Load::LinkLayer(*offset, *len),
                PayloadBase::Network => Load::Network(*offset, *len),
                PayloadBase::Transport => Load::Transport(*offset, *len),
                _ => return None,
            };
            (load, *dreg)
        }
        RuleExpr::Exthdr {
            dreg,
            op: ExthdrOp::Ipv6,
            exthdr_type,
            offset,
            len,
            ..
        } if (*exthdr_type, *offset, *len) == FRAGMENT => (Load::Fragment, *dreg),
        other => {
            let (level, register) = control_group::loaded(other)?;
            (Load::ControlGroup(level), register)
        }
    })
}

/// Writes the expressions that load a source into a register.
pub(super) fn write(out: &mut Vec<Expr>, source: &Source, register: Register) {
    let payload = |base, offset, len| Expr::Payload {
        dreg: register,
        base,
        offset,
        len,
    };
    out.push(match source.load {
        Load::Meta(key) => Expr::Meta {
            dreg: register,
            key,
        },
        Load::Connection(key) => Expr::Ct {
            dreg: register,
            key,
        },
        Load::ControlGroup(level) => control_group::load(level, register),
        Load::Fragment => Expr::Exthdr {
            dreg: register,
            op: ExthdrOp::Ipv6,
            exthdr_type: FRAGMENT.0,
            offset: FRAGMENT.1,
            len: FRAGMENT.2,
        },
        Load::LinkLayer(offset, len) => payload(PayloadBase::LinkLayer, offset, len),
        Load::Network(offset, len) => payload(PayloadBase::Network, offset, len),
        Load::Transport(offset, len) => payload(PayloadBase::Transport, offset, len),
    });
    if let Some(mask) = &source.mask {
        out.push(Expr::Bitwise {
            sreg: register,
            dreg: register,
            len: mask.len() as u32,
            mask: mask.clone(),
            xor: vec![0; mask.len()],
        });
    }
    if let Some(length) = source.turned {
        out.push(Expr::Byteorder {
            sreg: register,
            dreg: register,
            op: ByteorderOp::Hton,
            len: length,
            size: length,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_load_and_is_found_by_it() {
        let frames = [Frame::Plain].into_iter().chain(Frame::SESSIONS);
        for (frame, netdev) in frames.flat_map(|frame| [(frame, false), (frame, true)]) {
            for version in IpVersion::BOTH {
                let of = Variant {
                    version,
                    mask: 0x12,
                    level: 3,
                };
                // A rule of a session looks at no field of the other version.
                let other = frame == Frame::Session(IpVersion::V4) && version == IpVersion::V6
                    || frame == Frame::Session(IpVersion::V6) && version == IpVersion::V4;
                let fields = Field::every(of).filter(|one| !other || one.version().is_none());
                for one in fields {
                    let source = source(one, frame, netdev);
                    assert_ne!(source.load, Load::Network(0, 0), "{one:?}");
                    // An ethertype that is not of an IP version is recognised by its value.
                    let wanted = match one {
                        Field::EtherType if netdev => Field::Version,
                        one => one,
                    };
                    let found = field(&source, frame, netdev, Some(version));
                    assert_eq!(found, Some(wanted), "{frame:?}");
                }
            }
        }
    }
}

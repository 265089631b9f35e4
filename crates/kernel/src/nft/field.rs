// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How each field is loaded into a register, and what its values look like
//! there.

use super::control_group;
use nlink::netlink::nftables::{ByteorderOp, CtKey, Expr, MetaKey, PayloadBase, Register};
use weirgate_state::{Field, Frame, IpVersion};

/// What is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Meta(MetaKey),
    Connection(CtKey),
    /// The control group of the sender's socket, so many levels below the root.
    ControlGroup(u8),
    LinkLayer(u32, u32),
    Network(u32, u32),
    Transport(u32, u32),
}

/// A load, what is masked out of it, and whether it is turned into network
/// order so that ranges compare right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) load: Load,
    pub(super) mask: Option<Vec<u8>>,
    pub(super) turned: Option<u32>,
}

/// Length of a text field: `IFNAMSIZ`, `NF_CT_HELPER_NAME_LEN`.
const TEXT: usize = 16;

/// Ethertypes, for tables that have no nfproto of their own.
const ETHERTYPES: [(u128, [u8; 2]); 2] = [(4, [0x08, 0x00]), (6, [0x86, 0xdd])];
/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
const FAMILIES: [(u128, u8); 2] = [(4, 2), (6, 10)];

/// How a field is loaded, of the packet in a frame.
pub(super) fn source(field: Field, frame: Frame, netdev: bool) -> Source {
    let found = plain_source(field, netdev);
    match frame.place(field) {
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
    match field {
        Field::Version if netdev => plain(Load::Meta(MetaKey::Protocol)),
        Field::EtherType => plain(Load::Meta(MetaKey::Protocol)),
        Field::PppProtocol => plain(Load::Network(6, 2)),
        // Looked at in sessions alone.
        Field::Shape => masked(
            Load::Network(0, 8),
            Field::SHAPE_MASK.to_be_bytes().to_vec(),
        ),
        Field::Version => plain(Load::Meta(MetaKey::NfProto)),
        Field::Protocol => plain(Load::Meta(MetaKey::L4Proto)),
        Field::Source(IpVersion::V4) => plain(Load::Network(12, 4)),
        Field::Source(IpVersion::V6) => plain(Load::Network(8, 16)),
        Field::Destination(IpVersion::V4) => plain(Load::Network(16, 4)),
        Field::Destination(IpVersion::V6) => plain(Load::Network(24, 16)),
        Field::SourcePort => plain(Load::Transport(0, 2)),
        Field::DestinationPort => plain(Load::Transport(2, 2)),
        // The DS field: the second byte of IPv4, bits 4 to 9 of IPv6.
        Field::Dscp(IpVersion::V4) => masked(Load::Network(1, 1), vec![0xfc]),
        Field::Dscp(IpVersion::V6) => masked(Load::Network(0, 2), vec![0x0f, 0xc0]),
        Field::Length(IpVersion::V4) => plain(Load::Network(2, 2)),
        Field::Length(IpVersion::V6) => plain(Load::Network(4, 2)),
        Field::TcpFlags { mask } => masked(Load::Transport(13, 1), vec![mask]),
        Field::IcmpType(_) => plain(Load::Transport(0, 1)),
        Field::InputDevice => plain(Load::Meta(MetaKey::IifName)),
        Field::InputKind => plain(Load::Meta(MetaKey::IifType)),
        Field::SourceMac => plain(Load::LinkLayer(6, 6)),
        Field::User => turned(Load::Meta(MetaKey::SkUid), 4),
        Field::Group => turned(Load::Meta(MetaKey::SkGid), 4),
        Field::ControlGroup { level } => plain(Load::ControlGroup(level)),
        Field::Mark { mask } => masked(Load::Meta(MetaKey::Mark), mask.to_ne_bytes().to_vec()),
        // Turned, because decisions are compared by their order.
        Field::ConnectionMark { mask } => Source {
            load: Load::Connection(CtKey::Mark),
            mask: Some(mask.to_ne_bytes().to_vec()),
            turned: Some(4),
        },
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
    }
}

/// The frame of a rule that loads this; `None` where it may be any.
pub(super) fn frame(load: Load) -> Option<Frame> {
    let Load::Network(offset, length) = load else {
        return None;
    };
    let place = (offset as usize, length as usize);
    let holds = |frame: &Frame| frame.field_at(place, 0).is_some();
    Frame::SESSIONS.into_iter().find(holds)
}

/// The field that a source is, where it is exactly the one that [`source`]
/// gives. `version` is the one
/// whose ICMP a match before asked for.
pub(super) fn field(
    source: &Source,
    frame: Frame,
    netdev: bool,
    version: Option<IpVersion>,
) -> Option<Field> {
    use IpVersion::{V4, V6};
    let mask = source.mask.as_deref().unwrap_or_default();
    if let Load::Network(offset, length) = source.load {
        let place = (offset as usize, length as usize);
        let mask = mask.first().copied().unwrap_or_default();
        if let Some(found) = frame.field_at(place, mask) {
            return (self::source(found, frame, netdev) == *source).then_some(found);
        }
    }
    let word = || <[u8; 4]>::try_from(mask).ok().map(u32::from_ne_bytes);
    let found = match source.load {
        Load::Meta(MetaKey::Protocol | MetaKey::NfProto) => Field::Version,
        Load::Meta(MetaKey::L4Proto) => Field::Protocol,
        Load::Meta(MetaKey::IifName) => Field::InputDevice,
        Load::Meta(MetaKey::IifType) => Field::InputKind,
        Load::Meta(MetaKey::SkUid) => Field::User,
        Load::Meta(MetaKey::SkGid) => Field::Group,
        Load::Meta(MetaKey::Mark) => Field::Mark { mask: word()? },
        Load::Meta(MetaKey::Priority) => Field::Class,
        Load::Meta(MetaKey::TimeNs) => Field::Moment,
        Load::Meta(MetaKey::TimeHour) => Field::Hour,
        Load::Meta(MetaKey::TimeDay) => Field::Day,
        Load::Connection(CtKey::Mark) => Field::ConnectionMark { mask: word()? },
        Load::Connection(CtKey::State) => Field::ConnectionState { mask: word()? },
        Load::Connection(CtKey::Bytes) => Field::ConnectionBytes,
        Load::Connection(CtKey::Pkts) => Field::ConnectionPackets,
        Load::Connection(CtKey::AvgPkt) => Field::ConnectionMeanSize,
        Load::Connection(CtKey::Id) => Field::ConnectionId,
        Load::Connection(CtKey::Helper) => Field::Helper,
        Load::ControlGroup(level) => Field::ControlGroup { level },
        Load::LinkLayer(6, 6) => Field::SourceMac,
        Load::Network(6, 2) => Field::PppProtocol,
        Load::Network(12, 4) => Field::Source(V4),
        Load::Network(8, 16) => Field::Source(V6),
        Load::Network(16, 4) => Field::Destination(V4),
        Load::Network(24, 16) => Field::Destination(V6),
        Load::Network(1, 1) => Field::Dscp(V4),
        Load::Network(0, 2) => Field::Dscp(V6),
        Load::Network(2, 2) => Field::Length(V4),
        Load::Network(4, 2) => Field::Length(V6),
        Load::Transport(0, 2) => Field::SourcePort,
        Load::Transport(2, 2) => Field::DestinationPort,
        Load::Transport(13, 1) => Field::TcpFlags {
            mask: *mask.first()?,
        },
        Load::Transport(0, 1) => Field::IcmpType(version?),
        _ => return None,
    };
    (self::source(found, frame, netdev) == *source).then_some(found)
}

/// A value as the register holds it.
pub(super) fn raw(field: Field, netdev: bool, value: u128) -> Vec<u8> {
    let last = |bytes: usize, value: u128| value.to_be_bytes()[16 - bytes..].to_vec();
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
        Field::Shape => last(8, value),
        Field::InputKind => (value as u16).to_ne_bytes().to_vec(),
        Field::Mark { .. } | Field::ConnectionState { .. } | Field::Class => {
            (value as u32).to_ne_bytes().to_vec()
        }
        Field::ControlGroup { .. } => control_group::number(value),
        Field::ConnectionBytes | Field::ConnectionPackets | Field::ConnectionMeanSize => {
            last(8, value)
        }
        other => match other.key() {
            Some(key) => last(key.bytes(), other.raw(value)),
            None => Vec::new(),
        },
    }
}

/// The value that [`raw`] makes these bytes of.
pub(super) fn value(field: Field, netdev: bool, bytes: &[u8]) -> Option<u128> {
    if bytes.len() > 16 {
        return None;
    }
    let whole = bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u128::from(*byte));
    let found = match field {
        Field::Version if netdev => ETHERTYPES.iter().find(|known| known.1 == bytes)?.0,
        Field::EtherType if ETHERTYPES.iter().any(|known| known.1 == bytes) => return None,
        Field::Version => FAMILIES.iter().find(|known| [known.1] == bytes)?.0,
        Field::Dscp(_) | Field::Length(_) => field.of_raw(whole),
        Field::InputKind => u128::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
        Field::Mark { .. } | Field::ConnectionState { .. } | Field::Class => {
            u128::from(u32::from_ne_bytes(bytes.try_into().ok()?))
        }
        Field::ControlGroup { .. } => control_group::value(bytes)?,
        _ => whole,
    };
    (raw(field, netdev, found) == bytes).then_some(found)
}

/// A text as the register holds it, padded.
pub(super) fn raw_text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(TEXT, 0);
    bytes
}

/// The text of such bytes.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    (raw_text(text) == bytes).then(|| text.to_owned())
}

/// The expressions that put a source into a register.
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

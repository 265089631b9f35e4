// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields that rules look at: what they are, which packets have them and where, and how their
//! values are encoded.

use crate::classify::facts::{Facts, SenderWord};
use crate::classify::value::{HeaderBytes, IpVersion, Key};
use serde::{Deserialize, Serialize};

/// TCP's protocol number.
pub const TCP: u8 = 6;

/// ICMP's protocol number.
pub const ICMP: u8 = 1;

/// `ICMPv6`'s protocol number.
pub const ICMPV6: u8 = 58;

/// Selects among the variants of fields that exist per IP version, under several masks or at
/// several levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The IP version, for fields that differ between the two.
    pub version: IpVersion,
    /// The bits that are compared, for fields under a mask.
    pub mask: u32,
    /// The level below the root, for fields that are paths in a tree.
    pub level: u8,
}

macro_rules! fields {
    ($(
        $(#[$about:meta])*
        $name:ident
        $(($of:ident: $of_type:ty))?
        $({ $(#[$part_about:meta])* $part:ident: $part_type:ty $(,)? })?
    ),+ $(,)?) => {
        /// A property of a packet, its connection or the time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Field {
            $(
                $(#[$about])*
                $name $(($of_type))? $({ $(#[$part_about])* $part: $part_type })?
            ),+
        }

        impl Field {
            /// Returns every field, in this variant.
            pub fn every(of: Variant) -> impl Iterator<Item = Self> {
                [$(Self::$name $((of.$of))? $({ $part: of.$part as $part_type })?),+].into_iter()
            }
        }
    };
}

fields! {
    /// The IP version, 4 or 6; only IP packets have one.
    Version,
    /// The ethertype (`meta protocol`) of packets that are neither IPv4 nor IPv6, in tables of
    /// family `netdev`. For these two, use [`Field::Version`].
    EtherType,
    /// The PPP protocol number that follows the PPPoE header (RFC 1661 section 2). Only packets of
    /// [`PPPOE_SESSION`](crate::PPPOE_SESSION) have one; other packets have other data at that
    /// place.
    PppProtocol,
    /// The version, header length and fragment offset of an IPv4 packet in a session: its first
    /// eight bytes under [`Field::SHAPE_MASK`]. They tell whether the upper layer's header is at
    /// its fixed place.
    Shape,
    /// The upper-layer protocol number (`meta l4proto`). In a session it is the number in the IP
    /// header, which may be an IPv6 extension header.
    Protocol,
    /// The source address as a number.
    Source(version: IpVersion),
    /// The destination address as a number.
    Destination(version: IpVersion),
    /// The source port (TCP, UDP, SCTP, DCCP). Only the first fragment has this field, or any other
    /// field beyond the IP header.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// The code point in the IP header, 0 to 63.
    Dscp(version: IpVersion),
    /// The length of the IP packet in bytes: the total length of IPv4, 40 + payload length of IPv6.
    Length(version: IpVersion),
    /// The TCP flags under a mask, with bits as in the 14th byte of the header.
    TcpFlags {
        /// The bits that are compared.
        mask: u8,
    },
    /// ICMP or `ICMPv6` type (RFC 792, RFC 4443 section 2.1).
    IcmpType(version: IpVersion),
    /// The device through which a packet arrived (`meta iifname`); empty for the router's own
    /// packets.
    InputDevice,
    /// The ARPHRD type of that device; 1 is Ethernet.
    InputKind,
    /// The source MAC of the frame in which the packet arrived.
    SourceMac,
    /// The user whose socket sent it (`meta skuid`). Packets of no open socket of this machine,
    /// such as forwarded ones, have none.
    User,
    /// The group of that socket (`meta skgid`), under the same conditions.
    Group,
    /// The control group (version 2) in which its socket was created, or its ancestor at this level
    /// below the root. It is looked up in sets only, and only at
    /// [`Hook::Output`](crate::Hook::Output) (`nft_socket_validate`, net/netfilter/nft_socket.c).
    ControlGroup {
        /// The level below the root, at least 1.
        level: u8,
    },
    /// Bits of `skb->mark`, unshifted.
    Mark {
        /// The bits that are compared.
        mask: u32,
    },
    /// Bits of the connection's mark, unshifted; packets without a connection
    /// have none.
    ConnectionMark {
        /// The bits that are compared.
        mask: u32,
    },
    /// State bits of the connection (`NF_CT_STATE_BIT`): invalid 1, established 2, related 4, new
    /// 8, untracked 64. Every packet has at least one.
    ConnectionState {
        /// The bits that are compared.
        mask: u32,
    },
    /// The bytes of the connection so far in both directions, including this packet; 0 without
    /// `net.netfilter.nf_conntrack_acct`.
    ConnectionBytes,
    /// The packets of the connection so far, counted in the same way.
    ConnectionPackets,
    /// The mean size of the connection's packets so far, counted in the same way.
    ConnectionMeanSize,
    /// The class that was written last (`meta priority`), as the number of
    /// [`Handle::as_u32`](weirgate_units::Handle::as_u32). Every packet has it.
    Class,
    /// The connection's own number (`ct id`), the same for all its packets.
    ConnectionId,
    /// The name of the conntrack helper that expected the connection. The connection on which the
    /// helper listens does not have it (`NFT_CT_HELPER` reads the master's,
    /// net/netfilter/nft_ct.c).
    Helper,
    /// Nanoseconds since 1970, UTC (`meta time`). They are whole seconds, the resolution of nft's
    /// text.
    // Names of sets and counters in the kernel are hashes of this name.
    Moment,
    /// Seconds since midnight, UTC.
    Hour,
    /// The day of the week, where Sunday is 0, in the kernel's own time zone. That is UTC unless
    /// the machine has set another one (`sys_tz`).
    Day,
    /// The offset of a fragment in units of eight bytes (RFC 791 section 3.1, RFC 8200 section
    /// 4.5); 0 in the first one. Every IPv4 packet has it. Of IPv6 packets, only those with a
    /// fragment header do.
    FragmentOffset(version: IpVersion),
}

impl Field {
    /// The bits of [`Field::Shape`]: the whole first byte, and the fragment offset in the fourth
    /// 16-bit word.
    pub const SHAPE_MASK: u64 = 0xff00_0000_0000_1fff;

    /// The shape of a header without options, in a packet that is not a later fragment.
    pub const PLAIN_SHAPE: u64 = 0x4500_0000_0000_0000;

    /// Returns the facts about a field.
    const fn facts(self) -> Facts {
        use IpVersion::{V4, V6};
        match self {
            Self::Version => Facts::number("meta nfproto", 6),
            Self::EtherType => Facts::number("meta protocol", u16::MAX as u128),
            Self::PppProtocol => Facts::number("@nh,48,16", u16::MAX as u128),
            Self::Shape => Facts::number("@nh,0,64", u64::MAX as u128).ip(0, 8),
            Self::Protocol => Facts::listed("meta l4proto", Key::Byte).called("protocol"),
            Self::Source(V4) => Facts::listed("ip saddr", Key::Address(V4))
                .ip(12, 4)
                .called("source"),
            Self::Source(V6) => Facts::listed("ip6 saddr", Key::Address(V6))
                .ip(8, 16)
                .called("source"),
            Self::Destination(V4) => Facts::listed("ip daddr", Key::Address(V4))
                .ip(16, 4)
                .called("destination"),
            Self::Destination(V6) => Facts::listed("ip6 daddr", Key::Address(V6))
                .ip(24, 16)
                .called("destination"),
            Self::SourcePort => Facts::listed("th sport", Key::Short)
                .upper(0, 2)
                .called("source port"),
            Self::DestinationPort => Facts::listed("th dport", Key::Short)
                .upper(2, 2)
                .called("destination port"),
            // The DS field is the second byte of IPv4, and bits 4 to 9 of IPv6.
            Self::Dscp(V4) => Facts::typed("ip dscp", Key::Byte)
                .to(63)
                .ip(1, 1)
                .bits(0xfc)
                .called("DSCP"),
            Self::Dscp(V6) => Facts::typed("ip6 dscp", Key::Short)
                .to(63)
                .ip(0, 2)
                .bits(0x0fc0)
                .called("DSCP"),
            Self::Length(V4) => Facts::typed("ip length", Key::Short)
                .ip(2, 2)
                .called("length"),
            Self::Length(V6) => Facts::typed("ip6 length", Key::Short)
                .ip(4, 2)
                .called("length"),
            Self::TcpFlags { .. } => Facts::typed("tcp flags", Key::Byte)
                .upper(13, 1)
                .called("TCP flags"),
            Self::IcmpType(V4) => Facts::typed("icmp type", Key::Byte)
                .upper(0, 1)
                .called("ICMP type"),
            Self::IcmpType(V6) => Facts::typed("icmpv6 type", Key::Byte)
                .upper(0, 1)
                .called("ICMP type"),
            Self::InputDevice => Facts::text("iifname").called("device that it came in through"),
            Self::InputKind => Facts::number("iiftype", u32::MAX as u128),
            Self::SourceMac => Facts::listed("ether saddr", Key::Mac).called("source MAC"),
            Self::User => Facts::typed("meta skuid", Key::Long)
                .of_sender("uid")
                .called("user"),
            Self::Group => Facts::typed("meta skgid", Key::Long)
                .of_sender("gid")
                .called("user group"),
            Self::ControlGroup { .. } => Facts::listed("socket cgroupv2", Key::ControlGroup)
                .called("control group")
                .of_sender_path("cgroup")
                .at_output()
                .optional(),
            Self::Mark { .. } => Facts::listed("meta mark", Key::Long).called("mark"),
            Self::ConnectionMark { .. } => {
                Facts::listed("ct mark", Key::Long).called("connection's mark")
            }
            Self::ConnectionState { .. } => {
                Facts::number("ct state", u32::MAX as u128).called("connection's state")
            }
            Self::ConnectionBytes => {
                Facts::number("ct bytes", u64::MAX as u128).called("connection's bytes")
            }
            Self::ConnectionPackets => {
                Facts::number("ct packets", u64::MAX as u128).called("connection's packets")
            }
            Self::ConnectionMeanSize => {
                Facts::number("ct avgpkt", u64::MAX as u128).called("connection's mean size")
            }
            Self::Class => Facts::number("meta priority", u32::MAX as u128).called("class"),
            Self::ConnectionId => Facts::typed("ct id", Key::Long).called("connection"),
            Self::Helper => Facts::text("ct helper").called("helper"),
            Self::Moment => Facts::listed("meta time", Key::Moment).called("time"),
            Self::Hour => Facts::typed("meta hour", Key::Long)
                .to(86_399)
                .called("time of day"),
            Self::Day => Facts::typed("meta day", Key::Byte).to(6).called("day"),
            Self::FragmentOffset(V4) => Facts::number("ip frag-off", 0x1fff)
                .ip(6, 2)
                .called("fragment offset"),
            // Three bits with flags follow it.
            Self::FragmentOffset(V6) => Facts::number("frag frag-off", 0x1fff)
                .bits(0xfff8)
                .called("fragment offset"),
        }
    }

    /// Returns its name in nft, without a mask.
    pub(crate) const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns whether nft has a type of its own for it.
    pub(crate) const fn is_typed(self) -> bool {
        self.facts().typed
    }

    /// Returns the bits that are compared, if it is compared under a mask.
    #[must_use]
    pub const fn mask(self) -> Option<u64> {
        match self {
            Self::TcpFlags { mask } => Some(mask as u64),
            Self::Mark { mask }
            | Self::ConnectionMark { mask }
            | Self::ConnectionState { mask } => Some(mask as u64),
            Self::Shape => Some(Self::SHAPE_MASK),
            // Three bits with flags precede it.
            Self::FragmentOffset(IpVersion::V4) => Some(0x1fff),
            _ => None,
        }
    }

    /// Returns its name in messages; empty for a field that only describes the form of a packet.
    #[must_use]
    pub const fn words(self) -> &'static str {
        self.facts().words
    }

    /// Returns how the text form of a packet states this property of the sending socket; `None` if
    /// it is not such a property.
    #[must_use]
    pub const fn sender_word(self) -> Option<SenderWord> {
        self.facts().sender
    }

    /// Returns whether the kernel knows it at [`Hook::Output`](crate::Hook::Output) only.
    #[must_use]
    pub const fn is_at_output_only(self) -> bool {
        self.facts().at_output
    }

    /// Returns the fields that not every kernel knows, each in any variant.
    pub fn optional() -> impl Iterator<Item = Self> {
        let any = Variant {
            version: IpVersion::V4,
            mask: u32::MAX,
            level: 1,
        };
        Self::every(any).filter(|field| field.is_optional())
    }

    /// Returns whether some kernels do not know it.
    pub(crate) const fn is_optional(self) -> bool {
        self.facts().optional
    }

    /// Returns the level below the root, if it is a path in a tree.
    #[must_use]
    pub const fn level(self) -> Option<u8> {
        match self {
            Self::ControlGroup { level } => Some(level),
            _ => None,
        }
    }

    /// Returns the header bytes that contain it, if the kernel locates the header (RFC 791 section
    /// 3.1, RFC 8200 section 3, RFC 9293 section 3.1).
    #[must_use]
    pub const fn header_bytes(self) -> Option<HeaderBytes> {
        self.facts().header_bytes
    }

    /// Returns the bits of those bytes that are compared; `None` for all of them.
    #[must_use]
    pub const fn bits(self) -> Option<u64> {
        match self.facts().bits {
            Some(bits) => Some(bits),
            None => self.mask(),
        }
    }

    /// Returns the number of bits below its value in those bytes.
    pub(crate) const fn shift(self) -> u32 {
        match self.facts().bits {
            Some(bits) => bits.trailing_zeros(),
            None => 0,
        }
    }

    /// Returns the key type of a set of its values; `None` for texts and counts, which are in no
    /// set.
    #[must_use]
    pub const fn key(self) -> Option<Key> {
        self.facts().key
    }

    /// Returns whether its value is a text.
    #[must_use]
    pub const fn is_text(self) -> bool {
        self.facts().text
    }

    /// Returns its greatest value.
    #[must_use]
    pub const fn greatest(self) -> u128 {
        self.facts().greatest
    }

    /// Returns its least value in a packet. An IPv6 length here includes its header, which the
    /// length in the header does not.
    #[must_use]
    pub const fn least(self) -> u128 {
        match self {
            Self::Length(IpVersion::V6) => 40,
            _ => 0,
        }
    }

    /// Converts a value to its form in the header, which sets use. Code points are shifted above
    /// ECN and the flow label, and an IPv6 length loses its header.
    #[must_use]
    pub const fn raw(self, value: u128) -> u128 {
        match self {
            Self::Length(IpVersion::V6) => value.saturating_sub(40),
            _ => value << self.shift(),
        }
    }

    /// Converts header bytes, including other bits, to the value: the inverse of [`Field::raw`].
    #[must_use]
    pub const fn of_raw(self, bytes: u128) -> u128 {
        match (self, self.header_bytes(), self.bits()) {
            (Self::Length(IpVersion::V6), ..) => bytes + 40,
            // It is in no header at a fixed place.
            (Self::FragmentOffset(IpVersion::V6), _, Some(bits)) => {
                (bytes & bits as u128) >> self.shift()
            }
            (_, Some(_), Some(bits)) => (bytes & bits as u128) >> self.shift(),
            _ => bytes,
        }
    }

    /// Returns the IP version that a packet must have to have this field.
    #[must_use]
    pub const fn version(self) -> Option<IpVersion> {
        match self {
            Self::Source(version)
            | Self::Destination(version)
            | Self::Dscp(version)
            | Self::Length(version)
            | Self::IcmpType(version)
            | Self::FragmentOffset(version) => Some(version),
            Self::Shape => Some(IpVersion::V4),
            _ => None,
        }
    }

    /// Returns the upper-layer protocol that a packet must have to have this field.
    #[must_use]
    pub const fn protocol(self) -> Option<u8> {
        match self {
            Self::TcpFlags { .. } => Some(TCP),
            Self::IcmpType(IpVersion::V4) => Some(ICMP),
            Self::IcmpType(IpVersion::V6) => Some(ICMPV6),
            _ => None,
        }
    }

    /// Returns whether it needs connection tracking, which arriving packets have not passed yet.
    #[must_use]
    pub const fn needs_connection(self) -> bool {
        matches!(
            self,
            Self::ConnectionMark { .. }
                | Self::ConnectionState { .. }
                | Self::ConnectionBytes
                | Self::ConnectionPackets
                | Self::ConnectionMeanSize
                | Self::ConnectionId
                | Self::Helper
        )
    }
}

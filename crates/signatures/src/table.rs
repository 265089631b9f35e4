// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The patterns, each with its source.

use crate::{Bits, Length, Pattern, Signature, Transport};

const HANDSHAKE: &[u8] = b"\x13BitTorrent protocol";
const EMULE: &str =
    "Kulbak and Bickson, \"The eMule protocol specification\", 2005, sections 6.1 to 6.4";

const fn pattern(
    is: Signature,
    transport: Transport,
    bytes: &'static [(usize, &'static [u8])],
    length: Length,
    source: &'static str,
) -> Pattern {
    Pattern {
        is,
        transport,
        bytes,
        bits: None,
        length,
        source,
    }
}

const fn bittorrent(bytes: &'static [(usize, &'static [u8])], source: &'static str) -> Pattern {
    let (is, udp) = (Signature::BitTorrent, Transport::Udp);
    pattern(is, udp, bytes, Length::Any, source)
}

/// Makes a pattern of eDonkey: the protocol (0xe3 eDonkey, 0xc5 eMule's extension, 0xd4 packed),
/// the length of what follows, and the message's type. The first message fills its segment.
const fn edonkey(bytes: &'static [(usize, &'static [u8])]) -> Pattern {
    let (is, tcp) = (Signature::EDonkey, Transport::Tcp);
    pattern(is, tcp, bytes, Length::Stated, EMULE)
}

const fn gnutella(bytes: &'static [(usize, &'static [u8])], source: &'static str) -> Pattern {
    let (is, tcp) = (Signature::Gnutella, Transport::Tcp);
    pattern(is, tcp, bytes, Length::Any, source)
}

const fn direct_connect(bytes: &'static [(usize, &'static [u8])], source: &'static str) -> Pattern {
    let (is, tcp) = (Signature::DirectConnect, Transport::Tcp);
    pattern(is, tcp, bytes, Length::Any, source)
}

/// Makes a pattern of a packet with a long header: the form and the fixed bit, then the version.
/// The fixed bit may differ only after both ends have agreed (RFC 9287 section 3.1), which is
/// later.
const fn quic(version: &'static [(usize, &'static [u8])], source: &'static str) -> Pattern {
    let (is, udp) = (Signature::Quic, Transport::Udp);
    Pattern {
        bits: Some(Bits {
            place: 0,
            mask: 0xc0,
            value: 0xc0,
        }),
        ..pattern(is, udp, version, Length::Any, source)
    }
}

/// All patterns, in the order of their evaluation.
pub const PATTERNS: &[Pattern] = &[
    pattern(
        Signature::BitTorrent,
        Transport::Tcp,
        &[(0, HANDSHAKE)],
        Length::Any,
        "BEP 3, \"peer protocol\": the handshake",
    ),
    // Queries and answers begin with the node's id, because the keys of a bencoded dictionary are
    // sorted.
    bittorrent(&[(0, b"d1:ad2:id20:")], "BEP 5, \"KRPC protocol\": a query"),
    bittorrent(
        &[(0, b"d1:rd2:id20:")],
        "BEP 5, \"KRPC protocol\": an answer",
    ),
    // The asker's address sorts before it.
    bittorrent(
        &[(0, b"d2:ip6:"), (13, b"1:rd2:id20:")],
        "BEP 42: an answer that states the asker's IPv4 address",
    ),
    bittorrent(
        &[(0, b"d2:ip18:"), (26, b"1:rd2:id20:")],
        "BEP 42: an answer that states the asker's IPv6 address",
    ),
    pattern(
        Signature::BitTorrent,
        Transport::Udp,
        &[(0, b"\x00\x00\x04\x17\x27\x10\x19\x80\x00\x00\x00\x00")],
        Length::Exactly(16),
        "BEP 15: a tracker's connection request",
    ),
    // Version 1 without extension; the handshake follows after 20 bytes.
    bittorrent(
        &[(0, b"\x01\x00"), (20, HANDSHAKE)],
        "BEP 29: uTP's data packet that carries the handshake",
    ),
    // Login or hello, its answer, a server's message and the id that it gives.
    edonkey(&[(0, b"\xe3"), (5, b"\x01")]),
    edonkey(&[(0, b"\xe3"), (5, b"\x4c")]),
    edonkey(&[(0, b"\xe3"), (5, b"\x38")]),
    edonkey(&[(0, b"\xe3"), (5, b"\x40")]),
    // Extended hello and its answer.
    edonkey(&[(0, b"\xc5"), (5, b"\x01")]),
    edonkey(&[(0, b"\xc5"), (5, b"\x02")]),
    // A packed list of servers or files offered.
    edonkey(&[(0, b"\xd4"), (5, b"\x15")]),
    edonkey(&[(0, b"\xd4"), (5, b"\x32")]),
    gnutella(
        &[(0, b"GNUTELLA CONNECT/")],
        "\"The Annotated Gnutella Protocol Specification\" v0.4",
    ),
    gnutella(&[(0, b"GNUTELLA/0.")], "RFC-Gnutella 0.6, section 2.1"),
    gnutella(
        &[(0, b"GET /uri-res/N2R?urn:sha1:")],
        "HUGE v0.94: downloads by hash",
    ),
    direct_connect(&[(0, b"$Lock ")], "NMDC 1.3, $Lock"),
    direct_connect(&[(0, b"$MyNick ")], "NMDC 1.3, $MyNick"),
    direct_connect(&[(0, b"HSUP AD")], "ADC 1.0 section 5: SUP comes first"),
    direct_connect(&[(0, b"CSUP AD")], "ADC 1.0 section 5: SUP comes first"),
    direct_connect(&[(0, b"ISUP AD")], "ADC 1.0 section 5: SUP comes first"),
    quic(
        &[(1, b"\x00\x00\x00\x01")],
        "RFC 9000 section 17.2: version 1",
    ),
    quic(
        &[(1, b"\x6b\x33\x43\xcf")],
        "RFC 9369 section 3.1: version 2",
    ),
];

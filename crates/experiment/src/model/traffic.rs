// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What hosts send: transfers, datagrams and probes.

use crate::Node;
use weirgate_units::{Dscp, Size, Span};

/// One sender, or a group of equal senders.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Its name, the flow name in metrics.
    pub name: String,
    /// What it sends.
    pub kind: TrafficKind,
    /// Where data comes from. For TCP and QUIC, the side behind the gateway connects.
    pub from: Node,
    /// Where data goes to.
    pub to: Node,
    /// The times between which it runs, in order.
    pub runs: Vec<(Span, Span)>,
    /// The number of senders that run at once.
    pub count: u16,
    /// The number of hosts over which they are spread: the named host and those that follow it.
    pub hosts: u16,
    /// The time between the starts of two senders.
    pub stagger: Span,
    /// The port at the server; the lab chooses one where absent.
    pub port: Option<u16>,
    /// The DSCP of its packets.
    pub dscp: Dscp,
    /// Whether it uses IPv6.
    pub ipv6: bool,
    /// The policy class that its packets should get; the name in `sojourn.CLASS`.
    pub class: Option<String>,
    /// The group of entries that it is compared with; the name in `jain.GROUP`.
    pub group: Option<String>,
}

impl Traffic {
    /// Returns the entry for one sender alone, on its own host if senders are spread over hosts.
    #[must_use]
    pub fn member(&self, instance: u16) -> Self {
        let step = instance % self.hosts.max(1);
        let moved = |node| match node {
            Node::Host(number) => Node::Host(number.saturating_add(step)),
            other => other,
        };
        Self {
            from: moved(self.from),
            to: moved(self.to),
            ..self.clone()
        }
    }
}

/// What a sender sends.
#[derive(Debug, Clone, PartialEq)]
pub enum TrafficKind {
    /// One long TCP transfer per run.
    Tcp(TcpSettings),
    /// One long QUIC transfer per run.
    Quic(QuicSettings),
    /// Datagrams at a constant rate.
    Udp {
        /// Time between datagrams.
        interval: Span,
        /// IP packet length in bytes, at least 28 (IPv4) or 48 (IPv6).
        packet: u16,
        /// The number of packets after which it stops; without a limit where absent.
        packets: Option<u64>,
    },
    /// Requests and responses over one connection, one after the other.
    Requests {
        /// Length of a request in bytes.
        request: Size,
        /// Length of a response in bytes.
        response: Size,
        /// Pause between a response and the next request.
        think: Span,
        /// TCP settings.
        tcp: TcpSettings,
    },
    /// Short TCP flows with Poisson starts and Pareto lengths (requirement D11).
    ShortFlows {
        /// Mean time between starts.
        mean_gap: Span,
        /// Mean length in bytes.
        mean_length: Size,
        /// Pareto shape, above 1.
        shape: f64,
        /// The time before the end of each run in which no flow starts.
        drain: Span,
        /// Bounds in bytes that divide the flows by size, ascending.
        sizes: Vec<Size>,
        /// TCP settings.
        tcp: TcpSettings,
    },
    /// SYNs that nobody answers.
    Syns {
        /// Time between SYNs.
        interval: Span,
    },
    /// A stream like voice: one datagram in each direction every `interval`, with a time stamp.
    Voice {
        /// Time between datagrams.
        interval: Span,
        /// IP packet length in bytes.
        packet: u16,
    },
}

/// Settings of a TCP connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpSettings {
    /// How much is sent; until the end of the run where absent.
    pub amount: Option<Amount>,
    /// Congestion control; the kernel's default where absent.
    pub congestion: Option<String>,
    /// Largest window that the receiver advertises (`TCP_WINDOW_CLAMP`).
    pub window: Option<Size>,
    /// The sender's buffer (`SO_SNDBUF`), for large windows.
    pub send_buffer: Option<Size>,
    /// The receiver's buffer (`SO_RCVBUF`), for large windows.
    pub receive_buffer: Option<Size>,
}

/// Settings of a QUIC connection (RFC 9000).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicSettings {
    /// How much is sent; until the end of the run where absent.
    pub amount: Option<Amount>,
    /// The number of streams that carry the data in parallel, at least 1.
    pub streams: u16,
    /// Congestion control of both ends.
    pub congestion: QuicCongestion,
    /// Whether both ends send packets as ECT(0) (RFC 9000 section 13.4).
    pub ecn: bool,
    /// Whether both ends may use the spin bit (RFC 9000 section 17.4).
    pub spin: bool,
}

/// Congestion control of a QUIC sender: the controllers that quinn-proto has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuicCongestion {
    /// CUBIC (RFC 8312).
    #[default]
    Cubic,
    /// NewReno (RFC 9002 section 7).
    NewReno,
    /// The first version of BBR (draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr,
}

impl QuicCongestion {
    /// Every controller with its word in experiment files, the default first.
    pub const WORDS: [(&str, Self); 3] = [
        ("cubic", Self::Cubic),
        ("new-reno", Self::NewReno),
        ("bbr", Self::Bbr),
    ];

    /// Returns its word in experiment files.
    #[must_use]
    pub fn word(self) -> &'static str {
        let own = Self::WORDS.iter().find(|(_, one)| *one == self);
        own.map_or("", |(word, _)| word)
    }
}

/// The amount that a transfer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A number of bytes of payload.
    Bytes(Size),
}

/// A round-trip probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Its name in metrics.
    pub name: String,
    /// Its protocol.
    pub kind: ProbeKind,
    /// The node that sends requests.
    pub from: Node,
    /// The node that replies.
    pub to: Node,
    /// Time between probes; with `per_round_trip`, the shortest.
    pub interval: Span,
    /// The number of probes in a round trip, by the last reply (Braithwaite 6.3). Without it,
    /// probes leave at the interval.
    pub per_round_trip: Option<u16>,
    /// IP packet length in bytes.
    pub packet: u16,
    /// The times between which it runs.
    pub runs: Vec<(Span, Span)>,
    /// The DSCP of its packets.
    pub dscp: Dscp,
    /// Whether it uses IPv6.
    pub ipv6: bool,
    /// The policy class that its packets should get.
    pub class: Option<String>,
    /// Bounds in ms for `rtt.PROBE.within_N_ms.ratio`.
    pub within_ms: Vec<u32>,
}

/// The protocol of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// ICMP or ICMPv6 echo, to which the kernel replies.
    Icmp,
    /// UDP datagrams, to which the lab's agent replies.
    Udp {
        /// The UDP port of the agent.
        port: u16,
    },
}

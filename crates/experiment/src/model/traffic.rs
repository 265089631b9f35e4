// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What hosts send: transfers, datagrams and probes.

use super::node::Node;
use weirgate_units::{Dscp, Size, Span};

/// One sender or group of equal senders.
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
    /// Stretches of time in which it runs, in order.
    pub runs: Vec<(Span, Span)>,
    /// How many equal ones run at once.
    pub count: u16,
    /// Over how many hosts they are spread: this one and those that follow.
    pub hosts: u16,
    /// Time between the starts of those.
    pub stagger: Span,
    /// The port at the server end; the lab chooses one where absent.
    pub port: Option<u16>,
    /// The code point of its packets.
    pub dscp: Dscp,
    /// Uses IPv6.
    pub ipv6: bool,
    /// The policy class that its packets should get, the name in `sojourn.CLASS`.
    pub class: Option<String>,
    /// The entries that it is compared with, the name in `jain.GROUP`.
    pub group: Option<String>,
}

impl Traffic {
    /// The entry of one member alone: on its own host, where they are spread.
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
        /// Stops after so many.
        packets: Option<u64>,
    },
    /// A request and its response over one connection, again and again.
    Requests {
        /// Bytes of a request.
        request: Size,
        /// Bytes of a response.
        response: Size,
        /// Pause between response and next request.
        think: Span,
        /// TCP settings.
        tcp: TcpSettings,
    },
    /// Short TCP flows: Poisson starts, Pareto lengths (requirement D11).
    ShortFlows {
        /// Mean time between starts.
        mean_gap: Span,
        /// Mean length in bytes.
        mean_length: Size,
        /// Pareto shape, above 1.
        shape: f64,
        /// Before the end of each run, in which none is started any more.
        drain: Span,
        /// Sizes in bytes by which flows are distinguished, ascending.
        sizes: Vec<Size>,
        /// TCP settings.
        tcp: TcpSettings,
    },
    /// SYNs that nobody answers.
    Syns {
        /// Time between them.
        interval: Span,
    },
    /// A voice-like stream: one datagram each `interval`, both ways, stamped.
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
    /// How much is sent; until the run ends where absent.
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
    /// How much is sent; until the run ends where absent.
    pub amount: Option<Amount>,
    /// The number of streams that carry it in parallel, at least 1.
    pub streams: u16,
    /// Congestion control of both ends.
    pub congestion: QuicCongestion,
    /// Whether both ends send packets as ECT(0) (RFC 9000 section 13.4).
    pub ecn: bool,
    /// Whether both ends may use the spin bit (RFC 9000 section 17.4).
    pub spin: bool,
}

/// Congestion control of a QUIC sender, as quinn-proto has it.
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
    /// Each with its word in experiment files, the default first.
    pub const WORDS: [(&str, Self); 3] = [
        ("cubic", Self::Cubic),
        ("new-reno", Self::NewReno),
        ("bbr", Self::Bbr),
    ];

    /// Its word in experiment files.
    #[must_use]
    pub fn word(self) -> &'static str {
        let own = Self::WORDS.iter().find(|(_, one)| *one == self);
        own.map_or("", |(word, _)| word)
    }
}

/// How much a transfer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes of payload.
    Bytes(Size),
}

/// A round-trip probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Its name in metrics.
    pub name: String,
    /// How it probes.
    pub kind: ProbeKind,
    /// Who asks.
    pub from: Node,
    /// Who answers.
    pub to: Node,
    /// Time between probes.
    pub interval: Span,
    /// IP packet length in bytes.
    pub packet: u16,
    /// When it runs.
    pub runs: Vec<(Span, Span)>,
    /// Its code point.
    pub dscp: Dscp,
    /// Uses IPv6.
    pub ipv6: bool,
    /// The policy class that its packets should get.
    pub class: Option<String>,
    /// Bounds in ms for `rtt.PROBE.within_N_ms.ratio`.
    pub within_ms: Vec<u32>,
}

/// What carries a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// ICMP or ICMPv6 echo, answered by the kernel.
    Icmp,
    /// A datagram to the port, answered by the lab's agent.
    Udp {
        /// The answering port.
        port: u16,
    },
}

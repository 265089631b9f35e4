// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connection tracking of TCP segments: the states and transitions of
//! net/netfilter/nf_conntrack_proto_tcp.c.
//!
//! All segments are assumed to be in window: a text has no sequence numbers, and a capture may
//! begin anywhere.

/// States, in the kernel's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    None,
    SynSent,
    SynReceived,
    Established,
    FinWait,
    CloseWait,
    LastAck,
    TimeWait,
    Close,
    SynSent2,
}

/// The effect of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    State(State),
    Ignored,
    Invalid,
}

use State::{
    Close, CloseWait, Established, FinWait, LastAck, SynReceived, SynSent, SynSent2, TimeWait,
};

/// The kind of a segment, by its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Reset,
    Nothing,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const URG: u8 = 32;

/// Valid combinations of flags (`tcp_valid_flags`), apart from PSH, ECE and CWR.
const VALID: [u8; 9] = [
    SYN,
    SYN | URG,
    SYN | ACK,
    RST,
    RST | ACK,
    FIN | ACK,
    FIN | ACK | URG,
    ACK,
    ACK | URG,
];

pub(crate) fn valid(flags: u8) -> bool {
    VALID.contains(&(flags & (FIN | SYN | RST | ACK | URG)))
}

pub(crate) fn kind(flags: u8) -> Kind {
    if flags & RST != 0 {
        Kind::Reset
    } else if flags & SYN != 0 {
        if flags & ACK != 0 {
            Kind::SynAck
        } else {
            Kind::Syn
        }
    } else if flags & FIN != 0 {
        Kind::Fin
    } else if flags & ACK != 0 {
        Kind::Ack
    } else {
        Kind::Nothing
    }
}

/// Returns the effect of a segment in a state (`tcp_conntracks`).
fn transition(reply: bool, kind: Kind, state: State) -> To {
    let to = To::State;
    match (reply, kind) {
        (false, Kind::Syn) => match state {
            State::None | SynSent | TimeWait | Close => to(SynSent),
            SynSent2 => to(SynSent2),
            _ => To::Ignored,
        },
        (true, Kind::Syn) => match state {
            SynSent | SynSent2 => to(SynSent2),
            TimeWait => to(SynSent),
            _ => To::Invalid,
        },
        (false, Kind::SynAck) => match state {
            SynReceived | SynSent2 => to(SynReceived),
            _ => To::Invalid,
        },
        (true, Kind::SynAck) => match state {
            State::None => To::Invalid,
            SynSent | SynSent2 => to(SynReceived),
            _ => To::Ignored,
        },
        (_, Kind::Fin) => match state {
            State::None | SynSent | SynSent2 => To::Invalid,
            SynReceived | Established => to(FinWait),
            FinWait | CloseWait | LastAck => to(LastAck),
            TimeWait => to(TimeWait),
            Close => to(Close),
        },
        (_, Kind::Ack) => match state {
            State::None if reply => To::Invalid,
            SynSent | SynSent2 if reply => To::Ignored,
            SynSent | SynSent2 => To::Invalid,
            SynReceived if reply => to(SynReceived),
            State::None | SynReceived | Established => to(Established),
            FinWait | CloseWait => to(CloseWait),
            LastAck | TimeWait => to(TimeWait),
            Close => to(Close),
        },
        (_, Kind::Reset) => match state {
            State::None => To::Invalid,
            _ => to(Close),
        },
        (_, Kind::Nothing) => To::Invalid,
    }
}

/// The tracked state of a TCP connection.
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of the kernel's own, each by itself"
)]
#[derive(Debug, Clone)]
pub(crate) struct Tcp {
    pub(crate) state: State,
    /// The last segment that was inspected: its kind, and whether it is a reply.
    last: Option<(Kind, bool)>,
    /// The sequence number after it.
    last_end: u32,
    /// Whether an end has begun to close.
    close_begun: bool,
    simultaneous: bool,
    /// Whether an answer to an ignored SYN may look like the last ACK.
    challenge: bool,
    /// Whether data was exchanged in both directions since it was opened (`IPS_ASSURED`).
    pub(crate) assured: bool,
    /// How often it was closed.
    pub(crate) closings: u32,
}

/// The numbers of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) acknowledged: u32,
    /// Sequence number plus length, including SYN and FIN.
    pub(crate) end: u32,
}

/// The result for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It belongs to the connection and counts; the timeout becomes this many seconds.
    Counts(u32),
    /// It belongs to the connection, but does not count.
    Ignored,
    /// It belongs to no connection.
    Invalid,
    /// It begins a new connection that replaces this one.
    Reopens,
    /// It counts, and the connection is removed.
    Ends,
}

/// Returns the timeout of a state in seconds (`tcp_timeouts`).
fn timeout(state: State) -> u32 {
    match state {
        State::None | SynSent | SynSent2 | FinWait | TimeWait => 120,
        SynReceived | CloseWait => 60,
        Established => 432_000,
        LastAck => 30,
        Close => 10,
    }
}

/// The timeout in seconds while data is not acknowledged (`TCP_CONNTRACK_UNACK`).
const UNACKNOWLEDGED: u32 = 300;

impl Tcp {
    /// Returns the connection that begins with this segment; `None` if it cannot begin one
    /// (`tcp_new`; `nf_conntrack_tcp_loose` picks up existing connections).
    pub(crate) fn new(flags: u8) -> Option<Self> {
        match transition(false, kind(flags), State::None) {
            To::State(_) => Some(Self::at(State::None)),
            _ => None,
        }
    }

    /// Returns a connection in a state.
    pub(crate) fn at(state: State) -> Self {
        Self {
            state,
            last: None,
            last_end: 0,
            close_begun: false,
            simultaneous: false,
            challenge: false,
            assured: false,
            closings: 0,
        }
    }

    /// Returns whether a count of connections leaves it out.
    pub(crate) fn closed(&self) -> bool {
        matches!(self.state, TimeWait | Close)
    }

    pub(crate) fn segment(&mut self, segment: Segment, reply: bool, seen_reply: bool) -> Fate {
        let kind = kind(segment.flags);
        let mut old = self.state;
        let last = |kind: Kind, side: bool| self.last == Some((kind, side));
        let mut new = match transition(reply, kind, old) {
            To::Invalid => return Fate::Invalid,
            To::State(SynSent) if matches!(old, TimeWait | Close) => {
                if self.close_begun || last(Kind::Reset, reply) {
                    return Fate::Reopens;
                }
                return self.ignored(segment, kind, reply);
            }
            // It answers an ignored SYN, so the connection is new.
            To::Ignored
                if kind == Kind::SynAck
                    && last(Kind::Syn, !reply)
                    && segment.acknowledged == self.last_end =>
            {
                old = SynSent;
                self.challenge = false;
                SynReceived
            }
            To::Ignored => return self.ignored(segment, kind, reply),
            To::State(new) => new,
        };
        if new == TimeWait
            && old == LastAck
            && kind == Kind::Ack
            && last(Kind::Syn, !reply)
            && self.challenge
        {
            self.challenge = false;
            return Fate::Ignored;
        }
        if new == SynSent2 {
            self.simultaneous = true;
        }
        if new == SynReceived && reply && kind == Kind::Ack && self.simultaneous {
            new = Established;
        }
        self.last = Some((kind, reply));
        if kind == Kind::Ack {
            self.last_end = segment.end;
        }
        let closed = self.closed();
        self.state = new;
        self.closings += u32::from(!closed && self.closed());
        if old != new && new == FinWait {
            self.close_begun = true;
        }
        if seen_reply {
            self.assured |= matches!(old, SynReceived | Established) && new == Established;
            return Fate::Counts(timeout(new));
        }
        match kind {
            Kind::Reset => Fate::Ends,
            // A retransmission: not counted, and the timeout stays.
            Kind::Syn if old == SynSent => Fate::Ignored,
            _ if new == Established => Fate::Counts(timeout(new).min(UNACKNOWLEDGED)),
            _ => Fate::Counts(timeout(new)),
        }
    }

    fn ignored(&mut self, segment: Segment, kind: Kind, reply: bool) -> Fate {
        self.last = Some((kind, reply));
        self.last_end = segment.end;
        if kind == Kind::Syn && !reply {
            self.challenge = self.state == LastAck;
        }
        Fate::Ignored
    }
}

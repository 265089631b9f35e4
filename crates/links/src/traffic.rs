// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evidence from a link's own traffic: a device that keeps sending but receives nothing is a reason
//! to probe. It is no proof, because much traffic is never answered.

use weirgate_units::Span;

/// So many packets are sent besides, where nobody uses the link: ARP, neighbour discovery.
const CHATTER: u64 = 8;

/// What a device counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Packets sent.
    pub sent: u64,
    /// Of those, questions of the health check.
    pub questions: u64,
    /// Packets received.
    pub received: u64,
}

/// What follows from the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Something was received since counting began.
    Receives,
    /// Nothing was received, and nothing was sent that should be answered; or counting began.
    Idle,
    /// Much was sent, and nothing was received, for as long as that may be.
    SendsOnly,
}

/// The counters of one link over time.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// When something was last seen to be received, and what was counted by then.
    heard: Option<(u64, Counted)>,
}

impl Traffic {
    /// Begins anew with the next count: what was received before speaks for nothing.
    pub fn forget(&mut self) {
        self.heard = None;
    }

    /// Takes what is counted now. Nothing need be received for a time of `patience`.
    pub fn count(&mut self, now: u64, counted: Counted, patience: Span) -> Sign {
        let Some((since, before)) = self.heard else {
            self.heard = Some((now, counted));
            return Sign::Idle;
        };
        // Counters that go back are those of a device that was made anew.
        if before.received != counted.received || before.sent > counted.sent {
            self.heard = Some((now, counted));
            return Sign::Receives;
        }
        let own = counted.questions.saturating_sub(before.questions);
        let others = (counted.sent - before.sent).saturating_sub(own);
        if others > CHATTER && now.saturating_sub(since) >= patience.as_nanos() {
            Sign::SendsOnly
        } else {
            Sign::Idle
        }
    }
}

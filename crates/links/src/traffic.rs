// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evidence from a link's own traffic: a device that keeps sending but receives nothing is a reason
//! to probe. It is not a proof, because much traffic is never answered.

use weirgate_units::Span;

/// The number of packets that an unused link may send by itself: ARP, neighbour discovery.
const CHATTER: u64 = 8;

/// The counters of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Packets sent.
    pub sent: u64,
    /// Of these, probes of the health check.
    pub questions: u64,
    /// Packets received.
    pub received: u64,
}

/// What follows from the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Something was received since counting began.
    Receives,
    /// Nothing was received, but nothing was sent that should be answered; or counting has just
    /// begun.
    Idle,
    /// Much was sent, and nothing was received for longer than is usual.
    SendsOnly,
}

/// The counters of one link over time.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// When something was last seen to be received, and the counters at that time.
    heard: Option<(u64, Counted)>,
}

impl Traffic {
    /// Starts again with the next count: packets that were received before do not count.
    pub fn forget(&mut self) {
        self.heard = None;
    }

    /// Takes the present counters. It is normal to receive nothing for a time of `patience`.
    pub fn count(&mut self, now: u64, counted: Counted, patience: Span) -> Sign {
        let Some((since, before)) = self.heard else {
            self.heard = Some((now, counted));
            return Sign::Idle;
        };
        // Counters that decrease belong to a device that was created again.
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

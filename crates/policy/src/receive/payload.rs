// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of `[receive]`, which are of what packets carry: shares of a line are
//! of what the packets that come can carry on it.

use crate::class::shares::whole_bytes;
use crate::model::Amount;
use crate::policy::Policy;
use crate::receive::Asked;
use weirgate_units::{Rate, Share};

/// Bytes of the headers of a segment with timestamps (IPv4, RFC 7323).
pub(crate) const HEADERS: u32 = 52;

/// Bytes of the headers that a largest segment does not count: those without
/// options (IPv4, RFC 9293 section 3.7.1).
const WITHOUT_OPTIONS: u32 = 40;

impl Policy {
    /// TCP's payload that fills a rate on the wire, in whole bytes a second: in
    /// full packets, or in segments of the size that `[receive]` asks for.
    #[must_use]
    pub fn payload_of(&self, wire: Rate) -> Rate {
        let receive = self.receive.as_ref();
        let asked = receive.and_then(|receive| receive.segment.as_ref());
        let full = self.link.mtu.value;
        self.payload_in(
            match asked.map(|asked| asked.value) {
                Some(Asked::Bytes(bytes)) => full.min(u32::from(bytes) + WITHOUT_OPTIONS),
                Some(Asked::Share) | None => full,
            },
            wire,
        )
    }

    /// The same in packets of so many bytes.
    fn payload_in(&self, packet: u32, wire: Rate) -> Rate {
        let payload = packet.saturating_sub(HEADERS);
        let part = u128::from(wire.as_bits_per_second()) * u128::from(payload);
        let rate = part / u128::from(self.link.layer.value.wire_bytes(packet).max(1));
        whole_bytes(Rate::bits_per_second(
            u64::try_from(rate).unwrap_or(u64::MAX),
        ))
    }

    /// What TCP may have as a rate: a share is of the payload that fills the
    /// line; none where the policy does not state the line's rate.
    #[must_use]
    pub fn received_rate(&self, amount: Amount) -> Option<Rate> {
        self.rate_of(amount, |line| self.payload_of(line))
    }

    /// What a stream of datagrams may have as a rate: a share is of what full
    /// packets carry.
    #[must_use]
    pub fn datagram_rate(&self, amount: Amount) -> Option<Rate> {
        self.rate_of(amount, |line| self.payload_in(self.link.mtu.value, line))
    }

    fn rate_of(&self, amount: Amount, carried: impl Fn(Rate) -> Rate) -> Option<Rate> {
        let of_line = |share: Share| {
            let line = self.link.down.as_ref()?.value;
            Some(share.of(carried(self.link.layer.value.usable_rate(line))))
        };
        match amount {
            Amount::Rate(rate) => Some(rate),
            Amount::Share(share) => of_line(share),
        }
        .map(whole_bytes)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of a policy: the policed rate, the range in which the line is followed, and payload
//! rates. A share in `[receive]` is a share of the payload that the line can carry.

use crate::amount::Amount;
use crate::conditioner::Conditioner;
use crate::link::track::Bounds;
use crate::model::{less, whole_bytes};
use crate::policy::Policy;
use crate::receive::Asked;
use weirgate_state::DeviceName;
use weirgate_units::{Direction, Rate, Share};

/// Length of the headers of a segment with the timestamps option in bytes (IPv4, RFC 7323).
pub(crate) const HEADERS: u32 = 52;

/// Length of the headers that the MSS leaves out in bytes: IPv4 and TCP without options (RFC
/// 9293 section 3.7.1).
const WITHOUT_OPTIONS: u32 = 40;

impl Policy {
    /// Returns the rate on the wire to which arriving packets are policed, if they are not
    /// queued. It is a multiple of 8 bit/s.
    #[must_use]
    pub fn policed_rate(&self) -> Option<Rate> {
        let line = self.link.down.as_ref()?.value;
        let usable = self.link.layer.value.usable_rate(line);
        let margin = self.link.margin_down.value.of(line);
        let rate = whole_bytes(less(usable, margin));
        self.link.inbound.value.polices().then_some(rate)
    }

    /// Returns the range of rates in which a direction is followed; `None` if its rate is fixed.
    #[must_use]
    pub fn bounds(&self, direction: Direction) -> Option<Bounds> {
        let (floor, ceiling) = self.track.as_ref()?.written(direction);
        let base = match direction {
            Direction::Up => self.link.up.value,
            Direction::Down => self.link.down.as_ref()?.value,
        };
        Some(Bounds {
            floor: floor.as_ref()?.value,
            base,
            ceiling: ceiling.as_ref().map_or(base, |value| value.value),
        })
    }

    /// Returns the policy for a line of other rates, which is not followed. Amounts that are
    /// shares of the line change with it.
    #[must_use]
    pub fn at_rates(&self, up: Option<Rate>, down: Option<Rate>) -> Self {
        let mut other = self.clone();
        other.track = None;
        if let Some(up) = up {
            other.link.up.value = up;
        }
        if let (Some(down), Some(line)) = (down, &mut other.link.down) {
            line.value = down;
        }
        other
    }

    /// Returns the TCP payload rate that fills a rate on the wire, in whole bytes per second.
    /// Packets are full packets, or segments of the MSS in `[receive]`.
    #[must_use]
    pub fn payload_of(&self, wire: Rate) -> Rate {
        let receive = self.receive.as_ref();
        let asked = receive.and_then(|receive| receive.mss.as_ref());
        let full = self.link.mtu.value;
        self.payload_in(
            match asked.map(|asked| asked.value) {
                Some(Asked::Bytes(bytes)) => full.min(u32::from(bytes) + WITHOUT_OPTIONS),
                Some(Asked::Share) | None => full,
            },
            wire,
        )
    }

    /// Returns the payload rate with packets of this length in bytes.
    fn payload_in(&self, packet: u32, wire: Rate) -> Rate {
        let payload = packet.saturating_sub(HEADERS);
        let part = u128::from(wire.as_bits_per_second()) * u128::from(payload);
        let rate = part / u128::from(self.link.layer.value.wire_bytes(packet).max(1));
        whole_bytes(Rate::bits_per_second(
            u64::try_from(rate).unwrap_or(u64::MAX),
        ))
    }

    /// Returns the rate of TCP payload. A share is of the payload that fills the line; `None` if
    /// the policy does not state the line's rate.
    #[must_use]
    pub fn received_rate(&self, amount: Amount) -> Option<Rate> {
        self.rate_of(amount, |line| self.payload_of(line))
    }

    /// Returns the rate of a datagram stream. A share is of what full packets carry.
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

impl Conditioner {
    /// Returns the device at which it is attached.
    #[must_use]
    pub fn at<'a>(&'a self, policy: &'a Policy) -> &'a DeviceName {
        let own = self.device.as_ref().unwrap_or(&policy.link.device);
        &own.value
    }

    /// Returns the direction of its packets: up if they leave through the link's device or enter
    /// through another, otherwise down.
    #[must_use]
    pub fn direction(&self, policy: &Policy) -> Direction {
        let outside = *self.at(policy) == policy.link.device.value;
        if outside == self.enters {
            Direction::Down
        } else {
            Direction::Up
        }
    }
}

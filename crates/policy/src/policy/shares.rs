// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of a policy: from the line's rate to the guarantee and ceiling of each class,
//! in wire bits.
//!
//! The gate's rate is the line's rate minus OAM cells minus the margin. Reservations by rate
//! (ACKs and classes with `rate`) are subtracted from it, and the rest is divided by shares.
//! Ceilings are relative to the gate's rate. Brouer B.6.1 does the same: shares are of RATE =
//! CEIL - ACK, ceilings of CEIL.

use crate::class::Guarantee;
use crate::class::ack::{ACK, AckRate};
use crate::link::{Engine, Link};
use crate::model::{less, whole_bytes};
use crate::policy::Policy;
use crate::{CakeQueue, Class, Fair, Queue};
use weirgate_document::{SourceSpan, Value};
use weirgate_linklayer::ack::AckReserve;
use weirgate_units::{Direction, Rate, Size};

/// The division of one direction of the link between classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// The direction.
    pub direction: Direction,
    /// The line's configured rate.
    pub line: Rate,
    /// The gate's rate: what the line leaves after OAM cells, minus the margin. It is a multiple
    /// of 8 bit/s, because tc counts in bytes.
    pub gate: Rate,
    /// Length of a full packet (the link's MTU) on the wire, in bytes.
    pub full_packet: u32,
    /// The classes as written, after the class for ACKs.
    pub classes: Vec<SharedClass>,
}

/// A class in one direction, with all shares converted to rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedClass {
    /// Its name.
    pub name: String,
    /// The line number of its table in the policy, from 1.
    pub line: u32,
    /// The position of its table.
    pub span: SourceSpan,
    /// The guaranteed rate; a multiple of 8 bit/s.
    pub rate: Rate,
    /// The ceiling; the gate's rate if no lower one is configured.
    pub ceiling: Rate,
    /// The position of the ceiling in the text.
    pub ceiling_span: SourceSpan,
    /// The priority, from 0 (highest) to 7.
    pub priority: u8,
    /// The queue, if configured.
    pub queue: Option<Value<Queue>>,
    /// Between whom the class is shared, if the class or the link configures it.
    pub fair: Option<Fair>,
    /// Wire bytes that it may send at once above its guaranteed rate.
    pub burst: Size,
    /// Its ITU-T Y.1541 class, if configured.
    pub objective: Option<Value<u8>>,
    /// Whether it takes packets that no rule matches.
    pub default: bool,
    /// Whether it is the class that `[ack]` creates.
    pub ack: bool,
}

impl Policy {
    /// Returns the length of a full packet on the wire, in bytes.
    #[must_use]
    pub fn full_packet(&self) -> u32 {
        self.link.layer.value.wire_bytes(self.link.mtu.value)
    }

    /// Returns the gate's rate in a direction; `None` if the direction is not shaped.
    #[must_use]
    pub fn gate(&self, direction: Direction) -> Option<Rate> {
        let line = self.line_rate(direction)?;
        let margin = match direction {
            Direction::Up => &self.link.margin,
            Direction::Down => &self.link.margin_down,
        };
        let usable = self.link.layer.value.usable_rate(line);
        Some(whole_bytes(less(usable, margin.value.of(line))))
    }

    /// Returns the rate reserved for ACKs that travel in this direction. It is `None` if nothing
    /// is reserved, or if the formula lacks the opposite rate.
    ///
    /// The formula's result is rounded up to whole kbit/s, as in the thesis's script (Brouer
    /// B.6.1).
    #[must_use]
    pub fn ack_rate(&self, direction: Direction) -> Option<Rate> {
        let ack = self
            .ack
            .as_ref()
            .filter(|ack| ack.directions.contains(direction))?;
        match ack.reserve.value {
            AckRate::Rate(rate) => Some(whole_bytes(rate)),
            AckRate::Formula => {
                let data = match direction {
                    Direction::Up => self.link.down.as_ref()?.value,
                    Direction::Down => self.link.up.value,
                };
                let layer = &self.link.layer.value;
                let reserve =
                    AckReserve::on(layer, ack.size, self.link.mtu.value, ack.factor_tenths);
                let bits = reserve.rate(data)?.as_bits_per_second();
                Some(Rate::bits_per_second(
                    bits.div_ceil(1000).saturating_mul(1000),
                ))
            }
        }
    }

    /// Returns the division of a direction's link; `None` if the direction is not shaped.
    #[must_use]
    pub fn share_out(&self, direction: Direction) -> Option<Shares> {
        let (line, gate) = (self.line_rate(direction)?, self.gate(direction)?);
        let ack_rate = self.ack_rate(direction);
        let left = less(gate, self.reserved(direction));
        let full = Size::bytes(u64::from(self.full_packet()));
        let first = self
            .classes_of(direction)
            .map(|class| class.priority)
            .chain(
                self.ack
                    .iter()
                    .filter(|_| ack_rate.is_some())
                    .map(|ack| ack.priority),
            )
            .min();
        let mut classes = Vec::new();
        if let (Some(ack), Some(rate)) = (&self.ack, ack_rate) {
            classes.push(SharedClass {
                name: ACK.to_owned(),
                line: ack.line,
                span: ack.span.clone(),
                rate,
                ceiling: whole_bytes(ack.ceiling.value.of(gate)).min(gate),
                ceiling_span: ack.ceiling.span.clone(),
                priority: ack.priority,
                queue: ack.queue.clone(),
                fair: shared_between(None, &self.link),
                burst: ack.burst.as_ref().map_or(full, |burst| burst.value),
                objective: None,
                default: false,
                ack: true,
            });
        }
        classes.extend(self.classes_of(direction).map(|class| {
            // Classes of the highest priority may send one packet more at once, since others
            // wait for them. For other classes it would only increase each other's delay bounds.
            let usual = if Some(class.priority) == first {
                full
            } else {
                Size::default()
            };
            SharedClass {
                name: class.name.value.clone(),
                line: class.line,
                span: class.span.clone(),
                rate: guaranteed(class, left),
                ceiling: whole_bytes(class.ceiling.value.of(gate)).min(gate),
                ceiling_span: class.ceiling.span.clone(),
                priority: class.priority,
                queue: class.queue.clone().or_else(|| self.charging(direction)),
                fair: shared_between(class.fair.as_ref(), &self.link)
                    .or_else(|| self.charging(direction).map(|_| Fair::Hosts)),
                burst: class.burst.as_ref().map_or(usual, |burst| burst.value),
                objective: class.objective.clone(),
                default: class.default.is_some(),
                ack: false,
            }
        }));
        Some(Shares {
            direction,
            line,
            gate,
            full_packet: self.full_packet(),
            classes,
        })
    }

    /// Returns the queue of a downstream class without a configured one, with `inbound =
    /// "auto"`. Packets that it drops have crossed the line, so it charges them to its rate, as
    /// cake does with `ingress`. BPF engines have no equivalent queue.
    fn charging(&self, direction: Direction) -> Option<Value<Queue>> {
        let link = &self.link;
        let own = |engine: &Value<Engine>| engine.value.is_program();
        let charges = link.automatic.is_some_and(|automatic| automatic.charges)
            && direction == Direction::Down
            && !link.engine.as_ref().is_some_and(own);
        let inbound = link.inbound.clone();
        charges.then(|| inbound.map(|_| Queue::Cake(CakeQueue::default())))
    }

    /// Returns the sum of reservations by rate in a direction.
    pub(crate) fn reserved(&self, direction: Direction) -> Rate {
        let by_rate = self
            .classes_of(direction)
            .filter_map(|class| match class.guarantee.value {
                Guarantee::Rate(rate) => Some(whole_bytes(rate)),
                Guarantee::Share(_) => None,
            });
        let sum = by_rate
            .chain(self.ack_rate(direction))
            .fold(0_u64, |sum, rate| {
                sum.saturating_add(rate.as_bits_per_second())
            });
        Rate::bits_per_second(sum)
    }
}

fn guaranteed(class: &Class, left: Rate) -> Rate {
    whole_bytes(match class.guarantee.value {
        Guarantee::Share(share) => share.of(left),
        Guarantee::Rate(rate) => rate,
    })
}

/// Returns `fair` of the class, or of the link for a class without it.
fn shared_between(stated: Option<&Value<Fair>>, link: &Link) -> Option<Fair> {
    stated.or(link.fair.as_ref()).map(|fair| fair.value)
}

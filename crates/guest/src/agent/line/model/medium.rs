// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both directions of a line, which may share one medium.

use super::{Departure, Instant, Side};
use weirgate_experiment::{Direction, Line, Random};

/// Returns the seed of a direction's random decisions, from the run's seed and the direction's
/// name.
#[must_use]
pub fn lots(seed: u64, direction: Direction) -> u64 {
    Random::of_flow(seed, &format!("line {direction}"), 0).bits()
}

/// A line's directions, up and down in this order.
#[derive(Debug)]
pub struct Medium<T> {
    sides: [Side<T>; 2],
    half_duplex: bool,
}

impl<T> Medium<T> {
    /// Returns an idle line for a run with this seed. The error is the direction whose first or
    /// last rate is 0.
    pub fn new(line: &Line, seed: u64) -> Result<Self, Direction> {
        let side = |side, direction| {
            let stretches = line.stretches(direction);
            Side::new(side, &stretches, lots(seed, direction)).ok_or(direction)
        };
        Ok(Self {
            sides: [
                side(&line.up, Direction::Up)?,
                side(&line.down, Direction::Down)?,
            ],
            half_duplex: line.half_duplex,
        })
    }

    /// Handles an arrival, as [`Side::arrive`].
    pub fn arrive(
        &mut self,
        index: usize,
        now_ns: u64,
        packet: T,
        (ip_bytes, wire_bytes): (u32, u32),
        dropped: impl FnMut(T),
    ) {
        self.advance(now_ns);
        let is_free = if self.half_duplex {
            self.sides.iter().all(|side| side.sending.is_none())
        } else {
            self.sides[index].sending.is_none()
        };
        let side = &mut self.sides[index];
        let arrival = side.numbered(packet, ip_bytes, wire_bytes);
        if is_free {
            side.send(arrival, Instant::whole(now_ns));
        } else {
            side.queue(arrival, dropped);
        }
    }

    /// Returns the queue of a direction, as [`Side::ahead`].
    pub fn ahead(&mut self, index: usize, now_ns: u64) -> (u32, u32) {
        self.advance(now_ns);
        self.sides[index].ahead_now()
    }

    /// Returns the next packet that is due, as [`Side::pop_due`].
    pub fn pop_due(&mut self, index: usize, now_ns: u64) -> Option<Departure<T>> {
        self.advance(now_ns);
        self.sides[index].pop_arrived(now_ns)
    }

    /// Returns the next time of a direction, as [`Side::next_due_ns`], or at which a transmission
    /// ends that the other direction waits for.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        let due = self.sides.iter().filter_map(Side::next_due_ns);
        let ends = self.sides.iter().filter_map(|side| side.sending.as_ref());
        let ends = ends.map(|sending| sending.end.rounded_up());
        due.chain(ends.filter(|_| self.half_duplex)).min()
    }

    /// Ends the run in both directions, as [`Side::finish`].
    pub fn finish(&mut self, now_ns: u64) -> impl Iterator<Item = (usize, Departure<T>)> {
        self.advance(now_ns);
        let sides = self.sides.iter_mut().enumerate();
        sides.flat_map(|(index, side)| side.travelling.drain(..).map(move |one| (index, one)))
    }

    fn advance(&mut self, now_ns: u64) {
        if !self.half_duplex {
            self.sides.iter_mut().for_each(|side| side.advance(now_ns));
            return;
        }
        while let Some((index, end)) = self.end(now_ns) {
            // Fractions of a nanosecond are in units of a direction's own rate, so round up.
            let at = Instant::whole(end.rounded_up());
            if !self.sides[1 - index].begin(at) {
                self.sides[index].begin(at);
            }
        }
    }

    /// Returns the direction whose transmission has ended by `now_ns`, and when.
    fn end(&mut self, now_ns: u64) -> Option<(usize, Instant)> {
        let mut sides = self.sides.iter_mut().enumerate();
        sides.find_map(|(index, side)| Some((index, side.end(now_ns)?)))
    }
}

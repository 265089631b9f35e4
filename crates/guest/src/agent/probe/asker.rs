// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends a probe's requests at their times, and records the replies.

use crate::agent::clock::Clock;
use crate::agent::recorder::Recorder;
use crate::agent::session::Session;
use crate::agent::stamp::Stamp;
use crate::agent::traffic::endpoint::Endpoint;
use anyhow::Result;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weirgate_experiment::Probe;

/// State that a probe's sender and receiver share.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The probe's number in the experiment.
    number: u16,
    /// Its flow's index.
    flow: u16,
    pub(super) endpoint: Endpoint,
    /// Time of sending and record number, by sequence number.
    sent: RefCell<Vec<(u64, usize)>>,
    /// The last round trip in nanoseconds; 0 before the first reply.
    round_trip_ns: Cell<u64>,
}

impl Asker {
    pub(super) fn new(session: &Session, number: u16, flow: u16, endpoint: Endpoint) -> Rc<Self> {
        Rc::new(Self {
            clock: session.clock.clone(),
            recorder: session.recorder.clone(),
            number,
            flow,
            endpoint,
            sent: RefCell::default(),
            round_trip_ns: Cell::default(),
        })
    }

    /// Sends requests at the probe's times. `packet` is the payload with the stamp at byte
    /// `stamp_at`; `mark` writes other changing fields.
    pub(super) async fn ask(
        &self,
        probe: &Probe,
        mut packet: Vec<u8>,
        stamp_at: usize,
        mark: impl Fn(&mut [u8], u32),
    ) -> Result<()> {
        for (start, end) in &probe.runs {
            let mut due_ns = start.as_nanos();
            while due_ns < end.as_nanos() {
                self.clock.until(due_ns).await?;
                let seq = self.sent.borrow().len() as u32;
                mark(&mut packet, seq);
                let sent_ns = self.clock.now_ns();
                if let Some(payload) = packet.get_mut(stamp_at..) {
                    Stamp::new(self.flow, seq, sent_ns).write(payload);
                }
                // If the socket buffer is full, the probe is lost, as in a full queue.
                self.endpoint.send_now(&packet)?;
                let number = self.recorder.probe(self.number, sent_ns);
                self.sent.borrow_mut().push((sent_ns, number));
                let least_ns = probe.interval.as_nanos();
                let gap_ns = gap_ns(least_ns, probe.per_round_trip, self.round_trip_ns.get());
                due_ns = due_ns.saturating_add(gap_ns);
            }
        }
        Ok(())
    }

    /// Records the reply to the newest probe whose sequence number ends in these 16 bits. An
    /// echo reply has no more of it.
    pub(super) fn answered(&self, low: u16, at_ns: u64) {
        let sent = self.sent.borrow();
        let asked = newest_ending_in(low, sent.len()).and_then(|index| sent.get(index));
        if let Some(&(sent_ns, number)) = asked {
            let round_trip_ns = at_ns.saturating_sub(sent_ns);
            self.round_trip_ns.set(round_trip_ns);
            self.recorder.answered(number, round_trip_ns);
        }
    }
}

/// Returns the time from one request to the next, after this last round trip (0 before the first
/// reply). With `number` requests in a round trip, an answer tells of a queue as it was a round
/// trip and this time ago (Braithwaite 6.3).
fn gap_ns(least_ns: u64, number: Option<u16>, round_trip_ns: u64) -> u64 {
    let part = number.map_or(0, |number| round_trip_ns / u64::from(number.max(1)));
    least_ns.max(part).max(1)
}

/// Returns the largest number below `count` with these low 16 bits.
fn newest_ending_in(low: u16, count: usize) -> Option<usize> {
    let newest = count.checked_sub(1)?;
    newest.checked_sub(newest.wrapping_sub(usize::from(low)) & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::{gap_ns, newest_ending_in};

    #[test]
    fn requests_follow_the_round_trip_but_not_faster_than_the_interval() {
        const MS: u64 = 1_000_000;
        assert_eq!(gap_ns(20 * MS, None, 800 * MS), 20 * MS);
        // Before the first reply, on a short path, and with a queue.
        assert_eq!(gap_ns(20 * MS, Some(4), 0), 20 * MS);
        assert_eq!(gap_ns(20 * MS, Some(4), 79 * MS), 20 * MS);
        assert_eq!(gap_ns(20 * MS, Some(4), 84 * MS), 21 * MS);
        assert_eq!(gap_ns(20 * MS, Some(4), 800 * MS), 200 * MS);
        assert_eq!(gap_ns(20 * MS, Some(1), 800 * MS), 800 * MS);
    }

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!(newest_ending_in(0, 0), None);
        assert_eq!(newest_ending_in(0, 1), Some(0));
        assert_eq!(newest_ending_in(1, 1), None);
        assert_eq!(newest_ending_in(0xffff, 0x1_0000), Some(0xffff));
        assert_eq!(newest_ending_in(0xffff, 0x1_0001), Some(0xffff));
        assert_eq!(newest_ending_in(0, 0x1_0001), Some(0x1_0000));
        assert_eq!(newest_ending_in(3, 0x2_0000), Some(0x1_0003));
    }
}

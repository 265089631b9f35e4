// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link of any rate up to 10 Gbit/s is measured: no end is asked for a train that it refuses.

use proptest::prelude::*;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weirgate_probe::{COOKIE, Client, Datagrams, Direction, Message, Seen, Train, measure};

/// IPv4 and UDP.
const HEADERS: u64 = 28;

/// The path to a serving end over a link of this rate with an unlimited buffer. No real time
/// passes.
#[derive(Debug)]
struct Line {
    bits_per_second: f64,
    /// The expected train, and the next answer.
    state: Mutex<(Option<Train>, Option<Message>)>,
}

impl Line {
    fn seen(&self, train: Train) -> Seen {
        let bits = 8 * (u64::from(train.payload) + HEADERS);
        let own = bits as f64 / self.bits_per_second * 1e9;
        let late = (own - train.gap_ns as f64).max(0.0) * f64::from(train.count);
        Seen {
            received: train.count,
            gap_ns: own.max(train.gap_ns as f64),
            gap_error_ns: 0.0,
            delay_ns: late as u64,
            standing_ns: (late / 2.0) as u64,
        }
    }
}

impl Datagrams for Line {
    fn send(&self, payload: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = match Message::read(payload) {
            Ok(Some(Message::Hello { nonce })) => Some(Message::Welcome {
                nonce,
                cookie: [0; COOKIE],
            }),
            Ok(Some(Message::Expect { train, .. })) => {
                state.0 = Some(train);
                Some(Message::Ready { id: train.id })
            }
            Ok(Some(Message::Ask { id, .. })) => state.0.map(|train| Message::Report {
                id,
                seen: self.seen(train),
            }),
            _ => None,
        };
        Ok(())
    }

    fn hear(&self, to: &mut [u8], _patience: Duration) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let message = state.1.take().ok_or(io::ErrorKind::WouldBlock)?;
        let bytes = message.bytes();
        to[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn send_train(&self, _train: &Train, _clock: Instant) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_line_of_any_rate_is_measured(exponent in 4.7..10.0_f64) {
        let bits_per_second = 10_f64.powf(exponent);
        let line = Line { bits_per_second, state: Mutex::default() };
        let server = ([192, 0, 2, 1], 7887).into();
        let mut client = Client::over(Box::new(line), server).expect("it answers");
        let found = measure(&mut client, Direction::Up, &mut |_| ());
        let found = found.expect("a line");
        let rate = found.ip_rate.as_bits_per_second() as f64;
        let part = rate / bits_per_second;
        prop_assert!((0.99..1.01).contains(&part), "{rate} of {bits_per_second}");
    }
}

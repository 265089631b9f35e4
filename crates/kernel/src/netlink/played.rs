// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fake kernel for tests: it answers from a script, whatever the request.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The offsets of a message's length and sequence number in its header (`struct nlmsghdr`).
const LENGTH: usize = 0;
pub(crate) const NUMBER: usize = 8;
pub(crate) const HEADER: usize = 16;
/// Sequence numbers below this count back from that of the newest request, which scripts cannot
/// know.
const COUNTED_BACK: u32 = 256;
const FIRST: u32 = 1_000;

/// A datagram of a script.
#[derive(Debug, Clone)]
pub struct PlayedAnswer {
    /// Its bytes. A message number below 256 means that many before the newest request's.
    pub bytes: Vec<u8>,
    /// Whether it is not queued yet when the datagram before it is read.
    pub later: bool,
}

/// The rest of a script.
#[derive(Debug)]
pub(crate) struct Played {
    answers: Mutex<VecDeque<PlayedAnswer>>,
    number: AtomicU32,
}

impl Played {
    pub(crate) fn new(answers: Vec<PlayedAnswer>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into()),
            number: AtomicU32::new(FIRST),
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<PlayedAnswer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_seq(&self) -> u32 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the next datagram; an error at the end of the script.
    pub(crate) fn next(&self) -> nlink::Result<Vec<u8>> {
        let next = self.lock().pop_front();
        let next = next.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok(self.numbered(next.bytes))
    }

    pub(crate) fn next_queued(&self) -> Option<Vec<u8>> {
        let next = self.lock().pop_front_if(|next| !next.later)?;
        Some(self.numbered(next.bytes))
    }

    /// Copies the next queued datagram to `room`. Returns its length.
    pub(crate) fn queued(&self, room: &mut [u8]) -> Option<usize> {
        let next = self.next_queued()?;
        let length = next.len().min(room.len());
        room[..length].copy_from_slice(&next[..length]);
        Some(length)
    }

    fn numbered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let newest = self.number.load(Ordering::Relaxed);
        for at in messages(&bytes) {
            let number = word(&bytes, at + NUMBER);
            if number < COUNTED_BACK {
                let number = newest.wrapping_sub(number);
                bytes[at + NUMBER..at + NUMBER + 4].copy_from_slice(&number.to_ne_bytes());
            }
        }
        bytes
    }
}

/// Returns the offsets of the messages in a datagram that have a complete header.
pub(crate) fn messages(datagram: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while datagram.len().saturating_sub(at) >= HEADER {
        starts.push(at);
        let length = word(datagram, at + LENGTH) as usize;
        at = length.max(HEADER).next_multiple_of(4).saturating_add(at);
    }
    starts
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]))
}

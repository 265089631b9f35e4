// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel that lies, for tests: it answers from a script, whatever the request.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a message's length and number stand in its header (`struct nlmsghdr`).
const LENGTH: usize = 0;
pub(crate) const NUMBER: usize = 8;
pub(crate) const HEADER: usize = 16;
/// Numbers below are counted back from that of the newest request: scripts cannot know it.
const COUNTED_BACK: u32 = 256;
const FIRST: u32 = 1_000;

/// A datagram of a script.
#[derive(Debug, Clone)]
pub struct PlayedAnswer {
    /// Its bytes. A message's number below 256 is so many before the newest request's.
    pub bytes: Vec<u8>,
    /// Whether it is not queued yet when the one before it is read.
    pub later: bool,
}

/// What is left of a script.
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

    /// The next datagram; an error where the script is at its end.
    pub(crate) fn next(&self) -> nlink::Result<Vec<u8>> {
        let next = self.lock().pop_front();
        let next = next.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok(self.numbered(next.bytes))
    }

    pub(crate) fn next_queued(&self) -> Option<Vec<u8>> {
        let next = self.lock().pop_front_if(|next| !next.later)?;
        Some(self.numbered(next.bytes))
    }

    /// Puts one that is queued there; how long it is.
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

/// Where the messages of a datagram begin, each with a whole header.
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

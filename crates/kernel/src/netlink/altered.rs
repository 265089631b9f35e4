// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real kernel whose answers are altered on their way, for tests.

use crate::netlink::played::{HEADER, NUMBER, messages};
use libc::{ENODEV, ENOENT, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The offsets of type and flags in a message header, and of the error after it.
const TYPE: usize = 4;
const FLAGS: usize = 6;

/// A change of one datagram.
#[derive(Debug, Clone, Copy)]
pub struct AlteredAnswer {
    /// The number of the datagram, counted from 0 over all sockets of a kernel.
    pub at: usize,
    /// The alteration.
    pub how: Alteration,
}

/// An alteration of a datagram.
#[derive(Debug, Clone, Copy)]
pub enum Alteration {
    /// Sets the error of an answer that ends a request; 0 for none.
    Errno(u8),
    /// Flags its messages as parts of an interrupted dump.
    Interrupted,
    /// Delivers it twice.
    Twice,
    /// Delivers it once more, as the answer to the request before.
    Stale,
    /// Truncates it after this many bytes.
    Cut(u16),
    /// Flips these bits of this byte.
    Flipped(u16, u8),
}

impl Alteration {
    /// Returns whether the altered answer says nothing false about the kernel's state. ENOENT or
    /// ENODEV would say that something does not exist.
    #[must_use]
    pub fn is_plausible(self) -> bool {
        match self {
            Self::Errno(errno) => ![ENOENT, ENODEV].contains(&i32::from(errno)),
            Self::Interrupted | Self::Twice | Self::Stale => true,
            Self::Cut(_) | Self::Flipped(..) => false,
        }
    }
}

/// The alterations, for all sockets of a kernel.
#[derive(Debug)]
pub(crate) struct Altered {
    answers: Vec<AlteredAnswer>,
    /// The number of datagrams so far, and those to deliver again.
    state: Mutex<(usize, VecDeque<Vec<u8>>)>,
}

impl Altered {
    pub(crate) fn new(answers: Vec<AlteredAnswer>) -> Arc<Self> {
        Arc::new(Self {
            answers,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, (usize, VecDeque<Vec<u8>>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a datagram that is delivered again to `room`. Returns its length.
    pub(crate) fn again(&self, room: &mut [u8]) -> Option<usize> {
        let bytes = self.lock().1.pop_front()?;
        room[..bytes.len()].copy_from_slice(&bytes);
        Some(bytes.len())
    }

    /// Alters a datagram. Returns its new length.
    pub(crate) fn change(&self, datagram: &mut [u8]) -> usize {
        let mut state = self.lock();
        let number = state.0;
        state.0 += 1;
        let mut length = datagram.len();
        for answer in self.answers.iter().filter(|answer| answer.at == number) {
            let bytes = &mut datagram[..length];
            match answer.how {
                Alteration::Errno(errno) => {
                    for at in messages(bytes) {
                        set_error(&mut bytes[at..], errno);
                    }
                }
                Alteration::Interrupted => {
                    for at in messages(bytes) {
                        let [low, high] = (NLM_F_DUMP_INTR as u16).to_ne_bytes();
                        bytes[at + FLAGS] |= low;
                        bytes[at + FLAGS + 1] |= high;
                    }
                }
                Alteration::Twice => state.1.push_back(bytes.to_vec()),
                Alteration::Stale => {
                    state.1.push_back(bytes.to_vec());
                    for at in messages(bytes) {
                        let number = &mut bytes[at + NUMBER..at + NUMBER + 4];
                        let own = [0, 1, 2, 3].map(|byte| number[byte]);
                        let before = u32::from_ne_bytes(own).wrapping_sub(1);
                        number.copy_from_slice(&before.to_ne_bytes());
                    }
                }
                Alteration::Cut(end) => length = length.min(usize::from(end)),
                Alteration::Flipped(at, bits) => {
                    if let Some(byte) = bytes.get_mut(usize::from(at)) {
                        *byte ^= bits;
                    }
                }
            }
        }
        length
    }
}

/// Sets the error of a message that ends a request.
fn set_error(message: &mut [u8], errno: u8) {
    let kind = i32::from(u16::from_ne_bytes([message[TYPE], message[TYPE + 1]]));
    if [NLMSG_ERROR, NLMSG_DONE].contains(&kind)
        && let Some(error) = message.get_mut(HEADER..HEADER + 4)
    {
        error.copy_from_slice(&(-i32::from(errno)).to_ne_bytes());
    }
}

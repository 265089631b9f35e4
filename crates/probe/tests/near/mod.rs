// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host that returns every packet at once.

use std::thread;
use std::time::Duration;
use weirgate_probe::{Answer, Reflector, RemoteError, Sent};

/// Returns each packet after the stated delay, without real waiting.
pub struct Near {
    took: Duration,
    sent: u32,
    back: u32,
}

impl Near {
    pub fn new(took: Duration) -> Self {
        Self {
            took,
            sent: 0,
            back: 0,
        }
    }
}

impl Reflector for Near {
    fn send(&mut self, _size: u32) -> Result<Sent, RemoteError> {
        self.sent += 1;
        Ok(Sent::Number(self.sent))
    }

    fn answer(&mut self, patience: Duration) -> Result<Answer, RemoteError> {
        if self.back == self.sent {
            thread::sleep(patience);
            return Ok(Answer::Nothing);
        }
        self.back += 1;
        Ok(Answer::Back(self.back, self.took))
    }

    fn largest(&self) -> Option<u32> {
        None
    }

    fn small(&self) -> u32 {
        64
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated line: a modem, a copper pair and an exchange.
//!
//! There are two implementations, which share only the recording of packets. [`kernel`] is a BPF
//! program, and [`tap`] runs in user space, between two TAP devices. In the latter, [`model`]
//! decides when packets leave and which are dropped, and [`framing`] computes their length on
//! the line; [`handed`] measures when the kernel passed packets to it. [`log`] records packets,
//! [`packet`] parses their headers, and [`entry`] measures when packets arrived at the gateway.
//! Nothing here shares code with the shaper under test.

mod entry;
pub mod framing;
mod handed;
pub mod kernel;
mod log;
pub mod model;
pub mod packet;
pub mod tap;

use crate::agent::session::Session;
use anyhow::{Context, Result};
pub use entry::Entry;
pub use log::Log;
use std::cell::RefCell;
use std::rc::Rc;

/// The line of a run.
#[derive(Debug, Clone)]
pub enum Emulation {
    /// The line in the kernel.
    Kernel(Rc<kernel::Emulation>),
    /// The line in user space.
    Tap(Rc<RefCell<tap::Emulation>>),
}

impl Emulation {
    /// Starts the tasks that run beside the traffic.
    pub fn prepare(&self, session: &Session) -> Result<()> {
        match self {
            Self::Kernel(line) => {
                let read = kernel::Emulation::read(Rc::clone(line));
                session.spawn("the line".to_owned(), read);
            }
            Self::Tap(line) => {
                let emptied = line.borrow_mut().discard();
                emptied.context("empty the line's devices")?;
                session.spawn("the line".to_owned(), tap::Emulation::run(Rc::clone(line)));
            }
        }
        Ok(())
    }

    /// Starts the line when the run's clock has started. The run lasts until `until_ns`.
    pub fn start(&self, until_ns: u64) -> Result<()> {
        match self {
            Self::Kernel(line) => line.start(until_ns),
            Self::Tap(_) => Ok(()),
        }
    }

    /// Records what was sent by the end of the run; other packets stay `Left`.
    pub async fn finish(&self, now_ns: u64) -> Result<()> {
        match self {
            Self::Kernel(line) => line.finish().await,
            Self::Tap(line) => {
                line.borrow_mut().finish(now_ns);
                Ok(())
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated line: what a modem, a copper pair and an exchange do.
//!
//! There are two, which share no code but what records packets: [`kernel`] is a
//! program of BPF, [`tap`] is in user space, between two TAP devices. There
//! [`model`] decides when packets leave and which are dropped, and [`framing`] what
//! they cost; [`handed`] knows when the kernel gave it packets. [`log`] records
//! packets, [`packet`] reads their headers, and [`entry`] knows when segments came to
//! the gateway.
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

/// The line of a run, whoever emulates it.
#[derive(Debug, Clone)]
pub enum Emulation {
    /// In the kernel.
    Kernel(Rc<kernel::Emulation>),
    /// In user space.
    Tap(Rc<RefCell<tap::Emulation>>),
}

impl Emulation {
    /// Starts what runs beside the traffic.
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

    /// The run's clock has begun; the run lasts until `until_ns`.
    pub fn start(&self, until_ns: u64) -> Result<()> {
        match self {
            Self::Kernel(line) => line.start(until_ns),
            Self::Tap(_) => Ok(()),
        }
    }

    /// Records what was sent by the end of the run; the rest stays `Left`.
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

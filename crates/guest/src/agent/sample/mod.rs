// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples senders' TCP state, the gateway's queues, and the machine.

mod processor;
mod queues;
mod tcp;
pub(super) mod tick;

pub use processor::Processors;
pub use tcp::Senders;

use super::session::Session;
use anyhow::Result;
use weirgate_units::Span;

/// Starts the experiment's samplers. An interval of 0 disables one.
pub fn start(session: &Session, senders: &Senders) -> Result<()> {
    let sampling = &session.experiment.sampling;
    if sampling.tcp > Span::ZERO {
        let sampler = tcp::sample(session.clone(), senders.clone(), sampling.tcp);
        session.spawn("sample TCP senders".to_owned(), sampler);
    }
    if sampling.queues > Span::ZERO {
        queues::start(session, sampling.queues)?;
    }
    Ok(())
}

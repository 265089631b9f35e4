// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of the gateway's qdiscs and classes.

use crate::agent::session::Session;
use anyhow::Result;
use weirgate_units::Span;

/// Samples each `interval`.
pub fn start(session: &Session, interval: Span) -> Result<()> {
    let _ = (session, interval);
    Ok(())
}

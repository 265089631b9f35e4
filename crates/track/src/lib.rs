// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the rate of a line that changes: from what probes and counters tell
//! to the rate that the shaper is to keep below.
//!
//! A [`Controller`] is given [`Input`]s, each with its time, and answers with
//! [`Decision`]s. It has no clock and no sockets, so the same inputs always
//! lead to the same decisions: [`Record`] writes both down, a line each, and
//! [`replay`] makes the decisions again and compares.
//!
//! The idea. While a queue stands at the far end of the line, what arrives
//! here is what the line carries, whatever the shaper does; upstream the growth
//! of the delay tells by how much more was sent than that. So one look at a
//! standing queue says the rate, and no search is needed: the rate goes there
//! at once, stays below for as long as the queue needs to drain, and is raised
//! again only as an experiment that ends when the delay rises. An experiment is
//! made only while the shaper is filled: without that it would show nothing.

mod controller;
mod model;
mod passive;
mod record;
mod reflector;
mod setup;
mod votes;
mod way;

pub use controller::Controller;
pub use model::{Decision, Input, Limits, Reason, Settings, Told, Trouble, Way};
pub use record::{HEAD, Record, Replayed, Wrong, replay};
pub use setup::{Cost, Setup};

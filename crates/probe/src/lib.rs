// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measuring a real link from its ends.
//!
//! * [`infer`](infer()) says what times tell of a link layer.
//! * [`Server`] is the cooperating end, [`Client`] talks to it, [`measure`]
//!   (measure()) measures a direction with it.
//!
//! Nobody is contacted but the address that the caller names. Start reading at
//! `infer`; `message` is all that crosses the network.

mod client;
mod infer;
mod measure;
mod message;
mod pace;
mod serve;
mod train;

pub use client::{Client, ProbeError, Way};
pub use infer::{Cut, Fit, Inference, Timed, Timing, infer, sizes};
pub use measure::{Direction, Progress, measure};
pub use message::{COOKIE, GREETING, Message, SHORTEST, Seen, Train};
pub use serve::Server;
pub use train::{Arrival, seen};

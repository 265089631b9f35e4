// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What outlives a command: applied states on disk, the guard of a change, the
//! service that keeps a policy in force.
//!
//! Start at [`Site`]. It decides when the kernel is changed and what is
//! remembered of it; what is changed is in a plan (crate `plan`), how is crate
//! `kernel`'s. It knows no policy: what it keeps and restores are states.

mod announce;
mod asked;
mod asking;
mod clock;
mod control_group;
mod error;
mod frame;
mod guard;
mod history;
mod memory;
mod names;
mod passing;
mod place;
mod rates;
mod sealed;
mod service;
mod site;
mod text;
mod tracker;

pub use control_group::absent_groups;
pub use error::KeepError;
pub use guard::serve as serve_guard;
pub use history::{Entry, Head, History, KEPT, Outcome, Pending, Source};
pub use memory::Memory;
pub use place::{Lock, Place, STATE};
pub use rates::{At, Following, RatesNow, WayRate, record_file};
pub use service::{Report, keep};
pub use site::{Made, Planned, Request, Site};
pub use tracker::Tracker;

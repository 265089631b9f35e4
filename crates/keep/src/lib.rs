// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What outlives a command: applied states on disk, the guard of a change, the
//! service that keeps a policy in force.
//!
//! Start at [`Site`]. It decides when the kernel is changed and what is
//! remembered of it; what is changed is in a plan (crate `plan`), how is crate
//! `kernel`'s. It knows no policy: what it keeps and restores are states.

mod clock;
mod error;
mod guard;
mod rate;
mod service;
mod site;
mod store;

pub use error::{KeepError, returns};
pub use guard::serve as serve_guard;
pub use rate::tracker::Tracker;
pub use rate::{At, Following, RatesNow, WayRate, record_file};
pub use service::control_group::absent_groups;
pub use service::{Report, keep};
pub use site::{Made, Planned, Request, Site};
pub use store::folder::{Lock, Place, STATE};
pub use store::head::{Head, KEPT, Outcome, Pending};
pub use store::history::{Entry, History, Source};
pub use store::memory::Memory;

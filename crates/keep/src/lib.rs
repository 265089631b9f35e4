// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that outlives a command: applied states on disk, the guard of a change, the service
//! that keeps a policy in force.
//!
//! Start at [`Site`]. It decides when the kernel is changed and what is stored about it. A plan
//! says what is changed (crate `plan`), and crate `kernel` carries it out. This crate does not know
//! policies: it stores and restores states.
//!
//! A change needs root, so this example is compiled but not run:
//!
//! ```no_run
//! use std::time::Duration;
//! use weirgate_keep::{Request, STATE, Site};
//!
//! # async fn apply(wanted: weirgate_state::State) -> Result<(), weirgate_keep::KeepError> {
//! let site = Site::open(STATE.as_ref(), "/usr/bin/weirgate".into())?;
//! let lock = site.lock().await?;
//! let planned = site.plan(&wanted, false).await?;
//! let request = Request { confirm: Some(Duration::from_secs(60)), ..Request::default() };
//! let made = site.apply(&lock, planned, request).await?;
//! assert!(made.unconfirmed);
//! drop(lock);
//! // Without this, its guard takes the change back after a minute.
//! assert_eq!(site.confirm().await?, made.number);
//! # Ok(())
//! # }
//! ```
//!
//! Anyone who may read the folder can read the stored states:
//!
//! ```
//! use weirgate_keep::{History, Folders};
//!
//! let folder = weirgate_testing::root().join("tests/kept");
//! let folders = Folders { run: folder.clone(), state: folder, boot: String::new() };
//! let history = History::of(&folders);
//! let confirmed = history.head()?.confirmed.expect("a state is in force");
//! assert!(history.entry(confirmed)?.sources[0].path.ends_with("upstream.toml"));
//! # Ok::<(), weirgate_keep::KeepError>(())
//! ```

mod circuits;
mod clock;
mod error;
mod guard;
mod links;
mod offloads;
mod pods;
mod pulse;
mod rate;
mod service;
mod site;
mod store;

pub use circuits::{
    CircuitShown, Circuits, CircuitsDone, CircuitsNow, CircuitsRefused, CircuitsSocket,
    DeviceCircuits, Guarded, InForce, ListNow, Meters, OneQueue, OpenCircuits, Queues, Used,
    WaitingNow, hours_now,
};
pub use error::{KeepError, returns};
pub use guard::serve as serve_guard;
pub use links::{AppliedLinks, LinkNow, LinkReport, LinksNow, hold_links};
pub use offloads::{joining, offloads_back, offloads_off};
pub use pods::{PodReport, hold_pods};
pub use pulse::Pulse;
pub use rate::tracker::Tracker;
pub use rate::{At, DirectionRate, Following, RatesNow, record_file};
pub use service::followed::absent;
pub use service::{Report, Terms, keep};
pub use site::{Made, Planned, PlannedLinks, Request, Site};
pub use store::damage::Damage;
pub use store::folder::{Folders, Lock, STATE};
pub use store::head::{Head, MOST_ENTRIES, Outcome, Pending};
pub use store::history::{Entry, History, Source};
pub use store::memory::Memory;
pub use store::trust::trusted;

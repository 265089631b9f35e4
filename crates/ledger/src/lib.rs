// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger: each experiment's figures, stored beside the sources.
//!
//! A [`Measurement`] has the figures of runs. Where machines share the work, each takes a [`Shard`]
//! of the [`SingleRun`]s. An [`Entry`] is the judged measurement: a line for each figure, with
//! mean, interval and verdict. [`Entry::to_toml`] and [`parse`] convert it to and from
//! `results/NAME.toml`. [`compare`] lists the lines of a new entry that are worse, better or moved,
//! and [`repeats`] says whether a second run gave the same bits.
//!
//! Means have the 95 % confidence interval of Student's t over the runs, also the mean of a `max`
//! or `min`. The judged figure of a `max` or `min` is the largest or smallest over all runs.
//!
//! ```
//! use weirgate_ledger::{Digest, content};
//!
//! let file = "settle = \"5s\"\n[[expect]]\nmetric = \"rtt.p.max_ms\"\nat-most = 38\n";
//! let loosened = file.replace("38", "40");
//! let settled = file.replace("5s", "9s");
//! // What is expected has a digest of its own, so that a changed limit needs no run.
//! assert_eq!(content(file).setup, content(&loosened).setup);
//! assert_ne!(content(file).expectations, content(&loosened).expectations);
//! assert_ne!(content(file).setup, content(&settled).setup);
//! // Words do not count.
//! assert_eq!(content(file), content(&format!("# Why.\ntitle = \"x\"\n{file}")));
//! assert_eq!(Digest::of(b"").to_string().len(), 64);
//! ```

mod codes;
mod compare;
mod digest;
mod entry;
mod judged;
mod measurement;
mod page;
mod parse;
mod plot;
mod repeated;
mod shard;
mod single;
mod text;

pub use codes::CODES;
pub use compare::{Change, Finding, compare};
pub use digest::{Content, Digest, DigestError, content, setup_text};
pub use entry::{Arm, Entry, Expected, Figure, Standing};
pub use measurement::{Machine, MadeWith, Measurement, RunFigures};
pub use page::{GROUPS, Row, group, index};
pub use parse::parse;
pub use plot::plot;
pub use repeated::{Repetition, repeats};
pub use shard::{Shard, ShardError};
pub use single::SingleRun;

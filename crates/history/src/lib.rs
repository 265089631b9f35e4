// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The history of many series in one file of bounded size, which can be opened after any crash.
//!
//! Start at [`History`]. It takes rows: what many series were at one time. Rows
//! are stored with their exact times. As they get old, they are condensed into
//! steps of a minute, ten minutes and two hours ([`STEPS`]). Each step has its sum,
//! the time it was observed for, its least and its greatest value, so nothing is
//! interpolated.
//!
//! The file (`layout`) is a header, two halves of a journal and one ring for each
//! step. Every [`History::commit`] appends to the journal. A full journal becomes
//! a chunk of compressed columns in the first ring (`chunk`, `column`), and the
//! other half begins; several chunks become one in the next ring. A ring
//! overwrites its oldest chunks. A step is made of chunks that are safely on disk
//! and says which, so work that a crash cut short is done again.
//!
//! Files, clock and threads are the caller's: see [`Storage`].
//!
//! ```
//! use std::io;
//! use weirgate_history::{History, Kind, LEAST, Storage};
//!
//! /// Bytes in memory; a program has a file.
//! struct Bytes(Vec<u8>);
//!
//! impl Storage for Bytes {
//!     fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
//!         let rest = self.0.get(at as usize..).unwrap_or_default();
//!         let count = rest.len().min(into.len());
//!         into[..count].copy_from_slice(&rest[..count]);
//!         Ok(count)
//!     }
//!
//!     fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
//!         let end = at as usize + bytes.len();
//!         self.0.resize(self.0.len().max(end), 0);
//!         self.0[at as usize..end].copy_from_slice(bytes);
//!         Ok(())
//!     }
//!
//!     fn sync(&mut self) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn size(&self) -> io::Result<u64> {
//!         Ok(self.0.len() as u64)
//!     }
//! }
//!
//! let mut history = History::open(Bytes(Vec::new()), LEAST)?;
//! for (second, bytes) in [(1, 500), (2, 1500)] {
//!     history.append(1000 * second, 1000, [("sent", Kind::Counter, bytes)])?;
//! }
//! history.commit()?;
//! // What was committed is there when the storage is opened again.
//! let history = History::open(history.into_storage(), LEAST)?;
//! let sent = history.read(&["sent"], 0, 2000, 0)?;
//! let means: Vec<f64> = sent[0].points.iter().map(|point| point.mean).collect();
//! assert_eq!(means, [500.0, 1500.0]);
//! # Ok::<(), weirgate_history::HistoryError>(())
//! ```

mod bits;
mod chunk;
mod column;
mod engine;
mod export;
mod journal;
mod layout;
mod live;
mod mend;
mod query;
mod ring;
mod thin;

pub use engine::{History, Status};
pub use export::{csv, json, write_csv, write_json};
pub use layout::{LEAST, STEPS};
pub use query::{Point, Reading};

use std::io;

/// The largest number of series in a chunk. Further ones are omitted and counted
/// ([`Status::refused`]).
pub const MAX_SERIES: usize = 8192;
/// The longest name of a series in bytes.
pub const MAX_NAME: usize = 256;
/// The largest number of events in a chunk.
pub const MAX_EVENTS: usize = 4096;
/// The longest text of an event in bytes; longer ones are truncated.
pub const MAX_TEXT: usize = 512;

/// The kind of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The increment during the row's interval.
    Counter,
    /// The value during the row's interval.
    Gauge,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The time in milliseconds of Unix time.
    pub time: i64,
    /// The kind of event, such as `apply`.
    pub kind: String,
    /// A description.
    pub text: String,
}

/// The storage of a history: a file, or memory in tests.
pub trait Storage {
    /// Reads as many bytes as fit; fewer at the end of the storage.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes; the storage grows if necessary.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns once all written data would survive a power failure.
    fn sync(&mut self) -> io::Result<()>;
    /// Returns the size in bytes.
    fn size(&self) -> io::Result<u64>;
}

/// The reason why a history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file is not a history, and is not changed.
    #[error("this is not a history of weirgate's; name another file, or move this one away")]
    Foreign,
    /// The file has the format of another version.
    #[error("this history has format {0}, of another version of weirgate; this one knows format 1")]
    Version(u32),
    /// The requested size is too small.
    #[error("a history of {0} bytes is too small; give it at least {LEAST}")]
    Small(u64),
    /// The storage does not contain a history yet.
    #[error("there is no history here yet")]
    Empty,
    /// Reading or writing failed.
    #[error("{0}")]
    Storage(#[from] io::Error),
}

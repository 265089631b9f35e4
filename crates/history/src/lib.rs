// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Series of numbers over time in one file of bounded size, which opens after
//! any crash.
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

/// Series that one chunk may have; what comes beyond them is left out and
/// counted ([`Status::refused`]).
pub const MAX_SERIES: usize = 8192;
/// Bytes that a series' name may have.
pub const MAX_NAME: usize = 256;
/// Events that one chunk may have.
pub const MAX_EVENTS: usize = 4096;
/// Bytes that an event's text may have; longer ones are cut.
pub const MAX_TEXT: usize = 512;

/// What a series' values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// How much was counted during the row's interval.
    Counter,
    /// What was so during the row's interval.
    Gauge,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When, in milliseconds of Unix time.
    pub time: i64,
    /// What sort of event, such as `apply`.
    pub kind: String,
    /// What happened, in words.
    pub text: String,
}

/// Where the bytes are: a file, or what a test makes of one.
pub trait Storage {
    /// Reads what is there, as much as fits; fewer bytes at the end.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes all of it; beyond the end, the storage grows.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was written outlives a power cut.
    fn sync(&mut self) -> io::Result<()>;
    /// How many bytes there are.
    fn size(&self) -> io::Result<u64>;
}

/// Why a history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file is something else, and is left alone.
    #[error("this is not a history of weirgate's; name another file, or move this one away")]
    Foreign,
    /// The file has a format of another version.
    #[error("this history has format {0}, of another version of weirgate; this one knows format 1")]
    Version(u32),
    /// The size asked for is too small to be of use.
    #[error("a history of {0} bytes is too small; give it at least {LEAST}")]
    Small(u64),
    /// There is no history in it yet.
    #[error("there is no history here yet")]
    Empty,
    /// It could not be read or written.
    #[error("{0}")]
    Storage(#[from] io::Error),
}

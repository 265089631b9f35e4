// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities in users' notation and in the kernel's units.
//!
//! Every type parses from text (`FromStr`), prints one canonical text
//! (`Display`) that parses back to the same value, and carries its unit in its
//! type. Rates are decimal (1 kbit/s = 1000 bit/s), as in tc and the theses.
//!
//! ```
//! use weirgate_units::{Rate, Share, Size, Span};
//!
//! let line: Rate = "512kbit".parse()?;
//! let quarter: Share = "25%".parse()?;
//! assert_eq!(quarter.of(line).to_string(), "128kbit");
//! // The time of a full packet on the line.
//! let packet = Size::bytes(1500);
//! assert_eq!(line.time_for(packet), Some(Span::from_nanos(23_437_500)));
//! # Ok::<(), weirgate_units::ParseError>(())
//! ```

mod arrange;
mod direction;
mod dscp;
mod fnv;
mod handle;
mod network;
mod parse;
mod peer_text;
mod rate;
mod share;
mod size;
mod span;

pub use arrange::{Arrange, Inserted};
pub use direction::Direction;
pub use dscp::Dscp;
pub use fnv::{fnv1a_32, fnv1a_64, fnv1a_64_more};
pub use handle::Handle;
pub use network::network;
pub use parse::ParseError;
pub use peer_text::PeerText;
pub use rate::Rate;
pub use share::Share;
pub use size::Size;
pub use span::Span;

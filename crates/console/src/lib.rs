// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shared terminal code of the programs `weirgate` and `weirgate-lab`. It has exit statuses,
//! output, problems of files, policy files, disciplines by name, stored measurements, progress and
//! times. It also runs one program from the other.
//!
//! ```
//! use weirgate_console::exit::{Failure, wrong};
//!
//! let failure = wrong("name the file to write");
//! assert!(matches!(failure, Failure::Input(_)));
//! assert_eq!(failure.text(), "weirgate: name the file to write");
//! ```

pub mod discipline;
pub mod exit;
pub mod handover;
pub mod json;
#[cfg(not(feature = "packed"))]
mod manual;
pub mod measurement;
pub mod output;
pub mod policy;
pub mod progress;
pub mod reference;
pub mod runtime;
pub mod source;
pub mod time;

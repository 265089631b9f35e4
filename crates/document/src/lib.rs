// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TOML documents of users, and the problems found in them.
//!
//! Policies and experiments are read through [`Reader`], which keeps the place of every value, and
//! collects all problems instead of stopping at the first. This crate knows TOML and the
//! presentation of errors, but nothing about policies.
//!
//! ```
//! use weirgate_document::{Problems, parse};
//!
//! let source = "device = \"wan\"\nmtu = 9\nmut = 1500\n";
//! let problems = Problems::default();
//! parse(source, &problems, |mut link| {
//!     let device = link.text("device").expect("it is there");
//!     assert_eq!((device.value.as_str(), device.line), ("wan", 1));
//!     assert!(link.integer("mtu", 576..=2048).is_none());
//! });
//! let codes: Vec<&str> = problems.into_sorted().iter().map(|one| one.code).collect();
//! // A number out of range, and an unknown field.
//! assert_eq!(codes, ["D005", "D003"]);
//! ```

mod draft;
mod parameters;
mod problem;
mod reader;
pub mod registry;
mod source;
mod suggest;
mod value;
mod vocabulary;

pub use draft::{Draft, Origins};
pub use parameters::{ParameterError, quoted, with_parameters};
pub use problem::{CODES, OUT_OF_RANGE, Problem, Problems, Severity, SourceSpan, escaped};
pub use reader::Reader;
pub use source::{parse, parse_with_parameters, parse_with_vocabulary};
pub use suggest::{did_you_mean, nearest};
pub use value::{Kind, Value};
pub use vocabulary::{Synonym, Vocabulary};

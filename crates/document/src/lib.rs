// SPDX-License-Identifier: Apache-2.0 OR MIT
//! User-written TOML documents and the problems found in them.
//!
//! Policies and experiments are read through [`Reader`], which keeps the place
//! of every value and collects every problem instead of stopping at the first.
//! This crate knows TOML and error presentation; it knows nothing of policies.

mod parameters;
mod problem;
mod reader;
mod suggest;
mod vocabulary;

pub use parameters::{ParameterError, with_parameters};
pub use problem::{CODES, Problem, Problems, Severity, Span};
pub use reader::{Kind, Reader, Value, parse, parse_with_parameters, parse_with_vocabulary};
pub use suggest::nearest;
pub use vocabulary::{Synonym, Vocabulary};

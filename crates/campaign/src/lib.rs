// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A campaign of experiments: every arm run in the laboratory, its recordings
//! measured and judged, compared with what `weirgate check` promises, and saved.

mod arms;
mod conformance;
mod disciplines;
mod here;
pub mod ledger;
mod promises;
pub mod result;
mod run;
pub mod saved;

pub use arms::{load, unusable};
pub use run::{Run, bundled, run};

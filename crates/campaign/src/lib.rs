// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A campaign of experiments. Every arm runs in the laboratory; its recordings are measured,
//! judged, compared with the promises of `weirgate check`, and saved.
//!
//! [`run()`] needs qemu and the lab's kernel. [`load`] only reads an experiment, with other values
//! for some parameters:
//!
//! ```
//! use std::path::Path;
//!
//! let file = Path::new("../../experiments/adsl/3.2.toml");
//! let Ok((_, experiment)) = weirgate_campaign::load(file, &[]) else {
//!     panic!("an experiment of this project");
//! };
//! let arms: Vec<&str> = experiment.arms.iter().map(|arm| &*arm.name).collect();
//! assert_eq!(arms, ["modem-only", "weirgate"]);
//! // A parameter that the file does not have is an error.
//! let set = [("rate".to_owned(), "2mbit".to_owned())];
//! assert!(weirgate_campaign::load(file, &set).is_err());
//! ```

mod arms;
mod conformance;
mod disciplines;
pub mod folder;
mod here;
pub mod ledger;
mod promises;
pub mod result;
mod run;
pub mod saved;

pub use arms::{load, unusable};
pub use run::{Run, bundled, run};

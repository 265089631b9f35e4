// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's machine: a stock kernel under qemu in virtual time, with
//! weirgate's own guest as its user space.
//!
//! [`prepare`] finds or fetches a kernel and builds the guest's image. [`Lab::run`] passes one
//! [`Job`](weirgate_experiment::Job) to one virtual machine and returns the bytes that it sends
//! back; [`Lab::run_all`] runs several at once. This crate does not interpret the job or the
//! bytes.
//!
//! No root is needed, no file outside the cache is changed, and a virtual machine ends with the
//! process that started it.
//!
//! A run needs qemu, a kernel and the guest's binary, so this example is compiled but not
//! run:
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use weirgate_experiment::Job;
//! use weirgate_lab::{Limits, Options, Request, prepare};
//!
//! let lab = prepare(&Options::default(), false, &mut |note| println!("{note}"))?;
//! let request = Request {
//!     job: Job {
//!         experiment: std::fs::read_to_string("experiments/adsl/3.2.toml")?,
//!         arm: "modem-only".to_owned(),
//!         parameters: BTreeMap::new(),
//!         seed: 1,
//!         files: BTreeMap::new(),
//!         disciplines: BTreeMap::new(),
//!     },
//!     boot_options: Vec::new(),
//!     limits: Limits::default(),
//! };
//! // Equal seeds give equal bytes, whatever else this machine does.
//! let run = || lab.run(&request, &mut |_| {});
//! assert_eq!(run()?.result, run()?.result);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apt;
mod cache;
mod emulator;
mod error;
mod image;
mod kernel;
mod lab;
mod own_tests;
mod packages;
mod tool;
mod vm;

pub use cache::Cache;
pub use error::{Failure, LabError};
pub use kernel::{Kernel, KernelChoice, declarations, fetch, source};
pub use lab::{ArmOutput, Lab, Options, Request, prepare};
pub use own_tests::{OwnTests, Together};
pub use packages::package;
pub use vm::{Limits, Progress};

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads and attaches the compiled programs.

mod counted;
mod embedded;
pub(crate) mod log;
pub(crate) mod packet;
mod registered;
pub(crate) mod tcx;
mod verifier;

pub use counted::{Objects, objects};
pub use embedded::{Object, kit_number, programs, source_number, sources};
pub(crate) use embedded::{digest, ingress, named};
pub use registered::{Registered, register};
pub use tcx::Attached;
pub use verifier::{Cost, Refused, verify};

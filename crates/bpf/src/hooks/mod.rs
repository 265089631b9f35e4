// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs at a device's ingress and egress hooks (`clsact`).

mod attach;
mod attached;
pub(crate) mod condition;
pub(crate) mod datagrams;
mod ingress;
pub(crate) mod order;
pub(crate) mod payload;
mod tcx;
pub(crate) mod virtual_queue;
pub(crate) mod window;

pub use attach::{FoundFilter, Loader};
pub use attached::{filter_name, hold, read, readdress, update};
pub use ingress::IngressAttachment;
pub use tcx::TcxProgram;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet costs on the wire.
//!
//! One [`LinkLayer`] states, for a link, how many bytes of its rate an IP
//! packet of any length takes. Every shaper, policer, estimate and bound of
//! weirgate is computed from that one statement:
//!
//! * [`LinkLayer::named`] and [`LinkLayer::custom`] make one; [`LinkLayer::names`]
//!   lists what there is;
//! * [`LinkLayer::wire_bytes`] is the cost; rates, times and efficiency follow
//!   from it (`capacity`);
//! * [`LinkLayer::stab`] says the same to the kernel, as the size table of a
//!   root qdisc, relative to what Linux counts on a [`DeviceKind`];
//! * [`ack`], [`window`] and [`naive`] are the calculators of Brouer's thesis
//!   that need the cost of a packet, each with its source.
//!
//! ```
//! use weirgate_linklayer::LinkLayer;
//!
//! # fn main() -> Result<(), weirgate_linklayer::UnknownLayer> {
//! // An acknowledgement of 40 bytes takes two ATM cells of 53 bytes with PPPoE.
//! let adsl = LinkLayer::named("adsl:pppoe-llc")?;
//! assert_eq!(adsl.wire_bytes(40), 106);
//! # Ok(())
//! # }
//! ```
//!
//! The length of an IP packet, headers included, is the reference everywhere;
//! "relative to the device" appears in [`DeviceKind`] and nowhere else.
//! `docs/link-layer.md` explains the encapsulations and what the kernel does.
//!
//! Not here: which device has which kind (crate kernel observes it), choosing
//! rates and margins (crate compile), and the emulated line of the lab, which
//! counts cells with code of its own so that it can contradict this crate.

pub mod ack;
mod capacity;
mod device;
mod layer;
pub mod naive;
mod named;
mod table;
pub mod window;

pub use device::DeviceKind;
pub use layer::{Framing, LinkLayer, OutOfRange};
pub use named::UnknownLayer;
pub use table::{EXACT_UP_TO, KernelCase, kernel_cases};

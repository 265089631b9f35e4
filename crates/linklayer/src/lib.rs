// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of packets on the wire.
//!
//! A [`LinkLayer`] states how many bytes of a link's rate an IP packet of any length takes. Every
//! shaper, policer, estimate and bound of weirgate is computed from it:
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
//! The length of an IP packet, headers included, is the reference everywhere; only [`DeviceKind`]
//! deals with lengths relative to the device. `docs/link-layer.md` explains the encapsulations and
//! what the kernel does.
//!
//! Elsewhere: crate kernel observes the kind of a device, and crate compile chooses rates and
//! margins. The emulated line of the lab counts cells with its own code, so that it can contradict
//! this crate.

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

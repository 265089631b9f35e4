// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated line: what a modem, a copper pair and an exchange do.
//!
//! [`model`] decides when packets leave and which are dropped, [`framing`] what
//! they cost, [`packet`] reads their headers, [`tap`] connects the two ends,
//! [`entry`] knows when segments came to the gateway.
//! Nothing here shares code with the shaper under test.

pub mod entry;
pub mod framing;
pub mod model;
pub mod packet;
pub mod tap;

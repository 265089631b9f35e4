// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measuring a real link from its ends.
//!
//! [`infer`](infer()) says what times tell of a link layer.

mod infer;

pub use infer::{Cut, Fit, Inference, Timed, Timing, infer, sizes};

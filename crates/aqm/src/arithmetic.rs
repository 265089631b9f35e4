// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fixed-point functions of `aqm/include/fixed.h` and `red.h`.

use crate::ffi;

/// One as a ratio.
pub const ONE: u64 = 1 << 32;

/// `a * ratio`, rounded down.
pub fn scale(a: u64, ratio: u64) -> u64 {
    ffi::aqm_test_scale(a, ratio)
}

/// `base^n`.
pub fn power(base: u64, n: u32) -> u64 {
    ffi::aqm_test_power(base, n)
}

/// Packets in which `(1 - weight)^n` falls to 1/15.
pub fn idle_packets(weight: u64) -> u64 {
    ffi::aqm_test_idle_packets(weight)
}

/// ARED's weight for a link of this many packets a second.
pub fn automatic_weight(packets_s: u64) -> u64 {
    ffi::aqm_test_automatic_weight(packets_s)
}

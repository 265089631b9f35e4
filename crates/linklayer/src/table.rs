// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link layer for the kernel: a size table with one slot per byte.
//!
//! `docs/link-layer.md` says why it is a table at the root, and not HTB's own `linklayer`,
//! `overhead` and `mpu`. Crate kernel installs it.

use crate::{DeviceKind, Framing, LinkLayer};
use weirgate_state::Stab;

/// Slots of a table. It is a multiple of 48 (cells) and 64 (octets of a codeword), so that lengths
/// beyond the table split without a remainder. It is above 2047, the largest MTU that the theses'
/// tables cover with 8-byte steps.
const SLOTS: u32 = 11 * 192;

/// IP lengths up to this one are charged exactly. Longer ones are never undercharged. They are
/// overcharged by at most the minimum once, and the overhead (in whole cells) for each 2112 bytes
/// begun.
pub const EXACT_UP_TO: u32 = SLOTS - 2;

impl LinkLayer {
    /// Returns the size table for the root qdisc of a device of this kind.
    ///
    /// `Stab::charge(ip_len + device.counted())` equals [`LinkLayer::wire_bytes`] up to
    /// [`EXACT_UP_TO`] and is never below it beyond. The kernel subtracts what the device counts
    /// (`overhead` is negative), so slot n is the cost of an IP packet of n bytes.
    #[must_use]
    pub fn stab(&self, device: DeviceKind) -> Stab {
        let mut data: Vec<u16> = (0..SLOTS).map(|ip_len| self.slot(ip_len)).collect();
        if let Some(last) = data.last_mut() {
            // Beyond the table the kernel charges the last slot once for each SLOTS bytes, then the
            // slot of the rest. The last slot therefore must not be below the cost of SLOTS bytes
            // without any overhead. That exceeds its own cost where the overhead is very negative.
            *last = (*last).max(narrow(self.framing().expand(u64::from(SLOTS))));
        }
        Stab {
            overhead: -(device.counted() as i32),
            cell_align: 0,
            cell_log: 0,
            size_log: 0,
            mpu: self.mpu(),
            mtu: EXACT_UP_TO,
            data,
        }
    }

    fn slot(&self, ip_len: u32) -> u16 {
        narrow(u64::from(self.wire_bytes(ip_len)))
    }
}

/// Converts the cost of a slot. The largest, 2111 + 256 bytes in cells, is below 2800.
fn narrow(wire: u64) -> u16 {
    u16::try_from(wire).unwrap_or(u16::MAX)
}

/// One layer on one kind of device, for tests that compare the real kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCase {
    /// The link layer.
    pub layer: LinkLayer,
    /// The kind of device under test.
    pub device: DeviceKind,
}

impl KernelCase {
    /// Returns the table to install at the device's root.
    #[must_use]
    pub fn stab(&self) -> Stab {
        self.layer.stab(self.device)
    }

    /// Returns `skb->len` of an IP packet of `ip_len` bytes on that device.
    #[must_use]
    pub const fn device_length(&self, ip_len: u32) -> u32 {
        ip_len + self.device.counted()
    }

    /// Returns how much the root qdisc's byte counter must grow.
    #[must_use]
    pub const fn expected(&self, ip_len: u32) -> u32 {
        self.layer.wire_bytes(ip_len)
    }

    /// Returns the options for tc-stab(8), tc-htb(8) or tc-cake(8): overhead relative to the
    /// device, mpu, framing.
    #[must_use]
    pub const fn tc_arguments(&self) -> (i32, u32, Framing) {
        (
            self.layer.overhead_on(self.device),
            self.layer.mpu(),
            self.layer.framing(),
        )
    }
}

/// Returns every named layer on every kind of device, in the order of [`LinkLayer::names`] and
/// [`DeviceKind::ALL`].
pub fn kernel_cases() -> impl Iterator<Item = KernelCase> {
    LinkLayer::all().flat_map(|layer| {
        DeviceKind::ALL
            .into_iter()
            .map(move |device| KernelCase { layer, device })
    })
}

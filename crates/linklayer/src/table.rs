// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same statement for the kernel: a size table, one slot per byte.
//!
//! Why a table at the root and not HTB's own `linklayer`, `overhead` and
//! `mpu`: `docs/link-layer.md`. How it gets there: crate kernel.

use crate::{DeviceKind, Framing, LinkLayer};
use weirgate_state::Stab;

/// Slots of a table. A multiple of 48 (cells) and of 64 (octets of a codeword),
/// so that a length beyond the table splits without a remainder of either, and
/// above 2047, the largest MTU that the theses' tables cover with 8-byte steps.
const SLOTS: u32 = 11 * 192;

/// IP lengths from 0 to this are charged exactly; longer ones never under, and
/// over by at most the overhead (in whole cells) for each 2112 bytes begun and
/// the minimum once.
pub const EXACT_UP_TO: u32 = SLOTS - 2;

impl LinkLayer {
    /// A size table for the root qdisc of a device of this kind.
    ///
    /// `Stab::charge(ip_len + device.counted())` equals
    /// [`LinkLayer::wire_bytes`] up to [`EXACT_UP_TO`] and is never below it
    /// beyond. The kernel takes back what the device counts (`overhead` is
    /// negative), so slot n is the cost of an IP packet of n bytes.
    #[must_use]
    pub fn stab(&self, device: DeviceKind) -> Stab {
        let mut data: Vec<u16> = (0..SLOTS).map(|ip_len| self.slot(ip_len)).collect();
        if let Some(last) = data.last_mut() {
            // Beyond the table the kernel charges the last slot once for each
            // SLOTS bytes, then the slot of the rest. The last slot therefore
            // must not be below what SLOTS bytes cost without any overhead;
            // that is more than its own cost where the overhead is very
            // negative.
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

/// The largest slot, 2111 + 256 bytes in cells, is below 2800.
fn narrow(wire: u64) -> u16 {
    u16::try_from(wire).unwrap_or(u16::MAX)
}

/// One layer on one kind of device: what a test of the real kernel compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCase {
    /// The link layer.
    pub layer: LinkLayer,
    /// The kind of device under test.
    pub device: DeviceKind,
}

impl KernelCase {
    /// The table to install at the device's root.
    #[must_use]
    pub fn stab(&self) -> Stab {
        self.layer.stab(self.device)
    }

    /// `skb->len` of an IP packet of `ip_len` bytes on that device.
    #[must_use]
    pub const fn device_length(&self, ip_len: u32) -> u32 {
        ip_len + self.device.counted()
    }

    /// What the root qdisc's byte counter must grow by.
    #[must_use]
    pub const fn expected(&self, ip_len: u32) -> u32 {
        self.layer.wire_bytes(ip_len)
    }

    /// The options of tc-stab(8), tc-htb(8) or tc-cake(8): overhead
    /// relative to the device, mpu, framing.
    #[must_use]
    pub const fn tc_arguments(&self) -> (i32, u32, Framing) {
        (
            self.layer.overhead_on(self.device),
            self.layer.mpu(),
            self.layer.framing(),
        )
    }
}

/// Every named layer on every kind of device, in the order of
/// [`LinkLayer::names`] and [`DeviceKind::ALL`].
pub fn kernel_cases() -> impl Iterator<Item = KernelCase> {
    LinkLayer::all().flat_map(|layer| {
        DeviceKind::ALL
            .into_iter()
            .map(move |device| KernelCase { layer, device })
    })
}

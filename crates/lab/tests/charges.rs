// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The installed kernel charges what crate linklayer computes for a packet: for every named link
//! layer, every kind of device that the kernel can make, and every size.
//!
//! This test needs qemu, a fetched kernel and the guest's binary. If one is missing, it fails and
//! says how to get it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was measured is shown"
)]

use std::collections::BTreeSet;
use std::fmt::Write;
use weirgate_lab::{Lab, Limits, Options};
use weirgate_linklayer::{DeviceKind, KernelCase, LinkLayer, kernel_cases};

/// The compared IP lengths, in bytes.
const SIZES: std::ops::RangeInclusive<u32> = 1..=2_047;

/// Kinds that only a PPP session makes. Debian's cloud kernel has no PPP;
/// `docs/link-layer.md` says so. Their table is [`DeviceKind::Tun`]'s.
const NOT_IN_THE_LAB: [DeviceKind; 2] = [DeviceKind::PppoeInterface, DeviceKind::Ppp];

/// One line of the guest's answer.
struct Charged<'a> {
    device: &'a str,
    case: KernelCase,
    bytes: Vec<u32>,
}

impl<'a> Charged<'a> {
    fn read(line: &'a str) -> Self {
        let mut words = line.split(' ');
        let [layer, device, kind] = [(); 3].map(|()| words.next().unwrap_or_default());
        Self {
            device,
            case: KernelCase {
                layer: LinkLayer::named(layer).unwrap_or_else(|error| panic!("{error}")),
                device: DeviceKind::named(kind).unwrap_or_else(|| panic!("`{kind}` is no kind")),
            },
            bytes: words.map(|word| word.parse().expect("a number")).collect(),
        }
    }

    /// Returns the model's charge, except for one packet that no IP stack can send. Below a VLAN
    /// device with `reorder_hdr off`, the kernel moves the tag beside the packet, but not if fewer
    /// than 2 bytes follow it (seen in kernel 7.3, `vlan_dev_hard_start_xmit`). These packets are
    /// counted with the tag.
    fn expected(&self, ip_len: u32) -> u32 {
        let tag = DeviceKind::VlanInline.counted() - DeviceKind::Ethernet.counted();
        if self.device == "inline-lower" && ip_len < 2 {
            self.case.expected(ip_len + tag)
        } else {
            self.case.expected(ip_len)
        }
    }

    fn label(&self) -> String {
        format!("{} on {}", self.case.layer.name(), self.device)
    }
}

/// Tests that only `make test-all` runs.
mod long {
    #[test]
    fn the_kernel_charges_what_the_model_says() {
        super::agrees();
    }
}

fn agrees() {
    let lab = Lab::open(&Options::default(), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    let output = lab.charges(Limits::default());
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8(output.result).expect("text");

    let mut tested = BTreeSet::new();
    let mut devices = BTreeSet::new();
    let (mut compared, mut different) = (0_u32, 0_u32);
    let mut differences = String::new();
    for charged in text.lines().map(Charged::read) {
        assert_eq!(
            charged.bytes.len(),
            SIZES.count(),
            "{}: a charge for each size",
            charged.label()
        );
        for (ip_len, &bytes) in SIZES.zip(&charged.bytes) {
            compared += 1;
            let expected = charged.expected(ip_len);
            if bytes != expected {
                different += 1;
                let label = charged.label();
                writeln!(
                    differences,
                    "{label}: {ip_len} bytes are charged {bytes}, not {expected}"
                )
                .unwrap();
            }
        }
        tested.insert((charged.case.layer.name(), charged.case.device));
        devices.insert(charged.device);
    }
    println!(
        "kernel {}: {compared} charges compared, {different} differences, on {devices:?}; \
         {:.1} s of which {:.1} s to boot",
        output.kernel,
        output.wall.as_secs_f64(),
        output.boot.as_secs_f64(),
    );
    assert!(different == 0, "{differences}");

    let untested: Vec<String> = kernel_cases()
        .filter(|case| !NOT_IN_THE_LAB.contains(&case.device))
        .filter(|case| !tested.contains(&(case.layer.name(), case.device)))
        .map(|case| format!("{} on {}", case.layer.name(), case.device.name()))
        .collect();
    assert!(untested.is_empty(), "not tested: {untested:?}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices that packets pass, and the packets themselves.

use std::fs;
use weirgate_console::exit::{Failure, wrong};
use weirgate_kernel::{Kernel, KernelError, Scope};
use weirgate_state::{Device, DeviceName, Origin, QdiscKind, State};
use weirgate_units::Handle;

/// Bytes of a packet with its header, and the number of flows.
pub(super) const BYTES: usize = 1_250;
pub(super) const FLOWS: u8 = 16;

/// The devices: the measured one, and the one to which an IFB sends its packets.
pub(super) const DEVICE: &str = "bench";
pub(super) const SINK: &str = "sink";

/// The major number of classes, the first of their minor numbers, and their number.
pub(super) const MAJOR: u16 = 1;
pub(super) const MINOR: u16 = 0x10;
pub(super) const CLASSES: u16 = 4;

/// The DS field (code point and ECN) of each class: CS1, none, CS4 and EF. Each belongs to a
/// different one of cake's four tins (`diffserv4`, net/sched/sch_cake.c).
pub(super) const CODES: [u8; 4] = [0x20, 0x00, 0x80, 0xb8];

pub(super) fn origin() -> Origin {
    Origin::new(0, "measures costs")
}

/// Returns the state of both devices; the first has this root.
pub(super) fn state(root: Option<QdiscKind>) -> Result<State, Failure> {
    let device = |root: Option<QdiscKind>| Device {
        owned_ifb: true,
        offloads: None,
        root: root.map(|kind| qdisc(Handle::new(MAJOR, 0), kind)),
        origin: origin(),
    };
    let name = |text| DeviceName::new(text).ok_or_else(|| wrong(text));
    Ok(State {
        devices: [(name(DEVICE)?, device(root)), (name(SINK)?, device(None))].into(),
        tables: Vec::new(),
        ..State::default()
    })
}

pub(super) fn qdisc(handle: Handle, kind: QdiscKind) -> weirgate_state::Qdisc {
    weirgate_state::Qdisc {
        handle,
        stab: None,
        kind,
        origin: origin(),
    }
}

pub(super) fn refused(error: &KernelError) -> Failure {
    Failure::Refused(error.to_string())
}

pub(super) async fn apply(kernel: &Kernel, former: &State, desired: &State) -> Result<(), Failure> {
    let scope = Scope::of([former, desired]);
    let observed = kernel
        .observe(&scope)
        .await
        .map_err(|error| refused(&error))?;
    let options = weirgate_plan::Options {
        previous: Some(former),
        ..weirgate_plan::Options::default()
    };
    let steps = weirgate_plan::plan_with(&observed, desired, &options)
        .map_err(|problems| wrong(format!("there is no plan: {problems:?}")))?;
    let applied = kernel.apply(&steps).await;
    applied.map_err(|error| Failure::Refused(error.to_string()))?;
    Ok(())
}

/// Returns how many packets reached the other device, which drops them.
pub(super) fn through() -> Result<u64, Failure> {
    let path = format!("/sys/class/net/{SINK}/statistics/rx_dropped");
    let text = fs::read_to_string(&path).map_err(|error| wrong(format!("{path}: {error}")))?;
    text.trim()
        .parse()
        .map_err(|error| wrong(format!("{path}: {error}")))
}

/// Returns an Ethernet frame with IPv4 and UDP of one of the flows.
pub(super) fn packet(flow: u8) -> Vec<u8> {
    packet_of(flow, BYTES)
}

/// Returns the same frame with this length.
pub(super) fn packet_of(flow: u8, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    packet[..6].fill(0xff);
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    let length = (bytes - 14) as u16;
    packet[14] = 0x45;
    // Each class has a quarter of the flows.
    packet[15] = CODES[usize::from(flow % 4)];
    packet[16..18].copy_from_slice(&length.to_be_bytes());
    packet[22..24].copy_from_slice(&[64, 17]);
    packet[26..30].copy_from_slice(&[10, 0, 0, 1]);
    packet[30..34].copy_from_slice(&[10, 0, 1, flow]);
    packet[34..38].copy_from_slice(&[0x10, flow, 0, 9]);
    packet[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    packet
}

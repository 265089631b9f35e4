// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cuts packets that arrive merged, before they are forwarded (`merged = "cut"`).
//!
//! The other end of a veth or of a tap, or a virtual network card, can send up to 64 KB as one
//! packet. No offload of the receiving device splits it, and HTB passes it whole. So everything
//! that arrives there takes a detour over an IFB device. Its offloads are off, so that the kernel
//! splits each packet as the IFB's qdisc passes it on (`validate_xmit_skb()`, net/core/dev.c). The
//! IFB then returns the segments to the device where they arrived.
//!
//! All packets take the detour, because single ones would overtake those that wait for the IFB.

use crate::{NO_OFFLOADS, TABLE};
use weirgate_policy::Policy;
use weirgate_state::{
    Chain, Device, DeviceName, Hook, Origin, Pfifo, Qdisc, QdiscKind, Shared, State, Table,
};
use weirgate_units::Handle;

/// The queue limit of the IFB device, in packets: many times what the kernel takes from a device in
/// one round (`dev_weight` and `napi_poll` of 64, net/core/dev.c). By default an IFB has 32.
const LIMIT: u32 = 1_000;

/// Adds the devices and tables that cut packets.
pub(crate) fn add(policy: &Policy, state: &mut State) {
    let Some(merged) = policy.link.cuts_merged() else {
        return;
    };
    for (arrives, cutter) in policy.link.cutters() {
        let device = arrives.value.clone();
        let reason = format!("what arrives merged at {device} is cut into its segments");
        let origin = Origin::new(merged.line, reason);
        let own = Device {
            owned_ifb: true,
            offloads: NO_OFFLOADS,
            root: Some(Qdisc {
                handle: Handle::new(1, 0),
                stab: None,
                kind: QdiscKind::Pfifo(Pfifo { limit: LIMIT }),
                origin: origin.clone(),
            }),
            origin,
        };
        state.devices.insert(cutter.clone(), own);
        state.tables.push(Table {
            netdev: true,
            name: table(&device),
            chains: vec![Chain {
                name: "cut".to_owned(),
                hook: Hook::Ingress {
                    device,
                    redirect_to: cutter,
                },
                rules: Shared::default(),
            }],
            ..Table::default()
        });
    }
}

/// Returns the name of a table that is for one device, and the same for every link that has this
/// device. nft accepts its characters without quotes.
fn table(device: &DeviceName) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let device: String = device.as_str().chars().map(plain).collect();
    format!("{TABLE}_cut_{device}")
}

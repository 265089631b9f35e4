// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that polices arriving packets to a rate by a virtual queue, without
//! queueing them.

use crate::{KitSetting, KitWire};
use serde::{Deserialize, Serialize};
use weirgate_units::Rate;

/// A filter where packets arrive that decides by a virtual queue who is marked
/// or dropped (`bpf/ingress/ingress.bpf.h`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VirtualQueueFilter {
    /// The rate that arriving packets are policed to, on the wire.
    pub rate: Rate,
    /// What a packet costs there.
    pub wire: KitWire,
    /// Bytes of the largest packet, as the device counts.
    pub mtu: u32,
    /// Which parts of a packet make its flow: a sum of [`VirtualQueueFilter::SOURCE`] and
    /// those that follow.
    pub parts: u8,
    /// The explicit parameters of the kit's `meredt`.
    pub settings: Vec<KitSetting>,
}

impl VirtualQueueFilter {
    /// Flows differ by their source addresses.
    pub const SOURCE: u8 = 1;
    /// By their destination addresses.
    pub const DESTINATION: u8 = 2;
    /// By both ports and the protocol.
    pub const CONNECTION: u8 = 4 | 8 | 16;
}

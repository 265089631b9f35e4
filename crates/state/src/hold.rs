// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds arriving packets to a rate without queueing them.

use crate::{KitSetting, KitWire};
use serde::{Deserialize, Serialize};
use weirgate_units::Rate;

/// A filter where packets arrive that decides by a virtual queue who is marked
/// or dropped (`bpf/ingress/ingress.bpf.h`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The rate that arriving packets are held to, on the wire.
    pub rate: Rate,
    /// What a packet costs there.
    pub wire: KitWire,
    /// Bytes of the largest packet, as the device counts.
    pub mtu: u32,
    /// Which parts of a packet make its flow: a sum of [`Hold::SOURCE`] and
    /// those that follow.
    pub parts: u8,
    /// What is said of the parameters of the kit's `meredt`.
    pub settings: Vec<KitSetting>,
    /// Whether its program is another than this weirgate's, or cannot be read:
    /// observed only, never desired, so that a plan exchanges it.
    #[serde(default)]
    pub stale: bool,
}

impl Hold {
    /// Flows differ by their source addresses.
    pub const SOURCE: u8 = 1;
    /// By their destination addresses.
    pub const DESTINATION: u8 = 2;
    /// By both ports and the protocol.
    pub const CONNECTION: u8 = 4 | 8 | 16;

    /// Whether a filter is as wanted. Parameters of which nothing is said are
    /// as they are where nothing is said.
    #[must_use]
    pub fn same(wanted: Option<&Self>, seen: Option<&Self>) -> bool {
        let (Some(wanted), Some(seen)) = (wanted, seen) else {
            return wanted.is_none() && seen.is_none();
        };
        let has = |one: &Self, setting: &KitSetting| {
            let own = one.settings.iter().find(|own| own.name == setting.name);
            own.is_some_and(|own| own.value == setting.value)
        };
        let said = |one: &Self, other: &Self| {
            let mut said = one.settings.iter().filter(|setting| !setting.usual);
            said.all(|setting| has(other, setting))
        };
        wanted.rate == seen.rate
            && wanted.wire == seen.wire
            && wanted.mtu == seen.mtu
            && wanted.parts == seen.parts
            && (wanted.stale || !seen.stale)
            && said(wanted, seen)
            && said(seen, wanted)
    }
}

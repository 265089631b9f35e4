// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that polices arriving packets to a rate by a virtual queue, without
//! queueing them.

use super::program::{Clause, HookProgram, ProgramRow, ingress};
use crate::kit::KitSetting;
use crate::wire::{CakeFraming, KitWire};
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

impl HookProgram for VirtualQueueFilter {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "ingress_meredt",
        preference: 90,
        filters: &[ingress("inbound", "weirgate-inbound-")],
        ..ProgramRow::DEFAULT
    };

    /// Parameters without an explicit value have their defaults.
    fn same(one: &Self, other: &Self) -> bool {
        let has = |of: &Self, setting: &KitSetting| {
            let own = of.settings.iter().find(|own| own.name == setting.name);
            own.is_some_and(|own| own.value == setting.value)
        };
        let explicit = |one: &Self, other: &Self| {
            let mut explicit = one.settings.iter().filter(|setting| !setting.usual);
            explicit.all(|setting| has(other, setting))
        };
        (one.rate, one.wire, one.mtu, one.parts) == (other.rate, other.wire, other.mtu, other.parts)
            && explicit(one, other)
            && explicit(other, one)
    }

    fn text(filter: &Self) -> String {
        let framing = match filter.wire.framing {
            CakeFraming::None => "",
            CakeFraming::Atm => " atm",
            CakeFraming::Ptm => " ptm",
        };
        let parameters: Vec<String> = filter
            .settings
            .iter()
            .filter(|one| !one.usual)
            .map(|one| format!(" {}={}", one.name, one.value))
            .collect();
        let parameters = parameters.concat();
        format!(
            "held to {} overhead {} mpu {}{framing} mtu {} flows {}{parameters}",
            filter.rate, filter.wire.overhead, filter.wire.mpu, filter.mtu, filter.parts
        )
    }

    fn clause(filter: &Self) -> Clause {
        Clause::Policed(format!("are held to {} without a queue", filter.rate))
    }
}

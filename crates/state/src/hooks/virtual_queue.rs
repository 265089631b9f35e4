// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that polices arriving packets to a rate by a virtual queue, without
//! queueing them.

use super::program::{Clause, HookProgram, ProgramRow, ingress};
use crate::kit::KitSetting;
use crate::wire::{CakeFraming, KitWire};
use serde::{Deserialize, Serialize};
use weirgate_units::Rate;

/// A filter of arriving packets that marks or drops them by a virtual queue
/// (`bpf/ingress/ingress.bpf.h`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VirtualQueueFilter {
    /// The rate to which arriving packets are policed, on the wire.
    pub rate: Rate,
    /// The overhead of a packet on the wire.
    pub wire: KitWire,
    /// The size of the largest packet in bytes, as the device counts.
    pub mtu: u32,
    /// The parts of a packet that distinguish flows: a sum of [`VirtualQueueFilter::SOURCE`] and
    /// the constants that follow it.
    pub parts: u8,
    /// The explicit parameters of the kit's `meredt`.
    pub settings: Vec<KitSetting>,
}

impl VirtualQueueFilter {
    /// Flows differ by their source addresses.
    pub const SOURCE: u8 = 1;
    /// Flows differ by their destination addresses.
    pub const DESTINATION: u8 = 2;
    /// Flows differ by both ports and the protocol.
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

    /// Compares explicit parameters only; all others have their defaults.
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
            "policed to {} overhead {} mpu {}{framing} mtu {} flows {}{parameters}",
            filter.rate, filter.wire.overhead, filter.wire.mpu, filter.mtu, filter.parts
        )
    }

    fn clause(filter: &Self) -> Clause {
        Clause::Policed(format!("are policed to {} without a queue", filter.rate))
    }
}

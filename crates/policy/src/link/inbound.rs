// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[inbound]`: how arriving packets are policed if they are not queued, and at which rate.

use crate::codes;
use crate::field::{self, Row, Table, row, words};
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::{Share, Size};

/// Where packets that arrive from outside are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inbound {
    /// On an IFB device, which packets pass on ingress.
    Ifb,
    /// On the LAN device, on egress to the inside.
    Lan,
    /// Not shaped. On ingress, a virtual queue decides which packets are marked or dropped.
    Filter,
    /// Not shaped. On ingress, packets above the rate are dropped.
    Police,
    /// Not shaped or policed.
    None,
    /// On an IFB device or the LAN device, with receive windows that keep the queue short. A
    /// parsed policy has one of those instead, and [`super::Automatic`].
    Auto,
}

words!(Inbound:
    "ifb" => Self::Ifb,
    "lan" => Self::Lan,
    "filter" => Self::Filter,
    "police" => Self::Police,
    "none" => Self::None,
    "auto" => Self::Auto,
);

/// The table `[inbound]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policing {
    /// The line number of the table, from 1.
    pub line: u32,
    /// The position of the table.
    pub span: SourceSpan,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: Option<Value<bool>>,
    /// The bytes that a flow may send before it is marked or dropped.
    pub spare: Option<Value<Size>>,
    /// Which packets belong to one flow.
    pub flows: Option<Value<Flows>>,
    /// How fast a flow's byte count decays, as a fraction of its share of the link.
    pub leak: Option<Value<Share>>,
    /// The length of the virtual queue, in bytes on the wire, at which packets begin to be
    /// marked or dropped.
    pub min: Option<Value<Size>>,
    /// The length of the virtual queue at which the probability reaches its maximum.
    pub max: Option<Value<Size>>,
    /// The burst of a policer in bytes.
    pub burst: Option<Value<Size>>,
}

/// The key that identifies a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flows {
    /// Addresses, ports and protocol.
    #[default]
    Connections,
    /// Both addresses.
    Pairs,
    /// The outside address.
    Senders,
    /// The destination address.
    Receivers,
}

words!(Flows:
    "connections" => Self::Connections,
    "pairs" => Self::Pairs,
    "senders" => Self::Senders,
    "receivers" => Self::Receivers,
);

/// The table `[inbound]`.
pub(crate) const TABLE: Table = Table {
    name: "inbound",
    about: "How arriving packets are policed instead of queued",
    rows: &[&ROWS],
};

const ROWS: &[Row<Policing>] = &[
    row!(Policing: "ecn" => ecn,
        "Whether ECN-capable packets are marked instead of dropped")
    .default("true"),
    row!(Policing: "spare" => spare in SIZES or codes::INBOUND,
        "The bytes that a flow may send before its packets may be marked or dropped"),
    row!(Policing: "flows" => flows, "Which packets belong to one flow").default("\"connections\""),
    row!(Policing: "leak" => leak,
        "How fast a flow's byte count decays, as a part of its share of the link"),
    row!(Policing: "min" => min in SIZES or codes::INBOUND,
        "The length of the virtual queue from which packets are marked or dropped"),
    row!(Policing: "max" => max in SIZES or codes::INBOUND,
        "The length of the virtual queue at which that probability is greatest"),
    row!(Policing: "burst" => burst in SIZES or codes::INBOUND,
        "The burst that the policer passes at once, in bytes"),
];

/// The bounds of sizes.
const SIZES: (Size, Size) = (Size::bytes(1), Size::bytes(1 << 29));

/// Reads the table.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Policing {
    let mut policing = Policing {
        line: table.line(),
        span: table.span(),
        ecn: None,
        spare: None,
        flows: None,
        leak: None,
        min: None,
        max: None,
        burst: None,
    };
    field::read(&mut table, ROWS, &(), &mut policing);
    if let (Some(min), Some(max)) = (&policing.min, &policing.max)
        && min.value >= max.value
    {
        table.problems().error(
            codes::INBOUND,
            min.span.clone(),
            "`min` is not below `max`",
            "leave `min` out, or write a smaller one",
        );
    }
    policing
}

impl Inbound {
    /// Returns whether packets are policed on ingress and not queued.
    #[must_use]
    pub const fn polices(self) -> bool {
        matches!(self, Self::Filter | Self::Police)
    }
}

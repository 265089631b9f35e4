// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[link]`: the shared link.

pub(crate) mod ack_filter;
pub(crate) mod automatic;
pub(crate) mod engine;
pub(crate) mod inbound;
pub(crate) mod layer;
pub(crate) mod low_latency;
pub(crate) mod merged;
pub(crate) mod moves;
pub(crate) mod track;

pub use ack_filter::AckFilter;
pub use automatic::{Automatic, Placement, Windowed, apart};
pub use engine::Engine;
pub use inbound::{Flows, Inbound, Policing};
pub use merged::Merged;
pub use moves::Moves;
pub use track::{Bounds, Track};

use crate::amount::Amount;
use crate::class::fair::Fair;
use crate::class::zero;
use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, elements, row, set, words};
use crate::link::engine::TIMER_SLACK;
use crate::read::{device, implied};
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};
use weirgate_state::DeviceName;
use weirgate_units::{Rate, Share};

/// The largest `mtu`, in bytes.
pub const MTU_MOST: i64 = 2048;

elements!(DeviceName: codes::DEVICE, device);

/// The link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The position of the table, for problems of the whole link.
    pub span: SourceSpan,
    /// Whether `device` and `lan` are the two ports of a transparent bridge.
    pub bridge: bool,
    /// The device through which upstream packets leave.
    pub device: Value<DeviceName>,
    /// The devices through which inside hosts are reached. With [`Inbound::Lan`] there is
    /// exactly one.
    pub lan: Vec<Value<DeviceName>>,
    /// The line's upstream rate, in wire bits.
    pub up: Value<Rate>,
    /// The line's downstream rate, in wire bits. Without it, the downstream is not shaped.
    pub down: Option<Value<Rate>>,
    /// The number of bytes that packets take on the line.
    pub layer: Value<LinkLayer>,
    /// How far the upstream gate stays below the line's rate.
    pub margin: Value<Amount>,
    /// How far the downstream gate stays below the line's rate.
    pub margin_down: Value<Amount>,
    /// Where downstream packets are shaped.
    pub inbound: Value<Inbound>,
    /// The settings chosen for `inbound = "auto"`, if that is written or the default.
    pub automatic: Option<Automatic>,
    /// The IFB device created for [`Inbound::Ifb`].
    pub ifb: Value<DeviceName>,
    /// What Linux counts in a packet's length on `device`.
    pub device_kind: Value<DeviceKind>,
    /// What Linux counts in a packet's length on the LAN device.
    pub lan_kind: Value<DeviceKind>,
    /// The largest IP packet, in bytes.
    pub mtu: Value<u32>,
    /// `fair` for classes that neither set it nor have their own queue.
    pub fair: Option<Value<Fair>>,
    /// What shapes it; `None` lets crate `compile` choose.
    pub engine: Option<Value<Engine>>,
    /// The downstream's engine, if it is not [`engine`](Self::engine). No policy states it; crate
    /// `compile` chooses it for `l4s`.
    pub engine_down: Option<Engine>,
    /// How late the gate's timer may fire without loss of rate, which determines what it may
    /// send at once. If absent, it is chosen by the link's rate.
    pub timer_slack: Option<Value<weirgate_units::Span>>,
    /// Which acknowledgements are dropped upstream; by default [`AckFilter::Auto`].
    pub ack_filter: Option<Value<AckFilter>>,
    /// How a connection moves to another class; by default [`Moves::AtOnce`].
    pub moves: Option<Value<Moves>>,
    /// What happens to packets that arrive merged; by default [`Merged::Whole`].
    pub merged: Option<Value<Merged>>,
    /// Whether L4S senders get a separate queue that is kept short; by default false.
    pub l4s: Option<Value<bool>>,
}

impl Link {
    /// Returns the setting by which connections change their class in order, if it is set.
    #[must_use]
    pub fn moves_in_order(&self) -> Option<&Value<Moves>> {
        let stated = self.moves.as_ref();
        stated.filter(|moves| moves.value == Moves::InOrder)
    }

    /// Returns the setting that gives L4S senders a short queue, if it is true.
    #[must_use]
    pub fn low_latency(&self) -> Option<&Value<bool>> {
        self.l4s.as_ref().filter(|l4s| l4s.value)
    }
}

/// The table `[link]`.
pub(crate) const TABLE: Table = Table {
    name: "link",
    about: "The link that is shared",
    rows: &[&ROWS],
};

words!(DeviceKind);

type LinkRow = Row<Link>;

const ROWS: &[LinkRow] = &[
    row!(Link: "device": FieldKind::Text("wan") => device,
        "The device through which packets leave for the outside")
    .needed("name the device through which packets leave for the outside"),
    row!(Link: "lan": FieldKind::List("lan") => lan,
        "The devices through which inside hosts are reached"),
    row!(Link: "bridge" => bridge,
        "Whether `device` and `lan` are the two ports of a transparent bridge")
    .default("false"),
    LinkRow::new(
        "up",
        FieldKind::Rate,
        "The line's upstream rate",
        |cell, link| set(&mut link.up, line_rate(cell)),
    )
    .needed("state the line's upstream rate, such as `up = \"512kbit\"`"),
    row!(Link: "engine" => engine, "What shapes the link").default("\"auto\""),
    row!(Link: "timer-slack" => timer_slack in TIMER_SLACK or codes::SLACK,
        "How late the shaper's timer may fire without loss of rate; it then sends that much at \
         once")
    .default("by the link's rate"),
    row!(Link: "ack-filter" => ack_filter,
        "Which acknowledgements are dropped upstream when a later one waits behind them")
    .default("\"auto\""),
    row!(Link: "moves" => moves,
        "How a connection changes class: with its next packet, or without reordering")
    .default("\"at-once\""),
    row!(Link: "merged" => merged,
        "Whether packets that arrive merged are cut into their segments before the queue")
    .default("\"whole\""),
    row!(Link: "l4s" => l4s,
        "Whether L4S and NQB traffic gets a queue of its own that is kept short")
    .default("false"),
    row!(Link: "fair" => fair, "The default of `fair` for classes"),
    LinkRow::new(
        "down",
        FieldKind::Rate,
        "The line's downstream rate; without it, the downstream is not shaped",
        |cell, link| link.down = line_rate(cell),
    ),
    row!(Link: "margin" => margin, "How far below the line's rate the upstream is shaped")
        .default("\"0.2%\""),
    row!(Link: "margin-down" => margin_down,
        "How far below the line's rate the downstream is shaped")
    .default("\"3%\""),
    row!(Link: "inbound" => inbound,
        "Where the downstream is queued, or how it is policed instead")
    .default("with `down`, \"auto\"; otherwise \"none\""),
    row!(Link: "ifb": FieldKind::Text("ifb-wan") => ifb,
        "The name of the IFB device that weirgate creates")
    .default("`ifb-` and the name of `device`"),
    row!(Link: "device-kind" => device_kind,
        "The kind of `device`, which says what headers Linux counts in a packet's length")
    .default("\"ethernet\""),
    row!(Link: "lan-kind" => lan_kind,
        "The kind of the LAN device, which says what headers Linux counts in a packet's length")
    .default("\"ethernet\""),
    // It is read after `device-kind`, because numbers relative to the device depend on it.
    LinkRow::new(
        "layer",
        FieldKind::TextOrTable("layer", "adsl:pppoe-llc"),
        "The link layer of the line: the overhead and framing of each packet",
        |cell, link| {
            let found = layer::read(cell, link.device_kind.value);
            set(&mut link.layer, found);
        },
    )
    .needed(
        "name the line's link layer, such as `layer = \"adsl:pppoe-llc\"`, `\"vdsl2:pppoe\"`, \
         `\"docsis\"` or `\"ethernet\"`",
    ),
    row!(Link: "mtu": FieldKind::Integer(576, MTU_MOST) => mtu,
        "The largest IP packet on the line, in bytes")
    .default("1500"),
];

/// The default margin upstream. It covers the rounding of rates, and clocks that differ by 1000
/// parts in a million, ten times the tolerance of Ethernet and DSL. At 512 kbit/s it is the 1
/// kbit/s of Brouer 9.2.
const MARGIN: Share = Share::millionths(2_000);

/// The default margin downstream. The queue at the far end of the line drains only as fast as
/// the gate stays below the line's rate.
const MARGIN_DOWN: Share = Share::millionths(30_000);

/// The rate of one ISDN channel (ITU-T I.412). Lower rates are reported as unusual: only
/// telephone modems are slower, while `10kbit` is easily written instead of 10 Mbit/s.
const ISDN: Rate = Rate::kbit(64);

/// Reads `up` or `down`: the rate of a line.
fn line_rate(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Value<Rate>> {
    let rate: Value<Rate> = cell.parsed()?;
    zero(cell.table, &rate);
    if (Rate::bits_per_second(1)..ISDN).contains(&rate.value) {
        let thousandfold = Rate::kbit(rate.value.as_bits_per_second());
        cell.problems().warning(
            codes::SLOW_LINE,
            rate.span.clone(),
            format!("a line of {} is unusually slow", rate.value),
            format!(
                "write `{} = \"{thousandfold}\"` if the unit is a mistake",
                cell.key
            ),
        );
    }
    Some(rate)
}

/// Returns a replacement for an invalid name. A returned policy never contains it.
fn unread() -> DeviceName {
    DeviceName::new("unread").expect("six letters are a device name")
}

impl Link {
    /// Returns a link with every default. All values have the same position. Fields without a
    /// default have replacements, which a returned policy never contains.
    pub(crate) fn new(span: SourceSpan, line: u32) -> Self {
        fn at<T>(value: T, span: &SourceSpan, line: u32) -> Value<T> {
            Value {
                value,
                span: span.clone(),
                line,
            }
        }
        let raw = LinkLayer::custom(0, 0, Framing::None).expect("nothing added is in range");
        Self {
            bridge: false,
            device: at(unread(), &span, line),
            lan: Vec::new(),
            up: at(Rate::default(), &span, line),
            down: None,
            layer: at(raw, &span, line),
            margin: at(Amount::Share(MARGIN), &span, line),
            margin_down: at(Amount::Share(MARGIN_DOWN), &span, line),
            inbound: at(Inbound::None, &span, line),
            automatic: None,
            engine_down: None,
            ifb: at(unread(), &span, line),
            device_kind: at(DeviceKind::Ethernet, &span, line),
            lan_kind: at(DeviceKind::Ethernet, &span, line),
            mtu: at(1500, &span, line),
            fair: None,
            engine: None,
            ack_filter: None,
            timer_slack: None,
            moves: None,
            merged: None,
            l4s: None,
            span,
        }
    }
}

/// Reads `[link]`.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Link {
    let mut link = Link::new(table.span(), table.line());
    field::read(&mut table, ROWS, &(), &mut link);
    if !table.has("device-kind") && link.device.value.as_str().starts_with("ppp") {
        table.problems().warning(
            codes::KIND_UNSTATED,
            link.device.span.clone(),
            format!(
                "`{}` looks like a PPP device, but counts as Ethernet",
                link.device.value
            ),
            "write `device-kind = \"pppoe\"` or `\"ppp\"`: Linux counts 14 bytes less on these",
        );
    }
    devices(&mut table, &mut link);
    inbound_side(&mut table, &mut link);
    merged::check(&table, &link);
    link
}

/// Sets the IFB's default name, and reports devices that have two roles.
fn devices(table: &mut Reader<'_, '_>, link: &mut Link) {
    if link.ifb.value == unread() {
        // The name shows the device that feeds it, as far as 15 bytes allow.
        let own: String = format!("ifb-{}", link.device.value)
            .chars()
            .take(15)
            .collect();
        link.ifb = implied(DeviceName::new(own).unwrap_or_else(unread), table);
    }
    let mut taken = vec![(&link.device.value, "device")];
    let lan = link.lan.iter().map(|lan| (lan, "lan"));
    for (name, role) in lan.chain([(&link.ifb, "ifb")]) {
        if let Some(other) = taken.iter().find(|other| *other.0 == name.value) {
            table.problems().error(
                codes::DEVICE,
                name.span.clone(),
                format!("`{}` is both `{}` and `{role}`", name.value, other.1),
                "each role needs a device of its own",
            );
        } else {
            taken.push((&name.value, role));
        }
    }
}

/// Sets the default place where the downstream is shaped, and reports contradictions.
fn inbound_side(table: &mut Reader<'_, '_>, link: &mut Link) {
    if link.inbound.span == link.span && table.has("down") {
        link.inbound.value = Inbound::Auto;
    }
    let (kind, span) = (link.inbound.value, link.inbound.span.clone());
    let has_down = table.has("down");
    let problem = |span: &SourceSpan, message: &str, hint: &str| {
        table
            .problems()
            .error(codes::INBOUND, span.clone(), message, hint);
    };
    if !matches!(kind, Inbound::Ifb | Inbound::Auto) && link.ifb.span != link.span {
        problem(
            &link.ifb.span,
            "`ifb` names a device that this policy does not make",
            "leave it out, or write `inbound = \"ifb\"`",
        );
    }
    if kind != Inbound::None && !has_down {
        problem(
            &span,
            "`inbound` needs the line's downstream rate, which is missing",
            "add the line's rate, such as `down = \"2mbit\"`, or write `inbound = \"none\"`",
        );
    }
    if kind == Inbound::Ifb && link.bridge {
        problem(
            &span,
            "on a bridge the downstream is shaped where it leaves through the port to the inside",
            "write `inbound = \"lan\"`, or leave `inbound` out",
        );
    }
    if link.bridge && link.lan.len() != 1 {
        problem(
            &link.span,
            "a transparent bridge has two ports: `device` to the outside, one in `lan`",
            "write `lan = \"...\"`",
        );
    } else if kind == Inbound::Lan && link.lan.len() != 1 {
        problem(
            &span,
            "shaping on the LAN device needs exactly one device in `lan`",
            "write `lan = \"...\"`, or `inbound = \"ifb\"` where there are several",
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of `[[conditioner]]` as written.

use super::carried::{self, Carried};
use crate::codes;
use crate::condition::address;
use crate::condition::drt::{self, Urgency};
use crate::field::{Cell, FieldKind, Row, Table, Word, row, words};
use crate::model::{in_kbit, whole_bytes};
use crate::named::group::{Groups, USABLE, usable};
use crate::named::member::Prefix;
use weirgate_document::Value;
use weirgate_state::{ColourAction, DeviceName};
use weirgate_units::{Dscp, Rate, Size, Span};

/// The largest number of networks on each side of a conditioner (`CONDITION_NETS` of
/// `bpf/inbound/condition.bpf.c`).
const MOST_NETS: usize = 8;

/// The largest burst of a meter, and the fastest rate (`METER_MOST_BURST`,
/// `METER_MOST_BYTES_S`).
pub(super) const MOST_BURST: u64 = (1 << 29) - 1;
pub(super) const MOST_RATE: Rate = Rate::bits_per_second(100_000_000_000);

/// The bounds of `mpu` in bytes: from an IP header to the largest packet.
pub(super) const SMALLEST: (u64, u64) = (20, 65_535);
/// The kinds of meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bucket,
    SingleRate,
    TwoRate,
    Average,
    Moving,
}

words!(Kind:
    "bucket" => Self::Bucket,
    "srtcm" => Self::SingleRate,
    "trtcm" => Self::TwoRate,
    "average" => Self::Average,
    "moving" => Self::Moving,
);

/// Whether packets are conditioned when they enter or when they leave a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Enter,
    Leave,
}

words!(Side: "enter" => Self::Enter, "leave" => Self::Leave);

/// The fields of meters, and the kinds that have them.
pub(super) const OWNERS: [(&str, &[Kind]); 7] = [
    (
        "rate",
        &[
            Kind::Bucket,
            Kind::SingleRate,
            Kind::TwoRate,
            Kind::Average,
            Kind::Moving,
        ],
    ),
    ("burst", &[Kind::Bucket, Kind::SingleRate, Kind::TwoRate]),
    ("excess-burst", &[Kind::SingleRate]),
    ("peak", &[Kind::TwoRate]),
    ("peak-burst", &[Kind::TwoRate]),
    ("interval", &[Kind::Average, Kind::Moving]),
    ("gain", &[Kind::Moving]),
];

/// The table `[[conditioner]]`.
pub(crate) const TABLE: Table = Table {
    name: "conditioner",
    about: "Which packets are metered, how, and what happens to each colour",
    rows: &[&ROWS],
};

/// The fields as written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) name: Option<Value<String>>,
    pub(super) enters: bool,
    pub(super) device: Option<Value<DeviceName>>,
    pub(super) classes: Vec<Value<String>>,
    pub(super) local: Vec<Value<Prefix>>,
    pub(super) remote: Vec<Value<Prefix>>,
    pub(super) carried: Carried,
    pub(super) dscp: Vec<Value<Dscp>>,
    pub(super) meter: Option<Value<Kind>>,
    pub(super) nominal_rate: Option<Value<Rate>>,
    pub(super) urgency: Option<Value<Urgency>>,
    pub(super) importance: Option<Value<u8>>,
    pub(super) rate: Option<Value<Rate>>,
    pub(super) burst: Option<Value<Size>>,
    pub(super) excess_burst: Option<Value<Size>>,
    pub(super) peak: Option<Value<Rate>>,
    pub(super) peak_burst: Option<Value<Size>>,
    pub(super) smallest: Option<Value<Size>>,
    pub(super) interval: Option<Value<Span>>,
    pub(super) gain: Option<Value<f64>>,
    pub(super) color_aware: bool,
    pub(super) green: Option<Value<ColourAction>>,
    pub(super) yellow: Option<Value<ColourAction>>,
    pub(super) red: Option<Value<ColourAction>>,
}

type ConditionerRow = Row<Written, Groups>;
type Field<'r, 'd, 'i> = Cell<'r, 'd, 'i, Groups>;

pub(super) const ROWS: &[ConditionerRow] = &[
    ConditionerRow::new(
        "name",
        FieldKind::Text("gold"),
        "The name of the conditioner and of its counters",
        |cell, condition| condition.name = name(cell),
    )
    .needed("name the conditioner; its counters have this name"),
    ConditionerRow::new(
        "at",
        Side::KIND,
        "Which packets it meters: those that enter or those that leave the device",
        |cell, condition| {
            condition.enters = cell
                .word::<Side>()
                .is_some_and(|at| at.value == Side::Enter);
        },
    )
    .default("\"leave\""),
    row!(Written: "device": FieldKind::Text("wan") => device,
        "The device: that of the link, or one of `lan`")
    .default("that of the link"),
    row!(Written: "class": FieldKind::List("interactive") => classes,
        "Only packets of these classes; only where packets already have a class"),
    ConditionerRow::new(
        "local-address",
        FieldKind::List("192.0.2.7"),
        "Addresses of the inside host, prefixes or @groups",
        |cell, condition| condition.local = nets(cell),
    ),
    ConditionerRow::new(
        "remote-address",
        FieldKind::List("198.51.100.0/24"),
        "Addresses of the outside host, prefixes or @groups",
        |cell, condition| condition.remote = nets(cell),
    ),
    row!(Written: "protocol": FieldKind::List("udp") => carried.protocols,
        "Upper-layer protocols: names or numbers"),
    ConditionerRow::new(
        "local-port",
        FieldKind::List("5060"),
        "Ports of the inside host, ranges or @groups",
        |cell, condition| condition.carried.local_ports = carried::ports(cell),
    ),
    ConditionerRow::new(
        "remote-port",
        FieldKind::List("10000-20000"),
        "Ports of the outside host, ranges or @groups",
        |cell, condition| condition.carried.remote_ports = carried::ports(cell),
    ),
    row!(Written: "dscp": FieldKind::List("EF") => dscp, "Code points: names or numbers"),
    row!(Written: "meter" => meter,
        "The meter: a token bucket, a three-color marker, or an average; without one, every packet \
         is green"),
    ConditionerRow::new(
        "nominal-rate",
        FieldKind::Rate,
        "DRT's nominal bit rate, of IP packets, in place of a meter and colours",
        |cell, condition| condition.nominal_rate = rate(cell),
    )
    .formerly(&["nominal"]),
    ConditionerRow::new(
        "urgency",
        Urgency::KIND,
        "With `nominal-rate`: the delay class that packets get",
        |cell, condition| condition.urgency = cell.understood(codes::CONDITIONER, drt::urgency),
    ),
    row!(Written: "importance": FieldKind::Integer(1, 6) => importance,
        "With `nominal-rate`: the importance of packets within that rate; those beyond get less")
    .default("6"),
    ConditionerRow::new(
        "rate",
        FieldKind::Rate,
        "The committed information rate (CIR), in IP bits",
        |cell, condition| condition.rate = rate(cell),
    ),
    row!(Written: "burst" => burst,
        "The committed burst size (CBS), in IP bytes")
    .default("100 ms at the rate"),
    row!(Written: "excess-burst" => excess_burst,
        "The excess burst size (EBS), in IP bytes; only for srtcm")
    .formerly(&["excess"]),
    ConditionerRow::new(
        "peak",
        FieldKind::Rate,
        "The peak information rate (PIR), in IP bits; only for trtcm",
        |cell, condition| condition.peak = rate(cell),
    ),
    row!(Written: "peak-burst" => peak_burst,
        "The peak burst size (PBS), in IP bytes; only for trtcm"),
    row!(Written: "mpu" => smallest,
        "The minimum policed unit: smaller packets count as this many IP bytes")
    .formerly(&["smallest"]),
    row!(Written: "interval" => interval,
        "The time over which the rate is averaged; only for average and moving")
    .default("\"100ms\""),
    row!(Written: "gain" => gain,
        "The weight of the latest interval in the moving average; only for moving")
    .default("0.5"),
    row!(Written: "color-aware" => color_aware,
        "Whether the meter takes the drop precedence of arriving packets into account")
    .default("false")
    .formerly(&["aware"]),
    ConditionerRow::new(
        "green",
        FieldKind::Text("AF11"),
        "`pass`, `drop` or a code point",
        |cell, condition| condition.green = action(cell),
    )
    .default("\"pass\""),
    ConditionerRow::new(
        "yellow",
        FieldKind::Text("AF12"),
        "`pass`, `drop` or a code point",
        |cell, condition| condition.yellow = action(cell),
    )
    .default("\"pass\""),
    ConditionerRow::new(
        "red",
        FieldKind::Text("drop"),
        "`pass`, `drop` or a code point",
        |cell, condition| condition.red = action(cell),
    )
    .default("\"drop\""),
];

fn name(cell: &mut Field<'_, '_, '_>) -> Option<Value<String>> {
    let name = cell.text()?;
    // The BPF program stores 31 bytes of the name.
    if !usable(&name.value) || name.value.len() > 31 {
        let wrong = format!("`{}` cannot be the name of a conditioner", name.value);
        let right = USABLE.replace("32", "31");
        cell.error(codes::CONDITIONER, name.span.clone(), wrong, right);
    }
    Some(name)
}

fn nets(cell: &mut Field<'_, '_, '_>) -> Vec<Value<Prefix>> {
    let (nets, names) = address::addresses(cell);
    if let Some(names) = names {
        cell.error(
            codes::CONDITIONER,
            names.span,
            "a conditioner cannot look up DNS names",
            "name a group of addresses, or let a rule put its packets into a `class`",
        );
    }
    if let Some(one) = nets.get(MOST_NETS) {
        cell.error(
            codes::CONDITIONER,
            one.span.clone(),
            format!("`{}` has {} networks", cell.key, nets.len()),
            format!(
                "write at most {MOST_NETS}, or let a rule put these packets into a `class` and \
                 name the class"
            ),
        );
    }
    nets
}

fn rate(cell: &mut Field<'_, '_, '_>) -> Option<Value<Rate>> {
    let rate: Value<Rate> = cell.parsed()?;
    let rate = rate.map(whole_bytes);
    if rate.value < Rate::kbit(1) || rate.value > MOST_RATE {
        cell.error(
            codes::CONDITIONER,
            rate.span,
            format!("`{}` of {} is out of range", cell.key, in_kbit(rate.value)),
            "write from 1kbit to 100gbit",
        );
        return None;
    }
    Some(rate)
}

fn action(cell: &mut Field<'_, '_, '_>) -> Option<Value<ColourAction>> {
    let key = cell.key;
    cell.understood(codes::CONDITIONER, |text| match text {
        "pass" => Ok(ColourAction::Pass),
        "drop" => Ok(ColourAction::Drop),
        _ => text.parse().map(ColourAction::Mark).map_err(|_| {
            (
                format!("`{key}` cannot be `{text}`"),
                "write `pass`, `drop`, or the code point that such packets get, such as `AF12`"
                    .to_owned(),
            )
        }),
    })
}

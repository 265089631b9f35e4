// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[[conditioner]]`: which packets are measured where they enter or leave a
//! device, by which meter, and what is done with each colour (RFC 2475 section
//! 2.3.3, RFC 3290).

pub(crate) mod carried;
mod nominal;

use crate::codes;
use crate::condition::address;
use crate::condition::drt::{self, Urgency};
use crate::condition::protocol::Protocol;
use crate::conditioner::carried::Carried;
use crate::field::{self, Cell, FieldKind, Row, Table, Word, words};
use crate::model::{in_kbit, whole_bytes};
use crate::named::group::{Groups, USABLE, usable};
use crate::named::member::Prefix;
use crate::read::device;
use weirgate_document::{Reader, Span as Place, Value};
use weirgate_state::{ColourAction, ColourMeter, DeviceName};
use weirgate_units::{Dscp, Rate, Size, Span};

/// `[[conditioner]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditioner {
    /// The line of the table, from 1.
    pub line: u32,
    /// Where the table begins.
    pub span: Place,
    /// Its name, by which it is counted.
    pub name: Value<String>,
    /// Whether packets are conditioned that enter the device, and not those
    /// that leave it.
    pub enters: bool,
    /// The device; the link's where none is named.
    pub device: Option<Value<DeviceName>>,
    /// The classes that it is about; none is all.
    pub classes: Vec<Value<String>>,
    /// Addresses of the inside host; none is all.
    pub local: Vec<Value<Prefix>>,
    /// Addresses of the outside host; none is all.
    pub remote: Vec<Value<Prefix>>,
    /// What its packets carry.
    pub carried: Carried,
    /// Code points that it is about; none is all.
    pub dscp: Vec<Value<Dscp>>,
    /// What it measures by; `None` takes every packet as green.
    pub meter: Option<ColourMeter>,
    /// What a smaller packet is measured as: the minimum policed unit (RFC 2215
    /// section 3.6).
    pub smallest: Option<Size>,
    /// Whether the drop precedences of the assured forwarding classes that
    /// packets bring count as colours.
    pub aware: bool,
    /// What is done with green, yellow and red packets.
    pub actions: [ColourAction; 3],
}

/// Networks of each side of a conditioner (`CONDITION_NETS` of
/// `bpf/inbound/condition.bpf.c`).
const MOST_NETS: usize = 8;

/// The largest burst of a meter, and the fastest rate (`METER_MOST_BURST`,
/// `METER_MOST_BYTES_S`).
const MOST_BURST: u64 = (1 << 29) - 1;
const MOST_RATE: Rate = Rate::bits_per_second(100_000_000_000);

/// What smaller packets may be measured as: an IP header to the largest packet.
const SMALLEST: (u64, u64) = (20, 65_535);

/// A burst that is not said: what the rate brings in that time, and at least two
/// packets of 1500 bytes.
const BURST: Span = Span::from_millis(100);
const LEAST_BURST: u64 = 3000;

/// An interval that is not said, and those that may be.
const INTERVAL: Span = Span::from_millis(100);
const INTERVALS: (Span, Span) = (Span::from_millis(1), Span::from_secs(1000));

/// One as a gain (RFC 3290 section 5.1.2).
const ONE: f64 = 4_294_967_296.0;

/// The kinds of meters, and which fields each has beside `rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
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

/// Whether packets that enter a device are conditioned, or those that leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Enter,
    Leave,
}

words!(Side: "enter" => Self::Enter, "leave" => Self::Leave);

/// The fields of meters, and whose they are.
const OWNERS: [(&str, &[Kind]); 7] = [
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
    ("excess", &[Kind::SingleRate]),
    ("peak", &[Kind::TwoRate]),
    ("peak-burst", &[Kind::TwoRate]),
    ("interval", &[Kind::Average, Kind::Moving]),
    ("gain", &[Kind::Moving]),
];

/// The table.
pub(crate) const TABLE: Table = Table {
    name: "conditioner",
    about: "Which packets are measured, by what, and what is done with each colour",
    rows: &[&ROWS],
};

/// The fields as they are written.
#[derive(Default)]
struct Written {
    name: Option<Value<String>>,
    enters: bool,
    device: Option<Value<DeviceName>>,
    classes: Vec<Value<String>>,
    local: Vec<Value<Prefix>>,
    remote: Vec<Value<Prefix>>,
    carried: Carried,
    dscp: Vec<Value<Dscp>>,
    meter: Option<Value<Kind>>,
    nominal: Option<Value<Rate>>,
    urgency: Option<Value<Urgency>>,
    importance: Option<Value<u8>>,
    rate: Option<Value<Rate>>,
    burst: Option<Value<Size>>,
    excess: Option<Value<Size>>,
    peak: Option<Value<Rate>>,
    peak_burst: Option<Value<Size>>,
    smallest: Option<Value<Size>>,
    interval: Option<Value<Span>>,
    gain: Option<Value<f64>>,
    aware: bool,
    green: Option<Value<ColourAction>>,
    yellow: Option<Value<ColourAction>>,
    red: Option<Value<ColourAction>>,
}

type ConditionerRow = Row<Written, Groups>;
type Field<'r, 'd, 'i> = Cell<'r, 'd, 'i, Groups>;

const ROWS: &[ConditionerRow] = &[
    ConditionerRow::new(
        "name",
        FieldKind::Text("gold"),
        "Its name, by which it is counted",
        |cell, condition| {
            condition.name = name(cell);
        },
    )
    .needed("name the conditioner: its packets are counted by it"),
    ConditionerRow::new(
        "at",
        Side::KIND,
        "Whether packets that enter the device or those that leave it",
        |cell, condition| {
            condition.enters = cell
                .word::<Side>()
                .is_some_and(|at| at.value == Side::Enter);
        },
    )
    .default("\"leave\""),
    ConditionerRow::new(
        "device",
        FieldKind::Text("wan"),
        "The device: that of the link, or one of `lan`",
        |cell, condition| {
            condition.device = cell.understood(codes::DEVICE, device);
        },
    )
    .default("that of the link"),
    ConditionerRow::new(
        "class",
        FieldKind::List("interactive"),
        "Classes that it is about, where packets have one",
        |cell, condition| {
            condition.classes = cell.texts();
        },
    ),
    ConditionerRow::new(
        "local-address",
        FieldKind::List("192.0.2.7"),
        "Addresses of the inside host, prefixes or @groups",
        |cell, condition| {
            condition.local = nets(cell);
        },
    ),
    ConditionerRow::new(
        "remote-address",
        FieldKind::List("198.51.100.0/24"),
        "Addresses of the outside host, prefixes or @groups",
        |cell, condition| {
            condition.remote = nets(cell);
        },
    ),
    ConditionerRow::new(
        "protocol",
        FieldKind::List("udp"),
        "What packets carry: names or numbers",
        |cell, condition| {
            condition.carried.protocols = cell.list(codes::PROTOCOL, Protocol::read);
        },
    ),
    ConditionerRow::new(
        "local-port",
        FieldKind::List("5060"),
        "Ports of the inside host, ranges or @groups",
        |cell, condition| {
            condition.carried.local_ports = carried::ports(cell);
        },
    ),
    ConditionerRow::new(
        "remote-port",
        FieldKind::List("10000-20000"),
        "Ports of the outside host, ranges or @groups",
        |cell, condition| {
            condition.carried.remote_ports = carried::ports(cell);
        },
    ),
    ConditionerRow::new(
        "dscp",
        FieldKind::List("EF"),
        "Code points: names or numbers",
        |cell, condition| {
            condition.dscp = cell.parsed_list();
        },
    ),
    ConditionerRow::new(
        "meter",
        Kind::KIND,
        "What it measures by; without one every packet is green",
        |cell, condition| {
            condition.meter = cell.word();
        },
    ),
    ConditionerRow::new(
        "nominal",
        FieldKind::Rate,
        "DRT's nominal bit rate, of IP packets, in place of a meter and colours",
        |cell, condition| {
            condition.nominal = rate(cell);
        },
    ),
    ConditionerRow::new(
        "urgency",
        Urgency::KIND,
        "With nominal: the delay class that packets get",
        |cell, condition| {
            condition.urgency = cell.understood(codes::CONDITIONER, drt::urgency);
        },
    ),
    ConditionerRow::new(
        "importance",
        FieldKind::Integer(1, 6),
        "With nominal: what packets within it get; beyond it less",
        |cell, condition| {
            condition.importance = cell.integer();
        },
    )
    .default("6"),
    ConditionerRow::new(
        "rate",
        FieldKind::Rate,
        "The rate (CIR), of IP packets",
        |cell, condition| {
            condition.rate = rate(cell);
        },
    ),
    ConditionerRow::new(
        "burst",
        FieldKind::Size,
        "What may come at once (CBS), in IP bytes",
        |cell, condition| {
            condition.burst = cell.size();
        },
    )
    .default("100 ms at the rate"),
    ConditionerRow::new(
        "excess",
        FieldKind::Size,
        "What may come beyond that (EBS); srtcm",
        |cell, condition| {
            condition.excess = cell.size();
        },
    ),
    ConditionerRow::new(
        "peak",
        FieldKind::Rate,
        "The peak rate (PIR); trtcm",
        |cell, condition| {
            condition.peak = rate(cell);
        },
    ),
    ConditionerRow::new(
        "peak-burst",
        FieldKind::Size,
        "What may come at once at the peak rate (PBS); trtcm",
        |cell, condition| {
            condition.peak_burst = cell.size();
        },
    ),
    ConditionerRow::new(
        "mpu",
        FieldKind::Size,
        "What a smaller packet is measured as, in IP bytes (minimum policed unit)",
        |cell, condition| {
            condition.smallest = cell.size();
        },
    )
    .formerly(&["smallest"]),
    ConditionerRow::new(
        "interval",
        FieldKind::Time,
        "What is averaged over; average, moving",
        |cell, condition| {
            condition.interval = cell.parsed();
        },
    )
    .default("\"100ms\""),
    ConditionerRow::new(
        "gain",
        FieldKind::Number,
        "The weight of the last interval; moving",
        |cell, condition| {
            condition.gain = cell.number();
        },
    )
    .default("0.5"),
    ConditionerRow::new(
        "aware",
        FieldKind::Boolean,
        "Whether the drop precedences that packets bring count",
        |cell, condition| {
            condition.aware = cell.flag();
        },
    )
    .default("false"),
    ConditionerRow::new(
        "green",
        FieldKind::Text("AF11"),
        "`pass`, `drop` or a code point",
        |cell, condition| {
            condition.green = action(cell);
        },
    )
    .default("\"pass\""),
    ConditionerRow::new(
        "yellow",
        FieldKind::Text("AF12"),
        "`pass`, `drop` or a code point",
        |cell, condition| {
            condition.yellow = action(cell);
        },
    )
    .default("\"pass\""),
    ConditionerRow::new(
        "red",
        FieldKind::Text("drop"),
        "`pass`, `drop` or a code point",
        |cell, condition| {
            condition.red = action(cell);
        },
    )
    .default("\"drop\""),
];

/// Reads one table.
pub(crate) fn read(mut table: Reader<'_, '_>, groups: &Groups) -> Option<Conditioner> {
    let mut written = Written::default();
    field::read(&mut table, ROWS, groups, &mut written);
    written.carried.check(table.problems());
    let lists = [
        ("class", written.classes.is_empty()),
        ("dscp", written.dscp.is_empty()),
    ];
    for (key, empty) in lists {
        if empty && table.has(key) && !table.problems().has_errors() {
            let wrong = format!("the list `{key}` is empty, so nothing is conditioned");
            let right = format!("write at least one element, or leave `{key}` out");
            table
                .problems()
                .error(codes::CONDITIONER, table.place(key), wrong, right);
        }
    }
    let kind = written.meter.as_ref().map(|kind| kind.value);
    let unread = kind.is_none() && table.has("meter");
    let nominal = table.has("nominal");
    let meter = if nominal {
        nominal::meter(&mut table, &written)
    } else {
        kind.and_then(|kind| meter(&mut table, kind, &written))
    };
    let smallest = smallest(&table, &written, meter.is_some() || unread);
    let actions = if nominal {
        nominal::actions(&mut table, &written)
    } else {
        strangers(&mut table, kind, unread);
        actions(&table, kind, &written, unread)
    };
    if written.aware && kind.is_none() && !nominal && !unread {
        table.problems().error(
            codes::CONDITIONER,
            table.place("aware"),
            "colours that packets bring are heeded by a meter, and there is none",
            "write a `meter`, or leave `aware` out",
        );
    }
    Some(Conditioner {
        line: table.line(),
        span: table.span(),
        name: written.name?,
        enters: written.enters,
        device: written.device,
        classes: written.classes,
        local: written.local,
        remote: written.remote,
        carried: written.carried,
        dscp: written.dscp,
        meter,
        smallest,
        aware: written.aware,
        actions,
    })
}

fn name(cell: &mut Field<'_, '_, '_>) -> Option<Value<String>> {
    let name = cell.text()?;
    // The program keeps 31 bytes of it.
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
            "a conditioner does not look names up",
            "name a group of addresses, or let a rule put its packets into a `class`",
        );
    }
    if let Some(one) = nets.get(MOST_NETS) {
        cell.error(
            codes::CONDITIONER,
            one.span.clone(),
            format!("`{}` has {} networks", cell.key, nets.len()),
            format!(
                "write at most {MOST_NETS}, or let a rule put their packets into a `class` and \
                 name that"
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

/// Fields of meters that this one does not have, and those of `nominal`.
fn strangers(table: &mut Reader<'_, '_>, kind: Option<Kind>, unread: bool) {
    for key in ["urgency", "importance"] {
        if table.has(key) {
            table.problems().error(
                codes::CONDITIONER,
                table.place(key),
                format!("`{key}` belongs to a conditioner with `nominal`"),
                "leave it out, or write `nominal`, the rate by which importance is given",
            );
        }
    }
    for (key, owners) in OWNERS {
        let own = kind.is_some_and(|kind| owners.contains(&kind));
        if !table.has(key) || own || unread {
            continue;
        }
        let names: Vec<String> = Kind::WORDS
            .iter()
            .filter(|(_, kind)| owners.contains(kind))
            .map(|(name, _)| format!("`meter = \"{name}\"`"))
            .collect();
        table.problems().error(
            codes::CONDITIONER,
            table.place(key),
            format!("`{key}` belongs to {}", names.join(", ")),
            "leave it out, or choose such a meter",
        );
    }
}

/// A rate that the meter cannot do without; reported where it is missing.
fn needed(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    rate: Option<&Value<Rate>>,
) -> Option<Rate> {
    let present = table.has(key);
    match rate {
        None if !present => table.missing(key, &format!("state it, such as `{key} = \"1mbit\"`")),
        found => found.map(|rate| rate.value),
    }
}

fn meter(table: &mut Reader<'_, '_>, kind: Kind, written: &Written) -> Option<ColourMeter> {
    let rate = needed(table, "rate", written.rate.as_ref());
    let peak = (kind == Kind::TwoRate).then(|| needed(table, "peak", written.peak.as_ref()));
    let burst = size(table, kind, "burst", written.burst.as_ref());
    let excess = size(table, kind, "excess", written.excess.as_ref());
    let peak_burst = size(table, kind, "peak-burst", written.peak_burst.as_ref());
    let interval = interval(table, kind, written);
    let gain = gain(table, kind, written);
    let rate = rate?;
    Some(match kind {
        Kind::Bucket => ColourMeter::Bucket {
            rate,
            burst: or_usual(burst, rate),
        },
        Kind::SingleRate => {
            let (burst, excess) = (or_usual(burst, rate), or_usual(excess, rate));
            // RFC 2697 section 1: at least one of the two is larger than 0.
            if let (Some(at), 0) = (&written.burst, burst.as_bytes() + excess.as_bytes()) {
                table.problems().error(
                    codes::CONDITIONER,
                    at.span.clone(),
                    "`burst` and `excess` are both 0, so that every packet is red",
                    "let one of them hold a full packet",
                );
            }
            ColourMeter::SingleRate {
                rate,
                burst,
                excess,
            }
        }
        Kind::TwoRate => {
            let peak = peak.flatten()?;
            // RFC 2698 section 1: the PIR is at least the CIR.
            if let (true, Some(at)) = (peak < rate, &written.peak) {
                table.problems().error(
                    codes::CONDITIONER,
                    at.span.clone(),
                    format!(
                        "`peak` of {} is below `rate` of {}",
                        in_kbit(peak),
                        in_kbit(rate)
                    ),
                    "write a peak that is at least the rate",
                );
            }
            ColourMeter::TwoRate {
                rate,
                burst: or_usual(burst, rate),
                peak,
                peak_burst: or_usual(peak_burst, peak),
            }
        }
        Kind::Average => ColourMeter::Average { rate, interval },
        Kind::Moving => ColourMeter::Moving {
            rate,
            interval,
            gain,
        },
    })
}

/// A burst, or what the rate brings in [`BURST`].
fn or_usual(burst: Option<Size>, rate: Rate) -> Size {
    let usual = rate.bytes_in(BURST).as_bytes();
    burst.unwrap_or(Size::bytes(usual.clamp(LEAST_BURST, MOST_BURST)))
}

fn size(
    table: &Reader<'_, '_>,
    kind: Kind,
    key: &str,
    found: Option<&Value<Size>>,
) -> Option<Size> {
    let found = found?;
    // RFC 2697 allows one of its bursts to be 0; the others may not.
    let least = u64::from(kind != Kind::SingleRate);
    if !(least..=MOST_BURST).contains(&found.value.as_bytes()) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("`{key}` of {} is out of range", found.value),
            format!("write from {least} bytes to less than 512MiB"),
        );
    }
    Some(found.value)
}

/// `mpu`, which only a meter heeds.
fn smallest(table: &Reader<'_, '_>, written: &Written, metered: bool) -> Option<Size> {
    let found = written.smallest.as_ref()?;
    let (least, most) = SMALLEST;
    if !(least..=most).contains(&found.value.as_bytes()) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("`mpu` of {} is out of range", found.value),
            format!("write from {least} to {most} bytes"),
        );
    } else if !metered && !table.problems().has_errors() {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            "`mpu` says what a meter takes small packets for, and there is none",
            "write a `meter`, or leave `mpu` out",
        );
    }
    Some(found.value)
}

fn interval(table: &Reader<'_, '_>, kind: Kind, written: &Written) -> Span {
    let Some(found) = written
        .interval
        .as_ref()
        .filter(|_| matches!(kind, Kind::Average | Kind::Moving))
    else {
        return INTERVAL;
    };
    if !(INTERVALS.0..=INTERVALS.1).contains(&found.value) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("an interval of {} is out of range", found.value),
            "write from 1ms to 1000s",
        );
    }
    found.value
}

fn gain(table: &Reader<'_, '_>, kind: Kind, written: &Written) -> u64 {
    const HALF: u64 = 1 << 31;
    let Some(found) = written.gain.as_ref().filter(|_| kind == Kind::Moving) else {
        return HALF;
    };
    let gain = (found.value * ONE).round();
    if !(1.0..=ONE).contains(&gain) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("a gain of {} is out of range", found.value),
            "write a number above 0 and at most 1",
        );
        return HALF;
    }
    gain as u64
}

/// `green`, `yellow` and `red`; without a word, what is beyond everything ends.
fn actions(
    table: &Reader<'_, '_>,
    kind: Option<Kind>,
    written: &Written,
    unread: bool,
) -> [ColourAction; 3] {
    let usual = |found: &Option<Value<ColourAction>>, usual| {
        found.as_ref().map_or(usual, |found| found.value)
    };
    let green = usual(&written.green, ColourAction::Pass);
    let yellow = usual(&written.yellow, ColourAction::Pass);
    let red = usual(&written.red, ColourAction::Drop);
    if unread {
        return [green, yellow, red];
    }
    let yellow_comes = written.aware || matches!(kind, Some(Kind::SingleRate | Kind::TwoRate));
    let never = [
        ("yellow", &written.yellow, yellow_comes && kind.is_some()),
        ("red", &written.red, kind.is_some()),
    ];
    for (key, found, comes) in never {
        if let Some(found) = found.as_ref().filter(|_| !comes) {
            let (wrong, right) = match kind {
                None => (
                    format!("without a meter no packet is {key}"),
                    "write a `meter`, or say with `green` what is done with every packet",
                ),
                Some(_) => (
                    format!("this meter finds no packet {key}"),
                    "leave it out, or choose `meter = \"srtcm\"` or `\"trtcm\"`",
                ),
            };
            table
                .problems()
                .error(codes::CONDITIONER, found.span.clone(), wrong, right);
        }
    }
    if kind.is_none() && written.green.is_none() {
        table.problems().error(
            codes::CONDITIONER,
            table.span(),
            "this conditioner neither measures nor does anything",
            "write a `meter`, or say with `green` what is done with every packet",
        );
    }
    [green, yellow, red]
}

impl Conditioner {
    /// Whether its meter finds packets yellow, or they bring that.
    #[must_use]
    pub const fn finds_yellow(&self) -> bool {
        match self.meter {
            None => false,
            Some(ColourMeter::SingleRate { .. } | ColourMeter::TwoRate { .. }) => true,
            Some(_) => self.aware,
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[[conditioner]]`: which packets are measured where they enter or leave a
//! device, by which meter, and what is done with each colour (RFC 2475 section
//! 2.3.3, RFC 3290).

pub(crate) mod carried;

use crate::class::shares::{in_kbit, whole_bytes};
use crate::codes;
use crate::condition::drt;
use crate::condition::matching::Prefix;
use crate::condition::when;
use crate::conditioner::carried::Carried;
use crate::link::inbound::Inbound;
use crate::model::{Direction, Policy};
use crate::named::group::{Groups, USABLE, usable};
use crate::queue::sized;
use crate::read::{device, understood, word};
use weirgate_document::{Problems, Reader, Span as Place, Value, nearest};
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

/// Conditioners of one device and one way, and networks of each side of one
/// (`CONDITIONERS`, `CONDITION_NETS` of `bpf/inbound/condition.bpf.c`).
const MOST: usize = 32;
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

const KINDS: [(&str, Kind); 5] = [
    ("bucket", Kind::Bucket),
    ("srtcm", Kind::SingleRate),
    ("trtcm", Kind::TwoRate),
    ("average", Kind::Average),
    ("moving", Kind::Moving),
];

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

/// Reads one table.
pub(crate) fn read(mut table: Reader<'_, '_>, groups: &Groups) -> Option<Conditioner> {
    let name = read_name(&mut table);
    let places = [("enter", true), ("leave", false)];
    let enters = word(&mut table, "at", &places).is_some_and(|at| at.value);
    let device = understood(&mut table, "device", codes::DEVICE, device);
    let classes = table.text_list("class").unwrap_or_default();
    let local = nets(&mut table, "local-address", groups);
    let remote = nets(&mut table, "remote-address", groups);
    let carried = Carried::read(&mut table, groups);
    let dscp = table.parsed_list("dscp").unwrap_or_default();
    for key in ["class", "dscp"] {
        let empty = match key {
            "class" => classes.is_empty(),
            _ => dscp.is_empty(),
        };
        if empty && table.has(key) && !table.problems().has_errors() {
            let wrong = format!("the list `{key}` is empty, so nothing is conditioned");
            let right = format!("write at least one element, or leave `{key}` out");
            table
                .problems()
                .error(codes::CONDITIONER, table.place(key), wrong, right);
        }
    }
    let nominal = table.has("nominal").then(|| nominal(&mut table));
    let kind = word(&mut table, "meter", &KINDS);
    let unread = kind.is_none() && table.has("meter");
    let meter = match &nominal {
        Some(meter) => *meter,
        None => kind.as_ref().and_then(|kind| meter(&mut table, kind.value)),
    };
    let smallest = smallest(&mut table, meter.is_some() || unread);
    let aware = table.boolean("aware").is_some_and(|flag| flag.value);
    let kind = kind.map(|kind| kind.value);
    let actions = if nominal.is_some() {
        drt::by_nominal_rate(&mut table)
    } else {
        strangers(&mut table, kind, unread);
        actions(&mut table, kind, aware, unread)
    };
    if aware && kind.is_none() && nominal.is_none() && !unread {
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
        name: name?,
        enters,
        device,
        classes,
        local,
        remote,
        carried,
        dscp,
        meter,
        smallest,
        aware,
        actions,
    })
}

fn read_name(table: &mut Reader<'_, '_>) -> Option<Value<String>> {
    let name = match table.text("name") {
        Some(name) => name,
        None if table.has("name") => return None,
        None => {
            return table.missing(
                "name",
                "name the conditioner: its packets are counted by it",
            );
        }
    };
    // The program keeps 31 bytes of it.
    if !usable(&name.value) || name.value.len() > 31 {
        let wrong = format!("`{}` cannot be the name of a conditioner", name.value);
        let right = USABLE.replace("32", "31");
        table
            .problems()
            .error(codes::CONDITIONER, name.span.clone(), wrong, right);
    }
    Some(name)
}

fn nets(table: &mut Reader<'_, '_>, key: &'static str, groups: &Groups) -> Vec<Value<Prefix>> {
    let (nets, names) = when::addresses(table, key, groups);
    if let Some(names) = names {
        table.problems().error(
            codes::CONDITIONER,
            names.span,
            "a conditioner does not look names up",
            "name a group of addresses, or let a rule put its packets into a `class`",
        );
    }
    if let Some(one) = nets.get(MOST_NETS) {
        table.problems().error(
            codes::CONDITIONER,
            one.span.clone(),
            format!("`{key}` has {} networks", nets.len()),
            format!(
                "write at most {MOST_NETS}, or let a rule put their packets into a `class` and \
                 name that"
            ),
        );
    }
    nets
}

/// Fields of meters that this one does not have.
fn strangers(table: &mut Reader<'_, '_>, kind: Option<Kind>, unread: bool) {
    for (key, owners) in OWNERS {
        let own = kind.is_some_and(|kind| owners.contains(&kind));
        if !table.has(key) || own || unread {
            continue;
        }
        let names: Vec<String> = KINDS
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

fn meter(table: &mut Reader<'_, '_>, kind: Kind) -> Option<ColourMeter> {
    let rate = rate(table, "rate", true);
    let peak = (kind == Kind::TwoRate).then(|| self::rate(table, "peak", true));
    let burst = size(table, kind, "burst");
    let excess = size(table, kind, "excess");
    let peak_burst = size(table, kind, "peak-burst");
    let interval = interval(table, kind);
    let gain = gain(table, kind);
    let rate = rate?;
    let own = |size: Option<Value<Size>>, rate: Rate| {
        let usual = rate
            .bytes_in(BURST)
            .as_bytes()
            .clamp(LEAST_BURST, MOST_BURST);
        size.map_or(Size::bytes(usual), |size| size.value)
    };
    Some(match kind {
        Kind::Bucket => ColourMeter::Bucket {
            rate: rate.value,
            burst: own(burst, rate.value),
        },
        Kind::SingleRate => {
            let (burst_at, excess_at) = (burst.clone(), excess);
            let burst = own(burst, rate.value);
            let excess = own(excess_at, rate.value);
            // RFC 2697 section 1: at least one of the two is larger than 0.
            if let (Some(at), 0) = (burst_at, burst.as_bytes() + excess.as_bytes()) {
                table.problems().error(
                    codes::CONDITIONER,
                    at.span,
                    "`burst` and `excess` are both 0, so that every packet is red",
                    "let one of them hold a full packet",
                );
            }
            ColourMeter::SingleRate {
                rate: rate.value,
                burst,
                excess,
            }
        }
        Kind::TwoRate => {
            let peak = peak.flatten()?;
            // RFC 2698 section 1: the PIR is at least the CIR.
            if peak.value < rate.value {
                table.problems().error(
                    codes::CONDITIONER,
                    peak.span.clone(),
                    format!(
                        "`peak` of {} is below `rate` of {}",
                        in_kbit(peak.value),
                        in_kbit(rate.value)
                    ),
                    "write a peak that is at least the rate",
                );
            }
            ColourMeter::TwoRate {
                rate: rate.value,
                burst: own(burst, rate.value),
                peak: peak.value,
                peak_burst: own(peak_burst, peak.value),
            }
        }
        Kind::Average => ColourMeter::Average {
            rate: rate.value,
            interval,
        },
        Kind::Moving => ColourMeter::Moving {
            rate: rate.value,
            interval,
            gain,
        },
    })
}

/// The meter of `nominal`: the rate itself, and twice that as the peak.
fn nominal(table: &mut Reader<'_, '_>) -> Option<ColourMeter> {
    for (key, _) in OWNERS.into_iter().filter(|(key, _)| *key != "burst") {
        if table.has(key) {
            table.problems().error(
                codes::CONDITIONER,
                table.place(key),
                format!("`{key}` stands beside `nominal`, which is the rate of a meter of its own"),
                "leave one of them out",
            );
        }
    }
    let rate = rate(table, "nominal", true)?.value;
    let twice = Rate::bits_per_second(rate.as_bits_per_second().saturating_mul(2)).min(MOST_RATE);
    let burst = size(table, Kind::TwoRate, "burst").map(|size| size.value);
    let own = |rate: Rate| {
        let usual = rate.bytes_in(BURST).as_bytes();
        burst.unwrap_or(Size::bytes(usual.clamp(LEAST_BURST, MOST_BURST)))
    };
    Some(ColourMeter::TwoRate {
        rate,
        burst: own(rate),
        peak: twice,
        peak_burst: own(twice),
    })
}

fn rate(table: &mut Reader<'_, '_>, key: &'static str, needed: bool) -> Option<Value<Rate>> {
    if needed && !table.has(key) {
        return table.missing(key, &format!("state it, such as `{key} = \"1mbit\"`"));
    }
    let rate: Value<Rate> = table.parsed(key)?;
    let span = rate.span.clone();
    let rate = rate.map(whole_bytes);
    if rate.value < Rate::kbit(1) || rate.value > MOST_RATE {
        table.problems().error(
            codes::CONDITIONER,
            span,
            format!("`{key}` of {} is out of range", in_kbit(rate.value)),
            "write from 1kbit to 100gbit",
        );
        return None;
    }
    Some(rate)
}

fn size(table: &mut Reader<'_, '_>, kind: Kind, key: &'static str) -> Option<Value<Size>> {
    let found = sized(table, key)?;
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
    Some(found)
}

/// `smallest`, which only a meter heeds.
fn smallest(table: &mut Reader<'_, '_>, metered: bool) -> Option<Size> {
    let found = sized(table, "smallest")?;
    let (least, most) = SMALLEST;
    if !(least..=most).contains(&found.value.as_bytes()) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("`smallest` of {} is out of range", found.value),
            format!("write from {least} to {most} bytes"),
        );
    } else if !metered && !table.problems().has_errors() {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            "`smallest` says what a meter takes small packets for, and there is none",
            "write a `meter`, or leave `smallest` out",
        );
    }
    Some(found.value)
}

fn interval(table: &mut Reader<'_, '_>, kind: Kind) -> Span {
    if !matches!(kind, Kind::Average | Kind::Moving) {
        return INTERVAL;
    }
    let Some(found) = table.parsed::<Span>("interval") else {
        return INTERVAL;
    };
    if !(INTERVALS.0..=INTERVALS.1).contains(&found.value) {
        table.problems().error(
            codes::CONDITIONER,
            found.span,
            format!("an interval of {} is out of range", found.value),
            "write from 1ms to 1000s",
        );
    }
    found.value
}

fn gain(table: &mut Reader<'_, '_>, kind: Kind) -> u64 {
    const HALF: u64 = 1 << 31;
    if kind != Kind::Moving {
        return HALF;
    }
    let Some(found) = table.number("gain") else {
        return HALF;
    };
    let gain = (found.value * ONE).round();
    if !(1.0..=ONE).contains(&gain) {
        table.problems().error(
            codes::CONDITIONER,
            found.span,
            format!("a gain of {} is out of range", found.value),
            "write a number above 0 and at most 1",
        );
        return HALF;
    }
    gain as u64
}

/// `green`, `yellow` and `red`; without a word, what is beyond everything ends.
fn actions(
    table: &mut Reader<'_, '_>,
    kind: Option<Kind>,
    aware: bool,
    unread: bool,
) -> [ColourAction; 3] {
    let mut action = |key: &'static str, usual: ColourAction| {
        let found = understood(table, key, codes::CONDITIONER, |text| match text {
            "pass" => Ok(ColourAction::Pass),
            "drop" => Ok(ColourAction::Drop),
            _ => text.parse().map(ColourAction::Mark).map_err(|_| {
                (
                    format!("`{key}` cannot be `{text}`"),
                    "write `pass`, `drop`, or the code point that such packets get, such as \
                     `AF12`"
                        .to_owned(),
                )
            }),
        });
        (found.as_ref().map_or(usual, |found| found.value), found)
    };
    let (green, said) = action("green", ColourAction::Pass);
    let (yellow, second) = action("yellow", ColourAction::Pass);
    let (red, third) = action("red", ColourAction::Drop);
    if unread {
        return [green, yellow, red];
    }
    let yellow_comes = aware || matches!(kind, Some(Kind::SingleRate | Kind::TwoRate));
    let never = [
        ("yellow", second, yellow_comes && kind.is_some()),
        ("red", third, kind.is_some()),
    ];
    for (key, found, comes) in never {
        if let Some(found) = found.filter(|_| !comes) {
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
                .error(codes::CONDITIONER, found.span, wrong, right);
        }
    }
    if kind.is_none() && said.is_none() {
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

    /// The device at which it is.
    #[must_use]
    pub fn at<'a>(&'a self, policy: &'a Policy) -> &'a DeviceName {
        let own = self.device.as_ref().unwrap_or(&policy.link.device);
        &own.value
    }

    /// Which way its packets go: what leaves by the link, or enters elsewhere,
    /// goes up.
    #[must_use]
    pub fn direction(&self, policy: &Policy) -> Direction {
        let outside = *self.at(policy) == policy.link.device.value;
        if outside == self.enters {
            Direction::Down
        } else {
            Direction::Up
        }
    }
}

/// What conditioners contradict, among themselves and with the rest.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    for (at, one) in policy.conditioners.iter().enumerate() {
        let error = |span: &Place, wrong: String, right: String| {
            problems.error(codes::CONDITIONER, span.clone(), wrong, right);
        };
        let before = &policy.conditioners[..at];
        if let Some(first) = before
            .iter()
            .find(|other| other.name.value == one.name.value)
        {
            error(
                &one.name.span,
                format!(
                    "there is a conditioner `{}` on line {} already",
                    one.name.value, first.name.line
                ),
                "choose another name".to_owned(),
            );
        }
        if let Some(device) = &one.device {
            let mut known = std::iter::once(&policy.link.device).chain(&policy.link.lan);
            if !known.any(|known| known.value == device.value) {
                error(
                    &device.span,
                    format!("`{}` is no device of this link", device.value),
                    "name `device` or one of `lan` of `[link]`".to_owned(),
                );
                continue;
            }
        }
        classes(policy, one, &error);
        let place =
            |other: &&Conditioner| other.enters == one.enters && other.at(policy) == one.at(policy);
        if before.iter().filter(place).count() == MOST {
            error(
                &one.span,
                format!("`{}` has more than {MOST} conditioners", one.at(policy)),
                "condition some of the packets elsewhere".to_owned(),
            );
        }
        // What could not be read is missing in the model, so that one seems to
        // be about more than it says.
        if !problems.has_errors() {
            hidden(policy, one, before, problems);
        }
    }
}

/// Classes that do not exist, or that no packet has there yet or any more.
fn classes(policy: &Policy, one: &Conditioner, error: &dyn Fn(&Place, String, String)) {
    let direction = one.direction(policy);
    for class in &one.classes {
        let known = || {
            policy
                .classes_of(direction)
                .map(|class| class.name.value.as_str())
        };
        let acknowledges = class.value == crate::class::ACK && policy.ack.is_some();
        if one.enters {
            error(
                &class.span,
                "packets that enter a device have no class yet".to_owned(),
                "write `at = \"leave\"`, or say by `dscp` and addresses which packets".to_owned(),
            );
        } else if direction == Direction::Down
            && policy.link.inbound.value != Inbound::Lan
            && !policy.link.bridge
        {
            error(
                &class.span,
                "packets that were shaped where they arrived have no class any more".to_owned(),
                "write `inbound = \"lan\"` in `[link]`, or say by `dscp` and addresses which \
                 packets"
                    .to_owned(),
            );
        } else if !known().any(|name| name == class.value) && !acknowledges {
            let stream = direction.stream();
            let hint = nearest(&class.value, known()).map_or_else(
                || "name a class of the policy".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            error(
                &class.span,
                format!("there is no {stream} class `{}`", class.value),
                hint,
            );
        }
    }
}

/// One that an earlier one of the same place leaves no packet.
fn hidden(policy: &Policy, one: &Conditioner, before: &[Conditioner], problems: &Problems) {
    let all = before.iter().find(|other| {
        other.enters == one.enters
            && other.at(policy) == one.at(policy)
            && other.classes.is_empty()
            && other.local.is_empty()
            && other.remote.is_empty()
            && other.carried.is_empty()
            && other.dscp.is_empty()
    });
    if let Some(all) = all {
        problems.warning(
            codes::CONDITIONER,
            one.span.clone(),
            format!(
                "no packet comes here: `{}` on line {} conditions all of them",
                all.name.value, all.line
            ),
            "put it before that one: the first whose packets they are conditions them",
        );
    }
}

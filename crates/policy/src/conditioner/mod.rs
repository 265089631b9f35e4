// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[[conditioner]]`: which packets are metered where they enter or leave a device, by which
//! meter, and what is done with each colour (RFC 2475 section 2.3.3, RFC 3290).

pub(crate) mod carried;
mod meter;
mod nominal;
mod written;

pub(crate) use written::TABLE;

use self::meter::{meter, smallest, strangers};
use self::written::{Kind, ROWS, Written};
use crate::codes;
use crate::conditioner::carried::Carried;
use crate::field::{self};
use crate::named::group::Groups;
use crate::named::member::Prefix;
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_state::{ColourAction, ColourMeter, DeviceName};
use weirgate_units::{Dscp, Size};

/// The table `[[conditioner]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditioner {
    /// The line number of the table, from 1.
    pub line: u32,
    /// The position of the table.
    pub span: SourceSpan,
    /// The name of the conditioner and of its counters.
    pub name: Value<String>,
    /// Whether it conditions packets that enter the device, and not those that leave it.
    pub enters: bool,
    /// The device; `None` means the link's.
    pub device: Option<Value<DeviceName>>,
    /// The classes of its packets; empty for all.
    pub classes: Vec<Value<String>>,
    /// Addresses of the inside host; empty for all.
    pub local: Vec<Value<Prefix>>,
    /// Addresses of the outside host; empty for all.
    pub remote: Vec<Value<Prefix>>,
    /// Conditions on the transport header.
    pub carried: Carried,
    /// Code points of its packets; empty for all.
    pub dscp: Vec<Value<Dscp>>,
    /// The meter; without one, every packet is green.
    pub meter: Option<ColourMeter>,
    /// The length as which smaller packets count: the minimum policed unit (RFC 2215 section
    /// 3.6).
    pub smallest: Option<Size>,
    /// Whether the drop precedence of arriving packets in the assured forwarding classes counts
    /// as their colour: color-aware mode of RFC 2697 section 2.
    pub color_aware: bool,
    /// The actions for green, yellow and red packets.
    pub actions: [ColourAction; 3],
}

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
                .error(codes::CONDITIONER, table.span_of(key), wrong, right);
        }
    }
    let kind = written.meter.as_ref().map(|kind| kind.value);
    let unread = kind.is_none() && table.has("meter");
    let nominal = table.has("nominal-rate");
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
    if written.color_aware && kind.is_none() && !nominal && !unread {
        table.problems().error(
            codes::CONDITIONER,
            table.span_of("color-aware"),
            "`color-aware` needs a meter, which this conditioner lacks",
            "write a `meter`, or leave `color-aware` out",
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
        color_aware: written.color_aware,
        actions,
    })
}

/// Reads `green`, `yellow` and `red`. By default, red packets are dropped.
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
    let yellow_comes =
        written.color_aware || matches!(kind, Some(Kind::SingleRate | Kind::TwoRate));
    let never = [
        ("yellow", &written.yellow, yellow_comes && kind.is_some()),
        ("red", &written.red, kind.is_some()),
    ];
    for (key, found, comes) in never {
        if let Some(found) = found.as_ref().filter(|_| !comes) {
            let (wrong, right) = match kind {
                None => (
                    format!("without a meter no packet is {key}"),
                    "write a `meter`, or state in `green` what happens to every packet",
                ),
                Some(_) => (
                    format!("this meter never finds a packet {key}"),
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
            "this conditioner has neither a meter nor an action",
            "write a `meter`, or state in `green` what happens to every packet",
        );
    }
    [green, yellow, red]
}

impl Conditioner {
    /// Returns whether packets can be yellow, by the meter or by their drop precedence.
    #[must_use]
    pub const fn finds_yellow(&self) -> bool {
        match self.meter {
            None => false,
            Some(ColourMeter::SingleRate { .. } | ColourMeter::TwoRate { .. }) => true,
            Some(_) => self.color_aware,
        }
    }
}

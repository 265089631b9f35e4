// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[class]]` and `[ack]`. What concerns several classes at once is
//! checked in `verdict`.

pub(crate) mod delay;
pub(crate) mod fair;
pub(crate) mod part;
pub(crate) mod shares;

use crate::class::fair::Fair;
use crate::codes;
use crate::field::Word;
use crate::model::{Ack, AckRate, Amount, Class, Guarantee};
use crate::queue;
use crate::read::{directions, implied, word};
use weirgate_document::{Kind, Reader, Value};
use weirgate_units::{Rate, Share};

/// The name of the class that `[ack]` creates.
pub(crate) const ACK: &str = "ack";

/// The longest class name.
const LONGEST: usize = 32;

/// The priority of a class that states none.
const MIDDLE: u8 = 4;

pub(crate) fn read(mut table: Reader<'_, '_>) -> Class {
    let name = match table.text("name") {
        Some(name) => {
            check_name(&table, &name);
            Some(name)
        }
        None if table.has("name") => None,
        None => table.missing("name", "name the class, such as `name = \"bulk\"`"),
    };
    let guarantee = read_guarantee(&mut table);
    let default = table.boolean("default");
    Class {
        line: table.line(),
        span: table.span(),
        name: name.unwrap_or_else(|| implied(String::new(), &table)),
        guarantee,
        ceiling: read_ceiling(&mut table),
        priority: priority(&mut table, MIDDLE),
        queue: queue::read(&mut table),
        fair: word(&mut table, "fair", Fair::WORDS),
        burst: queue::sized(&mut table, "burst"),
        objective: table
            .integer("objective", 0..=5)
            .map(|class| class.map(|class| class as u8)),
        delay: delay::read(&mut table),
        directions: directions(&mut table),
        default: default
            .filter(|default| default.value)
            .map(|default| default.span),
    }
}

fn priority(table: &mut Reader<'_, '_>, otherwise: u8) -> u8 {
    table
        .integer("priority", 0..=7)
        .map_or(otherwise, |priority| priority.value as u8)
}

fn check_name(table: &Reader<'_, '_>, name: &Value<String>) {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let first = name
        .value
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_lowercase());
    if !first || !name.value.chars().all(plain) || name.value.len() > LONGEST {
        table.problems().error(
            codes::CLASS_NAME,
            name.span.clone(),
            format!(
                "`{}` cannot be the name of a class",
                name.value.escape_debug()
            ),
            format!("write 1 to {LONGEST} lower-case letters, digits, `-` and `_`, a letter first"),
        );
    }
}

fn read_guarantee(table: &mut Reader<'_, '_>) -> Value<Guarantee> {
    let none = implied(Guarantee::Share(Share::default()), table);
    match (table.has("share"), table.has("rate")) {
        (true, true) => {
            let span = table
                .text("rate")
                .map_or_else(|| table.span(), |rate| rate.span);
            table.problems().error(
                codes::GUARANTEE,
                span,
                "a class has a share or a rate, not both",
                "keep the one that is meant",
            );
            none
        }
        (false, false) => {
            table.problems().error(
                codes::GUARANTEE,
                table.span(),
                "this class is guaranteed nothing",
                "write `share = \"20%\"`, or a rate such as `rate = \"64kbit\"`",
            );
            none
        }
        (true, false) => match table.parsed::<Share>("share") {
            Some(share) => {
                if share.value == Share::default() {
                    table.problems().error(
                        codes::SHARE_ZERO,
                        share.span.clone(),
                        "a class with a share of 0 could starve",
                        "write at least `1%`",
                    );
                }
                share.map(Guarantee::Share)
            }
            None => none,
        },
        (false, true) => match table.parsed::<Rate>("rate") {
            Some(rate) => {
                zero(table, &rate);
                rate.map(Guarantee::Rate)
            }
            None => none,
        },
    }
}

/// Reports a rate of 0.
pub(crate) fn zero(table: &Reader<'_, '_>, rate: &Value<Rate>) {
    if rate.value == Rate::default() {
        table.problems().error(
            codes::ZERO_RATE,
            rate.span.clone(),
            "a rate of 0 lets nothing pass",
            "write a rate such as `512kbit`",
        );
    }
}

fn read_ceiling(table: &mut Reader<'_, '_>) -> Value<Amount> {
    let whole = implied(Amount::Share(Share::WHOLE), table);
    let Some(ceiling) = table.parsed::<Amount>("ceiling") else {
        return whole;
    };
    let nothing = matches!(ceiling.value, Amount::Share(share) if share == Share::default())
        || matches!(ceiling.value, Amount::Rate(rate) if rate == Rate::default());
    let over = matches!(ceiling.value, Amount::Share(share) if share > Share::WHOLE);
    if nothing || over {
        let message = if over {
            "a ceiling cannot be above the whole link"
        } else {
            "a ceiling of 0 lets nothing pass"
        };
        let hint = "write a part of the link such as `80%`, or leave it out for `100%`";
        table
            .problems()
            .error(codes::CEILING, ceiling.span.clone(), message, hint);
        return whole;
    }
    ceiling
}

pub(crate) fn read_ack(mut table: Reader<'_, '_>) -> Option<Ack> {
    let reserve = match table.kind("reserve") {
        None => Some(implied(AckRate::Formula, &table)),
        Some(Kind::Boolean) => match table.boolean("reserve") {
            Some(flag) if flag.value => Some(flag.map(|_| AckRate::Formula)),
            _ => None,
        },
        Some(_) => {
            let rate = table.parsed::<Rate>("reserve");
            if let Some(rate) = &rate {
                zero(&table, rate);
            }
            let unread = implied(AckRate::Formula, &table);
            Some(rate.map_or(unread, |rate| rate.map(AckRate::Rate)))
        }
    };
    let factor = table.number("factor");
    let tenths = factor
        .as_ref()
        .map_or(15.0, |factor| (factor.value * 10.0).round());
    if let Some(factor) = &factor
        && !(10.0..=1000.0).contains(&tenths)
    {
        table.problems().error(
            codes::ACK_RATE,
            factor.span.clone(),
            "`factor` is how many data packets one ACK stands for: 1 to 100",
            "write 1.5, or leave it out",
        );
    }
    let size = table
        .integer("size", 40..=120)
        .map_or(52, |size| size.value as u32);
    let ack = Ack {
        line: table.line(),
        span: table.span(),
        reserve: reserve
            .clone()
            .unwrap_or_else(|| implied(AckRate::Formula, &table)),
        factor_tenths: tenths.clamp(10.0, 1000.0) as u32,
        size,
        priority: priority(&mut table, 1),
        ceiling: read_ceiling(&mut table),
        queue: queue::read(&mut table),
        burst: queue::sized(&mut table, "burst"),
        directions: directions(&mut table),
    };
    reserve.map(|_| ack)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that a policy's rates add up: margins, shares, reservations, ceilings.

use crate::class::{Class, Guarantee};
use crate::codes;
use crate::model::{in_kbit, less, whole_bytes};
use crate::policy::Policy;
use crate::policy::shares::SharedClass;
use weirgate_document::{Problems, SourceSpan};
use weirgate_units::{Direction, Rate, Share, Size, Span};

/// The lowest guarantee: below it, a class could not send a full packet in ten seconds.
const LEAST_RATE: Rate = Rate::kbit(1);
/// The lowest rate of a gate.
pub(crate) const LEAST_GATE: Rate = Rate::kbit(8);
/// The longest burst, as a time at the class's own rate.
const LONGEST_BURST: Span = Span::from_secs(10);

pub(crate) fn check(policy: &Policy, problems: &Problems) {
    let mut report = Report {
        problems,
        reported: Vec::new(),
    };
    for direction in Direction::BOTH {
        let (Some(line), Some(gate)) = (policy.line_rate(direction), policy.gate(direction)) else {
            continue;
        };
        if line == Rate::default() {
            continue;
        }
        if gate < LEAST_GATE {
            margin(policy, direction, line, gate, &mut report);
        } else {
            let fits = sums(policy, direction, gate, &mut report);
            each(policy, direction, fits, &mut report);
        }
    }
}

/// Reports a problem of both directions only once.
struct Report<'p> {
    problems: &'p Problems,
    reported: Vec<(&'static str, SourceSpan)>,
}

impl Report<'_> {
    fn error(&mut self, code: &'static str, span: &SourceSpan, message: String, hint: &str) {
        if !self.reported.contains(&(code, span.clone())) {
            self.reported.push((code, span.clone()));
            self.problems.error(code, span.clone(), message, hint);
        }
    }
}

fn margin(policy: &Policy, direction: Direction, line: Rate, gate: Rate, report: &mut Report<'_>) {
    let (margin, name) = match direction {
        Direction::Up => (&policy.link.margin, "margin"),
        Direction::Down => (&policy.link.margin_down, "margin-down"),
    };
    report.error(
        codes::MARGIN,
        &margin.span,
        format!(
            "of the {line} {}, `{name}` leaves only {}",
            direction.stream(),
            in_kbit(gate)
        ),
        "leave at least 8kbit; usual margins are `1kbit` upstream and `3%` downstream",
    );
}

/// Checks that shares and reservations fit. A problem is reported at the class where the sum
/// exceeds the limit.
fn sums(policy: &Policy, direction: Direction, gate: Rate, report: &mut Report<'_>) -> bool {
    let whole = u64::from(Share::WHOLE.as_millionths());
    let stream = direction.stream();
    let (mut shares, mut reserved) = (0, policy.ack_rate(direction).unwrap_or_default());
    let fits_before = reserved <= gate;
    for class in policy.classes_of(direction) {
        match class.guarantee.value {
            Guarantee::Share(share) => {
                let before = shares;
                shares += u64::from(share.as_millionths());
                if before <= whole && shares > whole {
                    let total: u64 = policy.classes_of(direction).map(share_of).sum();
                    let total = Share::millionths(u32::try_from(total).unwrap_or(u32::MAX));
                    report.error(
                        codes::SHARES_OVER,
                        &class.guarantee.span,
                        format!("the {stream} shares sum to {total}; here they exceed 100%"),
                        "lower this share or others to a sum of 100% or less",
                    );
                }
            }
            Guarantee::Rate(rate) => {
                let before = reserved;
                let bits = reserved
                    .as_bits_per_second()
                    .saturating_add(rate.as_bits_per_second());
                reserved = Rate::bits_per_second(bits);
                if before <= gate && reserved > gate {
                    report.error(
                        codes::SHARES_OVER,
                        &class.guarantee.span,
                        format!(
                            "reserved {stream} rates exceed the {} of the link",
                            in_kbit(gate)
                        ),
                        "lower the rates, or share the link by percentages",
                    );
                }
            }
        }
    }
    // If the ACK reservation alone is too large, that is reported elsewhere.
    fits_before && shares <= whole && reserved <= gate
}

fn share_of(class: &Class) -> u64 {
    match class.guarantee.value {
        Guarantee::Share(share) => u64::from(share.as_millionths()),
        Guarantee::Rate(_) => 0,
    }
}

/// Checks each class. If the sums do not fit, shares of what is left mean nothing, so only
/// guarantees that are written as rates are checked.
fn each(policy: &Policy, direction: Direction, fits: bool, report: &mut Report<'_>) {
    let Some(shares) = policy.share_out(direction) else {
        return;
    };
    let left = less(shares.gate, policy.reserved(direction));
    for class in &shares.classes {
        let stated = policy
            .classes_of(direction)
            .find(|stated| stated.span == class.span);
        let written = |one: &Class| matches!(one.guarantee.value, Guarantee::Rate(_));
        if !fits && !stated.is_some_and(written) {
            continue;
        }
        // The rate of `[ack]` follows from the other direction's rate. If that could not be
        // read, there is nothing to check.
        let unread = stated.is_none() && policy.link.up.value == Rate::default();
        let nothing = unread || stated.is_some_and(states_nothing);
        if class.rate < LEAST_RATE && !nothing {
            let message = match stated.map(|stated| stated.guarantee.value) {
                Some(Guarantee::Share(share)) => {
                    format!(
                        "{share} of the {} that reservations leave is only {}",
                        in_kbit(left),
                        in_kbit(class.rate)
                    )
                }
                _ => format!("a guarantee of {} is too small", in_kbit(class.rate)),
            };
            let span = stated.map_or(&class.span, |stated| &stated.guarantee.span);
            let hint = "guarantee at least 1kbit; if it is a share, lower reservations by rate";
            report.error(codes::SHARE_ZERO, span, message, hint);
        }
        // A rate above the whole link is reported as such.
        if class.ceiling < class.rate.min(whole_bytes(shares.gate)) {
            let SharedClass {
                name,
                ceiling,
                rate,
                ..
            } = class;
            let (ceiling, rate) = (in_kbit(*ceiling), in_kbit(*rate));
            report.error(
                codes::CEILING,
                &class.ceiling_span,
                format!("the ceiling of `{name}`, {ceiling}, is below its guaranteed {rate}"),
                "raise the ceiling, or lower the guarantee",
            );
        }
        let time = class.rate.time_for(class.burst);
        let full = Size::bytes(u64::from(shares.full_packet));
        if class.burst > full && time.is_some_and(|time| time > LONGEST_BURST) {
            let burst = match stated {
                Some(stated) => stated.burst.as_ref(),
                None => policy.ack.as_ref().and_then(|ack| ack.burst.as_ref()),
            };
            report.error(
                codes::BURST,
                burst.map_or(&class.span, |burst| &burst.span),
                format!(
                    "a burst of {} takes more than 10 s at {}",
                    class.burst,
                    in_kbit(class.rate)
                ),
                "write a few packets' worth, or leave it out",
            );
        }
    }
}

/// Returns whether the guarantee is 0, which is already reported.
fn states_nothing(class: &Class) -> bool {
    match class.guarantee.value {
        Guarantee::Share(share) => share == Share::default(),
        Guarantee::Rate(rate) => rate == Rate::default(),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// Guarantees as rates are checked even if the sums do not fit, and nothing follows from that.
    #[test]
    fn ceilings_do_not_wait_for_the_sums() {
        let class = |name: &str, fields: &str| {
            format!("[[class]]\nname = \"{name}\"\ndirection = \"up\"\n{fields}\n")
        };
        let head = "version = 1\n[link]\ndevice = \"wan\"\nup = \"1mbit\"\nlayer = \"ethernet\"\n";
        let told = |classes: &[String]| -> Vec<&'static str> {
            let text = format!("{head}{}", classes.concat());
            parse(&text).1.iter().map(|one| one.code).collect()
        };
        let default = class("a", "share = \"80%\"\ndefault = true");
        let low = "rate = \"200kbit\"\nceiling = \"100kbit\"";
        let over = class("c", "share = \"80%\"");
        let codes = told(&[default.clone(), class("b", low), over]);
        assert_eq!(codes, ["P117", "P116"]);
        let most = class("b", "rate = \"2mbit\"");
        assert_eq!(told(&[default.clone(), most]), ["P116"]);
        let most = class("b", "rate = \"2mbit\"\nceiling = \"100kbit\"");
        assert_eq!(told(&[default, most]), ["P116", "P117"]);
    }
}

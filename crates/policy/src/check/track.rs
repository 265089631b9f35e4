// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that `[track]` fits the link, and that the policy is valid at every rate between the
//! floors and the ceilings.

use crate::check;
use crate::codes;
use crate::link::inbound::Inbound;
use crate::link::track::Track;
use crate::policy::Policy;
use std::collections::BTreeSet;
use weirgate_document::{Problems, Severity, SourceSpan};
use weirgate_units::Direction;

/// The largest number of reflectors; more would not improve the result.
const MOST_REFLECTORS: usize = 16;

/// Checks `[track]` against the link, and the policy against the rates.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    let Some(track) = &policy.track else {
        return;
    };
    let wrong = |span: &SourceSpan, wrong: String, right: &str| {
        problems.error(codes::TRACK, span.clone(), wrong, right);
    };
    let mut seen = BTreeSet::new();
    for one in &track.reflectors {
        let address = one.value;
        if !seen.insert(address) {
            let right = "name each once";
            wrong(&one.span, format!("`{address}` is named twice"), right);
        } else if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            let right = "name a host beyond the line";
            wrong(
                &one.span,
                format!("`{address}` cannot be a host beyond the line"),
                right,
            );
        }
    }
    if let Some(more) = track.reflectors.get(MOST_REFLECTORS) {
        let what = format!("there are {} reflectors", track.reflectors.len());
        wrong(&more.span, what, "name at most 16");
    }
    let written = |one: Direction| {
        let (floor, ceiling) = track.written(one);
        floor.is_some() || ceiling.is_some()
    };
    if !Direction::BOTH.into_iter().any(written) {
        let what = "`[track]` follows no direction, because it has no floor";
        let right = "write `down-floor`, `up-floor` or both, and ceilings if the line can exceed \
                     its rate in `[link]`";
        wrong(&track.span, what.to_owned(), right);
    }
    for direction in Direction::BOTH.into_iter().filter(|one| written(*one)) {
        one_way(policy, track, direction, problems);
    }
}

/// Reports packet drops on ingress in combination with `[track]`, which looks for the rate with
/// the fewest drops. Together they give up more of the line than each alone.
fn drops(policy: &Policy, track: &Track, problems: &Problems) {
    match policy.link.inbound.value {
        Inbound::Police => problems.error(
            codes::TRACK,
            track.span.clone(),
            "a policer also drops the replies to probes, so that on a full line no reflector \
             seems to reply",
            "write `inbound = \"ifb\"` or `\"lan\"` in `[link]`",
        ),
        Inbound::Filter => problems.warning(
            codes::TRACK,
            track.span.clone(),
            "with `inbound = \"filter\"`, `[track]` left 34 to 54 % of lines that changed unused \
             (docs/inbound-campaign.md)",
            "write `inbound = \"ifb\"` or `\"lan\"` in `[link]`, with `[receive]` beside it",
        ),
        Inbound::Ifb | Inbound::Lan | Inbound::None | Inbound::Auto => {}
    }
}

fn one_way(policy: &Policy, track: &Track, direction: Direction, problems: &Problems) {
    let wrong = |span: &SourceSpan, wrong: String, right: String| {
        problems.error(codes::TRACK, span.clone(), wrong, right);
    };
    let (floor, ceiling) = track.written(direction);
    let Some(floor) = floor else {
        let span = ceiling.as_ref().map_or(&track.span, |value| &value.span);
        let what = format!("the {} has a ceiling but no floor", direction.stream());
        let right = format!("write `{direction}-floor`, the rate while nothing can be measured");
        wrong(span, what, right);
        return;
    };
    let held = policy.link.inbound.value != Inbound::None || policy.receive.is_some();
    if direction == Direction::Down && (policy.link.down.is_none() || !held) {
        let what = "the downstream is not limited to a rate that `[track]` could change".to_owned();
        let right = "write `down` and `inbound` in `[link]`, or `[receive]`".to_owned();
        wrong(&floor.span, what, right);
        return;
    }
    if direction == Direction::Up && track.reflectors.is_empty() {
        let what =
            "following the upstream needs reflectors, because round trips of traffic show a queue \
             too late"
                .to_owned();
        let right = "add `reflectors`, or leave `up-floor` out".to_owned();
        wrong(&floor.span, what, right);
        return;
    }
    if direction == Direction::Down {
        drops(policy, track, problems);
    }
    let Some(bounds) = policy.bounds(direction) else {
        return;
    };
    if bounds.floor > bounds.base {
        let what = format!(
            "`{direction}-floor` of {} is above the line's {}",
            bounds.floor, bounds.base
        );
        wrong(&floor.span, what, "write a rate below that".to_owned());
    }
    if bounds.ceiling < bounds.base {
        let span = ceiling.as_ref().map_or(&floor.span, |value| &value.span);
        let what = format!(
            "`{direction}-ceiling` of {} is below the line's {}",
            bounds.ceiling, bounds.base
        );
        let right = "write a higher one, or a lower rate in `[link]`, which is the starting rate"
            .to_owned();
        wrong(span, what, right);
    }
    if bounds.floor > bounds.base || bounds.ceiling < bounds.base {
        return;
    }
    // A guarantee that is written as a rate may exceed what the floor leaves.
    let ceiling_span = ceiling.as_ref().map_or(&floor.span, |value| &value.span);
    let ends = [
        ("floor", bounds.floor, &floor.span),
        ("ceiling", bounds.ceiling, ceiling_span),
    ];
    for (end, rate, span) in ends {
        let there = match direction {
            Direction::Up => policy.at_rates(Some(rate), None),
            Direction::Down => policy.at_rates(None, Some(rate)),
        };
        let found = Problems::default();
        check::check(&there, &found);
        let mut found = found.into_sorted().into_iter();
        let first = found.find(|one| one.severity == Severity::Error);
        // Errors at the line's own rate are reported elsewhere.
        let own = Problems::default();
        check::check(&policy.at_rates(None, None), &own);
        if let Some(first) = first.filter(|_| !own.has_errors()) {
            let what = format!(
                "at the {end} of {rate} the policy is not valid: {}",
                first.message
            );
            let right = format!("choose another {end}, or write shares instead of rates");
            wrong(span, what, right);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Direction, parse};
    use weirgate_units::Rate;

    const LINK: &str = "version = 1\n[link]\ndevice = \"wan\"\nup = \"1mbit\"\ndown = \"8mbit\"\n\
        layer = \"ethernet\"\n[[class]]\nname = \"a\"\nrate = \"2mbit\"\ndirection = \"down\"\n\
        default = true\n[[class]]\nname = \"b\"\nshare = \"100%\"\ndirection = \"up\"\ndefault = true\n";

    fn problems(track: &str) -> Vec<(String, (usize, usize))> {
        let text = format!("{LINK}[track]\n{track}");
        let reported = parse(&text).1;
        reported
            .iter()
            .map(|one| (one.message.clone(), one.line_column(&text)))
            .collect()
    }

    #[test]
    fn bounds_are_read() {
        let text = format!(
            "{LINK}[track]\nreflectors = [\"192.0.2.1\", \"2001:db8::1\"]\ndown-floor = \"3mbit\"\n\
             down-ceiling = \"10mbit\"\n"
        );
        let (policy, problems) = parse(&text);
        assert!(problems.is_empty(), "{problems:?}");
        let policy = policy.expect("it is right");
        let bounds = policy.bounds(Direction::Down).expect("it is followed");
        assert_eq!(bounds.base, Rate::kbit(8_000));
        assert_eq!(bounds.ceiling, Rate::kbit(10_000));
        assert_eq!(policy.bounds(Direction::Up), None);
        let other = policy.at_rates(None, Some(Rate::kbit(4_000)));
        assert_eq!(other.line_rate(Direction::Down), Some(Rate::kbit(4_000)));
    }

    /// Nobody is probed who was not named: without reflectors, the traffic itself is measured.
    #[test]
    fn without_reflectors_the_traffic_is_measured() {
        let passive = |track: &str| {
            let text = format!("{LINK}[track]\ndown-floor = \"3mbit\"\n{track}");
            let (policy, problems) = parse(&text);
            assert!(problems.is_empty(), "{problems:?}");
            let track = policy.and_then(|policy| policy.track);
            let track = track.expect("it has the table");
            (track.passive, track.reflectors.len())
        };
        assert_eq!(passive(""), (true, 0));
        assert_eq!(passive("passive = true\n"), (true, 0));
        let hosts = "reflectors = [\"192.0.2.1\"]\n";
        assert_eq!(passive(hosts), (false, 1));
        assert_eq!(passive(&format!("{hosts}passive = true\n")), (true, 1));
    }

    #[test]
    fn mistakes_have_places() {
        let of = |track: &str| problems(&format!("reflectors = [\"192.0.2.1\"]\n{track}"));
        let only = |found: Vec<(String, (usize, usize))>, word: &str, place: (usize, usize)| {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0.contains(word), "{found:?}");
            assert_eq!(found[0].1, place, "{found:?}");
        };
        only(of(""), "no direction", (17, 1));
        only(of("down-ceiling = \"9mbit\"\n"), "no floor", (19, 16));
        only(of("down-floor = \"9mbit\"\n"), "above", (19, 14));
        only(
            of("down-floor = \"4mbit\"\ndown-ceiling = \"7mbit\"\n"),
            "below",
            (20, 16),
        );
        let both = of("down-floor = \"9mbit\"\ndown-ceiling = \"7mbit\"\n");
        let places: Vec<_> = both.iter().map(|one| one.1).collect();
        assert_eq!(places, [(19, 14), (20, 16)], "{both:?}");
        only(of("down-floor = \"1mbit\"\n"), "is not valid", (19, 14));
        only(
            of("down-floor = \"4mbit\"\ninterval = \"1ms\"\n"),
            "interval",
            (20, 12),
        );
        only(
            of("down-floor = \"4mbit\"\ndelay-threshold = \"2s\"\n"),
            "delay-threshold",
            (20, 19),
        );
        let found = problems("reflectors = [\"example.org\"]\ndown-floor = \"4mbit\"\n");
        only(found, "not an address", (18, 15));
        only(
            problems("passive = false\ndown-floor = \"4mbit\"\n"),
            "reflectors",
            (17, 1),
        );
        let twice =
            "reflectors = [\"192.0.2.1\", \"192.0.2.1\", \"127.0.0.1\"]\nup-floor = \"1mbit\"\n";
        assert_eq!(problems(twice).len(), 2);
    }
}

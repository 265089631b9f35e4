// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules by time: the kernel and explain agree with the local time of a zone with summer time.

use crate::router::{Router, in_namespace, path};
use crate::services::{name, state};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weirgate_explain::{Simulator, parse_line};

const DAY: u64 = 86_400;
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Returns the day of the week of a day since 1970; Sunday is 0.
fn weekday(day: u64) -> u64 {
    (day + 4) % 7
}

/// Returns the last Sunday up to this day.
fn sunday(day: u64) -> u64 {
    day - weekday(day)
}

/// Returns how far Copenhagen is ahead of UTC. Summer time is from the last Sunday of March to that
/// of October, from 01:00 UTC (Directive 2000/84/EC).
fn ahead(now: u64) -> u64 {
    // Whole years since 1 March 2024: 365 days, and one more each fourth year.
    let since = now / DAY - 19_783;
    let year = (since * 4 + 3) / 1461;
    let march = 19_783 + year * 1461 / 4;
    // Counted from 1 March, 31 March is day 30, and 31 October day 244.
    let summer = sunday(march + 30) * DAY + 3600..sunday(march + 244) * DAY + 3600;
    if summer.contains(&now) { 7200 } else { 3600 }
}

/// Returns two hours that begin at a local time, and the day of the week.
fn hours(local: u64) -> String {
    let minutes = local % DAY / 60;
    let end = (minutes + 120) % 1440;
    format!(
        "hours = \"{:02}:{:02}-{:02}:{:02}\"\ndays = \"{}\"\nzone = \"Europe/Copenhagen\"\n",
        minutes / 60,
        minutes % 60,
        end / 60,
        end % 60,
        DAYS[weekday(local / DAY) as usize]
    )
}

#[test]
fn summer_begins_and_ends_on_sundays() {
    // 2026: 29 March and 25 October, 01:00 UTC.
    assert_eq!((ahead(1_774_745_999), ahead(1_774_746_000)), (3600, 7200));
    assert_eq!((ahead(1_792_889_999), ahead(1_792_890_000)), (7200, 3600));
}

#[test]
fn a_rule_matches_while_its_schedule_says_so() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // Avoid the seconds around the beginning of a minute.
    std::thread::sleep(Duration::from_secs(if now.as_secs() % 60 > 50 {
        12
    } else {
        0
    }));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let local = now + ahead(now);
    let cases = [
        (local - 3600, "hit"),
        (local - 60, "hit"),
        (local + 60, "rest"),
        // Ended a minute ago; the same hours of another day.
        (local - 7260, "rest"),
        (local - 3600 - DAY, "rest"),
        (local - 3600 + DAY, "rest"),
    ];
    for (begin, expected) in cases {
        in_namespace(move || {
            let conditions = format!("during = \"s\"\n[schedule.s]\n{}", hours(begin));
            let state = state(&conditions);
            let router = Router::new(&state.tables);
            let mut simulator = Simulator::new(&state.tables);
            let line = parse_line("up udp 192.168.0.2:1 > 203.0.113.6:2")
                .unwrap()
                .unwrap();
            let (seen, ..) = router.pass(true, &[&line.packet]);
            let kernel = seen.and_then(|seen| seen.class);
            let fate = simulator.pass(line.packet, &path(true), 0, i64::try_from(now).ok());
            let own = fate.passes.iter().rev().find_map(|pass| pass.class);
            assert_eq!(
                name(&state.tables, kernel),
                expected,
                "kernel: {conditions}"
            );
            assert_eq!(name(&state.tables, own), expected, "explain: {conditions}");
        });
    }
}

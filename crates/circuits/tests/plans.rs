// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of plans: bursts, hours, quotas.

use weirgate_circuits::rows::{self, RowLayout};
use weirgate_circuits::{Direction, File, List, Month, TermsContext, holds, read};
use weirgate_units::{Rate, Size};

/// Monday, 2 November 2026, 00:00 UTC.
const MONDAY: u64 = 1_793_577_600;

const HOUR: u64 = 3_600;

const DEVICES: &str = "\
Circuit ID,IPv4,Plan,Download Max Mbps
1,192.0.2.1,home,
2,192.0.2.2,home,30
3,192.0.2.3,slow,
4,192.0.2.4,metered,
";

const PLANS: &str = "\
Plan,Download Min Mbps,Download Max Mbps,Upload Max Mbps,Download Burst MB,Upload Burst MB,Hours,Days,Zone,Download Quota GB,Upload Quota GB,Beyond
home,5,100,20,25,0.5,,,,500,,slow
home,5,200,40,50,,01:00-07:00,,Europe/Copenhagen,,,
home,,300,40,,,,sat sun,,,,
slow,,2,1,,,,,,,,
metered,,50,10,,,,,,0.001,0.002,
";

fn list() -> List {
    let files = [("devices", DEVICES), ("plans", PLANS)].map(|(name, text)| File { name, text });
    let reading = read(&files);
    assert_eq!(reading.problems, []);
    reading.list.expect("a list")
}

/// Returns the maximum rates of circuits, and their bursts in bytes, towards subscribers.
fn given(at: u64, used_up: &[&str]) -> Vec<(u64, u64)> {
    let mut list = list();
    list.follow(&TermsContext {
        at,
        direction: Direction::Down,
        used: &|id| if used_up.contains(&id) { u64::MAX } else { 0 },
    });
    let circuits = list.circuits.iter().map(|one| {
        let [_, most] = one.rates(Direction::Down);
        (
            most.as_bits_per_second() / 1_000,
            one.burst(Direction::Down).as_bytes(),
        )
    });
    circuits.collect()
}

#[test]
fn a_plan_gives_what_it_says_at_its_hours() {
    // By day; at night in Denmark, which is an hour ahead; and on Saturday, when the night's hours
    // come first.
    let day = [(100_000, 25_000_000), (30_000, 25_000_000)];
    let night = [(200_000, 50_000_000), (30_000, 50_000_000)];
    let weekend = [(300_000, 0), (30_000, 0)];
    for (at, home) in [
        (MONDAY, night),
        (MONDAY + 6 * HOUR - 1, night),
        (MONDAY + 6 * HOUR, day),
        (MONDAY + 24 * HOUR - 1, day),
        (MONDAY + 5 * 24 * HOUR, night),
        (MONDAY + 5 * 24 * HOUR + 6 * HOUR, weekend),
    ] {
        let all = given(at, &[]);
        assert_eq!(all[..2], home, "at {at}");
        assert_eq!(all[2..], [(2_000, 0), (50_000, 0)], "at {at}");
    }
    let plans = list().plans;
    let noon = MONDAY + 12 * HOUR;
    assert_eq!(holds(&plans, noon), noon..MONDAY + 24 * HOUR);
    // Nothing changes before December; some plans never change.
    let metered = holds(&plans[2..], noon);
    assert_eq!(metered, noon..MONDAY + 29 * 24 * HOUR);
    assert_eq!(holds(&plans[1..2], noon), 0..u64::MAX);
}

/// Compares with a library that has a calendar.
#[test]
fn months_begin_when_the_calendar_says() {
    let mut month = Month(0);
    for year in 1970..2_400_i16 {
        for own in 1..=12_i8 {
            let (year, own) = if own < 12 {
                (year, own + 1)
            } else {
                (year + 1, 1)
            };
            let next = jiff::civil::date(year, own, 1).at(0, 0, 0, 0);
            let next = jiff::tz::Offset::UTC.to_timestamp(next).expect("a time");
            let next = next.as_second() as u64;
            assert_eq!(month.end(), next, "before {year}-{own}");
            assert_eq!(Month::of(next - 1), month);
            month.0 += 1;
            assert_eq!(Month::of(next), month);
        }
    }
}

#[test]
fn what_is_beyond_a_quota_has_another_plan() {
    let noon = MONDAY + 12 * HOUR;
    // The second circuit has its own rate, which stays; the fourth one's plan has none.
    assert_eq!(
        given(noon, &["1", "2", "3", "4"]),
        [(2_000, 0), (30_000, 0), (2_000, 0), (64, 0)]
    );
    // The other direction has its own quota, and here none.
    let mut of_up = list();
    of_up.follow(&TermsContext {
        at: noon,
        direction: Direction::Up,
        used: &|_| 2_000_000,
    });
    let [first, .., metered] = &*of_up.circuits else {
        panic!("{:?}", of_up.circuits);
    };
    assert_eq!(first.rates(Direction::Up)[1], Rate::kbit(20_000));
    assert_eq!(first.burst(Direction::Up), Size::bytes(500_000));
    assert_eq!(metered.rates(Direction::Up)[1], Rate::kbit(64));
    assert!(of_up.plans[0].has_quota(Direction::Down) && !of_up.plans[0].has_quota(Direction::Up));
}

#[test]
fn a_suspended_circuit_has_no_burst() {
    let devices = DEVICES
        .replace("Plan,", "Suspended,Plan,")
        .replace(",home,", ",yes,home,");
    let devices = devices
        .replace(",slow,", ",,slow,")
        .replace(",metered,", ",,metered,");
    let files = [("devices", &*devices), ("plans", PLANS)];
    let list = read(&files.map(|(name, text)| File { name, text })).list;
    let list = list.expect("a list");
    assert_eq!(list.circuits[0].burst(Direction::Down), Size::default());
}

#[test]
fn what_is_wrong_with_a_plan_is_told() {
    let plans = "\
Plan,Download Max Mbps,Upload Max Mbps,Download Burst MB,Hours,Days,Zone,Download Quota GB,Beyond
a,1,1,4001,,,,,
b,1,1,,25:00-26:00,mon tus,,,
c,1,1,,01:00-02:00,,,,
d,1,1,,,,Europe/Copenhage,,
e,1,1,,,,,,a
f,1,1,,,,,1,g
g,1,1,,,,,-1,
h,1,1,,,,,1,f
g,2,1,,01:00-02:00,,,1,
i,1,1,,,,,1,j
";
    let reading = read(&[File {
        name: "plans",
        text: plans,
    }]);
    assert!(reading.list.is_none());
    let told: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    let expected = [
        "plans:2:7: error[L015]: `4001` is no `Download Burst MB`",
        "plans:3:8: error[L016]: `25:00-26:00` is not a part of a day",
        "plans:3:20: error[L016]: `tus` is not a day; did you mean `tue`?",
        "plans:4:1: error[L016]: the plan `c` has lines only for certain hours or days",
        "plans:5:10: error[L016]: there is no zone `Europe/Copenhage`; did you mean",
        "plans:6:12: error[L016]: `Beyond` needs a quota",
        "plans:8:11: error[L015]: `-1` is no `Download Quota GB`; write a number of GB",
        "plans:9:13: error[L016]: the plan `f` has a quota itself",
        "plans:10:1: error[L016]: a quota cannot apply to certain hours only",
        "plans:11:13: error[L009]: there is no plan `j`",
    ];
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}\nand not {expected}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}

/// At some hours, a plan's guarantee may be above the maximum of the circuit itself. The site then
/// counts what the circuit has.
#[test]
fn a_site_guarantees_what_its_circuits_have() {
    let files = [
        (
            "devices.csv",
            "Circuit ID,IPv4,Parent Node,Plan,Download Max Mbps\n\
             1,10.0.0.1,a,home,10\n\
             2,10.0.0.2,a,home,\n",
        ),
        (
            "network.json",
            r#"{ "a": { "downloadBandwidthMbps": 500, "uploadBandwidthMbps": 500 } }"#,
        ),
        (
            "plans.csv",
            "Plan,Download Min Mbps,Download Max Mbps,Upload Max Mbps,Hours\n\
             home,5,100,20,\n\
             home,50,100,20,00:00-01:00\n",
        ),
    ];
    let reading = read(&files.map(|(name, text)| File { name, text }));
    let mut list = reading.list.expect("a list");
    list.follow(&TermsContext {
        at: 0,
        direction: Direction::Down,
        used: &|_| 0,
    });
    let made = rows::rows(&list, Direction::Down, RowLayout::of(&list, 1), None, &[]);
    let (nodes, circuits) = made.expect("room");
    let own = nodes.iter().filter(|row| circuits.contains(&row.id));
    let own: Vec<u64> = own.map(|row| row.row.rule.guarantee_bytes_s).collect();
    assert_eq!(own, [1_250_000, 6_250_000]);
    assert_eq!(list.guaranteed_bytes_s(Direction::Down), [7_500_000]);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kollegiegaarden's production view (ADSL-10.1 to 10.4) of nine months of generated history. One
//! click each shows twelve hours and the whole, with the measured waits and equal figures in both.

use crate::program::root;
use crate::watch::Watch;
use crate::watch::browser::Browser;
use crate::watch::page::{as_fast, shown};
use serde_json::Value;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weirgate_compile::check_report;
use weirgate_history::Kind;
use weirgate_watch::FileStorage;

/// The classes of the view, with the mean and the worst wait in milliseconds.
const KOLLEGIEGAARDEN: [(&str, i64, i64); 4] = [
    ("c10", 30, 93),
    ("c20", 30, 93),
    ("c30", 120, 355),
    ("c50", 300, 864),
];
const METRICS: [&str; 12] = [
    "class_sent_bytes",
    "class_wait_seconds",
    "class_wait_95th_seconds",
    "class_estimated_wait_seconds",
    "class_backlog_bytes",
    "class_drops",
    "class_sent_packets",
    "class_borrowed_packets",
    "class_ip_bytes",
    "class_timed_packets",
    "class_marks",
    "class_promise_broken",
];
/// Features that only two of the classes have: a quarter of the packets borrowed, and marks.
/// `BROKEN` is the kind of broken promise in the minute of the worst wait.
const BORROWS: &str = "c30";
const MARKS: &str = "c50";
const BROKEN: [(&str, i64); 2] = [("c30", 2), ("c50", 1)];
const MINUTE: i64 = 60_000;
const DAY: i64 = 1440 * MINUTE;
const HOUR: i64 = 60 * MINUTE;
/// The age at which waits change from estimated to measured.
const MEASURED: i64 = 180 * DAY;

/// The policy of these classes, in `tests/cli`.
pub const POLICY: &str = "kollegiegaarden.toml";

/// Returns the labels that the series of a class have after their names.
fn labels(class: &str) -> String {
    let text = std::fs::read_to_string(root().join("tests/cli").join(POLICY)).unwrap();
    let (policy, problems) = weirgate_policy::parse(&text);
    let report = check_report(&policy.unwrap_or_else(|| panic!("{problems:?}")));
    let up = &report.directions[0];
    let one = up.classes.iter().find(|one| one.name == class).unwrap();
    format!(
        "{{device=\"wan\",direction=\"up\",class=\"{class}\",handle=\"{}\"}}",
        one.id
    )
}

/// Pseudorandom numbers that repeat from run to run (PCG, M. E. O'Neill 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (((self.0 >> 33) * end) >> 31) as i64
    }
}

/// Writes a history until now. Each of `eras` has its age at its begin and the distance of its
/// rows. `others` is the number of series of hosts besides those of the classes.
fn write(path: &Path, size: u64, eras: &[(i64, i64)], others: usize) {
    let mut history = FileStorage::open(path, size).unwrap();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64;
    // Align the end so that an event of one minute always spans two of the page's minutes. Within a
    // single minute, the page could tell the kinds of a broken promise apart.
    let now = now - (now + MINUTE / 2) % MINUTE;
    let names = KOLLEGIEGAARDEN
        .map(|(class, ..)| METRICS.map(|metric| format!("{metric}{}", labels(class))));
    let hosts: Vec<String> = (0..others)
        .map(|host| {
            format!(
                "host_received_bytes{{device=\"lan\",host=\"10.8.{}.{}\"}}",
                host / 250,
                host % 250
            )
        })
        .collect();
    let mut random = Random(7);
    let mut rows = 0_u32;
    for (index, (ago, step)) in eras.iter().enumerate() {
        let end = eras.get(index + 1).map_or(0, |next| next.0);
        for row in 1..=(ago - end) / step {
            let before = ago - row * step;
            // Waits vary over the day, and one minute of each day has the worst wait.
            let minute = (eras[0].0 - before) / MINUTE % 1440;
            let day = (minute - 720).abs();
            let mut values: Vec<(&str, Kind, i64)> = Vec::with_capacity(48 + others);
            for (name, (class, mean, worst)) in names.iter().zip(KOLLEGIEGAARDEN) {
                let wait = if minute == 1140 {
                    worst
                } else {
                    mean * (360 + day) / 720
                };
                // A packet has 1,000 bytes on the wire, of which 900 are its own.
                let bytes = 40_000 * (720 - day / 2) * step / MINUTE;
                let packets = bytes / 1000;
                let borrowed = if class == BORROWS { packets / 4 } else { 0 };
                let marks = i64::from(class == MARKS);
                let worse = BROKEN
                    .iter()
                    .find(|(one, _)| *one == class && minute == 1140);
                let broken = worse.map_or(0, |(_, wait)| *wait);
                values.extend([
                    (&*name[0], Kind::Counter, packets * 1000),
                    (&*name[6], Kind::Counter, packets),
                    (&*name[7], Kind::Counter, borrowed),
                    (&*name[8], Kind::Counter, packets * 900),
                    (&*name[9], Kind::Counter, packets),
                    (&*name[10], Kind::Counter, marks),
                    (&*name[11], Kind::Gauge, broken),
                ]);
                if before < MEASURED {
                    values.push((&name[1], Kind::Gauge, wait * 1000));
                    values.push((&name[2], Kind::Gauge, wait * 1400));
                }
                values.push((&name[3], Kind::Gauge, wait * 500));
                values.push((&name[4], Kind::Gauge, wait * 20));
                values.push((&name[5], Kind::Counter, mean / 100));
            }
            // A quarter of the hosts have traffic in a row, as in the benchmark.
            values.extend(hosts.iter().map(|name| {
                let bytes = if random.below(4) == 0 {
                    random.below(2_000_000)
                } else {
                    0
                };
                (&**name, Kind::Counter, bytes)
            }));
            history.append(now - before, *step, values).unwrap();
            rows += 1;
            if rows.is_multiple_of(300) {
                history.commit().unwrap();
            }
        }
    }
    history.commit().unwrap();
}

/// Nine months as a box stores them, with older rows condensed. Rows are one second apart for the
/// last 13 hours, one minute apart back to three days, and half an hour apart before that.
const ERAS: [(i64, i64); 3] = [
    (275 * DAY, 30 * MINUTE),
    (3 * DAY, MINUTE),
    (13 * HOUR, 1000),
];

/// Writes nine months of the classes' series only.
pub fn nine_months(path: &Path) {
    write(path, 48_000_000, &ERAS, 0);
}

/// Writes nine months of 1,500 series.
fn nine_months_of_1500(path: &Path) {
    write(path, 256_000_000, &ERAS, 1500 - 48);
}

#[test]
fn twelve_hours_and_nine_months_are_one_click() {
    let watch = Watch::under(POLICY, nine_months);
    for (hours, button, how) in [
        (12, "id=\"twelve\"", "measured"),
        (6600, "id=\"nine\"", "measured; dotted: estimated"),
    ] {
        let page = watch.browser(&format!("#history/{hours}"), &["--dump-dom"]);
        let offset = page.find(button).unwrap();
        let tag = &page[page[..offset].rfind('<').unwrap()..];
        let tag = &tag[..tag.find('>').unwrap()];
        assert!(tag.contains("aria-pressed=\"true\""), "{tag}");
        for part in [
            "all classes up",
            &format!("Wait of the first classes, {how}<"),
            &format!("Wait by class, {how}<"),
            "up c10, at most 93.0 ms",
            "up c30, at most 355.0 ms",
            "up c50, at most 864.0 ms",
            "Bytes waiting",
            "Packets dropped by the second",
        ] {
            assert!(page.contains(part), "{part} in {hours} h: {page}");
        }
        // One graph has only the first classes, the other has all.
        let graph = |title: &str| {
            let begin = page.find(title).unwrap();
            &page[begin..begin + page[begin..].find("</figure>").unwrap()]
        };
        assert!(!graph("Wait of the first classes").contains("up c30, at most"));
        assert!(graph("Wait by class").contains("up c20, at most"));
        assert_eq!(graph("Wait by class").contains("class=\"rough"), hours > 12);
        assert!(graph("Packets sent by the second").contains("up c10, at most"));
        let borrowed = graph("Borrowed: part of");
        assert!(borrowed.contains("up c30, at most 25 %"), "{borrowed}");
        assert!(borrowed.contains("up c50, at most 0 %"), "{borrowed}");
        let layer = graph("Link layer: part of");
        assert!(layer.contains("up c50, at most 10 %"), "{layer}");
        let marks = graph("Packets marked by the second");
        assert!(marks.contains("up c10, at most 0"), "{marks}");
        assert!(!marks.contains("up c50, at most 0<"), "{marks}");
        // The expected part is one minute of twelve hours, or half an hour of each day. If one step
        // may contain both kinds, only the lower bound is known.
        let part = if hours == 12 { "0.14 %" } else { "2.1 %" };
        let promises = graph("Promises kept and broken");
        for words in [
            String::from("up c20: kept, or nothing waited<"),
            format!("up c30: broken at least {part} of the time: waits long<"),
            format!("up c50: broken {part} of the time: too little<"),
        ] {
            assert!(promises.contains(&words), "{words} in {promises}");
        }
        assert!(promises.matches("class=\"brokenbar\"").count() >= 2);
        assert!(promises.matches("class=\"keptbar\"").count() >= 4);
    }
    if let Some(folder) = std::env::var_os("WEIRGATE_PICTURES") {
        for (hours, name) in [("12", "twelve-hours"), ("6600", "nine-months")] {
            let file = root().join(&folder).join(format!("{name}.png"));
            let shot = format!("--screenshot={}", file.display());
            let options = [&*shot, "--window-size=1280,2600"];
            watch.browser(&format!("#history/{hours}"), &options);
        }
    }
}

/// Compares nine months and twelve hours of a box with 1,500 series. The long range is read as fast
/// as the short one (docs/watch.md has the figures). Over common time, both have the same figures,
/// except in the first and last step of the long one.
fn compare_nine_months_with_twelve_hours() {
    let watch = Watch::under(POLICY, nine_months_of_1500);
    let mut browser = Browser::open(&watch.namespace, 1280, 1400);
    browser.go(&format!("{}#history/1", watch.address));
    browser.until("document.querySelectorAll('#graphs figure').length > 0");
    as_fast("1,500 series", &watch, &mut browser);
    // The ranges that the page requests, read from its links to the same data as CSV.
    let steps = ["#twelve", "#nine"].map(|button| {
        shown(&mut browser, button);
        let link = browser.value("document.getElementById('csv').getAttribute('href')");
        let link = link.as_str().unwrap();
        let of = |name: &str| -> i64 {
            let at = link.find(name).unwrap() + name.len();
            let end = link[at..].find('&').map_or(link.len(), |end| at + end);
            link[at..end].parse().unwrap()
        };
        (of("from="), of("to="), of("step="))
    });
    let [(_, _, fine), (from, to, coarse)] = steps;
    assert_eq!((fine, coarse), (MINUTE, 10 * HOUR));
    let mut compared = 0;
    for metric in METRICS {
        let name = format!("{metric}{}", labels("c10"));
        let long = points(&watch, &name, (from, to), coarse);
        // Compare the last two days, which are stored at full resolution and by the minute.
        for point in long
            .iter()
            .filter(|point| point.0 >= to - 2 * DAY && point.1 < to - HOUR)
        {
            // A row across an edge belongs to the step in which it ends.
            let mut short = points(&watch, &name, (point.0, point.1), fine);
            short.retain(|one| one.0 >= point.0 && one.1 <= point.1);
            let edges = (short[0].0, short[short.len() - 1].1);
            assert_eq!(edges, (point.0, point.1), "{name}");
            let counted: i64 = short.iter().map(|one| one.2).sum();
            let least = short.iter().map(|one| one.3).min().unwrap();
            let most = short.iter().map(|one| one.4).max().unwrap();
            assert_eq!(
                (counted, least, most),
                (point.2, point.3, point.4),
                "{name}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 3 * METRICS.len(), "{compared}");
}

mod long {
    #[test]
    fn nine_months_say_what_twelve_hours_say() {
        super::compare_nine_months_with_twelve_hours();
    }
}

/// Returns begin, end, count, minimum and maximum of each point of a series.
fn points(
    watch: &Watch,
    name: &str,
    (from, to): (i64, i64),
    step: i64,
) -> Vec<(i64, i64, i64, i64, i64)> {
    let encoded = name
        .replace('{', "%7B")
        .replace('}', "%7D")
        .replace('"', "%22")
        .replace('=', "%3D");
    let path = format!("api/read?series={encoded}&from={from}&to={to}&step={step}");
    let read: Value = watch.json(&path);
    let points = read["series"][name]["points"].as_array().unwrap();
    let whole = |point: &Value, index: usize| point[index].as_i64().unwrap();
    points
        .iter()
        .map(|one| {
            (
                whole(one, 0),
                whole(one, 1),
                whole(one, 5),
                whole(one, 4 - 1),
                whole(one, 4),
            )
        })
        .collect()
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest: a list of circuits, some of which are flooded. `watch` must
//! report the same as `weirgate circuits`.

use crate::inside::{Service, answer, begin, begin_as, get, run};
use crate::lists::{CircuitLine, written};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::chown;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The answer that the page's test uses in place of a service.
const PAGE: &str = include_str!("../../../../tests/cli/circuits.json");

/// Creates a device without a receiver, with the route to all subscribers.
fn device() {
    for which in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        fs::write(path, "1").unwrap();
    }
    for line in [
        "ip link set lo up",
        "ip link add sub0 type dummy",
        "ip link set sub0 up",
        "ip addr add 10.0.0.1/24 dev sub0",
        "ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 nud permanent dev sub0",
        "ip route add 100.64.0.0/10 via 10.0.0.2 dev sub0",
    ] {
        run(line);
    }
}

fn list(name: &str, count: u32) -> String {
    let line = |number| CircuitLine {
        number,
        kbit: 500 + number % 7 * 250,
        is_host: true,
        variant: 0,
        has_frames: false,
    };
    let lines: Vec<CircuitLine> = (1..=count).map(line).collect();
    written(name, &lines, 1_000)
}

/// Sends datagrams of 1,000 bytes to these addresses, each a hundred times a second, until it is
/// dropped.
struct Flood(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Flood {
    fn to(addresses: &'static [&'static str]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for address in addresses {
                    let _ = socket.send_to(&[0; 1_000], (*address, 9));
                }
                sleep(Duration::from_millis(10));
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

/// Returns the output of `weirgate circuits`.
fn circuits(line: &str) -> String {
    let mut command = Command::new("weirgate");
    command.arg("circuits").args(line.split(' '));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    let rows = list["rows"].as_array().unwrap_or_else(|| panic!("{list}"));
    rows.iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

fn found(query: &str) -> Vec<String> {
    let found = get(&format!("/api/circuits?q={query}"));
    let names = ["sites", "circuits"]
        .into_iter()
        .flat_map(|kind| names(&found[kind]));
    names.map(str::to_owned).collect()
}

/// Waits until a condition holds, at most one minute.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < Duration::from_mins(1),
            "{what}: {}",
            get("/api/circuits")
        );
        sleep(Duration::from_millis(500));
    }
}

/// Returns the names of an object's fields.
fn fields(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Checks the figures of flooded circuits: rates at their ceilings, and the order by several
/// fields.
fn flooded() {
    until("two circuits at their ceilings", || {
        let now = get("/api/circuits");
        let rows = now["circuits"]["rows"].as_array().into_iter().flatten();
        let parts = rows.take(2).map(|row| {
            row["rate_bit_s"].as_f64().unwrap_or(0.0) / row["ceiling_bit_s"].as_f64().unwrap()
        });
        let near = parts.filter(|part| (part - 1.0).abs() < 0.05);
        near.count() == 2
    });
    let now = get("/api/circuits?order=rate");
    let busy = names(&now["circuits"]);
    assert_eq!(busy[..2], ["8", "7"], "{now}");
    for row in &now["circuits"]["rows"].as_array().unwrap()[..2] {
        let [rate, ceiling, delay, queued, packets] = [
            "rate_bit_s",
            "ceiling_bit_s",
            "delay_ms",
            "queued_bytes",
            "packets_s",
        ]
        .map(|name| {
            row[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name} of {row}"))
        });
        println!("{row}");
        assert!((rate / ceiling - 1.0).abs() < 0.05, "{row}");
        assert!((delay - queued * 8e3 / ceiling).abs() < 0.01, "{row}");
        assert!((packets * 1_042.0 * 8.0 / rate - 1.0).abs() < 0.01, "{row}");
    }
    let late = get("/api/circuits?order=delay");
    let late = late["circuits"]["rows"].as_array().unwrap().iter();
    let late: Vec<f64> = late.map(|row| row["delay_ms"].as_f64().unwrap()).collect();
    assert!(
        late[1] > 0.0 && late.is_sorted_by(|one, other| one >= other),
        "{late:?}"
    );
    // A site sums what is below it, and so does the link.
    let sites = &now["sites"]["rows"];
    assert_eq!(sites[0]["name"], "site-8", "{now}");
    assert_eq!(sites[0]["circuits_below"], 10, "{now}");
    assert!(sites[0]["queued_bytes"].as_u64() > Some(0), "{now}");
    assert!(now["link"]["dropped_s"].as_f64() > Some(0.0), "{now}");
    assert_eq!(now["devices"][0]["circuits"], 100, "{now}");
    assert_eq!(
        (&now["sites"]["all"], &now["sites"]["more"]),
        (&10.into(), &0.into())
    );
    assert_eq!(
        (&now["circuits"]["all"], &now["circuits"]["more"]),
        (&100.into(), &50.into())
    );
    let later = get("/api/circuits?from=80");
    assert_eq!(names(&later["circuits"]).len(), 20);
    // The answer of the page's test must have the same fields.
    let page: Value = serde_json::from_str(PAGE).unwrap();
    assert_eq!(fields(&now), fields(&page));
    for place in [
        "/link",
        "/others",
        "/sites/rows/0",
        "/circuits/rows/0",
        "/sites",
        "/devices/0",
    ] {
        let [own, page] = [&now, &page].map(|one| fields(one.pointer(place).unwrap()));
        assert_eq!(own, page, "{place}");
    }
}

/// A search finds the right circuits, and no others.
fn searched() {
    assert_eq!(found("100.64.0.7"), ["7"]);
    assert_eq!(found("77"), ["77"]);
    assert_eq!(found("SITE-7"), ["site-7"]);
    let mut sevens = found("7");
    sevens.sort();
    assert_eq!(sevens.len(), 1 + 19, "{sevens:?}");
    assert_eq!(found("100.64.9.9"), [""; 0]);
    let all = get("/api/circuits?q=%20&order=use");
    assert_eq!(all["circuits"]["all"], 100);
    let site = get("/api/circuits?name=site-7");
    assert_eq!(site["chosen"][0]["kind"], "site", "{site}");
    assert_eq!(site["circuits"]["all"], 10, "{site}");
    let none = get("/api/circuits?device=wan9");
    assert_eq!(none["link"], Value::Null, "{none}");
    for (query, status) in [
        ("q=%ff", 400),
        ("q=%", 400),
        ("order=name", 400),
        ("from=99999999999999999999", 400),
        ("from=10001", 400),
        ("delete=7", 400),
        (&*format!("q={}", "x".repeat(61)), 400),
        ("q=%3Cscript%3E%22%5C%00%0A", 200),
        ("name=%00&device=..%2F..", 200),
        ("from=10000&sites_from=10000", 200),
    ] {
        let (found, text) = answer(&format!("/api/circuits?{query}"));
        assert_eq!(found, status, "{query}: {text}");
        assert!(!text.contains("<script>"), "{text}");
    }
}

/// Checks that with empty queues the page, the command and the metrics agree.
fn compared() {
    until("nothing is queued", || {
        get("/api/circuits")["link"]["queued_bytes"] == 0
    });
    sleep(Duration::from_secs(2));
    for name in ["7", "8", "12", "site-7"] {
        let shown: Value =
            serde_json::from_str(&circuits(&format!("show sub0 {name} --json"))).unwrap();
        let shown = shown[0].as_object().unwrap();
        let now = get(&format!("/api/circuits?device=sub0&name={name}"));
        let own = &now["chosen"][0];
        let both = shown.iter().filter(|(field, _)| own.get(field).is_some());
        let mut count = 0;
        for (field, value) in both {
            assert_eq!(own[field], *value, "{field} of {name}");
            count += 1;
        }
        assert!(count >= 8, "{own}");
    }
    let text = answer("/metrics").1;
    let printed = circuits("metrics sub0");
    let lines = printed.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
        count += 1;
    }
    assert!(count > 13 * 8, "{printed}");
    assert!(text.contains("_sent_bytes_total{device=\"sub0\",site=\"site-7\",circuit=\"7\"} "));
    let idle = text
        .lines()
        .filter(|line| line.contains("circuit=\""))
        .count();
    assert_eq!(idle, 3 * 8, "circuits that sent nothing have no series");
    // The history has sites, but no single circuits.
    let series = get("/api/series");
    let series: Vec<&str> = series["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    let of_site = "circuits_sent_bytes{device=\"sub0\",site=\"site-7\"}";
    assert!(series.contains(&of_site), "{series:?}");
    assert!(
        series.iter().all(|one| !one.contains("circuit=\"")),
        "{series:?}"
    );
}

#[test]
#[ignore = "runs in the guest"]
fn circuits_are_watched() {
    device();
    let list = list("hundred", 100);
    // The page's list is empty until there are circuits.
    let service = begin(&["--every", "500ms"]);
    assert_eq!(
        get("/api/circuits"),
        serde_json::json!({ "devices": [], "refused": null })
    );
    run(&format!("weirgate circuits apply sub0 {list}"));
    let flood = Flood::to(&["100.64.0.7", "100.64.0.8", "100.64.0.7", "100.64.0.8"]);
    let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
    socket.send_to(&[0; 100], "100.64.0.12:9").unwrap();
    flooded();
    let now = get("/api/now");
    let links = now["objects"].as_array().unwrap().iter();
    let links: Vec<&Value> = links.filter(|one| one["sort"] == "circuits").collect();
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!(links[0]["labels"]["device"], "sub0");
    searched();
    drop(flood);
    compared();
    // A list is removed and applied again while the service runs.
    run("weirgate circuits remove sub0 --all");
    until("no circuits", || {
        get("/api/circuits")["devices"] == serde_json::json!([])
    });
    run(&format!("weirgate circuits apply sub0 {list}"));
    run("weirgate circuits remove sub0 --all");
    run(&format!("weirgate circuits apply sub0 {list}"));
    until("circuits again", || {
        get("/api/circuits")["devices"][0]["circuits"] == 100
    });
    drop(service);
    // For another user, the service only reports that there are circuits.
    fs::create_dir("/run/nobody").unwrap();
    chown("/run/nobody", Some(65_534), None).unwrap();
    let service = begin_as(65_534, "/run/nobody/history", &["--every", "500ms"]);
    until("a refusal", || {
        let refused = &get("/api/circuits")["refused"];
        refused
            .as_str()
            .is_some_and(|why| why.contains("root alone"))
    });
    let about = get("/api/about");
    assert!(about["without_circuits"].is_string(), "{about}");
    assert!(!answer("/metrics").1.contains("weirgate_circuits"));
    drop(service);
    run("weirgate circuits remove sub0 --all");
}

/// Returns the median time of several runs, in milliseconds.
fn median(count: usize, mut work: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..count)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[count / 2]
}

/// Returns the processor time of a service's collector, in milliseconds
/// (Documentation/scheduler/sched-stats.rst, `/proc/pid/schedstat`).
fn worked_ms(service: &Service) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", service.pid().as_raw_nonzero())).unwrap();
    let of = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
    };
    tasks.flatten().map(of).sum()
}

/// Returns the processor time of one of the collector's samples, in milliseconds.
fn look_ms(service: &Service) -> f64 {
    const LOOKS: u32 = 10;
    let before = worked_ms(service);
    sleep(Duration::from_secs(LOOKS.into()));
    (worked_ms(service) - before) / f64::from(LOOKS)
}

#[test]
#[ignore = "runs in the guest"]
fn many_circuits() {
    device();
    for count in [0, 1_000, 100_000] {
        if count > 0 {
            let list = list("many", count);
            run(&format!("weirgate circuits apply sub0 {list}"));
        }
        let service = begin(&[]);
        sleep(Duration::from_secs(3));
        if count > 0 {
            until("circuits", || {
                get("/api/circuits")["devices"][0]["circuits"] == count
            });
        }
        println!("{count} circuits: a look takes {:.2} ms", look_ms(&service));
        for query in ["", "?order=delay", "?q=77", "?q=100.64.0.7", "?name=77"] {
            let before = worked_ms(&service);
            let took = median(5, || drop(get(&format!("/api/circuits{query}"))));
            let worked = (worked_ms(&service) - before) / 5.0;
            println!("{count} circuits: `{query}` takes {took:.1} ms, {worked:.1} of work");
        }
        let status = format!("/proc/{}/status", service.pid().as_raw_nonzero());
        let status = fs::read_to_string(status).unwrap();
        for line in status.lines().filter(|line| line.starts_with("Rss")) {
            println!("{count} circuits: {line}");
        }
        drop(service);
        if count > 0 {
            run("weirgate circuits remove sub0 --all");
        }
    }
}

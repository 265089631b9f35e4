// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the OTLP output with the OpenTelemetry collector's own receiver. `cargo xtask setup`
//! builds it (`tests/otlp`) if Go is installed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod running;

use running::{Running, config};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use weirgate_watch::{Config, Kind, Listen, Receiver, Sending};

const RECEIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/otlp/receiver");

struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a collector; returns when it listens, with the lines that it prints.
fn collector(address: SocketAddr) -> (Collector, mpsc::Receiver<String>) {
    let mut command = Command::new(RECEIVER);
    let command = command.arg(address.to_string()).stdout(Stdio::piped());
    let mut collector = Collector(command.spawn().unwrap());
    let out = BufReader::new(collector.0.stdout.take().unwrap());
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let first = lines.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(first, "listening");
    (collector, lines)
}

fn attribute<'v>(pairs: &'v Value, key: &str) -> Option<&'v str> {
    let pair = pairs.as_array()?.iter().find(|pair| pair["key"] == key)?;
    pair["value"]["stringValue"].as_str()
}

#[test]
fn the_collector_takes_what_is_sent_and_reads_it_as_it_was_meant() {
    if !Path::new(RECEIVER).exists() {
        // Bypass the harness, which hides a test's output unless it fails.
        let mut stderr = std::io::stderr().lock();
        let why = "`cargo xtask setup` builds it with Go";
        writeln!(stderr, "SKIPPED: {RECEIVER} is not there; {why}").unwrap();
        return;
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (_collector, lines) = collector(address);
    let folder = tempfile::tempdir().unwrap();
    let listen = Listen::Address("127.0.0.1:0".parse().unwrap());
    let labels = [("job", "weirgate"), ("instance", "box 1"), ("site", "Søby")];
    let config = Config {
        sending: Sending {
            receivers: vec![Receiver::parse(Kind::Otlp, &format!("http://{address}")).unwrap()],
            every: Duration::from_millis(500),
            labels: labels
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            authorities: None,
        },
        ..config(folder.path(), listen)
    };
    let service = Running::start(config);
    let came: Vec<Value> = (0..3)
        .map(|_| {
            let line = lines.recv_timeout(Duration::from_mins(1)).unwrap();
            serde_json::from_str(&line).unwrap()
        })
        .collect();
    // It refused nothing, so nothing is reported.
    let complaints: Vec<String> = service
        .end()
        .into_iter()
        .filter(|text| text.contains("metrics"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let mut before = 0;
    for request in &came {
        let [of_box] = &request["resourceMetrics"].as_array().unwrap()[..] else {
            panic!("{request}")
        };
        let whose = &of_box["resource"]["attributes"];
        assert_eq!(attribute(whose, "service.name"), Some("weirgate"));
        assert_eq!(attribute(whose, "service.instance.id"), Some("box 1"));
        assert_eq!(attribute(whose, "site"), Some("Søby"));
        let scope = &of_box["scopeMetrics"][0];
        assert_eq!(scope["scope"]["name"], "weirgate", "{scope}");
        let metrics = scope["metrics"].as_array().unwrap();
        let named = |name: &str| metrics.iter().find(|one| one["name"] == name).unwrap();
        let received = named("weirgate_device_received_bytes");
        assert_eq!(received["unit"], "By", "{received}");
        assert_eq!(received["sum"]["aggregationTemporality"], 2, "{received}");
        assert_eq!(received["sum"]["isMonotonic"], true, "{received}");
        let points = received["sum"]["dataPoints"].as_array().unwrap();
        let own = |point: &&Value| attribute(&point["attributes"], "device") == Some("lo");
        let point = points.iter().find(own).unwrap();
        assert!(point["asDouble"].as_f64().unwrap() > 0.0, "{point}");
        let time = point["timeUnixNano"].as_str().unwrap();
        let time: u64 = time.parse().unwrap();
        assert!(time > before.max(1_600_000_000_000_000_000), "{point}");
        before = time;
        let series = named("weirgate_history_series");
        assert!(series["gauge"]["dataPoints"].is_array(), "{series}");
        // Every metric has a kind that the receiver knows, a description, and numbers.
        for one in metrics {
            let sum = one["sum"]["dataPoints"].as_array();
            let points = sum.or(one["gauge"]["dataPoints"].as_array());
            assert!(!points.unwrap().is_empty(), "{one}");
            assert!(!one["description"].as_str().unwrap().is_empty(), "{one}");
        }
    }
}

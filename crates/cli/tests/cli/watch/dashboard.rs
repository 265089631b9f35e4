// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Grafana dashboard and the alert rules in a real Prometheus that scrapes a real `watch`, with
//! TCP in both directions. Every expression is valid and returns data, except those for features
//! that this policy lacks.

use crate::namespace::Namespace;
use crate::program::{root, skipped, tool};
use crate::watch::Watch;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROMETHEUS: &str = "127.0.0.1:9090";

/// Metrics that exist only with `[track]`, cake, conditioners, a limiter of arriving packets
/// without a queue, or queue management that marks.
const OF_OTHERS: [&str; 7] = [
    "weirgate_class_marks_total",
    "weirgate_link_tracked_bits_per_second",
    "weirgate_tin_delay_seconds",
    "weirgate_conditioner_bytes_total",
    "weirgate_receive_rewritten_packets_total",
    "parent=\"ingress\"",
    "weirgate_qdisc_aqm_delay_seconds",
];

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves the far end of one of the router's links to a new namespace and configures it there.
fn beyond(watch: &Watch, device: &str, lines: &[&str]) -> Namespace {
    let namespace = Namespace::new();
    namespace.run(&format!(
        "ip link del {}",
        if device == "far" { "wan" } else { "lan" }
    ));
    let router = &watch.namespace;
    router.run(&format!(
        "ip link set {device} netns {}",
        namespace.holder()
    ));
    namespace.run("ip link set lo up");
    for line in lines {
        namespace.run(line);
    }
    namespace
}

/// Sends a request to Prometheus, with a query unless that is empty.
fn asked(watch: &Watch, path: &str, query: &str) -> Value {
    let script = "import sys, urllib.request as u, urllib.parse as p, urllib.error as e\n\
        q = '?query=' + p.quote(sys.argv[2]) if sys.argv[2] else ''\n\
        try: r = u.urlopen(sys.argv[1] + q)\n\
        except e.HTTPError as r_: r = r_\n\
        sys.stdout.write(r.read().decode())";
    let mut command = watch.namespace.command("/usr/bin/python3");
    let address = format!("http://{PROMETHEUS}/api/v1/{path}");
    let output = command.args(["-c", script, &address, query]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns the dashboard's expressions as Grafana sends them when all instances are selected.
fn expressions() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("packaging/monitoring/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let text = targets.map(|target| target["expr"].as_str().unwrap());
    text.map(|text| {
        text.replace("$instance", ".*")
            .replace("$__rate_interval", "10s")
    })
    .collect()
}

#[test]
fn every_panel_shows_something_and_every_alert_is_evaluated() {
    let prometheus = tool("prometheus");
    if Command::new(&prometheus).arg("--version").output().is_err() {
        skipped("prometheus (package prometheus) is not installed");
        return;
    }
    let watch = Watch::start(|_| {});
    watch.namespace.run("sysctl -qw net.ipv4.ip_forward=1");
    let far = beyond(
        &watch,
        "far",
        &[
            "ip link set far address 02:00:00:00:00:02",
            "ip link set far up",
            "ip addr add 10.9.0.2/24 dev far",
            "ip route add 10.8.0.0/24 via 10.9.0.1",
        ],
    );
    let inside = beyond(
        &watch,
        "inside",
        &[
            "ip link set inside address 02:00:00:00:00:77",
            "ip link set inside up",
            "ip addr add 10.8.0.77/24 dev inside",
            "ip route add default via 10.8.0.1",
        ],
    );
    let spawn = |command: &mut Command| {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        Ending(quiet.spawn().unwrap())
    };
    let _server = spawn(far.command("iperf3").arg("-s"));
    std::thread::sleep(Duration::from_millis(500));
    let sends = ["-c", "10.9.0.2", "-t", "120", "--bidir"];
    let _client = spawn(inside.command("iperf3").args(sends));
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("prometheus.yml");
    let target = watch.address.trim_start_matches("http://");
    let text = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [ {} ]\n\
         scrape_configs: [ {{ job_name: weirgate, static_configs: [ {{ targets: [ \"{}\" ] }} ] }} ]\n",
        root().join("packaging/monitoring/alerts.yaml").display(),
        target.trim_end_matches('/'),
    );
    std::fs::write(&config, text).unwrap();
    let mut command = watch.namespace.command(prometheus.to_str().unwrap());
    let _prometheus = spawn(command.args([
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", folder.path().display()),
        format!("--web.listen-address={PROMETHEUS}"),
    ]));
    let begin = Instant::now();
    let mut empty = expressions();
    let all = empty.len();
    while !empty
        .iter()
        .all(|one| OF_OTHERS.iter().any(|part| one.contains(part)))
    {
        assert!(
            begin.elapsed() < Duration::from_mins(2),
            "nothing of {empty:#?}; {}",
            asked(&watch, "targets", "")
        );
        std::thread::sleep(Duration::from_secs(2));
        empty.retain(|query| {
            let found = asked(&watch, "query", query);
            assert_ne!(found["status"], "error", "{query}: {found}");
            found["data"]["result"].as_array().is_none_or(Vec::is_empty)
        });
    }
    println!("{} of {all} expressions show something", all - empty.len());
    assert!(all >= 30 && empty.len() == OF_OTHERS.len(), "{empty:#?}");
    let rules = asked(&watch, "rules", "");
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    assert!(rules.len() >= 12, "{}", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

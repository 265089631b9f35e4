// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate probe` over a slow loopback with hosts that only answer: a real iperf3 server, ICMP,
//! and the saved files of a run.

use crate::namespace::Namespace;
use crate::program::{Ended, WEIRGATE, skipped, tool};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A server process, which is killed when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates a namespace with an iperf3 server, whose loopback carries 20 Mbit/s in both directions
/// together. Its queue holds 300,000 bytes, which wait 120 ms.
fn line() -> (Namespace, Server) {
    let namespace = Namespace::new();
    namespace.run("ip link set lo mtu 1500 up");
    namespace.run("tc qdisc add dev lo root tbf rate 20mbit burst 3000 limit 300000");
    let mut command = namespace.command("iperf3");
    command
        .args(["-s", "--forceflush", "-p", "5299"])
        .stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let out = BufReader::new(server.stdout.take().unwrap());
    let mut lines = out.lines();
    while !lines.next().unwrap().unwrap().contains("Server listening") {}
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    (namespace, Server(server))
}

fn probe(namespace: &Namespace, words: &[&str]) -> Ended {
    let mut command = namespace.command(WEIRGATE);
    Ended::of(&command.arg("probe").args(words).output().unwrap())
}

/// A real irtt server (package irtt) answers in place of ICMP.
#[test]
fn an_irtt_server_of_its_makers_answers() {
    let irtt = tool("irtt");
    if Command::new(&irtt).arg("version").output().is_err() {
        skipped("irtt (package irtt) is not installed");
        return;
    }
    let (namespace, _server) = line();
    let mut command = namespace.command(irtt.to_str().unwrap());
    command
        .args(["server", "-b", "127.0.0.1:2112"])
        .stdout(Stdio::piped());
    let mut server = Server(command.spawn().unwrap());
    let out = BufReader::new(server.0.stdout.take().unwrap());
    let mut lines = out.lines();
    while !lines.next().unwrap().unwrap().contains("IPv4 listener") {}
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let irtt = ["--irtt", "127.0.0.1", "--iperf3", "127.0.0.1:5299"];
    let ended = probe(
        &namespace,
        &[&irtt[..], &["--time", "4s", "--json"]].concat(),
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(found["idle_lost"], 0, "{found}");
    let down = found["down"]["data_rate_bits"].as_f64().unwrap();
    assert!((8e6..=20e6).contains(&down), "{found}");
}

#[test]
fn an_iperf3_server_fills_the_line_while_echoes_are_sent() {
    let (namespace, _server) = line();
    let mut sysctl = namespace.command("sysctl");
    let everyone = "net.ipv4.ping_group_range=0 2147483647";
    assert!(sysctl.args(["-qw", everyone]).status().unwrap().success());
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("run");
    let kept_at = kept.display().to_string();
    let words = [
        "--iperf3",
        "127.0.0.1:5299",
        "--time",
        "4s",
        "--json",
        "--write",
        &kept_at,
    ];
    let ended = probe(&namespace, &words);
    assert_eq!(ended.status, 0, "{ended:?}");
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(found["mtu_bytes"], 1500, "{found}");
    assert_eq!(found["mtu_exact"], true, "{found}");
    // Packets and their acknowledgements share the rate of the loopback.
    for direction in ["down", "up"] {
        let rate = found[direction]["data_rate_bits"].as_f64().unwrap();
        assert!((8e6..=20e6).contains(&rate), "{direction}: {found}");
    }
    // The full queue drops some echoes; the others measure its length.
    for direction in ["down", "up"] {
        let waited = found[direction]["queueing_ms"].as_f64();
        assert!(waited.is_some_and(|ms| ms > 5.0), "{direction}: {found}");
    }
    assert_ne!(found["grade"], "A+", "{found}");
    // A link without ATM must not be reported as one with cells.
    assert_ne!(found["cells"], true, "{found}");
    assert!(
        found["link"].as_str().unwrap().contains("[link]"),
        "{found}"
    );
    // One folder has all files of the run.
    let file = |name: &str| std::fs::read_to_string(kept.join(name)).unwrap();
    let setup: Value = serde_json::from_str(&file("setup.json")).unwrap();
    assert!(
        setup["arguments"]
            .as_array()
            .unwrap()
            .contains(&"--iperf3".into())
    );
    let result: Value = serde_json::from_str(&file("result.json")).unwrap();
    assert_eq!(result, found);
    assert!(file("result.txt").contains("For a policy:"));
    let echoes = file("echoes.csv");
    assert!(
        echoes.starts_with("part,at_ms,round_trip_ms\r\nidle,"),
        "{echoes}"
    );
    assert!(
        echoes.contains("\nup,") && echoes.contains("\ndown,"),
        "{echoes}"
    );
    // An existing folder is not overwritten.
    let again = probe(&namespace, &words);
    assert_ne!(again.status, 0, "{again:?}");
    assert!(again.err.contains("File exists"), "{again:?}");
}

#[test]
fn what_is_missing_for_echoes_is_reported() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    let mut sysctl = namespace.command("sysctl");
    let nobody = "net.ipv4.ping_group_range=1 0";
    assert!(sysctl.args(["-qw", nobody]).status().unwrap().success());
    let ended = probe(&namespace, &["--icmp", "127.0.0.1"]);
    assert_ne!(ended.status, 0, "{ended:?}");
    assert!(ended.err.contains("ping_group_range"), "{ended:?}");
    let mut sysctl = namespace.command("sysctl");
    let everyone = "net.ipv4.ping_group_range=0 2147483647";
    assert!(sysctl.args(["-qw", everyone]).status().unwrap().success());
    let ended = probe(&namespace, &["--iperf3", "127.0.0.1:1", "--time", "2s"]);
    assert!(ended.err.contains("does not answer"), "{ended:?}");
    let ended = probe(&namespace, &["--bulk", "ftp://a/"]);
    assert_eq!(ended.status, 2, "{ended:?}");
}

const SCRIPT: &str = r#"version = 1
name = "script"
title = "A download, a pause, a group of uploads"
source = "a test"
about = "a test"
settle = "1s"

[topology]
kind = "access-line"

[topology.line]
framing = "none"
up = { rate = "20mbit", buffer = "300kB" }
down = { rate = "20mbit", buffer = "300kB" }

[[phase]]
name = "download"
end = "3s"

[[phase]]
name = "pause"
end = "5s"

[[phase]]
name = "uploads"
end = "8s"

[[traffic]]
name = "down"
kind = "tcp"
from = "server1"
to = "host1"
during = ["download"]

[[traffic]]
name = "up"
kind = "tcp"
from = "host1"
to = "server1"
count = 2
during = ["uploads"]

[[traffic]]
name = "voice"
kind = "voice"
from = "host1"
to = "server1"
dscp = "EF"
interval = "20ms"
packet = 200
during = ["download"]

[[traffic]]
name = "flood"
kind = "udp"
from = "server1"
to = "host1"
interval = "400us"
packet = 1400
during = ["pause"]

[[traffic]]
name = "web"
kind = "short-flows"
from = "server1"
to = "host1"
mean-gap = "100ms"
mean-length = 10000
shape = 1.4
drain = "1s"
during = ["uploads"]

[[traffic]]
name = "storm"
kind = "syns"
from = "host1"
to = "server1"
interval = "100ms"
during = ["pause"]

[[probe]]
name = "ping"
from = "host1"
to = "provider"
interval = "100ms"

[[arm]]
name = "as-is"
"#;

/// Runs an experiment of the lab between two real ends; one folder has all files of the run.
#[test]
fn an_experiment_is_played_on_real_hosts() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo mtu 1500 up");
    namespace.run("tc qdisc add dev lo root tbf rate 20mbit burst 3000 limit 300000");
    let mut sysctl = namespace.command("sysctl");
    let everyone = "net.ipv4.ping_group_range=0 2147483647";
    assert!(sysctl.args(["-qw", everyone]).status().unwrap().success());
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["probe", "--serve", "127.0.0.1:7887"])
        .stderr(Stdio::piped());
    let mut server = Server(command.spawn().unwrap());
    let out = BufReader::new(server.0.stderr.take().unwrap());
    let mut lines = out.lines();
    while !lines.next().unwrap().unwrap().contains("answers at") {}
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    let script_at = script.display().to_string();
    std::fs::write(&script, SCRIPT).unwrap();
    let kept = folder.path().join("run");
    let kept_at = kept.display().to_string();
    let words = |write| {
        let to = "127.0.0.1";
        [
            "--sequence",
            &script_at,
            "--to",
            to,
            "--write",
            write,
            "--json",
        ]
        .map(str::to_owned)
    };
    let owned = words(&kept_at);
    let ended = probe(&namespace, &owned.each_ref().map(|word| &**word));
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.err.contains("of 8 s uploads"), "{ended:?}");
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    let transfers = found["transfers"].as_array().unwrap();
    let of = |name: &'static str| transfers.iter().filter(move |one| one["flow"] == name);
    for one in transfers {
        // A failure is allowed only for pages that were incomplete at the end.
        assert!(one["failed"].is_null() || one["flow"] == "web", "{found}");
    }
    assert_eq!((of("down").count(), of("up").count()), (1, 2), "{found}");
    for one in of("down").chain(of("up")) {
        assert!(one["bytes"].as_u64().unwrap() > 500_000, "{found}");
    }
    let counted = |name: &'static str, direction: &str| {
        let all = of(name).flat_map(|one| one["counted"].as_array().unwrap());
        let mut own = all.filter(|one| one["way"] == direction);
        own.next().unwrap().clone()
    };
    for direction in ["up", "down"] {
        let sent = counted("voice", direction)["sent"].as_u64().unwrap();
        assert!((100..=155).contains(&sent), "{found}");
    }
    // A flood of 28 Mbit/s through 20 Mbit/s loses some packets, and the queue delays the others.
    let flood = counted("flood", "down");
    let share = flood["lost"].as_f64().unwrap() / flood["sent"].as_f64().unwrap();
    assert!((0.1..0.6).contains(&share), "{flood}");
    assert!(flood["late_ms"]["p95"].as_f64().unwrap() > 50.0, "{flood}");
    assert!(
        counted("storm", "up")["sent"].as_u64().unwrap() >= 15,
        "{found}"
    );
    assert!(of("web").count() > 5, "{found}");
    let file = |name: &str| std::fs::read(kept.join(name)).unwrap();
    let text = |name: &str| String::from_utf8(file(name)).unwrap();
    let flows = text("flows.csv");
    let rows: Vec<&str> = flows.lines().collect();
    let head = "second,down,up,voice,flood,web,storm";
    assert_eq!((rows.len(), rows[0]), (9, head), "{flows}");
    let bytes = |row: usize, column: usize| -> u64 {
        rows[row].split(',').nth(column).unwrap().parse().unwrap()
    };
    // Each flow runs in its phase: row 2 is the second second.
    assert!(bytes(2, 1) > 0 && bytes(2, 2) == 0, "{flows}");
    assert!(bytes(7, 1) == 0 && bytes(7, 2) > 0, "{flows}");
    assert!(bytes(5, 4) > 500_000 && bytes(7, 4) == 0, "{flows}");
    assert!(text("echoes.csv").lines().count() > 30);
    assert_eq!(text("experiment.toml"), SCRIPT);
    assert!(text("log.txt").contains(" of 8 s uploads: "));
    assert!(text("counters-after.txt").contains("device_sent_bytes{device=\"lo\"}"));
    assert!(file("capture.pcap").len() > 10_000);
    let marked = voices(&file("capture.pcap"));
    assert!(marked[0] > 100 && marked[1] > 100, "{marked:?}");
    serde_json::from_slice::<Value>(&file("result.json")).unwrap();
    // A direction that real hosts cannot play is refused by name, and no file is created.
    let wrong = SCRIPT.replacen("from = \"host1\"", "from = \"gateway\"", 1);
    std::fs::write(&script, wrong).unwrap();
    let other_at = folder.path().join("other").display().to_string();
    let owned = words(&other_at);
    let ended = probe(&namespace, &owned.each_ref().map(|word| &**word));
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(
        ended.err.contains("script.toml:38: it has to go between"),
        "{ended:?}"
    );
    assert!(!std::path::Path::new(&other_at).exists());
}

/// Counts the datagrams in a capture with the size and code point of the voice: those to the
/// serving end's ports, and those from there.
fn voices(capture: &[u8]) -> [usize; 2] {
    let mut rest = &capture[24..];
    let mut found = [0; 2];
    while let Some((head, after)) = rest.split_at_checked(16) {
        let kept = u32::from_ne_bytes(head[8..12].try_into().unwrap()) as usize;
        let length = u32::from_ne_bytes(head[12..16].try_into().unwrap());
        let (packet, after) = after.split_at(kept);
        rest = after;
        // Version 4, EF, UDP.
        if length == 200 && packet[0] == 0x45 && packet[1] == 46 << 2 && packet[9] == 17 {
            let served = 7888..8144;
            let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            found[0] += usize::from(served.contains(&port(22)));
            found[1] += usize::from(served.contains(&port(20)));
        }
    }
    found
}

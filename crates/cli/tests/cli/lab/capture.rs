// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sampling.capture`: the file beside the results contains what the line logged. An arm whose line
//! is the kernel's netem has neither the file nor the log's figures.

use crate::program::{Ended, root, weirgate};
use pcap_file::DataLink;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use weirgate_experiment::{Direction, Fate, Metric, Recording};

fn run(into: &Path) -> (Ended, PathBuf) {
    let folder = into.to_str().unwrap();
    let arguments = ["lab", "run", "tests/cli/capture.toml", "--out", folder];
    let ended = weirgate(&root(), &arguments);
    assert_eq!(ended.status, 0, "{ended:?}");
    (ended, into.join("capture"))
}

#[test]
fn a_capture_holds_what_the_line_logged() {
    let first = TempDir::new().unwrap();
    let (ended, folder) = run(first.path());
    let file = folder.join("0.pcapng");

    let recording = Recording::decode(&fs::read(folder.join("0.recording")).unwrap()).unwrap();
    assert!(recording.line.len() > 800, "{}", recording.line.len());
    matches_the_log(&fs::read(&file).unwrap(), &recording);
    tcpdump_reads(&file, &recording);

    let facts: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    let packets = recording.line.len();
    let whole = serde_json::json!({ "packets": packets, "without_room": 0 });
    assert_eq!(facts["arms"][0]["capture"], whole);
    assert!(facts["arms"][1]["capture"].is_null(), "{facts}");

    ended.says(0, &["warning", "nothing is captured in the arm `netem`"]);
    assert!(!folder.join("1.pcapng").exists());
    netem_has_no_figures_of_the_log(&folder);

    // `aqm record` accepts the file's packets.
    let taken = first.path().join("taken.recording");
    let (from, to) = (file.to_str().unwrap(), taken.to_str().unwrap());
    let ended = weirgate(&root(), &["aqm", "record", "--capture", from, to]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(
        ended.out.contains(&format!("{packets} packets")),
        "{ended:?}"
    );
}

/// Compares the file with the log, packet by packet: interface, time, length, content and fate.
fn matches_the_log(file: &[u8], recording: &Recording) {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut log = recording.line.iter();
    let mut interfaces = 0;
    let mut dropped = 0;
    while let Some(block) = reader.next_block() {
        match block.unwrap().0 {
            Block::InterfaceDescription(interface) => {
                assert_eq!(interface.linktype, DataLink::ETHERNET);
                interfaces += 1;
            }
            Block::EnhancedPacket(packet) => {
                let logged = log.next().expect("more packets than the log has");
                let interface = u32::from(logged.direction == Direction::Down);
                assert_eq!(packet.interface_id, interface);
                assert_eq!(packet.timestamp.as_nanos(), logged.arrived_ns.into());
                let length = 14 + usize::from(logged.ip_bytes);
                assert_eq!(packet.original_len as usize, length);
                assert_eq!(packet.data.len(), length.min(128));
                let ip_version = packet.data[14] >> 4;
                assert!(matches!(ip_version, 4 | 6), "{:?}", packet.data);
                let comment = format!("{:?}", packet.options);
                assert_eq!(comment.contains("dropped"), logged.fate == Fate::Dropped);
                dropped += usize::from(logged.fate == Fate::Dropped);
            }
            Block::InterfaceStatistics(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((log.next(), interfaces), (None, 2));
    assert!(dropped > 50, "{dropped} packets were dropped");
}

/// Checks that tcpdump, an independent reader, finds every packet with whole headers. Where it is
/// not installed, the check by the crate's reader must suffice.
fn tcpdump_reads(file: &Path, recording: &Recording) {
    let arguments = ["-n", "-tt", "--nano", "-r"];
    let Ok(output) = Command::new("tcpdump").args(arguments).arg(file).output() else {
        return;
    };
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), recording.line.len(), "{err}");
    let seconds = |ns: u64| format!("{}.{:09} IP", ns / 1_000_000_000, ns % 1_000_000_000);
    for (line, logged) in lines.iter().zip(&recording.line) {
        assert!(line.starts_with(&seconds(logged.arrived_ns)), "{line}");
    }
    let of = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert!(of(" IP 10.0.0.11.") > 200, "datagrams of the upload");
    assert!(of(" IP6 2001:db8:2::11.") > 200, "segments of the download");
    assert!(of("ICMP echo request") > 100, "probes");
}

fn netem_has_no_figures_of_the_log(folder: &Path) {
    let outcome: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("outcome.json")).unwrap()).unwrap();
    let metrics = |arm: &str| -> Vec<Metric> {
        let metrics = outcome["arms"][arm]["metrics"].as_object().unwrap();
        metrics.keys().map(|name| name.parse().unwrap()).collect()
    };
    let (own, netem) = (metrics("own"), metrics("netem"));
    let logged: Vec<&Metric> = own.iter().filter(|m| m.needs_own_line()).collect();
    assert!(logged.len() > 20, "{logged:?}");
    let zero: Vec<&Metric> = netem.iter().filter(|m| m.needs_own_line()).collect();
    assert!(zero.is_empty(), "{zero:?}");
    // Both have all the other metrics.
    let rest: Vec<&Metric> = own.iter().filter(|m| !m.needs_own_line()).collect();
    assert_eq!(rest, netem.iter().collect::<Vec<_>>());
}

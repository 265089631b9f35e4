// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `survey --mirror`: a host at a mirror port counts what the line's log has, of traffic in the
//! shares of Shah's survey (section 2.2.2).

use crate::program::{Ended, Traces, root};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use weirgate_experiment::{Direction, LinePacket, Recording};

/// A row of the thesis: a name of `protocols` or `ports`, and its part of all packets in per cent.
/// IP is 78 % of them.
const THESIS: [(&str, &str, f64); 8] = [
    ("protocols", "TCP", 47.0),
    ("protocols", "UDP", 31.0),
    ("protocols", "ICMP", 0.48),
    ("ports", "TCP 139", 18.9),
    ("ports", "TCP 80", 4.0),
    ("ports", "TCP 23", 3.1),
    ("ports", "TCP 25", 2.1),
    ("ports", "UDP 659", 2.0),
];
const IP: f64 = 78.0;

fn count(found: &Value, direction: &str, of: &str) -> u64 {
    found[direction]["all"][of].as_u64().unwrap()
}

/// Returns the packets of a row in both directions.
fn packets(found: &Value, table: &str, name: &str) -> u64 {
    let rows = found[table].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("{name}: {}", found[table]));
    let both = ["arrives", "leaves"].map(|way| row[way]["packets"].as_u64().unwrap());
    both.iter().sum()
}

#[test]
fn a_mirror_port_shows_what_the_line_carries() {
    let folder = TempDir::new().unwrap();
    let into = folder.path().to_str().unwrap();
    let arguments = ["lab", "run", "experiments/rate/2.toml", "--out", into];
    // The lab packs the program that is on the path.
    let program = Path::new(env!("CARGO_BIN_EXE_weirgate"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = program.parent().map(Path::to_owned).into_iter();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
    let traces = Traces::new();
    let mut command = traces.command(&root(), &arguments);
    let ended = Ended::of(&command.env("PATH", path.unwrap()).output().unwrap());
    traces.none();
    assert_eq!(ended.status, 0, "{ended:?}");
    let recording = folder.path().join("rate-2/0.recording");
    let recording = Recording::decode(&fs::read(recording).unwrap()).unwrap();
    let survey = recording
        .transcript
        .iter()
        .find(|one| one.what.contains("survey"));
    let survey = survey.unwrap();
    let begin = survey
        .output
        .find('{')
        .unwrap_or_else(|| panic!("{}", survey.output));
    let found: Value = serde_json::from_str(&survey.output[begin..]).unwrap();

    for (direction, name) in [(Direction::Up, "leaves"), (Direction::Down, "arrives")] {
        let logged = recording
            .line
            .iter()
            .filter(|one| one.direction == direction);
        let logged: Vec<&LinePacket> = logged.collect();
        // The log ends with the traffic, and the survey a little later.
        let more = count(&found, name, "packets") - logged.len() as u64;
        assert!(more <= 20, "{name}: {more} packets more than the log has");
    }
    let all = ["arrives", "leaves"].map(|way| count(&found, way, "packets"));
    let all: u64 = all.iter().sum();
    let mut text = String::new();
    for (table, name, thesis) in THESIS {
        let part = packets(&found, table, name) as f64 / all as f64 * IP;
        let _ = writeln!(text, "{name}: {part:.2} %, thesis {thesis}");
        let near = (part / thesis - 1.0).abs();
        assert!(near < 0.15, "{text}{}", found["ports"]);
    }
}

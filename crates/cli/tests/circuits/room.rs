// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The room of the tables: tests that run in the guest. Ignored elsewhere.

use crate::inside::{done, fails, in_force_of, line, net, settled};
use crate::kept::make;
use crate::lists::{CircuitLine, written};
use std::fmt::Write as _;
use std::fs;

/// Writes a list of circuits that have five addresses each; returns the path.
fn of_five(name: &str, circuits: u32) -> String {
    let mut text = "Circuit ID,IPv4,Download Max Mbps,Upload Max Mbps\n".to_owned();
    for number in 1..=circuits {
        let [_, _, high, low] = number.to_be_bytes();
        let all: Vec<String> = (1..=5)
            .map(|net| format!("10.{net}.{high}.{low}"))
            .collect();
        let _ = writeln!(text, "many-{number},\"{}\",10,10", all.join(","));
    }
    let path = format!("/tmp/{name}.csv");
    fs::write(&path, text).expect("a file");
    path
}

/// A first list of few circuits makes room for 16,384 addresses. A list with more is refused, and
/// leaves nothing in the tables, so that one with fewer is applied afterwards.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_refused_list_takes_no_room() {
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=20).map(line).collect();
    done(&format!("apply sub0 {}", written("few", &lines, 100)));
    let expected = in_force_of("sub0");
    for _ in 0..2 {
        let text = fails(&format!("apply sub0 {}", of_five("more", 3_500)), 2);
        assert!(text.contains("room for 16384"), "{text}");
        assert!(text.contains("remove DEVICE --all"), "{text}");
        assert_eq!(in_force_of("sub0"), expected);
    }
    done("add sub0 one --addresses 203.0.113.7 --down-max 1mbit --up-max 1mbit");
    done(&format!("apply sub0 {}", of_five("fits", 3_000)));
    assert_eq!(in_force_of("sub0").1.len(), 15_000);
    done("remove sub0 --all");
    net::run("ip link del sub0");
    settled([0; 3]);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Damaged files of circuits, and single circuits while a list waits for confirmation: a test that
//! runs in the guest. Ignored elsewhere.

#![allow(clippy::print_stdout, reason = "what was said is shown")]

use crate::inside::{done, fails, in_force_of, line, net, settled};
use crate::kept::{KEPT, boot, forget_all, make, within};
use crate::lists::{CircuitLine, written};
use crate::served::{Client, Service};
use serde_json::json;
use std::fs;
use std::time::Duration;

/// Flips a bit of a file.
fn damage(path: &str, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(path).expect(path);
    let at = at(bytes.len());
    bytes[at] ^= 4;
    fs::write(path, bytes).expect(path);
}

/// What was changed singly while a list waits would be lost with it.
fn single_circuits_wait() {
    let more: Vec<CircuitLine> = (1..=200).map(line).collect();
    let list = written("more", &more, 100);
    let expected = in_force_of("sub0");
    done(&format!("apply sub0 {list} --rate 1gbit --confirm 60s"));
    let waits = "the change of circuits of sub0 waits for confirmation";
    for change in ["change sub0 7 --down-max 4mbit", "remove sub0 7"] {
        let text = fails(change, 2);
        assert!(
            text.contains(waits) && text.contains("circuits confirm"),
            "{text}"
        );
    }
    let service = Service::start();
    let mut client = Client::connect();
    let request = json!({ "do": "remove", "device": "sub0", "circuit": "7" });
    let answer = client.ask(&request);
    let wrong = answer["wrong"].as_str().unwrap_or_default();
    assert!(wrong.contains(waits), "{answer}");
    let shown = client.ask(&json!({ "do": "show", "device": "sub0", "circuit": "7" }));
    assert!(shown["shown"].is_object(), "{shown}");
    done("rollback");
    assert_eq!(in_force_of("sub0"), expected);
    let answer = client.ask(&request);
    assert!(answer["done"].is_object(), "{answer}");
    drop(service);
}

/// One wrong bit in the list, in a change of it, and in the file of what waits for confirmation.
#[test]
#[ignore = "runs in the lab's kernel"]
fn one_wrong_bit_loses_no_list() {
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=100).map(line).collect();
    let list = written("sound", &lines, 100);
    done(&format!("apply sub0 {list} --rate 1gbit"));
    single_circuits_wait();
    done("change sub0 9 --down-max 3mbit");
    let before = in_force_of("sub0");
    done("change sub0 11 --down-max 3mbit");
    let expected = in_force_of("sub0");
    assert_ne!(before, expected);
    // A bit of the list: the copy has it, and both changes count.
    damage(KEPT, |length| length / 2);
    forget_all();
    let text = boot();
    println!("{text}");
    assert!(
        text.contains("sub0: its stored list of circuits was damaged"),
        "{text}"
    );
    assert_eq!(in_force_of("sub0"), expected);
    assert!(!boot().contains("sub0"), "it is mended");
    // A bit of the last change: it is lost, the earlier ones are not.
    done("change sub0 11 --down-max 2mbit");
    damage(KEPT, |length| length - 3);
    forget_all();
    boot();
    assert_eq!(in_force_of("sub0"), expected);
    let doctor = std::process::Command::new("weirgate")
        .arg("doctor")
        .output();
    let doctor = String::from_utf8_lossy(&doctor.expect("weirgate").stdout).into_owned();
    assert!(doctor.contains("sub0.damaged"), "{doctor}");
    // A bit of the file of what waits: its guard restores the former list.
    let other = written("other", &lines[..50], 100);
    done(&format!("apply sub0 {other} --rate 1gbit --confirm 2s"));
    assert_ne!(in_force_of("sub0"), expected);
    damage("/var/lib/weirgate/circuits/waiting", |length| length - 3);
    within(Duration::from_secs(10), "the former list", || {
        in_force_of("sub0") == expected
    });
    done("remove sub0 --all");
    net::run("ip link del sub0");
    settled([0; 3]);
}

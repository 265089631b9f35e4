// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status`, and lists whose removal awaits confirmation: tests that run in the guest. Ignored
//! elsewhere.

#![allow(clippy::print_stdout, reason = "what was said is shown")]

use crate::inside::{document, done, fails, in_force_of, line, net, settled};
use crate::kept::{InForce, Keeper, boot, forget_all, make, pinned, within};
use crate::lists::{CircuitLine, written};
use libbpf_rs::{MapCore as _, MapHandle};
use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;
use weirgate_circuits::kept::{Port, Ports};
use weirgate_circuits::{Direction, read};

/// Runs `status`, which must end with this exit status; returns its text and JSON.
pub(crate) fn status(expected: i32) -> (String, serde_json::Value) {
    let run = |more: &[&str]| {
        let mut command = Command::new("weirgate");
        let command = command.args(["circuits", "status"]).args(more);
        let output = command.output().expect("weirgate");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(expected), "{error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (text, json) = (run(&[]), run(&["--json"]));
    println!("{text}");
    (text, serde_json::from_str(&json).expect("JSON"))
}

fn is_there() -> bool {
    fs::exists(crate::kept::KEPT).expect("a folder")
}

/// Returns whether the list is in force as before.
fn is_back(expected: &InForce) -> bool {
    is_there() && in_force_of("sub0") == *expected
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn a_list_goes_until_that_is_confirmed() {
    settled([0; 3]);
    let (text, json) = status(0);
    assert!(text.contains("no device has circuits"), "{text}");
    assert_eq!(json["devices"], serde_json::json!([]));
    make();
    let lines: Vec<CircuitLine> = (1..=300).map(line).collect();
    let list = written("goes", &lines, 100);
    done(&format!("apply sub0 {list} --rate 1gbit"));
    let expected = in_force_of("sub0");

    // The removal is not confirmed.
    let text = done("remove sub0 --all --confirm 3s");
    assert!(text.contains("sub0: its list is taken away"), "{text}");
    assert!(!is_there());
    fails("show sub0", 2);
    let (text, json) = status(0);
    assert!(
        text.contains("sub0: waits for `weirgate circuits confirm`"),
        "{text}"
    );
    assert!(
        json["change"]["seconds"]
            .as_u64()
            .is_some_and(|left| left <= 3),
        "{json}"
    );
    fails(&format!("apply sub0 {list}"), 2);
    within(Duration::from_secs(10), "the former list", || {
        is_back(&expected)
    });

    // `rollback` restores it before and after the confirmation; so does a reboot.
    done("remove sub0 --all --confirm 60s");
    done("rollback");
    assert!(is_back(&expected));
    done("remove sub0 --all --confirm 60s");
    let whose = serde_json::json!({ "devices": ["sub0"] });
    assert_eq!(document("confirm"), whose);
    let (text, _) = status(0);
    assert!(
        text.contains("`weirgate circuits rollback` goes back"),
        "{text}"
    );
    assert_eq!(document("rollback"), whose);
    assert!(is_back(&expected));
    done("remove sub0 --all --confirm 3s");
    boot();
    assert!(!is_there());
    std::thread::sleep(Duration::from_secs(3));
    boot();
    assert!(is_back(&expected));

    // A list that could not be restored is not removed this way.
    fs::remove_file(crate::kept::KEPT).expect("a file");
    let (text, _) = status(1);
    assert!(text.contains("in force, but no list is stored"), "{text}");
    let text = fails("remove sub0 --all --confirm 3s", 2);
    assert!(text.contains("they could not come back"), "{text}");
    done("remove sub0 --all");
    fails("remove sub0 --all --confirm 3s", 2);
    net::run("ip link del sub0");
    settled([0; 3]);
}

/// Another program puts its qdisc on one of two devices before their former lists return.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_device_that_fails_holds_up_no_other() {
    const DEVICES: [&str; 2] = ["sub0", "sub1"];
    settled([0; 3]);
    make();
    net::run("ip link add sub1 type dummy");
    net::run("ip link set sub1 up");
    let lists = [("back", 20), ("next", 5)].map(|(name, count)| {
        let lines: Vec<CircuitLine> = (1..=count).map(line).collect();
        written(name, &lines, 100)
    });
    let [former, expected] = DEVICES.map(|device| {
        done(&format!("apply {device} {}", lists[0]));
        in_force_of(device)
    });
    assert_eq!(former, expected);
    let text = fs::read_to_string("/tmp/next.csv").expect("a file");
    let sites = fs::read_to_string("/tmp/next.json").expect("a file");
    let files = [("next.csv", &*text), ("next.json", &*sites)];
    let list = read(&files.map(|(name, text)| weirgate_circuits::File { name, text })).list;
    let port = |device: &str| Port {
        device: device.to_owned(),
        direction: Direction::Down,
        link: None,
        queues: None,
    };
    let ports = Ports {
        ports: DEVICES.map(port).to_vec(),
        only: false,
    };
    fs::write("/tmp/both", ports.write(&list.expect("a list"))).expect("a file");
    let mut command = Command::new("weirgate");
    let command = command.args(["circuits", "apply", "-", "--confirm", "2s"]);
    let status = command.stdin(File::open("/tmp/both").expect("a file"));
    assert!(status.status().expect("weirgate").success());
    assert_ne!(in_force_of("sub1"), expected);
    net::run("tc qdisc replace dev sub0 root pfifo");
    within(Duration::from_secs(10), "the former list", || {
        in_force_of("sub1") == expected
    });
    // The other device follows when its qdisc may be replaced.
    let again = format!("apply sub0 {}", lists[0]);
    let text = fails(&again, 2);
    assert!(text.contains("pfifo"), "{text}");
    done(&format!("{again} --adopt"));
    assert_eq!(in_force_of("sub0"), expected);
    for device in DEVICES {
        done(&format!("remove {device} --all"));
        net::run(&format!("ip link del {device}"));
    }
    settled([0; 3]);
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn status_says_what_is_in_force() {
    settled([0; 3]);
    make();
    let plans = "Plan,Download Max Mbps,Upload Max Mbps,Hours,Download Quota GB\n\
                 home,20,5,,1\nhome,30,5,00:00-24:00,\nslow,1,1,,\n";
    fs::write("/tmp/plans.csv", plans).expect("a file");
    let devices = "Circuit ID,IPv4,IPv6,Plan\n1,192.0.2.1,2001:db8::/56,home\n\
                   2,192.0.2.2,,slow\n3,192.0.2.8/29,,home\n";
    fs::write("/tmp/devices.csv", devices).expect("a file");
    let apply = "apply sub0 /tmp/devices.csv /tmp/plans.csv --rate 1gbit";
    done(apply);
    let (text, json) = status(0);
    for part in [
        "sub0: 3 circuits with 4 addresses",
        "2 plans; to subscribers, 1gbit in all",
        "every row and key is as the list says",
        "plan home: the terms for 00:00-24:00 apply",
        "quotas: 0 of 2 circuits",
        "`weirgate keep` does not run",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let device = &json["devices"][0];
    assert_eq!(device["whole"], true);
    assert_eq!(device["rate_bits_s"], 1_000_000_000);
    assert_eq!(device["hours"]["home"], "00:00-24:00");
    let digest = device["digest"].clone();
    assert_eq!(json["held"], false);

    // A change of a single circuit is reported; the same list has the same digest again.
    done("change sub0 2 --down-max 2mbit");
    let (text, json) = status(0);
    assert!(text.contains("then 1 change of single circuits"), "{text}");
    assert_ne!(json["devices"][0]["digest"], digest);
    done(apply);
    assert_eq!(status(0).1["devices"][0]["digest"], digest);

    // A key that was deleted in the kernel is found, and applying the list restores it.
    let folder = pinned().into_iter().next().expect("pins");
    let keys = MapHandle::from_pinned_path(format!("{folder}/addresses")).expect("a map");
    let key = keys.keys().next().expect("a key");
    keys.delete(&key).expect("it goes");
    drop(keys);
    let (text, json) = status(1);
    assert!(text.contains("1 entry written"), "{text}");
    assert_eq!(json["devices"][0]["differs"]["written"], 1);
    done("change sub0 2 --down-max 2mbit");
    forget_all();
    boot();
    status(0);

    // A missing part is named, and `keep` restores it.
    net::run("tc qdisc del dev sub0 root");
    let (text, _) = status(1);
    assert!(text.contains("its qdisc is not on the device"), "{text}");
    {
        let _keeper = Keeper::start();
        within(Duration::from_secs(10), "all of it", || {
            let words = ["circuits", "status", "--json"];
            let output = Command::new("weirgate").args(words).output();
            let output = output.expect("weirgate");
            let text = String::from_utf8_lossy(&output.stdout);
            output.status.success() && text.contains("\"held\":true")
        });
    }
    forget_all();
    settled([0; 3]);
    let (text, _) = status(1);
    assert!(text.contains("its programs are not loaded"), "{text}");
    net::run("ip link del sub0");
    let (text, _) = status(1);
    assert!(text.contains("the device is not there"), "{text}");
    done("remove sub0 --all");
}

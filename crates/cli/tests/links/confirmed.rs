// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of links that need confirmation: the part that runs in the guest.

use crate::inside::{FILE, LINKS, Service, call, longest, policies, routing};
use crate::net::{build, router};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The links in another order, so that their numbers differ, and with rules.
const OTHER: &str = r#"
version = 1
use = "balance"

[[link]]
name = "second"
device = "wan1"
gateway = "198.51.100.1"
probe = "203.0.113.1"

[[link]]
name = "first"
device = "wan0"
gateway = "192.0.2.1"
probe = "203.0.113.1"

[[rule]]
from = "10.0.0.3"
use = ["first"]
"#;
const APPLY: &str = "weirgate links apply /run/other.toml --confirm";
/// A limit of the time in which a guard takes its change back.
const BACK: Duration = Duration::from_millis(700);

fn begun(line: &str) -> Child {
    Command::new("ip")
        .args(["netns", "exec", "router"])
        .args(line.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs a command that must fail; returns its error output.
fn refused(line: &str) -> String {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "router"]);
    let output = command.args(line.split(' ')).output().unwrap();
    assert!(!output.status.success(), "{line}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the processes of all guards.
fn guards() -> Vec<Pid> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let number = process.file_name().to_string_lossy().parse();
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if let (Ok(number), b"weirgate\0guard\0") = (number, line.as_slice()) {
            found.extend(Pid::from_raw(number));
        }
    }
    found
}

fn signal_guards(signal: Signal) -> usize {
    let guards = guards();
    for guard in &guards {
        let _ = kill_process(*guard, signal);
    }
    guards.len()
}

/// Returns the outcome of the newest change.
fn fate() -> String {
    let history: serde_json::Value =
        serde_json::from_str(&router("weirgate history --json")).unwrap();
    let newest = history.as_array().unwrap().last().unwrap();
    newest["outcome"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "runs in the guest"]
fn taken_back() {
    build();
    let bare = routing();
    fs::write("/run/site.toml", policies()).unwrap();
    fs::write(FILE, LINKS).unwrap();
    fs::write("/run/other.toml", OTHER).unwrap();
    router("weirgate apply /run/site.toml");
    let shaped = routing();
    router(&format!("weirgate links apply {FILE}"));
    let before = routing();
    let stop = Arc::new(AtomicBool::new(false));
    let heard = call(&stop);
    let begin = Instant::now();

    // Nobody confirms the change.
    let said = router(&format!("{APPLY} 1s"));
    println!("{said}");
    let after = routing();
    assert_ne!(after, before);
    assert!(refused("weirgate apply /run/site.toml").contains("not confirmed yet"));
    assert!(refused(&format!("weirgate links apply {FILE}")).contains("not confirmed yet"));
    sleep(Duration::from_secs(1) + BACK);
    assert_eq!(routing(), before);
    assert_eq!(fate(), "returned by itself");
    assert_eq!(
        router(&format!("weirgate links plan {FILE}")).trim(),
        "nothing to change"
    );

    // The change is confirmed, and rolled back later.
    router(&format!("{APPLY} 1s"));
    router("weirgate confirm");
    sleep(Duration::from_secs(1) + BACK);
    assert_eq!(routing(), after);
    assert_eq!(guards().len(), 0);
    router("weirgate rollback");
    assert_eq!(routing(), before);

    // If the guard was killed, `boot` takes the change back. A guard that was stopped does nothing
    // when it continues.
    for signal in [Signal::KILL, Signal::STOP] {
        router(&format!("{APPLY} 1s"));
        assert_eq!(signal_guards(signal), 1);
        sleep(Duration::from_secs(1) + BACK);
        assert_eq!(routing(), after);
        router("weirgate boot");
        assert_eq!(routing(), before);
        router(&format!("{APPLY} 30s"));
        router("weirgate confirm");
        signal_guards(Signal::CONT);
        sleep(BACK);
        assert_eq!(routing(), after);
        assert_eq!(guards().len(), 0);
        router("weirgate rollback");
        assert_eq!(routing(), before);
    }

    // The command is killed at varying moments, every second time together with its guard.
    let (mut whole, mut kept) = (0, 0);
    for step in 0..60 {
        let mut command = begun(&format!("{APPLY} 30s"));
        sleep(Duration::from_micros(step * 1_500));
        command.kill().unwrap();
        command.wait().unwrap();
        if step % 2 == 1 {
            signal_guards(Signal::KILL);
        }
        let unconfirmed = router("weirgate history").contains("not confirmed");
        kept += usize::from(unconfirmed);
        router("weirgate boot");
        assert_ne!(fate(), "not confirmed");
        whole += usize::from(fate().starts_with("failed"));
        assert_eq!(routing(), before, "{step}");
    }
    println!("killed 60 times: {whole} before the change was whole, {kept} after");
    assert!(whole > 0 && kept > 0, "{whole} {kept}");
    stop.store(true, Ordering::Relaxed);
    let heard = heard.join().unwrap();
    println!(
        "a call through all of it: interrupted {:?} at most",
        longest(&heard, begin, Instant::now())
    );

    router("weirgate links remove");
    assert_eq!(routing(), shaped);
    router("weirgate remove");
    assert_eq!(routing(), bare);
}

/// A policy with an IFB, through which all that arrives has to pass.
const ARRIVING: &str = r#"
version = 1
[link]
device = "wan0"
up = "10mbit"
down = "20mbit"
layer = "ethernet"
inbound = "ifb"
[[class]]
name = "all"
share = "100%"
default = true
"#;

#[test]
#[ignore = "runs in the guest"]
fn an_ifb_stays() {
    build();
    fs::write("/run/arriving.toml", ARRIVING).unwrap();
    fs::write(FILE, LINKS).unwrap();
    fs::write("/run/other.toml", OTHER).unwrap();
    router("weirgate apply /run/arriving.toml");
    let shaped = || {
        let device = router("ip -o link show ifb-wan0");
        let tree = router("tc -d qdisc show dev ifb-wan0");
        (device, tree, router("weirgate plan /run/arriving.toml"))
    };
    let before = shaped();
    assert!(before.2.contains("nothing"), "{}", before.2);
    for line in [
        format!("weirgate links apply {FILE}"),
        format!("{APPLY} 1s"),
        format!("{APPLY} 30s"),
        "weirgate rollback".to_owned(),
        format!("{APPLY} 30s"),
        "weirgate confirm".to_owned(),
        "weirgate rollback".to_owned(),
        "weirgate links remove".to_owned(),
    ] {
        println!("{}", router(&line));
        assert_eq!(shaped(), before, "{line}");
        if line.ends_with(" 1s") {
            sleep(Duration::from_secs(1) + BACK);
            assert_eq!(fate(), "returned by itself");
            assert_eq!(shaped(), before, "it was taken back");
        }
    }
    router("weirgate remove");
}

/// Returns the names of the links in force, in their order.
fn held() -> Vec<String> {
    let text = router("weirgate links show --json");
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    let links = shown["links"].as_array().into_iter().flatten();
    links
        .map(|link| link["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
#[ignore = "runs in the guest"]
fn held_meanwhile() {
    build();
    let bare = routing();
    fs::write(FILE, LINKS).unwrap();
    fs::write("/run/other.toml", OTHER).unwrap();
    router(&format!("weirgate links apply {FILE}"));
    let service = Service::begin_with(&[]);
    service.says("links of /run/links.toml", Duration::from_secs(5));
    let before = routing();

    router(&format!("{APPLY} 2s"));
    service.says("links of /run/other.toml", Duration::from_secs(1));
    let after = routing();
    assert_ne!(after, before);
    assert_eq!(held(), ["second", "first"]);
    service.says("links of /run/links.toml", Duration::from_secs(4));
    sleep(BACK);
    assert_eq!(routing(), before);
    assert_eq!(held(), ["first", "second"]);

    router(&format!("{APPLY} 2s"));
    router("weirgate confirm");
    sleep(Duration::from_secs(3));
    assert_eq!(routing(), after);
    assert_eq!(held(), ["second", "first"]);
    // A service begins with the confirmed links.
    service.end();
    let service = Service::begin_with(&[]);
    service.says("links of /run/other.toml", Duration::from_secs(5));
    assert!(refused("weirgate links remove").contains("already"));
    service.end();
    router("weirgate links remove");
    assert_eq!(routing(), bare);
    // A rollback to the state after the removal removes the links, also without a policy.
    router(&format!("weirgate links apply {FILE}"));
    assert_ne!(routing(), bare);
    router("weirgate rollback");
    assert_eq!(routing(), bare);
}

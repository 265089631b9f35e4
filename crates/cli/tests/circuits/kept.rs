// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists that survive the device and reboots, and single circuits: tests that run in the guest.
//! Ignored elsewhere.

use crate::inside::{document, done, fails, in_force_of, line, net, settled};
use crate::lists::{CircuitLine, written};
use libbpf_rs::Link;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The folder of the pins of circuits, and the file of the kept list.
const PINS: &str = "/sys/fs/bpf/weirgate/circuits";
pub(crate) const KEPT: &str = "/var/lib/weirgate/circuits/sub0.list";

pub(crate) type InForce = (BTreeMap<String, u64>, BTreeMap<String, String>);

pub(crate) fn boot() -> String {
    let output = Command::new("weirgate")
        .arg("boot")
        .output()
        .expect("weirgate");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    error
}

/// A device without neighbours.
pub(crate) fn make() {
    net::run("ip link add sub0 type dummy");
    net::run("ip link set sub0 up");
}

fn is_root() -> bool {
    let mut command = Command::new("tc");
    let output = command
        .args(["qdisc", "show", "dev", "sub0", "root"])
        .output();
    String::from_utf8_lossy(&output.expect("tc").stdout).contains("weir_c")
}

/// Returns the folders of pins: one for each device.
pub(crate) fn pinned() -> Vec<String> {
    let entries = fs::read_dir(PINS).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.path().display().to_string());
    names.collect()
}

/// Returns whether the program that finds leaves is attached to a device.
fn is_attached() -> bool {
    // While it is being attached again, there is none.
    let folders = pinned().into_iter().next().unwrap_or_default();
    let Ok(link) = Link::open(format!("{folders}/egress")) else {
        return false;
    };
    let info = link.info().expect("a link");
    match info.info {
        libbpf_rs::query::LinkTypeInfo::Tcx(tcx) => tcx.ifindex == net::ifindex("sub0"),
        _ => false,
    }
}

fn detach(which: &str) {
    let link = Link::open(format!("{}/{which}", pinned()[0])).expect("a pin");
    link.detach().expect("a link");
}

/// Waits for a condition, at most `longest`; returns the time that it took.
pub(crate) fn within(longest: Duration, what: &str, is: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < longest, "{what} within {longest:?}");
        thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

pub(crate) struct Keeper(Child);

impl Keeper {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("weirgate");
        let child = command.arg("keep").stderr(Stdio::inherit()).spawn();
        Self(child.expect("weirgate"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Simulates a reboot: only the file remains.
pub(crate) fn forget_all() {
    forget_all_of("sub0");
}

/// Simulates a reboot for a device.
pub(crate) fn forget_all_of(device: &str) {
    net::run(&format!("tc qdisc del dev {device} root"));
    for folder in pinned() {
        fs::remove_dir_all(folder).expect("pins");
    }
}

/// A list is restored after a reboot, after its device was created again, and after a program was
/// detached. Single changes are restored too, and nothing stays of removed circuits.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_list_outlives_its_device() {
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=300).map(line).collect();
    let list = written("kept", &lines, 100);
    done(&format!("apply sub0 {list} --rate 1gbit"));
    done("change sub0 7 --down-max 3mbit");
    done("remove sub0 9");
    let expected: InForce = in_force_of("sub0");
    assert_eq!(expected.0["c7"], 375_000);
    assert_eq!(expected.0.get("c9"), None);
    assert_eq!(expected.0["l"], 125_000_000);
    forget_all();
    settled([0; 3]);
    let text = boot();
    assert!(text.contains("sub0: its circuits are in force"), "{text}");
    assert!(is_root() && is_attached());
    assert_eq!(in_force_of("sub0"), expected);
    // A second boot has nothing to do.
    assert!(!boot().contains("sub0"));
    // A removed device leaves pins until the next command.
    net::run("ip link del sub0");
    assert_eq!(pinned().len(), 1);
    boot();
    assert_eq!(pinned().len(), 0);
    settled([0; 3]);
    // The service restores it with the device, whatever its index.
    let keeper = Keeper::start();
    thread::sleep(Duration::from_millis(500));
    for round in 0..2 {
        make();
        let took = within(Duration::from_secs(5), "circuits", is_root);
        println!(
            "round {round}: in force {} ms after the device",
            took.as_millis()
        );
        within(Duration::from_secs(2), "pins", || {
            pinned().len() == 1 && is_attached()
        });
        assert_eq!(in_force_of("sub0"), expected);
        if round == 0 {
            net::run("ip link del sub0");
            within(Duration::from_secs(5), "no pins", || pinned().is_empty());
        }
    }
    // Another tool removes the root and detaches a program.
    net::run("tc qdisc del dev sub0 root");
    within(Duration::from_secs(5), "a root", is_root);
    detach("egress");
    assert!(!is_attached());
    let took = within(Duration::from_secs(30), "a program", is_attached);
    println!(
        "the program is on the device again after {} ms",
        took.as_millis()
    );
    assert_eq!(in_force_of("sub0"), expected);
    drop(keeper);
    // Without the service, the next command repairs it.
    detach("marks");
    detach("egress");
    let text = done("change sub0 7 --down-max 3mbit");
    assert!(
        text.contains("another program had removed a program"),
        "{text}"
    );
    assert!(is_attached());
    detach("egress");
    let text = done(&format!("apply sub0 {list} --rate 1gbit"));
    assert!(
        text.contains("another program had removed a program"),
        "{text}"
    );
    assert!(
        text.contains("1 node added, 1 changed, 0 removed"),
        "{text}"
    );
    assert!(is_attached());
    done("remove sub0 --all");
    assert!(!fs::exists(KEPT).expect("a folder"));
    assert!(!boot().contains("sub0"));
    net::run("ip link del sub0");
    settled([0; 3]);
}

/// Gives wrong commands for circuits of [`one_circuit_comes_changes_and_goes`].
fn wrong_commands_change_nothing() {
    let expected = in_force_of("sub0");
    let kept = fs::read(KEPT).expect("a file");
    for (what, part) in [
        (
            "add sub0 new,1 --addresses 203.0.113.9 --down-max 1mbit --up-max 1mbit",
            "already",
        ),
        (
            "add sub0 x --addresses 100.64.0.2 --down-max 1mbit --up-max 1mbit",
            "is of the circuit `2`",
        ),
        (
            "add sub0 x --addresses 10.64.0.24/29 --down-max 1mbit --up-max 1mbit",
            "is of the circuit `3`",
        ),
        (
            "add sub0 x --parent nowhere --down-max 1mbit --up-max 1mbit",
            "no site `nowhere`",
        ),
        ("add sub0 x --plan nothing", "no plan `nothing`"),
        ("change sub0 x --down-max 1mbit", "no circuit `x`"),
        ("change sub0 3 --down-min 1gbit", "at most"),
        ("change wan7 3 --down-max 1mbit", "wan7"),
        ("remove sub0", "--all"),
    ] {
        let text = fails(what, 2);
        assert!(text.contains(part), "{what}: {text}");
    }
    assert_eq!(in_force_of("sub0"), expected);
    assert_eq!(fs::read(KEPT).expect("a file"), kept);
}

/// A circuit is added, changed and removed while the others stay. Afterwards the list has the same
/// content, and applying it again changes nothing.
#[test]
#[ignore = "runs in the lab's kernel"]
fn one_circuit_comes_changes_and_goes() {
    settled([0; 3]);
    make();
    let mut lines: Vec<CircuitLine> = (1..=100).map(line).collect();
    let list = written("one", &lines, 100);
    done(&format!("apply sub0 {list}"));
    let before: InForce = in_force_of("sub0");
    let add = "add sub0 new,1 --parent site-1 --addresses 203.0.113.7,2001:db8:9::/48 --down-max \
               20mbit --up-max 2mbit";
    let text = done(add);
    assert!(
        text.contains("1 node added, 0 changed, 0 removed, 2 entries"),
        "{text}"
    );
    assert!(done(add).contains("0 nodes added, 0 changed, 0 removed, 0 entries"));
    let (nodes, table) = in_force_of("sub0");
    assert_eq!(nodes["cnew,1"], 2_500_000);
    assert_eq!(
        (&*table["203.0.113.7"], &*table["2001:db8:9::/48"]),
        ("cnew,1", "cnew,1")
    );
    assert_eq!(
        (nodes.len(), table.len()),
        (before.0.len() + 1, before.1.len() + 2)
    );
    // A guarantee of a circuit also counts for its site.
    done("change sub0 new,1 --down-min 5mbit --addresses 203.0.113.8");
    let shown = |name: &str| -> serde_json::Value {
        let text = done(&format!("show sub0 {name} --json"));
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")[0].clone()
    };
    assert_eq!(shown("site-1")["guarantee_bit_s"], 5_000_000);
    done("change sub0 new,1 --parent site-2");
    assert_eq!(shown("site-1")["guarantee_bit_s"], 0);
    assert_eq!(shown("site-2")["guarantee_bit_s"], 5_000_000);
    let table = in_force_of("sub0").1;
    assert_eq!(table.get("203.0.113.7"), None);
    assert_eq!(table["203.0.113.8"], "cnew,1");
    // A suspended circuit keeps its settings.
    done("change sub0 new,1 --suspended yes");
    assert_eq!(shown("new,1")["ceiling_bit_s"], 64_000);
    assert_eq!(shown("site-2")["guarantee_bit_s"], 0);
    done("change sub0 new,1 --suspended no");
    assert_eq!(shown("new,1")["ceiling_bit_s"], 20_000_000);
    assert_eq!(shown("site-2")["guarantee_bit_s"], 5_000_000);
    wrong_commands_change_nothing();
    // A prefix within that of another circuit takes precedence.
    done("add sub0 within --addresses 10.64.0.24/30 --down-max 1mbit --up-max 1mbit");
    assert_eq!(in_force_of("sub0").1["10.64.0.24/30"], "cwithin");
    done("remove sub0 within new,1 nobody");
    assert_eq!(in_force_of("sub0"), before);
    // A list restores what single changes altered.
    let changed = document("change sub0 5 --down-max 7mbit");
    let entries = |changed: usize| {
        json!({
            "added": 0, "changed": changed, "removed": 0, "written": 0,
        })
    };
    let expected = json!({ "device": "sub0", "circuit": "5", "entries": entries(1) });
    assert_eq!(changed, json!({ "changes": [expected] }));
    let removed = &document("remove sub0 6")["changes"][0];
    assert_eq!(
        (&removed["circuit"], &removed["entries"]["removed"]),
        (&json!("6"), &json!(1))
    );
    lines.retain(|line| line.number != 6);
    lines[4].kbit = 7_000;
    let list = written("one", &lines, 100);
    let text = done(&format!("apply sub0 {list}"));
    assert!(
        text.contains("0 nodes added, 0 changed, 0 removed, 0 entries"),
        "{text}"
    );
    let planned = document(&format!("plan sub0 {list}"));
    assert_eq!(planned, json!({ "steps": [] }));
    let applied = &document(&format!("apply sub0 {list}"))["changes"][0];
    assert_eq!(applied["list"]["circuits"], 99);
    assert_eq!(applied["entries"], entries(0));
    let removed = document("remove sub0 --all");
    let expected = json!({ "device": "sub0", "list": null });
    assert_eq!(removed, json!({ "changes": [expected] }));
    net::run("ip link del sub0");
    settled([0; 3]);
}

/// Returns many addresses, so that a change takes a measurable time.
pub(crate) fn addresses(net: u32) -> String {
    let all = (0..250).map(|host| format!("198.18.{net}.{host}"));
    all.collect::<Vec<_>>().join(",")
}

/// The states that killed changes left in force: one of two, after the next command.
pub(crate) struct Killed {
    both: [InForce; 2],
    now: usize,
    as_before: u32,
    as_wanted: u32,
    mended: u32,
}

impl Killed {
    /// Starts with the second state in force.
    pub(crate) fn of(both: [InForce; 2]) -> Self {
        Self {
            both,
            now: 1,
            as_before: 0,
            as_wanted: 0,
            mended: 0,
        }
    }

    /// Returns the state that the next change requests.
    pub(crate) fn wanted(&self) -> usize {
        1 - self.now
    }

    /// Checks the state after a change was killed.
    pub(crate) fn look(&mut self) {
        self.mended += u32::from(boot().contains("sub0"));
        let found = in_force_of("sub0");
        let is = self.both.iter().position(|one| *one == found);
        let is = is.expect("one of both is in force");
        if is == self.now {
            self.as_before += 1;
        } else {
            self.as_wanted += 1;
        }
        self.now = is;
    }

    /// Returns the results as text. Both states must have occurred, and at least one repair.
    pub(crate) fn told(&self) -> String {
        let Self {
            as_before,
            as_wanted,
            mended,
            ..
        } = self;
        let told = format!("{as_before} times as before, {as_wanted} as wanted, {mended} mended");
        assert!(*as_before > 2 && *as_wanted > 2 && *mended > 0, "{told}");
        told
    }
}

/// A change of one circuit that is killed leaves the old circuit or the new one, after the next
/// command.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_killed_change_of_one_is_mended() {
    const KILLS: u32 = 24;
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=200).map(line).collect();
    done(&format!("apply sub0 {}", written("killed", &lines, 100)));
    let to = [0, 1].map(|net| {
        let kbit = 1_000 + net;
        format!(
            "change sub0 8 --down-max {kbit}kbit --addresses {}",
            addresses(net)
        )
    });
    done(&to[1]);
    let began = Instant::now();
    done(&to[0]);
    let whole = began.elapsed();
    let old: InForce = in_force_of("sub0");
    done(&to[1]);
    let mut killed = Killed::of([old, in_force_of("sub0")]);
    for kill in 0..KILLS {
        let wanted = killed.wanted();
        let mut command = Command::new("weirgate");
        command.arg("circuits").args(to[wanted].split_whitespace());
        let mut child = command.stderr(Stdio::null()).spawn().expect("weirgate");
        thread::sleep(whole / 3 + whole * (kill + 1) / (KILLS * 3 / 2));
        child.kill().expect("a process");
        child.wait().expect("a process");
        killed.look();
    }
    let (ms, told) = (whole.as_millis(), killed.told());
    println!("{KILLS} changes of {ms} ms killed: {told}");
    done("remove sub0 --all");
    net::run("ip link del sub0");
}

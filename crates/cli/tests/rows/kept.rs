// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The repair of what was removed or changed from outside, or disappeared with a device.

use crate::inside::{
    Busy, PINS, SITE, asked, attach_point, bare, configured, done, gone, pins, root, site, within,
};
use crate::net;
use libbpf_rs::Link;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use weirgate_bpf::Store;
use weirgate_state::Rows;
use weirgate_units::Rate;

struct Keeper(Child);

impl Keeper {
    fn start() -> Self {
        let mut command = Command::new("weirgate");
        let child = command.arg("keep").stderr(Stdio::inherit()).spawn();
        let keeper = Self(child.expect("weirgate"));
        thread::sleep(Duration::from_millis(500));
        keeper
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Changes rates from outside.
fn meddle(first: &Rows) {
    let mut other = first.clone();
    other.nodes[0].guarantee = Rate::kbit(1);
    other.nodes[1].ceiling = Some(Rate::kbit(700));
    let store = Store::open().expect("pins");
    store.set_rows(attach_point("wan0"), &other).expect("maps");
}

/// Detaches the program that sets marks.
fn detach() {
    let marks = Link::open(pins("wan0").join("marks")).expect("a pin");
    marks.detach().expect("a link");
}

/// Checks repairs with the service, without it, and after a reboot.
#[test]
#[ignore = "runs in the lab's kernel"]
fn what_somebody_removed_comes_back() {
    let far = site();
    SITE.applied();
    let first = ["wan0", "ifb-wan0"].map(|device| configured(device).expect("a tree"));
    let whole = || ["wan0", "ifb-wan0"].map(configured) == first.clone().map(Some);
    let busy = Busy::begin();
    // No service runs: the next command finds the change.
    meddle(&first[0]);
    assert!(!whole());
    println!("{}", done("boot"));
    assert!(whole(), "{:?}", configured("wan0"));
    detach();
    assert!(!configured("wan0").expect("a tree").marks);
    println!("{}", done("boot"));
    assert!(whole());
    busy.end(first[0].gate, 0.0);
    // Like a reboot, this removes the pins and leaves the files.
    for device in ["wan0", "ifb-wan0"] {
        fs::remove_dir_all(pins(device)).expect("pins");
    }
    assert!(!whole());
    println!("{}", done("boot"));
    assert!(whole());
    // The service makes the same repairs.
    let keeper = Keeper::start();
    for device in ["wan0", "ifb-wan0"] {
        net::run(&format!("tc qdisc del dev {device} root"));
        let took = within(Duration::from_secs(5), "a root", || {
            root(device).contains("qdisc weir_r")
        });
        println!("{device}: a root again after {} ms", took.as_millis());
        within(Duration::from_secs(2), "its rows", whole);
    }
    meddle(&first[0]);
    let took = within(Duration::from_secs(15), "the rows", whole);
    println!("rows again after {} ms", took.as_millis());
    detach();
    let took = within(Duration::from_secs(15), "marks", whole);
    println!("marks again after {} ms", took.as_millis());
    // Without a difference, nothing is written.
    let looks = asked("wan0");
    thread::sleep(Duration::from_secs(12));
    assert_eq!(asked("wan0"), looks);
    // The device is deleted with all its parts, and created again.
    drop(far);
    within(Duration::from_secs(5), "no pins", || {
        fs::read_dir(PINS).map_or(0, Iterator::count) == 0
    });
    let far = net::Far::new(2);
    let took = within(Duration::from_secs(10), "the device's rows", || {
        fs::exists("/sys/class/net/ifb-wan0").expect("a folder") && whole()
    });
    println!("in force {} ms after the device", took.as_millis());
    drop(keeper);
    gone(far);
    bare();
}

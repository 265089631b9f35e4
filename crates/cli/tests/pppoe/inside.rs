// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs in the guest.

use crate::CUTS;
use crate::daemons::{Daemon, KEEP_LOG, provider_hangs_up};
use crate::session::{Load, host_connects, line_carries, run, say, set_up, until};
use crate::told::{What, Word, monitor};
use crate::wire::{Frames, capture, index};
use serde_json::Value;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use weirgate_kernel::Kernel;

/// One class upstream, with this layer.
fn upstream(device: &str, layer: &str) -> String {
    format!(
        "version = 1\nclass = [{{ name = \"all\", share = \"100%\", default = true }}]\n\
         [link]\ndevice = \"{device}\"\ndevice-kind = \"pppoe\"\nmtu = 1492\nup = \"2mbit\"\n\
         layer = \"{layer}\"\n",
    )
}

fn apply(policy: &str) {
    fs::write("/tmp/site.toml", policy).unwrap();
    run("weirgate apply /tmp/site.toml");
}

/// What a device has sent: bytes as charged, and packets, by its root qdisc.
fn passed(runtime: &Runtime, kernel: &Kernel, device: &str) -> Option<(u64, u64)> {
    let devices = runtime.block_on(kernel.overview()).ok()?;
    let device = devices.iter().find(|one| one.name == device)?;
    let mut qdiscs = device.counters.qdiscs.iter();
    let root = qdiscs.find(|qdisc| qdisc.parent.is_none())?;
    Some((root.bytes, root.packets))
}

fn kernel() -> (Runtime, Kernel) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let kernel = runtime.block_on(async { Kernel::open().unwrap() });
    (runtime, kernel)
}

/// Waits until a session is there whose device is younger than this.
fn dialled(device: &str, after: u32) -> u32 {
    let up = || {
        let now = index(device).filter(|index| *index > after)?;
        // The default route, which pppd sets last: its destination is 0.
        let routes = fs::read_to_string("/proc/net/route").ok()?;
        let mut routes = routes.lines().map(str::split_whitespace);
        let is_default = |route: &mut std::str::SplitWhitespace<'_>| {
            route.next() == Some(device) && route.next() == Some("00000000")
        };
        routes
            .any(|mut route| is_default(&mut route))
            .then_some(now)
    };
    until("session", up)
}

/// The frames of the session that is none of these.
fn frames(frames: &Mutex<Frames>, before: &[u16]) -> Option<(u16, u64)> {
    let frames = frames.lock().unwrap();
    let mut sessions = frames.count.iter();
    let new = sessions.find(|(session, _)| !before.contains(session));
    new.map(|(session, count)| (*session, *count))
}

/// All that hangs on a device, and every table. Numbers of loaded programs are left out, and
/// queues of flows, which the kernel lists as classes.
fn everything(device: &str) -> String {
    let list = |what: &str| run(&format!("tc {what} show dev {device}"));
    let classes = list("class");
    let classes = classes.lines().filter(|line| line.starts_with("class htb"));
    let filters = ["ingress", "egress"].map(|place| list_filters(device, place));
    let classes = classes.collect::<Vec<_>>().join("\n");
    let tables = run("nft list ruleset");
    format!("{}{classes}\n{}{tables}", list("qdisc"), filters.concat())
}

fn list_filters(device: &str, place: &str) -> String {
    let listed = run(&format!("tc filter show dev {device} {place}"));
    let mut words = listed.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word == "id" {
            words.next();
        }
    }
    kept.join(" ")
}

/// When a device that came had what.
struct Times {
    /// Its root qdisc.
    root: Duration,
    /// All qdiscs and classes.
    whole: Duration,
    /// The programs for what arrives, where there are any.
    programs: Duration,
    /// It was switched on.
    up: Duration,
}

impl Times {
    fn of(words: &[Word], index: u32, device: &str) -> Self {
        let own = words.iter().filter(|word| word.1 == index);
        let first = |wanted: &dyn Fn(&What) -> bool| {
            let mut own = own.clone().filter(|word| wanted(&word.2));
            own.next().map(|word| word.0)
        };
        let named = |up: bool| move |what: &What| matches!(what, What::Device(name, is_up) if name == device && (*is_up || !up));
        let came = first(&named(false)).expect("a device");
        let up = first(&named(true)).expect("a device that is up");
        let root = first(&|what| *what == What::Root).expect("a root qdisc");
        let last = |wanted: &[What]| {
            let own = own.clone().filter(|word| wanted.contains(&word.2));
            own.map(|word| word.0).max().unwrap_or(came)
        };
        let (whole, programs) = (last(&[What::Root, What::Part]), last(&[What::Program]));
        Self {
            root: root.saturating_duration_since(came),
            whole: whole.saturating_duration_since(came),
            programs: programs.saturating_duration_since(came),
            up: up.saturating_duration_since(came),
        }
    }
}

/// The ways in which a session ends.
const WAYS: [&str; 5] = [
    "the router hangs up",
    "the provider's pppd dies",
    "the line is silent for 6 s",
    "the wire is switched off and on",
    "the router's pppd dies, and another is started",
];

fn end_session(way: usize, dialler: &mut Daemon, device: &str) {
    match way {
        0 => dialler.hangs_up(),
        1 => provider_hangs_up(dialler),
        2 => {
            line_carries(false);
            thread::sleep(Duration::from_secs(6));
            line_carries(true);
        }
        3 => {
            run("ip link set wire down");
            until("end of the session", || {
                index(device).is_none().then_some(())
            });
            run("ip link set wire up");
        }
        _ => {
            dialler.ends();
            *dialler = Daemon::dialler();
        }
    }
}

/// Sessions end while a host sends more than the line takes; each device that comes back
/// is shaped before a packet leaves by it.
fn cuts(device: &str, policy: &str) {
    let cuts: usize = std::env::var(CUTS).unwrap().parse().unwrap();
    set_up(device);
    let (runtime, kernel) = kernel();
    let (words, seen) = (monitor(), capture("wire"));
    let _server = Daemon::server();
    let mut dialler = Daemon::dialler();
    let mut number = dialled(device, 0);
    say("a session is there");
    apply(policy);
    let wanted = everything(device);
    let _keep = Daemon::keep();
    thread::sleep(Duration::from_secs(1));
    let load = Load::new();
    host_connects();
    let segment = seen.lock().unwrap().segment;
    assert_eq!(
        segment,
        Some(1_452),
        "the segment size on a link of 1492 bytes"
    );
    let (mut slowest, mut slowest_whole) = (Duration::ZERO, Duration::ZERO);
    let (mut unshaped, mut wrong) = (0, Vec::new());
    load.set(true);
    for cut in 0..cuts {
        thread::sleep(Duration::from_millis(200));
        let before: Vec<u16> = seen.lock().unwrap().count.keys().copied().collect();
        words.lock().unwrap().clear();
        end_session(cut % WAYS.len(), &mut dialler, device);
        number = dialled(device, number);
        until("traffic", || {
            frames(&seen, &before).filter(|(_, count)| *count > 50)
        });
        load.set(false);
        thread::sleep(Duration::from_millis(400));
        let (session, left) = frames(&seen, &before).unwrap();
        let (_, shaped) = passed(&runtime, &kernel, device).unwrap();
        let times = Times::of(&words.lock().unwrap(), number, device);
        say(&format!(
            "cut {cut}: {}: session {session}, root qdisc after {:.2} ms, whole tree after {:.2} \
             ms, programs after {:.2} ms, up after {:.2} ms; {left} packets left, {shaped} by the tree",
            WAYS[cut % WAYS.len()],
            times.root.as_secs_f64() * 1e3,
            times.whole.as_secs_f64() * 1e3,
            times.programs.as_secs_f64() * 1e3,
            times.up.as_secs_f64() * 1e3,
        ));
        let shown: Value = serde_json::from_str(&run("weirgate show --json")).unwrap();
        let now = everything(device);
        if shown["differences"] != Value::Array(Vec::new()) || now != wanted {
            wrong.push((cut, shown["differences"].clone(), now));
        }
        slowest = slowest.max(times.root);
        slowest_whole = slowest_whole.max(times.whole);
        unshaped += left.abs_diff(shaped);
        load.set(true);
    }
    say(&fs::read_to_string(KEEP_LOG).unwrap());
    say(&format!(
        "{cuts} cuts: root qdisc after at most {:.2} ms, whole tree after at most {:.2} ms, \
         {unshaped} packets beside the tree",
        slowest.as_secs_f64() * 1e3,
        slowest_whole.as_secs_f64() * 1e3,
    ));
    assert!(wrong.is_empty(), "{wanted}\n{wrong:#?}");
    assert_eq!(unshaped, 0, "packets beside the tree");
    assert!(slowest < Duration::from_millis(10), "{slowest:?}");
    assert!(
        slowest_whole < Duration::from_millis(50),
        "{slowest_whole:?}"
    );
}

/// pppd makes the device under another name first.
#[test]
#[ignore = "runs in the guest"]
fn one_class() {
    cuts("dsl0", &upstream("dsl0", "vdsl2:pppoe"));
}

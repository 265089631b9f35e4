// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared parts of the tests in the guest: a site, its policy, and queries of the kernel's state.

use crate::net::{self, Far, Flood};
use crate::tap::{Tap, settled};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use std::fmt::Write as _;
use std::fs;
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_bpf::{AttachPoint, Store};
use weirgate_state::Rows;
use weirgate_units::Rate;

/// The folder with the pins of the trees of devices.
pub const PINS: &str = Store::ROWS_FOLDER;

/// Runs weirgate; returns its output and its exit status.
pub fn weirgate(line: &str) -> (String, Option<i32>) {
    let output = Command::new("weirgate")
        .args(line.split_whitespace())
        .output()
        .expect("weirgate");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (text, output.status.code())
}

/// Runs a command that must succeed; returns its output.
#[track_caller]
pub fn done(line: &str) -> String {
    let (text, status) = weirgate(line);
    assert_eq!(status, Some(0), "{line}: {text}");
    text
}

/// The part of the policy that differs between tests.
#[derive(Clone, Copy)]
pub struct Site {
    pub engine: &'static str,
    /// The share of class `stream` in per cent; `rest` has 30, and `bulk` what remains of 90.
    pub stream: u32,
    /// The share of an additional class, in per cent.
    pub more: Option<u32>,
    /// The router's own upstream limit over all classes, in kbit/s.
    pub cap: Option<u32>,
}

/// The site of most tests.
pub const SITE: Site = Site {
    engine: "rows",
    stream: 20,
    more: None,
    cap: None,
};

/// The upstream rate in kbit/s.
pub const UP: u64 = 2_000;

impl Site {
    fn text(&self) -> String {
        let bulk = 90 - self.stream - 30 - self.more.unwrap_or(0);
        let mut text = format!(
            "version = 1\n[link]\ndevice = \"wan0\"\nlan = \"wan1\"\nup = \"{UP}kbit\"\n\
             down = \"8mbit\"\nlayer = \"raw\"\ninbound = \"ifb\"\nengine = \"{}\"\n\
             [group.router]\naddresses = [\"10.0.0.1\"]\n\
             [[class]]\nname = \"stream\"\nshare = \"{}%\"\npriority = 0\n\
             [[class]]\nname = \"rest\"\nshare = \"30%\"\npriority = 5\ndefault = true\n\
             [[class]]\nname = \"bulk\"\nshare = \"{bulk}%\"\npriority = 5\n",
            self.engine, self.stream
        );
        if let Some(share) = self.more {
            let _ = write!(
                text,
                "[[class]]\nname = \"more\"\nshare = \"{share}%\"\npriority = 3\n\
                 [[rule]]\nclass = \"more\"\nprotocol = \"udp\"\nremote-port = 12\n"
            );
        }
        if let Some(kbit) = self.cap {
            let _ = write!(
                text,
                "[[cap]]\ngroup = \"router\"\nup = \"{kbit}kbit\"\ndown = \"4mbit\"\n"
            );
        }
        text + "[[rule]]\nclass = \"stream\"\nprotocol = \"udp\"\nremote-port = 7\n\
                [[rule]]\nclass = \"bulk\"\nprotocol = \"tcp\"\nremote-port = 9\n"
    }

    /// Writes the policy to the file with this name; returns its path.
    pub fn written(&self, name: &str) -> String {
        let path = format!("/{name}.toml");
        fs::write(&path, self.text()).expect("a file");
        path
    }

    /// Applies the policy; a plan must then have nothing to change.
    #[track_caller]
    pub fn applied(&self) -> String {
        let path = self.written("policy");
        let text = done(&format!("apply {path}"));
        let plan = done(&format!("plan {path}"));
        assert!(plan.contains("nothing to change"), "{plan}");
        text
    }
}

/// Returns a policy of 60 classes and of hosts with a limit over all classes. The first class has
/// `first` kbit/s, and the first host `limit` kbit/s.
pub fn many(engine: &str, up: u64, hosts: u32, (first, limit): (u32, u32)) -> String {
    let mut text = format!(
        "version = 1\n[link]\ndevice = \"wan0\"\nlan = \"wan1\"\nup = \"{up}kbit\"\n\
         down = \"100mbit\"\nlayer = \"raw\"\ninbound = \"ifb\"\nengine = \"{engine}\"\n"
    );
    for class in 0..60 {
        let kbit = if class == 0 { first } else { 20 };
        let default = if class == 59 { "default = true\n" } else { "" };
        let _ = write!(
            text,
            "[[class]]\nname = \"c{class}\"\nrate = \"{kbit}kbit\"\npriority = 4\n{default}\
             [[rule]]\nclass = \"c{class}\"\nprotocol = \"udp\"\nremote-port = {}\n",
            3_000 + class
        );
    }
    for host in 0..hosts {
        let kbit = if host == 0 { limit } else { 1_500 };
        let _ = write!(
            text,
            "[group.h{host}]\naddresses = [\"10.0.1.{}\"]\n\
             [[cap]]\ngroup = \"h{host}\"\nup = \"{kbit}kbit\"\ndown = \"8mbit\"\n",
            host + 10
        );
    }
    text
}

/// Returns the attach point at the root of a device.
pub fn attach_point(device: &str) -> AttachPoint {
    AttachPoint::root(net::ifindex(device)).expect("an attach point")
}

/// Returns the configuration of a device's tree.
pub fn configured(device: &str) -> Option<Rows> {
    let store = Store::open().expect("pins");
    store.configured_rows(attach_point(device)).expect("maps")
}

/// Returns the folder with the pins of a device's tree.
pub fn pins(device: &str) -> PathBuf {
    let point = attach_point(device);
    Path::new(PINS).join(format!("{}-{}", point.netns, point.ifindex))
}

/// Returns how many changed rows the program of a device was asked to check: the first word of
/// `engine_asks` (bpf/qdisc/engine/layout.h).
pub fn asked(device: &str) -> u32 {
    let map = MapHandle::from_pinned_path(pins(device).join("asks")).expect("a pin");
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::empty());
    let value = value.expect("a map").expect("an entry");
    u32::from_ne_bytes(value[..4].try_into().expect("four bytes"))
}

/// Returns the root qdisc of a device, as tc lists it.
pub fn root(device: &str) -> String {
    let line = format!("qdisc show dev {device} root");
    let output = Command::new("tc").args(line.split(' ')).output();
    String::from_utf8_lossy(&output.expect("tc").stdout).into_owned()
}

/// Returns the tables of nftables.
pub fn tables() -> String {
    let output = Command::new("nft")
        .args(["--stateless", "list", "ruleset"])
        .output();
    String::from_utf8_lossy(&output.expect("nft").stdout).into_owned()
}

/// Returns the numbers of all loaded programs.
pub fn programs() -> Vec<u32> {
    ProgInfoIter::default().map(|info| info.id).collect()
}

/// Returns the numbers of programs, maps and links.
pub fn objects() -> [usize; 3] {
    [
        ProgInfoIter::default().count(),
        MapInfoIter::default().count(),
        LinkInfoIter::default().count(),
    ]
}

/// Waits until a condition holds, at most for the given time; returns the time that it took.
#[track_caller]
pub fn within(longest: Duration, what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < longest, "{what} within {longest:?}");
        thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

/// Asserts that nothing of weirgate is loaded, pinned or attached to a device. The kernel frees
/// objects after a grace period.
#[track_caller]
pub fn bare() {
    assert!(!root("wan0").contains("weir_"), "{}", root("wan0"));
    assert_eq!(tables(), "");
    let pinned = fs::read_dir(PINS).map_or(0, Iterator::count);
    assert_eq!(pinned, 0, "pins");
    let mut last = [0; 3];
    within(
        Duration::from_secs(10),
        "no programs, maps and links",
        || {
            last = objects();
            last == [0; 3]
        },
    );
}

/// Returns whether no guard is left.
pub fn unguarded() -> bool {
    let entries = fs::read_dir("/run/weirgate").into_iter().flatten();
    !entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains(".guard"))
}

/// A load of the classes `rest` and `bulk` above the link's rate, and a capture of the packets that
/// leave.
pub struct Busy {
    tap: Tap,
    _floods: [Flood; 2],
    flow: TcpStream,
}

impl Busy {
    pub fn begin() -> Self {
        let busy = Self {
            tap: Tap::new("wan0"),
            _floods: [Flood::bursts(0, 0, 1_400, 4), Flood::bursts(0, 0, 300, 4)],
            flow: net::bulk_paced(0, 125_000),
        };
        // The first half second is ignored.
        thread::sleep(Duration::from_millis(700));
        busy
    }

    /// Stops the load, and asserts that no packet left early, with a tolerance of `more` bytes. A
    /// packet has the bytes of its IP datagram on the wire (`layer = "raw"`).
    #[track_caller]
    pub fn end(self, gate: Rate, more: f64) {
        let seen = settled(self.tap.end());
        let _ = self.flow.shutdown(Shutdown::Both);
        let (first, last) = (seen[0].0, seen[seen.len() - 1].0);
        let span = (last - first) as f64 / 1e9;
        let rate = gate.as_bytes_per_second() as f64;
        let (mut ahead, mut most, mut at, mut all) = (0_f64, (0_f64, 0), first, 0);
        for (index, (time, length)) in seen.iter().enumerate() {
            ahead = (ahead - (time - at) as f64 / 1e9 * rate).max(0.0);
            if ahead > most.0 {
                most = (ahead, index);
            }
            ahead += (length - 14) as f64;
            all += length - 14;
            at = *time;
        }
        let (most, index) = most;
        println!(
            "{} packets in {span:.1} s, {:.4} of the gate; {most:.1} bytes early at most",
            seen.len(),
            all as f64 / span / rate
        );
        // Print the packets around the worst one, with times relative to it.
        for (time, length) in &seen[index.saturating_sub(4)..seen.len().min(index + 2)] {
            let since = (*time as f64 - seen[index].0 as f64) / 1e3;
            println!("  {since:.0} us: {} bytes", length - 14);
        }
        println!(
            "  {:.3} s after the first",
            (seen[index].0 - first) as f64 / 1e9
        );
        // The gate compensates for `ENGINE_LATE_NS` of aqm/host/engine.h, and between gate and
        // device there are 0.2 ms. The smallest packet takes 1.3 ms.
        let late = rate * (65_536e-9 + 200e-6);
        assert!(most <= late + more, "{most} bytes early");
    }
}

/// Creates the devices `wan0`, the link, and `wan1`, the LAN, without remains of earlier tests.
pub fn site() -> Far {
    // A failed test may have left a policy.
    weirgate("remove");
    within(Duration::from_secs(10), "nothing of another test", || {
        objects() == [0; 3]
    });
    Far::new(2)
}

/// Removes the policy, and asserts that nothing remains.
pub fn gone(far: Far) {
    done("remove");
    bare();
    drop(far);
}

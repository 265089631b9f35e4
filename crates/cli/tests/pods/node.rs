// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node and its pods, made of namespaces. The node's devices are `pod0`, `pod1` and so on; their
//! other ends are in one namespace that stands for all pods. Packets from pods return by the first
//! device.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
pub use weirgate_testing::run;

/// The folder of the files.
pub const FOLDER: &str = "/run/pods";
const NODE: &str = "10.0.0.1";

/// Returns the address of a pod.
pub fn address(pod: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, (pod >> 8) as u8, pod as u8)
}

/// Runs many command lines of ip(8) at once.
fn batch(options: &[&str], lines: &str) {
    let mut ip = Command::new("ip")
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("ip");
    let mut input = ip.stdin.take().expect("its input");
    input.write_all(lines.as_bytes()).expect("its input");
    drop(input);
    assert!(ip.wait().expect("ip").success(), "{options:?}");
}

/// Creates a node with pods.
pub fn build(pods: usize) {
    run("ip netns add pods");
    run("ip link set lo up");
    run(&format!("ip address add {NODE}/32 dev lo"));
    let (mut here, mut there) = (String::new(), String::from("link set lo up\n"));
    for pod in 0..pods {
        let (address, mac) = (
            address(pod),
            format!("02:00:00:00:{:02x}:{:02x}", pod >> 8, pod & 255),
        );
        let _ = write!(
            here,
            "link add pod{pod} type veth peer name eth{pod} address {mac} netns pods\n\
             link set pod{pod} up\n\
             neighbour add {address} lladdr {mac} dev pod{pod} nud permanent\n\
             route add {address}/32 dev pod{pod} src {NODE}\n"
        );
        let _ = writeln!(there, "link set eth{pod} up");
    }
    batch(&[], &here);
    let mac = fs::read_to_string("/sys/class/net/pod0/address").expect("the first device");
    // Every address of a pod is local to the namespace.
    let _ = write!(
        there,
        "route add local 10.1.0.0/16 dev lo\n\
         route add {NODE}/32 dev eth0\n\
         neighbour add {NODE} lladdr {} dev eth0 nud permanent\n",
        mac.trim()
    );
    batch(&["-n", "pods"], &there);
    fs::create_dir_all(FOLDER).expect("a folder");
}

/// Starts a thread in the namespace of the pods.
pub fn among_pods<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let file = File::open("/run/netns/pods").expect("the namespace");
    thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("the namespace");
        what()
    })
}

/// Writes a device's file as users must: a temporary file first, then a rename.
pub fn write(device: &str, text: &str) {
    let folder = Path::new(FOLDER);
    let beside = folder.join(".new");
    fs::write(&beside, text).expect("a file");
    fs::rename(&beside, folder.join(device)).expect("a file");
}

/// Returns the root qdisc of a device, as tc(8) prints it.
pub fn root(device: &str) -> String {
    run(&format!("tc qdisc show dev {device} root"))
}

/// `weirgate pods`, with its messages and their times.
pub struct Service(Child, Receiver<(Instant, String)>);

impl Service {
    pub fn start() -> Self {
        let mut child = Command::new("weirgate")
            .args(["pods", FOLDER])
            .stderr(Stdio::piped())
            .spawn()
            .expect("weirgate");
        let message = child.stderr.take().expect("its messages");
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(message).lines().map_while(Result::ok) {
                if tell.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        Self(child, lines)
    }

    /// Waits for a line with this text; returns its time.
    #[track_caller]
    pub fn says(&self, words: &str) -> Instant {
        let mut before = Vec::new();
        loop {
            let message = self.1.recv_timeout(Duration::from_mins(1));
            let (at, line) = message.unwrap_or_else(|_| panic!("`{words}` after {before:?}"));
            if line.contains(words) {
                return at;
            }
            before.push(line);
        }
    }

    /// Asserts that nothing is reported for 200 ms.
    pub fn is_silent(&self) {
        let message = self.1.recv_timeout(Duration::from_millis(200));
        assert!(message.is_err(), "{message:?}");
    }

    /// Returns how long the service was ready to run without a processor since its start
    /// (`run_delay`, proc(5)'s schedstat).
    pub fn waited_ms(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.0.id()));
        let text = text.expect("a process");
        let delay = text.split_whitespace().nth(1).expect("a figure");
        delay.parse::<f64>().expect("a number") / 1e6
    }

    pub fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        number(&status.expect("a process"), "VmRSS:")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a number from a file below /proc.
pub fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.expect("a figure").parse().expect("a number")
}

/// Returns the available memory in kB.
pub fn free_kb() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("a file");
    number(&text, "MemAvailable:")
}

/// Returns how long the processor has been idle since the machine started (`idle` of proc_stat(5)).
pub fn idle_ms() -> u64 {
    let text = fs::read_to_string("/proc/stat").expect("a file");
    let words: Vec<&str> = text.split_whitespace().collect();
    let ticks: u64 = words[4].parse().expect("a number");
    // `USER_HZ` is 100 (include/asm-generic/param.h).
    ticks * 10
}

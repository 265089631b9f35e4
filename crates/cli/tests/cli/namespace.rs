// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network namespace in which tests apply policies, with its own `/run`.

use crate::program::{Ended, WEIRGATE, root};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A network namespace with the devices `wan` and `lan` and an empty `/run`. It lives as long as a
/// process that waits in it.
pub struct Namespace {
    holder: Child,
    wait: Option<ChildStdin>,
}

impl Namespace {
    pub fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c"])
            .arg("mount -t tmpfs none /run && exec cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut wait = holder.stdin.take().unwrap();
        // The echo shows that the namespace exists.
        wait.write_all(b"ready\n").unwrap();
        let mut line = String::new();
        let echo = holder.stdout.as_mut().unwrap();
        BufReader::new(echo).read_line(&mut line).unwrap();
        assert_eq!(
            line, "ready\n",
            "these tests need root: they make namespaces"
        );
        let namespace = Self {
            holder,
            wait: Some(wait),
        };
        for (device, peer) in [("wan", "far"), ("lan", "inside")] {
            namespace.run(&format!("ip link add {device} type veth peer name {peer}"));
            namespace.run(&format!("ip link set {device} up"));
            namespace.run(&format!("ip link set {peer} up"));
        }
        namespace
    }

    /// Creates a namespace with a name, like `ip netns add`. What is applied in it is recognized
    /// after a restart.
    pub fn named() -> Self {
        let namespace = Self::new();
        for line in [
            "mkdir /run/netns",
            "touch /run/netns/site",
            "mount --bind /proc/self/ns/net /run/netns/site",
        ] {
            namespace.run(line);
        }
        namespace
    }

    /// Simulates a loss of power: removes `/run/weirgate` and the kernel's state. The caller must
    /// kill the guards before.
    pub fn restart(&self) {
        // Not every policy creates these.
        for line in ["tc qdisc del dev wan clsact", "ip link del ifb-wan"] {
            let mut words = line.split(' ');
            let mut command = self.command(words.next().unwrap());
            command.args(words).output().unwrap();
        }
        for line in [
            "rm -r /run/weirgate",
            "tc qdisc del dev wan root",
            "nft flush ruleset",
            "cp /proc/sys/kernel/random/uuid /run/boot",
            "mount --bind /run/boot /proc/sys/kernel/random/boot_id",
        ] {
            self.run(line);
        }
        self.offloads_on();
    }

    /// Flips a bit in the middle of a file.
    pub fn damage(&self, file: &str) {
        let path = format!("/proc/{}/root{file}", self.holder());
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&path, bytes).unwrap();
    }

    /// Returns the process that keeps the namespace alive.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Returns a command that runs in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.holder.id()))
            .args(["--net", "--mount", "--", program])
            .env("WEIRGATE_STATE_DIR", "/run/kept");
        command
    }

    /// Runs a command that must succeed; returns its output.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().unwrap());
        let ended = Ended::of(&command.args(words).output().unwrap());
        assert_eq!(ended.status, 0, "{line}: {ended:?}");
        ended.out
    }

    /// Runs `weirgate` with a command and, if the line has one, a policy of `tests/cli`.
    pub fn weirgate(&self, line: &str) -> Ended {
        self.started_by(WEIRGATE, &[], line)
    }

    pub fn started_by(&self, program: &str, first: &[&str], line: &str) -> Ended {
        let folder = root().join("tests/cli");
        let mut command = self.command(program);
        command.args(first);
        for word in line.split(' ') {
            if Path::new(word).extension().is_some() {
                command.arg(folder.join(word));
            } else {
                command.arg(word);
            }
        }
        Ended::of(&command.output().unwrap())
    }

    /// Does the same without the capability to change the network.
    pub fn powerless(&self, line: &str) -> Ended {
        let drop = [
            "--bounding-set=-net_admin",
            "--inh-caps=-net_admin",
            WEIRGATE,
        ];
        self.started_by("setpriv", &drop, line)
    }

    /// Sets the offloads to the initial values of a veth pair.
    pub fn offloads_on(&self) {
        for device in ["wan", "lan"] {
            self.run(&format!("ethtool -K {device} tso on gso on gro off"));
            self.run(&format!("ip link set {device} gso_max_segs 65535"));
        }
    }

    /// Returns all network state that weirgate could have changed, and its own files of state.
    pub fn snapshot(&self) -> String {
        let mut text = String::new();
        for line in [
            "ip -d link show",
            "tc -d qdisc show",
            "tc -d class show dev wan",
            "tc -d class show dev lan",
            "tc filter show dev wan",
            "tc filter show dev wan ingress",
            "tc filter show dev lan",
            "nft --stateless list ruleset",
            "ethtool -k wan",
            "ethtool -k lan",
            "find /run -ignore_readdir_race -name state.json",
        ] {
            // The kernel lists tables and sets in order of creation.
            let printed = self.run(line);
            // The carrier of a new device appears after an arbitrary delay.
            let printed = printed.replace("NO-CARRIER,", "");
            let printed = printed.replace("state LOWERLAYERDOWN", "state UP");
            // Entries that packets create in a meter or a queue are not state of the policy.
            let own = printed
                .lines()
                .filter(|line| !is_metered(line) && !is_flow(line));
            let lasting = own.map(|line| uncounted(lasting(line)));
            let mut lines: Vec<String> = lasting.collect();
            lines.sort_unstable();
            writeln!(text, "$ {line}\n{}", lines.join("\n")).unwrap();
        }
        text
    }
}

/// A process that is killed when the test ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text before HTB's count of packets that passed its classes by, for example packets of IPv6.
const COUNTER: &str = " direct_packets_stat ";

/// Returns whether a line of nft lists the addresses that a meter counts.
fn is_metered(line: &str) -> bool {
    let listed = line.trim_start().starts_with("elements = {");
    listed && (line.contains(" limit rate ") || line.contains(" ct count "))
}

/// Returns whether a line of tc lists a flow, which a queue shows as a class while it serves it.
fn is_flow(line: &str) -> bool {
    line.starts_with("class fq_codel ")
}

/// Returns a line of a listing without the parts that vary: a new device's number and address, and
/// a loaded program's number.
fn lasting(line: &str) -> &str {
    let numbered = line.split_once(": ");
    let number = numbered.filter(|(number, _)| number.parse::<u32>().is_ok());
    match number {
        Some((_, rest)) => rest,
        None if line.contains("link/ether") => "link/ether",
        None if line.contains(" bpf ") => line.split_once(" id ").map_or(line, |(begin, _)| begin),
        None => line,
    }
}

/// Returns a line without the value of HTB's counter.
fn uncounted(line: &str) -> String {
    match line.split_once(COUNTER) {
        Some((before, rest)) => {
            let after = rest.trim_start_matches(|one: char| one.is_ascii_digit());
            format!("{before}{COUNTER}N{after}")
        }
        None => line.to_owned(),
    }
}

/// Asserts that two snapshots are equal; shows the lines that differ.
#[track_caller]
pub fn same(before: &str, after: &str) {
    let only = |one: &str, other: &str| -> Vec<String> {
        let other: Vec<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !other.contains(line));
        lines.map(str::to_owned).collect()
    };
    let (gone, new) = (only(before, after), only(after, before));
    assert!(before == after, "gone: {gone:#?}\nnew: {new:#?}");
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.wait.take());
        let _ = self.holder.wait();
    }
}

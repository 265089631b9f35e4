// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures a large policy: 1,000 hosts and 200 rules in both directions, compared with the same
//! result by `tc -batch` and `nft -f`.
//!
//! Everything happens in a separate network namespace, with queues that every kernel has. Each
//! figure is the median of several runs of a whole command, including its start.

use crate::bench::figure::{Figure, Goal};
use crate::command::run;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

/// The number of runs for a median.
const RUNS: usize = 11;
const HOSTS: usize = 1_000;
const RULES: usize = 200;
const CLASSES: usize = 20;

/// Returns the policy; with `changed`, one rule has another class.
fn policy(changed: bool) -> String {
    let mut text = String::from(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"100mbit\"\n\
         down = \"500mbit\"\nlayer = \"ethernet\"\n[ack]\nreserve = true\nqueue = \"pfifo 100\"\n",
    );
    for class in 0..CLASSES {
        let _ = write!(
            text,
            "[[class]]\nname = \"class{class}\"\nshare = \"5%\"\nqueue = \"pfifo 100\"\n\
             default = {}\n",
            class + 1 == CLASSES
        );
    }
    let each = HOSTS / RULES;
    for rule in 0..RULES {
        let host = |n: usize| {
            let n = rule * each + n;
            // Every fifth host has an IPv6 address.
            if n % 5 == 4 {
                format!("\"2001:db8::{n:x}\"")
            } else {
                format!("\"10.{}.{}.{}\"", n % 7, n / 250, n % 250 + 1)
            }
        };
        let hosts: Vec<String> = (0..each).map(host).collect();
        let moved = usize::from(changed && rule == RULES / 2);
        let _ = write!(
            text,
            "[[rule]]\nclass = \"class{}\"\nprotocol = \"{}\"\nlocal-address = [{}]\n\
             remote-port = [{}, {}]\n",
            (rule + moved) % (CLASSES - 1),
            ["tcp", "udp"][rule % 2],
            hosts.join(", "),
            1_000 + rule,
            20_000 + rule
        );
    }
    text
}

/// A network namespace with `wan` and `lan`, and its own `/run`.
pub struct Namespace {
    holder: Child,
    wait: Option<ChildStdin>,
}

impl Namespace {
    /// Makes a namespace; needs root.
    pub fn new() -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("unshare (package util-linux)")?;
        let mut wait = holder.stdin.take().context("its input")?;
        wait.write_all(b"ready\n")?;
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().context("its output")?).read_line(&mut line)?;
        ensure!(line == "ready\n", "this needs root: it makes a namespace");
        let namespace = Self {
            holder,
            wait: Some(wait),
        };
        Self::time(&mut namespace.command("mount -t tmpfs none /run"))?;
        for (device, peer) in [("wan", "far"), ("lan", "inside")] {
            let pair = format!("ip link add {device} type veth peer name {peer}");
            for line in [
                pair,
                format!("ip link set {device} up"),
                format!("ip link set {peer} up"),
            ] {
                Self::time(&mut namespace.command(&line))?;
            }
        }
        Ok(namespace)
    }

    /// Returns a process in the namespace, which identifies it.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Returns a command in the namespace, split at single spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.holder.id()))
            .args(["--net", "--mount", "--"])
            .args(line.split(' '))
            .env("WEIRGATE_STATE_DIR", "/run/kept");
        command
    }

    /// Returns the duration in seconds of a command, which must succeed.
    fn time(command: &mut Command) -> Result<f64> {
        let start = Instant::now();
        run(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        Ok(start.elapsed().as_secs_f64())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.wait.take());
        let _ = self.holder.wait();
    }
}

/// Returns the median of several figures.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the parts of an exported script: the input of `tc -batch`, and each input of `nft -f`.
/// Lines of other programs are left out.
fn parts(script: &str) -> (String, Vec<String>) {
    let (mut tc, mut nft) = (String::new(), Vec::new());
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("nft -f") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "END").collect();
            nft.push(text.join("\n") + "\n");
        } else if let Some(words) = line.strip_prefix("tc ")
            && !line.contains("|| true")
        {
            let _ = writeln!(tc, "{words}");
        }
    }
    (tc, nft)
}

/// Measures the figures; needs root.
pub fn figures(root: &Path) -> Result<Vec<Figure>> {
    let program = crate::files::program(root, "weirgate");
    let program = program.display();
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (one, other) = (file("one.toml"), file("other.toml"));
    fs::write(&one, policy(false))?;
    fs::write(&other, policy(true))?;
    let place = Namespace::new()?;
    let time = |line: String| Namespace::time(&mut place.command(&line));
    let several = |each: &dyn Fn(usize) -> Result<f64>| -> Result<f64> {
        let times: Result<Vec<f64>> = (0..RUNS).map(each).collect();
        Ok(median(times?))
    };
    let nothing = several(&|_| time("true".to_owned()))?;
    let start = several(&|_| time(format!("{program} --version")))?;
    let check = several(&|_| time(format!("{program} check {one}")))?;
    let apply = several(&|_| {
        let taken = time(format!("{program} apply {one}"))?;
        time(format!("{program} remove"))?;
        Ok(taken)
    })?;
    time(format!("{program} apply {one}"))?;
    let policies = [&other, &one];
    let change = several(&|run| time(format!("{program} apply {}", policies[run % 2])))?;
    let last = policies[(RUNS - 1) % 2];
    let unchanged = several(&|_| time(format!("{program} apply {last}")))?;
    time(format!("{program} remove"))?;
    // Apply the same with the standard tools, without reading back or a rollback.
    let script = Command::new(program.to_string())
        .args(["export", &one])
        .output()?;
    ensure!(script.status.success(), "`export` failed");
    let (tc, nft) = parts(&String::from_utf8(script.stdout)?);
    ensure!(
        !tc.is_empty() && nft.len() == 2,
        "the exported script has another form"
    );
    fs::write(file("tc"), &tc)?;
    fs::write(file("nft"), nft.concat())?;
    let by_tools = several(&|_| {
        let setup = time("ip link add ifb-wan type ifb".to_owned())?
            + time("ip link set ifb-wan up".to_owned())?;
        let taken =
            time(format!("tc -batch {}", file("tc")))? + time(format!("nft -f {}", file("nft")))?;
        for line in ["ip link del ifb-wan", "tc qdisc del dev wan root"] {
            time(line.to_owned())?;
        }
        Ok(setup + taken)
    })?;
    // The device to which rules redirect must exist.
    time("ip link add ifb-wan type ifb".to_owned())?;
    let reload = several(&|_| time(format!("nft -f {}", file("nft"))))?;
    let figure = |what, value, goal| Figure { what, value, goal };
    Ok(vec![
        figure(
            "1,000 hosts, 200 rules: `check`, s",
            check,
            Goal::AtMost(0.3),
        ),
        figure("  first `apply`, s", apply, Goal::AtMost(1.0)),
        figure(
            "  the same by ip, tc -batch and nft -f, s",
            by_tools,
            Goal::Beside,
        ),
        figure(
            "  `apply` with one rule changed, s",
            change,
            Goal::AtMost(0.02),
        ),
        // Each is the difference between the times of two commands.
        figure("    entering the namespace, s", nothing, Goal::Beside),
        figure("    starting the program, s", start - nothing, Goal::Beside),
        figure(
            "    reading and compiling the policy, s",
            check - start,
            Goal::Beside,
        ),
        figure(
            "    reading what is kept, asking the kernel, comparing, s",
            unchanged - check,
            Goal::Beside,
        ),
        figure(
            "    guard, history, writing, reading back, s",
            change - unchanged,
            Goal::Beside,
        ),
        figure(
            "  the same by nft -f of the whole tables, s",
            reload,
            Goal::Beside,
        ),
        figure("  `apply` of what is there, s", unchanged, Goal::Beside),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_differ_by_one_line() {
        let (one, other) = (policy(false), policy(true));
        let differing = one.lines().zip(other.lines()).filter(|(a, b)| a != b);
        assert_eq!(differing.count(), 1);
        assert_eq!(one.matches("[[rule]]").count(), RULES);
        let hosts = one.matches("\"10.").count() + one.matches("\"2001:").count();
        assert_eq!(hosts, HOSTS);
    }

    #[test]
    fn a_script_is_taken_apart() {
        let script = "set -eu\ntc qdisc del dev wan root 2>/dev/null || true\n# x\n\
                      tc qdisc add dev wan root\nnft -f - <<'END'\ntable inet a\nEND\n\
                      nft -f - <<'END'\ntable netdev a\nEND\n";
        let (tc, nft) = parts(script);
        assert_eq!(tc, "qdisc add dev wan root\n");
        assert_eq!(nft, ["table inet a\n", "table netdev a\n"]);
    }
}

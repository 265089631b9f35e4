// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of `weirgate watch` with 300 hosts, 80 of them active, eight classes in both
//! directions, one sample per second, and all numbers sent by remote write and OTLP. Half of the
//! traffic to hosts is TCP, which they acknowledge, so that the cost of round-trip measurement is
//! included.
//!
//! Before, the history has nearly four hours of 1,504 other series, so that the memory figure
//! includes rare work. The first quarter of an hour is sealed with these series and its own, and
//! then sixteen are condensed at once.
//!
//! Everything happens in two separate network namespaces, a router's and one for all hosts. The
//! cost of the BPF programs that measure packets is included: the kernel reports their run time and
//! the memory of their maps.

use crate::bench::figure::{Ended, Figure, Goal};
use crate::bench::policy::Namespace;
use crate::bench::traffic::{CLASSES, PORT, RECEIVER};
use crate::command::run;
use crate::files::program;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The times before and during the measurement.
const SETTLE: Duration = Duration::from_secs(30);
const MEASURED: Duration = Duration::from_mins(1);

/// Clock ticks per second in `/proc/PID/stat`: `USER_HZ` is 100 on all supported machines.
const TICKS: f64 = 100.0;

const WATCH: &str = "127.0.0.1:9617";
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn policy() -> String {
    let mut text = String::from(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"20mbit\"\n\
         down = \"100mbit\"\nlayer = \"ethernet\"\ninbound = \"lan\"\n",
    );
    for class in 0..CLASSES {
        let _ = write!(
            text,
            "[[class]]\nname = \"class{class}\"\nshare = \"12%\"\nqueue = \"pfifo 100\"\n\
             default = {}\n",
            class + 1 == CLASSES
        );
        if class + 1 < CLASSES {
            let _ = write!(
                text,
                "[[rule]]\nclass = \"class{class}\"\nprotocol = [\"tcp\", \"udp\"]\nremote-port = {0}\n\
                 keep = true\n\
                 [[rule]]\nclass = \"class{class}\"\nprotocol = [\"tcp\", \"udp\"]\nlocal-port = {0}\n",
                PORT + class
            );
        }
    }
    text
}

/// Measures the figures.
pub fn figures(root: &Path) -> Result<Vec<Figure>> {
    let place = Namespace::new()?;
    let hosts = Namespace::new()?;
    // All hosts are one machine with all their addresses.
    run(&mut hosts.command("ip link del lan"))?;
    run(&mut place.command(&format!("ip link set inside netns {}", hosts.pid())))?;
    for line in [
        "ip link set lo up",
        "ip link set inside up",
        "ip addr add 10.8.255.254/16 dev inside",
        "ip route add local 10.8.1.0/24 dev lo",
        "ip route add local 10.8.2.0/24 dev lo",
    ] {
        run(&mut hosts.command(line))?;
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("policy.toml");
    fs::write(&file, policy())?;
    for line in [
        "ip link set lo up",
        "ip link set wan arp off",
        "ip addr add 10.9.0.1/24 dev wan",
        "ip addr add 10.8.0.1/16 dev lan",
    ] {
        run(&mut place.command(line))?;
    }
    let weirgate = program(root, "weirgate").display().to_string();
    let apply = format!("{weirgate} apply {}", file.display());
    run(place.command(&apply).stdout(Stdio::null()))?;
    let own = std::env::current_exe()?.display().to_string();
    let answering = hosts.command(&format!("{own} bench-watch --hosts")).spawn();
    let _answering = Ended(answering.context("the hosts")?);
    let inside = place
        .command(&format!("{own} bench-watch --inside"))
        .spawn();
    let _inside = Ended(inside.context("what sends")?);
    let history = folder.path().join("history");
    let mut before = crate::command::cargo(root);
    before.args(["run", "--release"]);
    before.args(["-p", "weirgate-history", "--example", "day"]);
    run(before.arg(&history).arg("--nearly"))?;
    let mut watch = place.command(&format!(
        "{weirgate} watch --listen {WATCH} --history {} --remote-write http://{RECEIVER} --otlp http://{RECEIVER}",
        history.display()
    ));
    let watch = Ended(
        watch
            .stderr(Stdio::null())
            .spawn()
            .context("weirgate watch")?,
    );
    let before = fs::read_to_string(STATS)?;
    fs::write(STATS, "1")?;
    let measured = measured(&place, &own, watch.0.id());
    fs::write(STATS, before)?;
    measured
}

fn measured(place: &Namespace, own: &str, pid: u32) -> Result<Vec<Figure>> {
    sleep(SETTLE);
    let (begin, before) = (Instant::now(), spent(pid)?);
    sleep(MEASURED);
    let (after, passed) = (spent(pid)?, begin.elapsed().as_secs_f64());
    let part = |after: f64, before: f64| (after - before) / passed * 100.0;
    let output = place
        .command(&format!("{own} bench-watch --series"))
        .output()?;
    let series = String::from_utf8_lossy(&output.stdout);
    let (series, condensed) = series.trim().split_once(' ').context("what is kept")?;
    ensure!(condensed == "true", "no quarter of an hour was condensed");
    let series = series.parse().context("how many series there are")?;
    let (memory, maps) = (memory(pid)?, sum_of_descriptors(pid, "memlock:")? / 1e6);
    let beside = |what, value| Figure {
        what,
        value,
        goal: Goal::Beside,
    };
    Ok(vec![
        beside("watch: series", series),
        beside("watch: its processes, % of a core", part(after.0, before.0)),
        beside(
            "watch: its BPF programs, % of a core",
            part(after.1, before.1),
        ),
        Figure {
            what: "watch: both, % of a core",
            value: part(after.0 + after.1, before.0 + before.1),
            goal: Goal::AtMost(2.0),
        },
        beside("watch: its processes' memory at most, MB", memory),
        beside("watch: its BPF maps, MB", maps),
        Figure {
            what: "watch: memory with its BPF maps, MB",
            value: memory + maps,
            goal: Goal::AtMost(60.0),
        },
    ])
}

/// Returns the collector's process, and the process that it started for requests.
fn both(pid: u32) -> Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let web = children.split_whitespace().map(str::parse);
    let both: Result<Vec<u32>, _> = [Ok(pid)].into_iter().chain(web).collect();
    Ok(both?)
}

/// Returns the processor seconds of watch's processes, and the run time of its BPF programs.
fn spent(pid: u32) -> Result<(f64, f64)> {
    let mut ticks = 0.0;
    for pid in both(pid)? {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The fields after the name, which is in brackets: fields 14 and 15 of proc(5).
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let own = rest.split(' ').skip(11).take(2);
        ticks += own.filter_map(|one| one.parse::<f64>().ok()).sum::<f64>();
    }
    let nanoseconds = sum_of_descriptors(pid, "run_time_ns:")?;
    Ok((ticks / TICKS, nanoseconds / 1e9))
}

/// Sums up a number that the kernel reports for a process's descriptors: the run time of programs,
/// or the bytes of maps and programs.
fn sum_of_descriptors(pid: u32, name: &str) -> Result<f64> {
    let mut sum = 0.0;
    for file in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let Ok(text) = fs::read_to_string(file?.path()) else {
            continue;
        };
        let number = text.lines().find_map(|line| line.strip_prefix(name));
        sum += number.map_or(0.0, |number| number.trim().parse().unwrap_or(0.0));
    }
    Ok(sum)
}

/// Returns the sum of the peak memory of watch's processes. The program itself, which they share,
/// is counted in each.
fn memory(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for pid in both(pid)? {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.trim().split(' ').next());
        let kb: f64 = kb.context("VmHWM")?.parse()?;
        sum += kb * 1024.0 / 1e6;
    }
    Ok(sum)
}

/// Runs in the namespace: prints how many series watch has, and whether it has steps of a minute.
#[allow(clippy::print_stdout, reason = "it is for the process outside")]
pub fn series() -> Result<()> {
    let mut stream = TcpStream::connect(WATCH)?;
    stream.write_all(b"GET /api/about HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").context("an answer")?;
    let about: Value = serde_json::from_str(body)?;
    let history = &about["history"];
    let series = history["series"].as_u64().context("the number of series")?;
    println!("{series} {}", history["spans_ms"][1].is_array());
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weirgate watch` costs with 300 hosts, 80 of them active, eight classes
//! both ways, a look a second, and all numbers sent by remote write and OTLP.
//!
//! Everything happens in a network namespace of its own. What packets are timed
//! by counts too: the kernel says how long its BPF programs ran.

use crate::bench::{Figure, Goal};
use crate::bench_policy::Namespace;
use crate::run;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const CLASSES: u16 = 8;
const HOSTS: u16 = 300;
const ACTIVE: u16 = 80;
/// Datagrams by the second: down to each active host in turn, and up.
const DOWN: u32 = 2_000;
const UP: u32 = 500;

/// Before it is measured, and while it is.
const SETTLE: Duration = Duration::from_secs(30);
const MEASURED: Duration = Duration::from_mins(1);

/// Ticks by the second of `/proc/PID/stat`: `USER_HZ` is 100 on every machine
/// that Linux runs on here.
const TICKS: f64 = 100.0;

const RECEIVER: &str = "127.0.0.1:9000";
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
                "[[rule]]\nclass = \"class{class}\"\nprotocol = \"udp\"\nremote-port = {}\n\
                 keep = true\n",
                5_000 + class
            );
        }
    }
    text
}

/// Ends a process when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The figures.
pub fn figures(root: &Path) -> Result<Vec<Figure>> {
    let place = Namespace::new()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("policy.toml");
    fs::write(&file, policy())?;
    for line in [
        "ip link set lo up",
        "ip link set wan arp off",
        "ip link set lan arp off",
        "ip addr add 10.9.0.1/24 dev wan",
        "ip addr add 10.8.0.1/16 dev lan",
    ] {
        run(&mut place.command(line))?;
    }
    let weirgate = root.join("target/release/weirgate").display().to_string();
    let apply = format!("{weirgate} apply {}", file.display());
    run(place.command(&apply).stdout(Stdio::null()))?;
    let own = std::env::current_exe()?.display().to_string();
    let inside = place
        .command(&format!("{own} bench-watch --inside"))
        .spawn();
    let _inside = Ended(inside.context("what sends")?);
    let history = folder.path().join("history");
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
    let series = series.trim().parse().context("how many series there are")?;
    let beside = |what, value| Figure {
        what,
        value,
        goal: Goal::Beside,
    };
    Ok(vec![
        beside("watch: series", series),
        beside("watch: its process, % of a core", part(after.0, before.0)),
        beside(
            "watch: its BPF programs, % of a core",
            part(after.1, before.1),
        ),
        Figure {
            what: "watch: both, % of a core",
            value: part(after.0 + after.1, before.0 + before.1),
            goal: Goal::AtMost(2.0),
        },
        Figure {
            what: "watch: memory at most, MB",
            value: memory(pid)?,
            goal: Goal::AtMost(60.0),
        },
    ])
}

/// Seconds that the process has used, and that its BPF programs have run.
fn spent(pid: u32) -> Result<(f64, f64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which is in brackets: field 14 and 15 of proc(5).
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = rest.split(' ').skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|one| one.parse::<f64>().ok()).sum();
    let mut nanoseconds = 0.0;
    for file in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let Ok(text) = fs::read_to_string(file?.path()) else {
            continue;
        };
        let time = text
            .lines()
            .find_map(|line| line.strip_prefix("run_time_ns:"));
        nanoseconds += time.map_or(0.0, |time| time.trim().parse().unwrap_or(0.0));
    }
    Ok((ticks / TICKS, nanoseconds / 1e9))
}

fn memory(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().split(' ').next());
    let kb: f64 = kb.context("VmHWM")?.parse()?;
    Ok(kb * 1024.0 / 1e6)
}

/// In the namespace: takes what is delivered, and sends to all hosts.
pub fn inside() -> Result<()> {
    let receiver = TcpListener::bind(RECEIVER)?;
    thread::spawn(move || {
        for stream in receiver.incoming().flatten() {
            thread::spawn(move || taken(&stream));
        }
    });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let host = |number: u16| format!("10.8.{}.{}", 1 + number / 200, 1 + number % 200);
    for number in 0..HOSTS {
        socket.send_to(&[0; 100], format!("{}:4000", host(number)))?;
    }
    let begin = Instant::now();
    for count in 0_u32.. {
        // One in eight is for somebody who is seldom heard of.
        let number = if count % 8 == 7 {
            count / 8 % u32::from(HOSTS)
        } else {
            count % u32::from(ACTIVE)
        };
        let number = number as u16;
        let port = 5_000 + count as u16 % CLASSES;
        // A full queue is the gate's matter, not the sender's.
        let _ = socket.send_to(&[0; 400], format!("{}:{port}", host(number)));
        if count.is_multiple_of(DOWN / UP) {
            let _ = socket.send_to(&[0; 400], format!("10.9.0.2:{port}"));
        }
        let due = Duration::from_secs_f64(f64::from(count) / f64::from(DOWN));
        sleep(due.saturating_sub(begin.elapsed()));
    }
    Ok(())
}

/// Takes requests and says so, until the connection ends.
fn taken(stream: &TcpStream) {
    let mut to = stream;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let body = std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink());
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        if body.is_err() || to.write_all(answer).is_err() {
            return;
        }
    }
}

/// In the namespace: prints how many series watch has.
#[allow(clippy::print_stdout, reason = "it is for the process outside")]
pub fn series() -> Result<()> {
    let mut stream = TcpStream::connect(WATCH)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("weirgate_history_series "));
    println!("{}", line.context("the number of series")?);
    Ok(())
}

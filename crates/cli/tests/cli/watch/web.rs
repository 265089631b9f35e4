// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process of `watch` that answers requests: its privileges as the kernel reports them, its
//! restart, and the users of this machine that it answers.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use crate::watch::Watch;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Returns the process that a service started to answer requests.
pub fn web(service: u32) -> Option<u32> {
    let children = format!("/proc/{service}/task/{service}/children");
    let text = std::fs::read_to_string(children).ok()?;
    let mut children = text.split_whitespace();
    children.next()?.parse().ok()
}

/// Returns the value of a field of `/proc/PID/status`.
fn status(process: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}

/// Sends a request as a user of this machine; returns up to 4,000 bytes of the answer.
fn asked_by(namespace: &Namespace, user: u32, address: &str) -> String {
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port}; \
         printf 'GET /api/now HTTP/1.0\\r\\n\\r\\n' >&3; head -c 4000 <&3"
    );
    let user = [format!("--reuid={user}"), format!("--regid={user}")];
    let mut command = namespace.command("setpriv");
    command
        .args(user)
        .args(["--clear-groups", "bash", "-c", &script]);
    let output = command.output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

#[test]
fn the_web_process_has_nothing_to_lose() {
    let watch = Watch::start(|_| {});
    watch.look(|now| now["objects"].is_array());
    let web = web(watch.id()).expect("a process");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(web, set), "0000000000000000", "{set}");
    }
    for (name, value) in [
        ("Uid", "65534\t65534\t65534\t65534"),
        ("Gid", "65534\t65534\t65534\t65534"),
        ("Groups", ""),
        ("NoNewPrivs", "1"),
        // Mode 2 is a filter of system calls.
        ("Seccomp", "2"),
    ] {
        assert_eq!(status(web, name), value, "{name}");
    }
    // Open files are sockets, descriptors that wait for them, and the lists of sockets. None is
    // writable except standard error.
    let folder = format!("/proc/{web}/fd");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let target = std::fs::read_link(&path).unwrap();
        let target = target.to_string_lossy().into_owned();
        let number = path.file_name().unwrap().to_string_lossy().into_owned();
        let kept = ["socket:", "anon_inode:[event", "pipe:", "/dev/null"];
        if !kept.iter().any(|kind| target.starts_with(kind)) {
            let flags = std::fs::read_to_string(format!("/proc/{web}/fdinfo/{number}")).unwrap();
            let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
            assert_eq!(flags & 3, 0, "{target} may be written");
            files.push(target);
        }
    }
    files.sort();
    for (file, end) in files.iter().zip(["/net/tcp", "/net/tcp6"]) {
        assert!(file.ends_with(end), "{files:?}");
    }
    assert_eq!(files.len(), 2, "{files:?}");
    let (own, its) = (resident(watch.id()), resident(web));
    println!("the collector has {own} kB, the web process {its} kB of its own");
}

/// Returns the kilobytes of memory that no other process shares.
fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let of = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    };
    of("Private_Clean:") + of("Private_Dirty:")
}

#[test]
fn a_web_process_that_ends_is_begun_again() {
    let watch = Watch::start(|_| {});
    let first = web(watch.id()).expect("a process");
    let first_look = watch.look(|now| now["time_ms"].is_i64());
    let before = first_look["time_ms"].as_i64();
    kill(first);
    let begin = Instant::now();
    // Until it has ended, it may accept a connection, which then breaks.
    gone(first);
    // A request in between waits for the next process.
    let now = watch.look(|now| now["time_ms"].as_i64() > before);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(now["interval_ms"].as_i64() < Some(1_000), "{now}");
    let second = web(watch.id()).expect("another");
    assert_ne!(first, second);
    // The web process ends with the collector.
    kill(watch.id());
    gone(second);
}

/// Waits until a process has ended.
fn gone(process: u32) {
    let folder = format!("/proc/{process}");
    let waiting = Instant::now();
    while status_if_there(&folder).is_some_and(|state| !state.starts_with('Z')) {
        assert!(waiting.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn status_if_there(folder: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(folder).join("status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("State:"))?;
    Some(line.trim().to_owned())
}

fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn other_users_of_this_machine_are_not_told_of_connections() {
    let watch = Watch::start(|_| {});
    assert!(asked_by(&watch.namespace, 0, &watch.address).starts_with("HTTP/1.0 200"));
    for user in [1000, 65_534] {
        let answer = asked_by(&watch.namespace, user, &watch.address);
        assert!(answer.starts_with("HTTP/1.0 403"), "{answer}");
        assert!(answer.contains("--user NAME"), "{answer}");
    }
}

/// The named user may look, and so may the user who called it by sudo.
#[test]
fn who_is_named_or_called_sudo_may_look() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    let folder = tempfile::tempdir().unwrap();
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["watch", "--listen", "127.0.0.1:0", "--user", "1000"])
        .arg("--history")
        .arg(folder.path().join("history"))
        .env("SUDO_UID", "1001")
        .stderr(Stdio::piped());
    let mut service = command.spawn().unwrap();
    let lines = messages(service.stderr.take().unwrap());
    let address = loop {
        let line = lines.recv_timeout(Duration::from_mins(1)).unwrap();
        if let Some((_, address)) = line.split_once("the page is at ") {
            break address.to_owned();
        }
    };
    for (user, status) in [(0, "200"), (1000, "200"), (1001, "200"), (1002, "403")] {
        let answer = asked_by(&namespace, user, &address);
        assert!(
            answer.starts_with(&format!("HTTP/1.0 {status}")),
            "{user}: {answer}"
        );
    }
    kill(service.id());
    service.wait().unwrap();
}

fn messages(stderr: std::process::ChildStderr) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        let read = BufReader::new(stderr).lines().map_while(Result::ok);
        read.for_each(|line| drop(send.send(line)));
    });
    lines
}

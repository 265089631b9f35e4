// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `watch` on a real file system without free space: it goes on, reports the failure, and writes
//! again when there is space.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn metrics(namespace: &Namespace, address: &str) -> String {
    let script =
        "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())";
    let mut command = namespace.command("/usr/bin/python3");
    let command = command.args(["-c", script, &format!("{address}metrics")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until the metrics contain a line.
fn until(namespace: &Namespace, address: &str, line: &str) {
    for _ in 0..300 {
        if metrics(namespace, address).lines().any(|one| one == line) {
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("no `{line}` in {}", metrics(namespace, address));
}

#[test]
fn a_full_disk_stops_nothing_and_is_reported() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    namespace.run("mkdir /run/small");
    namespace.run("mount -t tmpfs -o size=1m none /run/small");
    let mut fill = namespace.command("dd");
    fill.args([
        "if=/dev/zero",
        "of=/run/small/filler",
        "bs=4096",
        "count=240",
    ]);
    assert!(fill.stderr(Stdio::null()).status().unwrap().success());
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["watch", "--listen", "127.0.0.1:0", "--every", "200ms"])
        .args(["--history", "/run/small/history"])
        .stderr(Stdio::piped());
    let mut service = Ending(command.spawn().unwrap());
    let mut lines = BufReader::new(service.0.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("it ends at once").unwrap();
        if let Some((_, address)) = line.split_once("the page is at ") {
            break address.to_owned();
        }
    };
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    until(&namespace, &address, "weirgate_history_failing 0");
    // Another process fills the remaining space.
    let mut fill = namespace.command("dd");
    fill.args(["if=/dev/zero", "of=/run/small/rest", "bs=4096"]);
    assert!(!fill.stderr(Stdio::null()).status().unwrap().success());
    until(&namespace, &address, "weirgate_history_failing 1");
    namespace.run("rm /run/small/filler /run/small/rest");
    until(&namespace, &address, "weirgate_history_failing 0");
    until(&namespace, &address, "weirgate_history_lost_total 0");
    // The samples of that time are in the history.
    let ended = namespace.weirgate("watch export --history /run/small/history --from 1h");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("device_received_bytes"), "{ended:?}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Probes on a machine whose address changes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows what was measured"
)]

use rustix::thread::UnshareFlags;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weirgate_testing::run;
use weirgate_watch::{Legend, Number, Steps, Target};

/// Another network namespace, which lives as long as a process in it.
struct Far {
    holder: Child,
    wait: Option<ChildStdin>,
}

impl Far {
    fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut wait = holder.stdin.take().unwrap();
        // The echo shows that the namespace exists.
        wait.write_all(b"ready\n").unwrap();
        let mut line = String::new();
        let mut echo = BufReader::new(holder.stdout.as_mut().unwrap());
        echo.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "these tests need root");
        Self {
            holder,
            wait: Some(wait),
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.wait.take();
        let _ = self.holder.wait();
    }
}

/// Takes looks until a probe is answered, and returns how long that took. Answers of the first
/// half second may be to earlier echoes.
async fn answered(steps: &mut Steps) -> Duration {
    let begin = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let step = steps.step(time.as_millis() as i64, Instant::now());
        let step = step.await.unwrap();
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(20), "no answer");
        let changes = step.map(|step| step.changes).unwrap_or_default();
        let answer = changes
            .iter()
            .any(|one| one.value(Number::ProbeRtt).is_some());
        if answer && took > Duration::from_millis(500) {
            return took;
        }
    }
}

/// Probes `host` from this address, and then from another, which replaces it.
fn survives(host: &'static str, from: [&'static str; 2], length: u8) {
    let test = move || {
        // SAFETY: CLONE_NEWNET alone: the thread shares everything else, and memory safety does not
        // depend on the thread's network namespace.
        #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.expect("root");
        let far = Far::new();
        let there = far.holder.id();
        let [from, other] = from.map(|address| format!("{address}/{length} dev near"));
        let nodad = if host.contains(':') { " nodad" } else { "" };
        // This also permits the kernel's ICMPv6 sockets.
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
        for line in [
            &*format!("ip link add near type veth peer name far netns {there}"),
            "ip link set near up",
            &format!("ip addr add {from}{nodad}"),
            &format!("nsenter -t {there} -n ip link set far up"),
            &format!("nsenter -t {there} -n ip addr add {host}/{length} dev far{nodad}"),
        ] {
            run(line);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut steps = Steps::open(Legend::default()).unwrap();
            let target = Target {
                name: "voice".to_owned(),
                address: host.parse().unwrap(),
                dscp: 0,
            };
            steps.probe(&[target]).unwrap();
            answered(&mut steps).await;
            run(&format!("ip addr del {from}"));
            run(&format!("ip addr add {other}{nodad}"));
            let took = answered(&mut steps).await;
            println!("{host}: answers after {took:?}");
            assert!(took < Duration::from_secs(8), "{took:?}");
        });
    };
    if let Err(panic) = std::thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn probes_survive_another_address() {
    survives("192.0.2.1", ["192.0.2.10", "192.0.2.20"], 24);
}

#[test]
fn probes_survive_another_address_of_ipv6() {
    survives("2001:db8::1", ["2001:db8::10", "2001:db8::20"], 64);
}

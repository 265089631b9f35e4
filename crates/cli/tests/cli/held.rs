// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Services of which a network namespace has one at most.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pods_have_one_service() {
    let namespace = Namespace::new();
    namespace.run("mkdir /run/pods /run/others");
    let mut first = namespace.command(WEIRGATE);
    let first = Running(first.args(["pods", "/run/pods"]).spawn().unwrap());
    let lock = ["/run", "-name", "net-*.pods-lock"];
    let locked = || namespace.started_by("find", &lock, "-print");
    let begin = Instant::now();
    while locked().out.is_empty() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it does not begin"
        );
        sleep(Duration::from_millis(20));
    }
    for line in [
        "pods /run/pods",
        "pods /run/others",
        "pods --once /run/pods",
    ] {
        let second = namespace.started_by("timeout", &["20", WEIRGATE], line);
        let why = "`weirgate pods` holds the pods of this network namespace already; end it first";
        second.says(3, &[why]);
    }
    drop(first);
    namespace.weirgate("pods --once /run/pods").says(0, &[]);
}

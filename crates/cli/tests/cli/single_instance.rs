// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Services that may run at most once in a network namespace.

use crate::namespace::{Namespace, Running};
use crate::program::WEIRGATE;
use std::thread::sleep;
use std::time::{Duration, Instant};

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
        let why = "another `weirgate pods` already runs in this network namespace; end it \
                   first";
        second.says(3, &[why]);
    }
    drop(first);
    namespace.weirgate("pods --once /run/pods").says(0, &[]);
}

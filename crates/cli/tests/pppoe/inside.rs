// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared parts of the tests in the guest: a policy in force, and a device's counters.

use crate::session::{run, until};
use crate::wire::index;
use std::fs;
use tokio::runtime::{Builder, Runtime};
use weirgate_kernel::{DeviceName, Kernel};

/// Returns a policy with one class upstream, and this layer and rate.
pub fn upstream(device: &str, layer: &str, up: &str) -> String {
    format!(
        "version = 1\nclass = [{{ name = \"all\", share = \"100%\", default = true }}]\n\
         [link]\ndevice = \"{device}\"\ndevice-kind = \"pppoe\"\nmtu = 1492\nup = \"{up}\"\n\
         layer = \"{layer}\"\n",
    )
}

pub fn apply(policy: &str) {
    fs::write("/tmp/site.toml", policy).unwrap();
    run("weirgate apply /tmp/site.toml");
}

/// Returns what a device has sent by its root qdisc: bytes as charged, and packets.
pub fn passed(runtime: &Runtime, kernel: &Kernel, device: &str) -> Option<(u64, u64)> {
    let name = DeviceName::new(device)?;
    let stats = async { kernel.stats(kernel.device(&name).await?).await };
    let counters = runtime.block_on(stats).ok()?;
    let mut qdiscs = counters.qdiscs.iter();
    let root = qdiscs.find(|qdisc| qdisc.parent.is_none())?;
    Some((root.bytes, root.packets))
}

pub fn kernel() -> (Runtime, Kernel) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let kernel = runtime.block_on(async { Kernel::open().unwrap() });
    (runtime, kernel)
}

/// Waits for a session whose device has a number above `after`; returns that number.
pub fn dialled(device: &str, after: u32) -> u32 {
    let up = || {
        let now = index(device).filter(|index| *index > after)?;
        // pppd sets the default route last; its destination is 0.
        let routes = fs::read_to_string("/proc/net/route").ok()?;
        let mut routes = routes.lines().map(str::split_whitespace);
        let is_default = |route: &mut std::str::SplitWhitespace<'_>| {
            route.next() == Some(device) && route.next() == Some("00000000")
        };
        routes
            .any(|mut route| is_default(&mut route))
            .then_some(now)
    };
    until("session", up)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how many bytes this kernel charges for a packet, for each named link layer, on each
//! kind of device that it can create, and for each size.
//!
//! Size tables get to the kernel in the same way as a policy's (crates plan and kernel), and the
//! devices add their own headers to the packets. The measurement therefore does not depend on
//! crate linklayer's assumptions. It only returns the charges; a test of the lab compares them
//! with crate linklayer.
//!
//! The result is text, one line for each layer and device. A line has the layer's name, the
//! device, its kind, and the bytes charged for IP packets of 1 byte, 2 bytes and so on.

mod devices;
mod packets;

use anyhow::{Context, Result, anyhow, bail};
use devices::{CountedDevice, DEVICES};
use nlink::{Connection, Route};
use packets::Inlets;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::thread;
use tokio::runtime::Builder;
use weirgate_kernel::{Kernel, Scope};
use weirgate_linklayer::LinkLayer;
use weirgate_plan::{Options, plan_with};
use weirgate_state::State;

/// Lengths of the IP packets that are sent, in bytes.
const SIZES: RangeInclusive<u32> = 1..=2_047;

/// How often the process yields to wait for a packet that is still under way.
const PATIENCE: u32 = 1_000;

/// Measures all charges. It creates devices in the calling thread's network namespace and leaves
/// them there, so it needs its own machine. `progress` is called with the number of finished
/// layers, the total, and the current layer.
pub fn measure(progress: &mut dyn FnMut(u64, u64, &str)) -> Result<Vec<u8>> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop")?;
    runtime.block_on(async {
        let mut bench = Bench::set_up().await?;
        let mut text = String::new();
        let all = LinkLayer::all().count() as u64;
        for (done, layer) in (0..).zip(LinkLayer::all()) {
            progress(done, all, layer.name());
            let charges = bench.charges(&layer).await;
            let charges = charges.with_context(|| format!("measure {layer}"))?;
            for (one, charges) in DEVICES.iter().zip(charges) {
                write!(text, "{} {} {}", layer.name(), one.device, one.kind.name())?;
                for charge in charges {
                    write!(text, " {charge}")?;
                }
                text.push('\n');
            }
        }
        Ok(text.into_bytes())
    })
}

/// The devices, the means to send on them, and the state in force.
struct Bench {
    kernel: Kernel,
    route: Connection<Route>,
    inlets: Inlets,
    /// The index of each device.
    indices: Vec<u32>,
    applied: State,
}

/// The counters of a root qdisc.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sent {
    bytes: u64,
    packets: u64,
}

impl Bench {
    async fn set_up() -> Result<Self> {
        let route = Connection::<Route>::new().context("open a netlink socket")?;
        let tun = devices::make(&route).await?;
        let mut bench = Self {
            kernel: Kernel::open()?,
            inlets: Inlets::open(&route, tun).await?,
            route,
            indices: Vec::new(),
            applied: State::default(),
        };
        // This creates the IFB devices.
        bench.apply(devices::state(None)).await?;
        for CountedDevice { device, .. } in DEVICES {
            let index = devices::index(&bench.route, device).await?;
            bench.indices.push(index);
        }
        Ok(bench)
    }

    async fn apply(&mut self, desired: State) -> Result<()> {
        let scope = Scope::of([&self.applied, &desired]);
        let observed = self.kernel.observe(&scope).await?;
        let options = Options {
            previous: Some(&self.applied),
            ..Options::default()
        };
        let plan = plan_with(&observed, &desired, &options).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            anyhow!("there is no plan: {}", lines.join("; "))
        })?;
        self.kernel.apply(&plan).await?;
        self.applied = desired;
        Ok(())
    }

    /// Sends one packet of each size through every device, and returns what each device charged
    /// for it.
    async fn charges(&mut self, layer: &LinkLayer) -> Result<Vec<Vec<u64>>> {
        self.apply(devices::state(Some(layer))).await?;
        let mut charges = vec![Vec::new(); DEVICES.len()];
        let mut before = self.sent().await?;
        for size in SIZES {
            self.inlets
                .send(size)
                .with_context(|| format!("send IP packets of {size} bytes"))?;
            let after = self
                .sent_one_more(&before)
                .await
                .with_context(|| format!("after sending IP packets of {size} bytes"))?;
            for ((charges, before), after) in charges.iter_mut().zip(&before).zip(&after) {
                charges.push(after.bytes - before.bytes);
            }
            before = after;
        }
        Ok(charges)
    }

    /// Returns the counters once each device has sent exactly one more packet. A packet may wait
    /// for the kernel's receive processing, which runs when this process yields.
    async fn sent_one_more(&self, before: &[Sent]) -> Result<Vec<Sent>> {
        for _ in 0..PATIENCE {
            let after = self.sent().await?;
            let mut more = after.iter().zip(before).map(|(a, b)| a.packets - b.packets);
            if more.clone().all(|packets| packets == 1) {
                return Ok(after);
            }
            if let Some(index) = more.position(|packets| packets > 1) {
                bail!("{} sent a packet that is not ours", DEVICES[index].device);
            }
            thread::yield_now();
        }
        bail!("not every device sent its packet")
    }

    /// Returns the counters of all devices, from one request.
    async fn sent(&self) -> Result<Vec<Sent>> {
        let mut sent = vec![None; DEVICES.len()];
        for qdisc in self.route.get_qdiscs().await? {
            let index = self
                .indices
                .iter()
                .position(|&index| index == qdisc.ifindex());
            if let Some(index) = index
                && qdisc.is_root()
            {
                sent[index] = Some(Sent {
                    bytes: qdisc.bytes(),
                    packets: qdisc.packets(),
                });
            }
        }
        let found: Option<Vec<Sent>> = sent.into_iter().collect();
        found.context("a device has no root qdisc")
    }
}

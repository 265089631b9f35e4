// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs by which a connection that changes its class has no segment
//! overtaken (`bpf/order/order.bpf.c`).

use crate::error::BpfError;
use crate::programs;
use crate::programs::packet::{Given, PacketPrograms, word};
use crate::qdisc::kind::{failed, sized};
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Its file, and the programs in it.
const NAME: &str = "order";
const IN: &str = "order_in";
const OUT: &str = "order_out";

/// Its maps.
const TOTALS: &str = "totals";
const FLOWS: &str = "order_flows";

/// Bytes of `struct order_totals`.
const TOTALS_BYTES: usize = 32;

/// Both programs, loaded. They are gone when this is dropped, unless a device
/// has them by then.
#[derive(Debug)]
pub struct Order(PacketPrograms);

/// What the programs did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrderTotals {
    /// Connections that changed their class when all of their data in the old one
    /// was acknowledged, or no acknowledgement had come by.
    pub moved: u64,
    /// Those that changed it because that took too long.
    pub late: u64,
    /// Acknowledgements whose window was closed.
    pub closed: u64,
    /// Packets let go because another processor was at their connection for too
    /// long.
    pub missed: u64,
}

impl Order {
    /// Loads both. Needs CAP_BPF and CAP_NET_ADMIN, and no type information of
    /// the kernel.
    pub fn load() -> Result<Self, BpfError> {
        PacketPrograms::load(NAME, NAME, None).map(Self)
    }

    /// The program for acknowledgements, which arrive (`arriving`), or for data,
    /// which leaves, for a filter that acts by itself.
    pub fn program(&self, arriving: bool) -> Result<OwnedFd, BpfError> {
        self.0.program(named(arriving))
    }

    /// Runs one of the programs once on an Ethernet frame of this class: the
    /// frame and its class afterwards.
    pub fn run(
        &self,
        arriving: bool,
        frame: &[u8],
        class: u32,
    ) -> Result<(Vec<u8>, u32), BpfError> {
        let given = Given {
            priority: class,
            ..Given::default()
        };
        let ran = self.0.run_as(named(arriving), frame, given)?;
        Ok((ran.frame, ran.priority))
    }

    /// What they did so far.
    pub fn totals(&self) -> Result<OrderTotals, BpfError> {
        let map = sized(NAME, TOTALS, TOTALS_BYTES, self.0.handle(TOTALS))?;
        let found = map.lookup(&[0; 4], MapFlags::ANY);
        let found = found.map_err(failed(NAME, TOTALS, "read"))?;
        let found = found.unwrap_or_default();
        Ok(OrderTotals {
            moved: word(&found, 0),
            late: word(&found, 8),
            closed: word(&found, 16),
            missed: word(&found, 24),
        })
    }

    /// How many connections are known, each direction by itself.
    pub fn flows(&self) -> Result<usize, BpfError> {
        let map = self.0.handle(FLOWS).ok_or(BpfError::NoProgram(NAME))?;
        Ok(map.keys().count())
    }

    /// What tells this version of the programs from others.
    pub fn digest() -> u32 {
        static DIGEST: OnceLock<u32> = OnceLock::new();
        *DIGEST.get_or_init(|| programs::digest(NAME))
    }
}

fn named(arriving: bool) -> &'static str {
    if arriving { IN } else { OUT }
}

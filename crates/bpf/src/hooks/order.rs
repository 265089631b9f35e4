// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that keep a TCP connection's segments in order when it changes class
//! (`bpf/order/order.bpf.c`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::layout::order_totals;
use crate::maps::Map;
use crate::programs::packet::{Given, PacketPrograms};
use libbpf_rs::MapCore;
use std::os::fd::OwnedFd;
use weirgate_state::Order as OrderState;

/// Its file, and the programs in it.
const FILE: &str = "order";
const IN: &str = "order_in";
const OUT: &str = "order_out";

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
        PacketPrograms::load(FILE, FILE, None).map(Self)
    }

    /// The program for acknowledgements, at ingress, or for data, at egress, for a
    /// filter that acts by itself.
    pub fn program(&self, ingress: bool) -> Result<OwnedFd, BpfError> {
        self.0.program(named(ingress))
    }

    /// Runs one of the programs once on an Ethernet frame of this class: the
    /// frame and its class afterwards.
    pub fn run(&self, ingress: bool, frame: &[u8], class: u32) -> Result<(Vec<u8>, u32), BpfError> {
        let given = Given {
            priority: class,
            ..Given::default()
        };
        let ran = self.0.run_as(named(ingress), frame, given)?;
        Ok((ran.frame, ran.priority))
    }

    /// What they did so far.
    pub fn totals(&self) -> Result<OrderTotals, BpfError> {
        let map: Map<u32, order_totals> = self.0.map("totals")?;
        let order_totals {
            moved,
            late,
            closed,
            missed,
        } = map.first()?;
        Ok(OrderTotals {
            moved,
            late,
            closed,
            missed,
        })
    }

    /// How many connections are known, counted for each direction.
    pub fn flows(&self) -> Result<usize, BpfError> {
        let map = self.0.handle("order_flows");
        let map = map.ok_or(BpfError::NoProgram(FILE))?;
        Ok(map.keys().count())
    }
}

fn named(ingress: bool) -> &'static str {
    if ingress { IN } else { OUT }
}

impl Attach for OrderState {
    fn load(_: &Self, _: u32, _: &mut Loader) -> Result<Vec<OwnedFd>, BpfError> {
        let order = Order::load()?;
        Ok(vec![order.program(true)?, order.program(false)?])
    }

    fn update(_: &Self, _: u32, _: u32) -> Result<(), BpfError> {
        Ok(())
    }

    fn read(_: &[FoundFilter], _: u32) -> Option<Self> {
        Some(Self {})
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that keep the segments of a TCP connection in order when it changes its class
//! (`bpf/order/order.bpf.c`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::layout::order_totals;
use crate::maps::Map;
use crate::programs::packet::{Given, PacketPrograms};
use libbpf_rs::MapCore;
use std::os::fd::OwnedFd;
use weirgate_state::Order as OrderState;

/// The object file and its programs.
const FILE: &str = "order";
const IN: &str = "order_in";
const OUT: &str = "order_out";

/// Both loaded programs. They are unloaded when this is dropped, unless they are attached to a
/// device.
#[derive(Debug)]
pub struct Order(PacketPrograms);

/// The counters of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrderTotals {
    /// Connections that changed their class once all data sent in the old class was
    /// acknowledged, or before any acknowledgement was seen.
    pub moved: u64,
    /// Connections that changed it after a timeout.
    pub late: u64,
    /// Acknowledgements whose window was closed.
    pub closed: u64,
    /// Packets that passed without processing, because another processor worked on their
    /// connection for too long.
    pub missed: u64,
}

impl Order {
    /// Loads both programs. Needs CAP_BPF and CAP_NET_ADMIN, but not the kernel's BTF.
    pub fn load() -> Result<Self, BpfError> {
        PacketPrograms::load(FILE, FILE, None).map(Self)
    }

    /// Returns the program for acknowledgements at ingress, or for data at egress, for a filter
    /// in `direct-action` mode.
    pub fn program(&self, ingress: bool) -> Result<OwnedFd, BpfError> {
        self.0.program(named(ingress))
    }

    /// Runs one of the programs once on an Ethernet frame of this class. Returns the frame and
    /// its class after the run.
    pub fn run(&self, ingress: bool, frame: &[u8], class: u32) -> Result<(Vec<u8>, u32), BpfError> {
        let given = Given {
            priority: class,
            ..Given::default()
        };
        let ran = self.0.run_as(named(ingress), frame, given)?;
        Ok((ran.frame, ran.priority))
    }

    /// Returns the counters so far.
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

    /// Returns the number of known connections; each direction counts.
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

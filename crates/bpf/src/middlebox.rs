// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A middlebox for tests of TCP (`bpf/bench/middlebox.bpf.c`): counts ECN fields, and
//! marks.

use crate::error::BpfError;
use crate::layout::{middlebox_count, middlebox_flow, middlebox_setup};
use crate::maps::Map;
use crate::programs::Attached;
use crate::programs::packet::PacketPrograms;

/// Its file, and the program in it.
const NAME: &str = "middlebox";

/// The program, on devices until this is dropped.
#[derive(Debug)]
pub struct Middlebox {
    programs: PacketPrograms,
    attached: Vec<Attached>,
}

/// Packets of one direction of a connection, by their ECN fields as they came: Not-ECT,
/// ECT(1), ECT(0), CE (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MiddleboxCount {
    /// With payload.
    pub data: [u64; 4],
    /// Without, except those with SYN.
    pub bare: [u64; 4],
    /// With SYN.
    pub syn: [u64; 4],
    /// Those that were marked here.
    pub marked: u64,
}

impl Middlebox {
    /// Loads it. It marks nothing yet.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel refuses the program.
    pub fn load() -> Result<Self, BpfError> {
        Ok(Self {
            programs: PacketPrograms::load(NAME, NAME, None)?,
            attached: Vec::new(),
        })
    }

    /// Puts it where packets leave by a device of this thread's network namespace,
    /// after the programs that are there.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel has no tcx, or no such device.
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        let attached = self.programs.at_egress(NAME, ifindex)?;
        self.attached.push(attached);
        Ok(())
    }

    /// Marks every so many packets with payload of each connection, of those that are
    /// ECT(0) or ECT(1); none where it is 0.
    ///
    /// # Errors
    ///
    /// Occurs where the map cannot be written.
    pub fn mark_every(&self, packets: u32) -> Result<(), BpfError> {
        let setup: Map<u32, middlebox_setup> = self.programs.map("middlebox_setup")?;
        setup.set_first(&middlebox_setup {
            mark_every: packets,
            pad: 0,
        })
    }

    /// What has passed a device from a port.
    ///
    /// # Errors
    ///
    /// Occurs where the map cannot be read.
    pub fn count(&self, ifindex: u32, port: u16) -> Result<MiddleboxCount, BpfError> {
        let counts: Map<middlebox_flow, middlebox_count> = self.programs.map("middlebox_counts")?;
        let flow = middlebox_flow {
            ifindex,
            port: port.into(),
        };
        let found = counts.get(&flow)?;
        Ok(
            found.map_or_else(MiddleboxCount::default, |count| MiddleboxCount {
                data: count.data,
                bare: count.bare,
                syn: count.syn,
                marked: count.marked,
            }),
        )
    }
}

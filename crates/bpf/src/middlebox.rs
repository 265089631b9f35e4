// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A middlebox for tests of TCP (`bpf/bench/middlebox.bpf.c`): counts the values of ECN fields,
//! and marks packets.

use crate::error::BpfError;
use crate::layout::{middlebox_count, middlebox_flow, middlebox_setup};
use crate::maps::Map;
use crate::programs::Attached;
use crate::programs::packet::PacketPrograms;

/// The object file and its program.
const NAME: &str = "middlebox";

/// The program, attached to devices until this is dropped.
#[derive(Debug)]
pub struct Middlebox {
    programs: PacketPrograms,
    attached: Vec<Attached>,
}

/// Counts of packets in one direction of a connection, by their ECN field on arrival: Not-ECT,
/// ECT(1), ECT(0), CE (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MiddleboxCount {
    /// Packets with payload.
    pub data: [u64; 4],
    /// Packets without payload, except those with SYN.
    pub bare: [u64; 4],
    /// Packets with SYN.
    pub syn: [u64; 4],
    /// Packets that this middlebox has marked.
    pub marked: u64,
}

impl Middlebox {
    /// Loads the program, which marks nothing yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects the program.
    pub fn load() -> Result<Self, BpfError> {
        Ok(Self {
            programs: PacketPrograms::load(NAME, NAME, None)?,
            attached: Vec::new(),
        })
    }

    /// Attaches the program at egress of a device in the network namespace of this thread, after
    /// the existing programs.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no tcx, or if the device does not exist.
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        let attached = self.programs.at_egress(NAME, ifindex)?;
        self.attached.push(attached);
        Ok(())
    }

    /// Marks every n-th packet with payload of each connection, counting only ECT(0) and ECT(1).
    /// 0 disables marking.
    ///
    /// # Errors
    ///
    /// Returns an error if the map cannot be written.
    pub fn mark_every(&self, packets: u32) -> Result<(), BpfError> {
        let setup: Map<u32, middlebox_setup> = self.programs.map("middlebox_setup")?;
        setup.set_first(&middlebox_setup {
            mark_every: packets,
            pad: 0,
        })
    }

    /// Returns the counts of packets from a port that passed a device.
    ///
    /// # Errors
    ///
    /// Returns an error if the map cannot be read.
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

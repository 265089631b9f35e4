// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that finds signatures in the first packets of a flow
//! (`bpf/payload/payload.bpf.c`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::programs::packet::PacketPrograms;
use std::os::fd::OwnedFd;
use weirgate_signatures::BITS;
use weirgate_state::Payload as PayloadState;

/// Its name, as a file and as a program.
const NAME: &str = "payload";

/// The filter in the kernel. It is gone when this is dropped, unless a device
/// has it by then.
#[derive(Debug)]
pub struct Payload(PacketPrograms);

impl Payload {
    /// Loads it; it will write [`Signature::number`](weirgate_signatures::Signature::number)
    /// into the mark's [`BITS`] bits from `lowest` on, which is at most 29. Needs CAP_BPF and CAP_NET_ADMIN, and no type information of
    /// the kernel.
    pub fn load(lowest: u32) -> Result<Self, BpfError> {
        let constants = lowest.min(32 - BITS).to_ne_bytes();
        PacketPrograms::load(NAME, NAME, Some(&constants)).map(Self)
    }

    /// The program, for a filter that acts by itself (`direct-action` of
    /// cls_bpf).
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        self.0.program(NAME)
    }

    /// Runs it once on an Ethernet frame with this mark: the mark afterwards.
    /// What it found in a flow is remembered from run to run, as for packets.
    pub fn run(&self, frame: &[u8], mark: u32) -> Result<u32, BpfError> {
        Ok(self.0.run(NAME, frame, mark)?.mark)
    }
}

impl Attach for PayloadState {
    fn load(settings: &Self, _: u32, _: &mut Loader) -> Result<Vec<OwnedFd>, BpfError> {
        Ok(vec![Payload::load(settings.lowest.into())?.program()?])
    }

    fn update(_: &Self, _: u32, _: u32) -> Result<(), BpfError> {
        Ok(())
    }

    fn read(found: &[FoundFilter], _: u32) -> Option<Self> {
        let lowest = Self::of_name(&found.first()?.name)?;
        Some(Self { lowest })
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that searches the first packets of a flow for signatures
//! (`bpf/payload/payload.bpf.c`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::programs::packet::PacketPrograms;
use std::os::fd::OwnedFd;
use weirgate_signatures::BITS;
use weirgate_state::Payload as PayloadState;

/// The name of the object file and of the program.
const NAME: &str = "payload";

/// The loaded filter. It is unloaded when this is dropped, unless it is attached to a device.
#[derive(Debug)]
pub struct Payload(PacketPrograms);

impl Payload {
    /// Loads the filter. It writes [`Signature::number`](weirgate_signatures::Signature::number)
    /// into [`BITS`] bits of the mark, from bit `lowest` on, which is at most 29. Needs CAP_BPF
    /// and CAP_NET_ADMIN, but not the kernel's BTF.
    pub fn load(lowest: u32) -> Result<Self, BpfError> {
        let constants = lowest.min(32 - BITS).to_ne_bytes();
        PacketPrograms::load(NAME, NAME, Some(&constants)).map(Self)
    }

    /// Returns the descriptor of the program, for a filter in `direct-action` mode (cls_bpf).
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        self.0.program(NAME)
    }

    /// Runs the filter once on an Ethernet frame with this mark. Returns the mark after the run.
    /// Results for a flow are kept between runs.
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

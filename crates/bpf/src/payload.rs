// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that finds signatures in the first packets of a flow
//! (`bpf/payload/payload.bpf.c`).

use crate::error::BpfError;
use crate::{log, programs};
use libbpf_rs::{ErrorExt, Object, ObjectBuilder, ProgramInput};
use std::os::fd::{AsFd, OwnedFd};
use weirgate_signatures::BITS;

/// Its name, as a file and as a program.
const NAME: &str = "payload";

/// The begin of `struct __sk_buff`, which every kernel takes; more than any
/// kernel's gives back; and where the mark stands in it
/// (include/uapi/linux/bpf.h).
const CONTEXT: usize = 16;
const CONTEXT_BACK: usize = 1024;
const MARK: usize = 8;

/// The filter in the kernel. It is gone when this is dropped, unless a device
/// has it by then.
#[derive(Debug)]
pub struct Payload {
    object: Object,
}

impl Payload {
    /// Loads it; it will write [`Signature::number`](weirgate_signatures::Signature::number)
    /// into the mark's [`BITS`] bits from `lowest` on, which is at most 29. Needs CAP_BPF and CAP_NET_ADMIN, and no type information of
    /// the kernel.
    pub fn load(lowest: u32) -> Result<Self, BpfError> {
        let bytes = programs::named(NAME).ok_or(BpfError::NoProgram(NAME))?;
        let (loaded, log) = log::recorded(|| {
            let mut open = ObjectBuilder::default().name(NAME)?.open_memory(bytes)?;
            let mut maps = open.maps_mut();
            let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
            let map = maps.find(|map| map.name().to_string_lossy().ends_with(".rodata"));
            let mut map = map.ok_or_else(missing).context("the program's constants")?;
            map.set_initial_value(&lowest.min(32 - BITS).to_ne_bytes())
                .context("the program's constants")?;
            drop((map, maps));
            open.load()
        });
        let object = loaded.map_err(|source: libbpf_rs::Error| BpfError::Refused {
            kind: NAME.to_owned(),
            source,
            log,
        })?;
        Ok(Self { object })
    }

    /// Loads it and gives the program alone: it is gone when that is closed,
    /// unless a device has it by then.
    pub fn attachable(lowest: u8) -> Result<OwnedFd, BpfError> {
        Self::load(lowest.into())?.program()
    }

    /// The program, for a filter that acts by itself (`direct-action` of
    /// cls_bpf).
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        let mut programs = self.object.progs();
        let program = programs
            .find(|program| program.name() == NAME)
            .ok_or(BpfError::NoProgram(NAME))?;
        let copied = program.as_fd().try_clone_to_owned();
        copied.map_err(|error| Self::failed("held", error.into()))
    }

    /// Runs it once on an Ethernet frame with this mark: the mark afterwards.
    /// What it found in a flow is remembered from run to run, as for packets.
    pub fn run(&self, frame: &[u8], mark: u32) -> Result<u32, BpfError> {
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|program| program.name() == NAME)
            .ok_or(BpfError::NoProgram(NAME))?;
        let mut before = [0_u8; CONTEXT];
        before[MARK..MARK + 4].copy_from_slice(&mark.to_ne_bytes());
        let mut after = [0_u8; CONTEXT_BACK];
        let input = ProgramInput {
            data_in: Some(frame),
            context_in: Some(&mut before),
            context_out: Some(&mut after),
            ..ProgramInput::default()
        };
        program
            .test_run(input)
            .map_err(|source| Self::failed("run", source))?;
        let word = after[MARK..].first_chunk().copied().unwrap_or_default();
        Ok(u32::from_ne_bytes(word))
    }

    fn failed(doing: &'static str, source: libbpf_rs::Error) -> BpfError {
        BpfError::Program {
            name: NAME,
            doing,
            source,
        }
    }
}

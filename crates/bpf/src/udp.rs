// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that holds each stream of datagrams to a rate
//! (`bpf/inbound/udp.bpf.c`).

use crate::error::BpfError;
use crate::object::{SETTINGS, failed, sized};
use crate::{log, programs};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use std::os::fd::{AsFd, OwnedFd};
use weirgate_aqm::{Udp, UdpRule, UdpVerdict};

/// Its file, and the program in it.
const FILE: &str = "udp";
const NAME: &str = "udp_states";

/// Its map of streams.
const STREAMS: &str = "streams";

/// Bytes of `struct udp_settings`.
const SETTINGS_BYTES: usize = size_of::<UdpRule>() + 16;

/// The begin of `struct __sk_buff`, which every kernel takes; more than any
/// kernel's gives back; and where the mark stands in it
/// (include/uapi/linux/bpf.h).
const CONTEXT: usize = 16;
const CONTEXT_BACK: usize = 1024;
const MARK: usize = 8;

/// `TC_ACT_SHOT` (include/uapi/linux/pkt_cls.h).
const TC_ACT_SHOT: u32 = 2;

/// How streams are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpSetup {
    /// The rate, the mode and its times.
    pub rule: UdpRule,
    /// The bits that are set in the mark of a packet that is to be refused.
    pub refuse_mark: u32,
    /// Packets with this mark under this mask are let go; a mask of 0 spares
    /// none.
    pub spared: (u32, u32),
}

/// The filter, loaded. It is gone when this is dropped, unless a device has it
/// by then.
#[derive(Debug)]
pub struct UdpControl {
    object: Object,
}

impl UdpControl {
    /// Loads it. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(setup: &UdpSetup) -> Result<Self, BpfError> {
        let bytes = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
        let (loaded, log) = log::recorded(|| {
            let open = ObjectBuilder::default().name(NAME)?.open_memory(bytes)?;
            open.load()
        });
        let object = loaded.map_err(|source: libbpf_rs::Error| BpfError::Refused {
            kind: NAME.to_owned(),
            source,
            log,
        })?;
        let control = Self { object };
        control.map(STREAMS, Udp::bytes())?;
        control.set(setup)?;
        Ok(control)
    }

    /// States how streams are held from the next packet on.
    pub fn set(&self, setup: &UdpSetup) -> Result<(), BpfError> {
        let words = setup.rule.words().into_iter();
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let (mark, under) = setup.spared;
        let marks = [setup.refuse_mark, under, mark, 0];
        bytes.extend(marks.map(u32::to_ne_bytes).as_flattened());
        self.map(SETTINGS, SETTINGS_BYTES)?
            .update(&[0; 4], &bytes, MapFlags::ANY)
            .map_err(failed(NAME, SETTINGS, "written"))
    }

    /// How many streams are known.
    pub fn streams(&self) -> Result<usize, BpfError> {
        Ok(self.map(STREAMS, Udp::bytes())?.keys().count())
    }

    /// The program, for a filter that acts by itself.
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        let mut programs = self.object.progs();
        let program = programs
            .find(|program| program.name() == NAME)
            .ok_or(BpfError::NoProgram(FILE))?;
        let copied = program.as_fd().try_clone_to_owned();
        copied.map_err(|error| unusable("held", error.into()))
    }

    /// Runs it once on an Ethernet frame with this mark: what becomes of it, and
    /// its mark afterwards. Refused is what has all of `refuse_mark`.
    pub fn run(
        &self,
        frame: &[u8],
        mark: u32,
        refuse_mark: u32,
    ) -> Result<(UdpVerdict, u32), BpfError> {
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|program| program.name() == NAME)
            .ok_or(BpfError::NoProgram(FILE))?;
        let mut before = [0_u8; CONTEXT];
        before[MARK..MARK + 4].copy_from_slice(&mark.to_ne_bytes());
        let mut after = [0_u8; CONTEXT_BACK];
        let input = ProgramInput {
            data_in: Some(frame),
            context_in: Some(&mut before),
            context_out: Some(&mut after),
            ..ProgramInput::default()
        };
        let output = program.test_run(input);
        let answer = output
            .map_err(|source| unusable("run", source))?
            .return_value;
        let word = after[MARK..].first_chunk().copied().unwrap_or_default();
        let mark = u32::from_ne_bytes(word);
        let verdict = match (answer, mark & refuse_mark) {
            (TC_ACT_SHOT, _) => UdpVerdict::Discard,
            (_, 0) => UdpVerdict::Deliver,
            (_, _) => UdpVerdict::Refuse,
        };
        Ok((verdict, mark))
    }

    fn map(&self, name: &'static str, bytes: usize) -> Result<MapHandle, BpfError> {
        let map = self.object.maps().find(|map| map.name() == name);
        let handle = map.and_then(|map| MapHandle::try_from(&map).ok());
        sized(NAME, name, bytes, handle)
    }
}

fn unusable(doing: &'static str, source: libbpf_rs::Error) -> BpfError {
    BpfError::Program {
        name: NAME,
        doing,
        source,
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that holds each stream of datagrams to a rate
//! (`bpf/inbound/udp.bpf.c`).

use crate::error::BpfError;
use crate::object::{SETTINGS, failed};
use crate::packets::PacketPrograms;
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::OwnedFd;
use weirgate_aqm::{Udp, UdpRule, UdpVerdict};

/// Its file, and the program in it.
const FILE: &str = "udp";
const NAME: &str = "udp_states";

/// Its map of streams.
const STREAMS: &str = "streams";

/// Bytes of `struct udp_settings`.
const SETTINGS_BYTES: usize = size_of::<UdpRule>() + 16;

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
pub struct UdpControl(PacketPrograms);

impl UdpControl {
    /// Loads it. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(setup: &UdpSetup) -> Result<Self, BpfError> {
        let control = Self(PacketPrograms::load(FILE, NAME, None)?);
        control.0.map(STREAMS, Udp::bytes())?;
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
        self.0
            .map(SETTINGS, SETTINGS_BYTES)?
            .update(&[0; 4], &bytes, MapFlags::ANY)
            .map_err(failed(NAME, SETTINGS, "written"))
    }

    /// How many streams are known.
    pub fn streams(&self) -> Result<usize, BpfError> {
        Ok(self.0.map(STREAMS, Udp::bytes())?.keys().count())
    }

    /// The program, for a filter that acts by itself.
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        self.0.program(NAME)
    }

    /// Runs it once on an Ethernet frame with this mark: what becomes of it, and
    /// its mark afterwards. Refused is what has all of `refuse_mark`.
    pub fn run(
        &self,
        frame: &[u8],
        mark: u32,
        refuse_mark: u32,
    ) -> Result<(UdpVerdict, u32), BpfError> {
        let ran = self.0.run(NAME, frame, mark)?;
        let verdict = match (ran.dropped, ran.mark & refuse_mark) {
            (true, _) => UdpVerdict::Discard,
            (_, 0) => UdpVerdict::Deliver,
            (_, _) => UdpVerdict::Refuse,
        };
        Ok((verdict, ran.mark))
    }
}

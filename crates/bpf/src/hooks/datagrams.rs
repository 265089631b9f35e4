// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that holds each stream of datagrams to a rate
//! (`bpf/inbound/udp.bpf.c`).

use crate::error::BpfError;
use crate::programs;
use crate::programs::packet::{PacketPrograms, TUPLE, ends, half, maps_of, word};
use crate::qdisc::kind::{SETTINGS, failed, sized};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use weirgate_aqm::{Udp, UdpRule, UdpState, UdpVerdict};

/// Its file, and the program in it.
const FILE: &str = "udp";
const NAME: &str = "udp_states";

/// Its map of streams.
const STREAMS: &str = "streams";

/// Bytes of `struct udp_stream` behind the stream's own.
const OWN_BYTES: usize = 8;

/// Bytes of `struct udp_settings`.
const RULE_BYTES: usize = size_of::<UdpRule>();
const SETTINGS_BYTES: usize = RULE_BYTES + 16;

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

/// A stream that the filter knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpStream {
    /// Who sends.
    pub sender: SocketAddr,
    /// To whom.
    pub receiver: SocketAddr,
    /// Where it is.
    pub state: UdpState,
    /// The rate measured, in bytes of IP packets a second.
    pub rate_bytes_s: u64,
    /// Datagrams that were not delivered.
    pub discarded: u64,
}

/// A loaded filter's maps, by which it is told and read.
#[derive(Debug)]
pub struct UdpMaps {
    settings: MapHandle,
    streams: MapHandle,
}

impl UdpControl {
    /// Loads it. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(setup: &UdpSetup) -> Result<Self, BpfError> {
        let control = Self(PacketPrograms::load(FILE, NAME, None)?);
        control.maps()?.set(setup)?;
        Ok(control)
    }

    /// Its maps.
    pub fn maps(&self) -> Result<UdpMaps, BpfError> {
        UdpMaps::of(|name| self.0.handle(name))
    }

    /// States how streams are held from the next packet on.
    pub fn set(&self, setup: &UdpSetup) -> Result<(), BpfError> {
        self.maps()?.set(setup)
    }

    /// How many streams are known.
    pub fn streams(&self) -> Result<usize, BpfError> {
        Ok(self.maps()?.streams.keys().count())
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

    /// What tells this version of the program from others.
    pub fn digest() -> u32 {
        static DIGEST: OnceLock<u32> = OnceLock::new();
        *DIGEST.get_or_init(|| programs::digest(FILE))
    }
}

impl UdpMaps {
    /// Those of the loaded program of this number; `None` where there is no such
    /// program, or it is none of this kind.
    pub fn of_program(id: u32) -> Option<Self> {
        Self::of(maps_of(id)?).ok()
    }

    fn of(mut map: impl FnMut(&str) -> Option<MapHandle>) -> Result<Self, BpfError> {
        let mut named = |name, bytes| sized(NAME, name, bytes, map(name));
        Ok(Self {
            settings: named(SETTINGS, SETTINGS_BYTES)?,
            streams: named(STREAMS, Udp::bytes() + OWN_BYTES)?,
        })
    }

    /// States how streams are held from the next packet on. No stream is
    /// forgotten.
    pub fn set(&self, setup: &UdpSetup) -> Result<(), BpfError> {
        let words = setup.rule.words().into_iter();
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let (mark, under) = setup.spared;
        let marks = [setup.refuse_mark, under, mark, 0];
        bytes.extend(marks.map(u32::to_ne_bytes).as_flattened());
        self.settings
            .update(&[0; 4], &bytes, MapFlags::ANY)
            .map_err(failed(NAME, SETTINGS, "written"))
    }

    /// What it was told.
    pub fn setup(&self) -> Result<UdpSetup, BpfError> {
        let found = self.settings.lookup(&[0; 4], MapFlags::ANY);
        let found = found.map_err(failed(NAME, SETTINGS, "read"))?;
        let bytes = found.unwrap_or_default();
        let words: [u64; RULE_BYTES / 8] = std::array::from_fn(|index| word(&bytes, 8 * index));
        Ok(UdpSetup {
            rule: UdpRule::from_words(&words),
            refuse_mark: half(&bytes, RULE_BYTES),
            spared: (half(&bytes, RULE_BYTES + 8), half(&bytes, RULE_BYTES + 4)),
        })
    }

    /// The streams that it knows, in no order.
    pub fn streams(&self) -> Result<Vec<UdpStream>, BpfError> {
        let mut all = Vec::new();
        for key in self.streams.keys() {
            let found = self.streams.lookup(&key, MapFlags::ANY);
            let found = found.map_err(failed(NAME, STREAMS, "read"))?;
            let stream = found.and_then(|bytes| {
                let (sender, receiver) = ends(key.get(..TUPLE)?)?;
                let (rate_bytes_s, discarded) = Udp::figures_of(&bytes);
                Some(UdpStream {
                    sender,
                    receiver,
                    state: Udp::state_of(&bytes),
                    rate_bytes_s,
                    discarded,
                })
            });
            all.extend(stream);
        }
        Ok(all)
    }
}

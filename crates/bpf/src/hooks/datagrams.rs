// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that polices each UDP stream to a rate (`bpf/inbound/udp.bpf.c`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::layout::{meter_rule, tuple, udp_rule, udp_settings, udp_stream};
use crate::maps::{Find, Map};
use crate::programs::packet::{PacketPrograms, maps_of};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use weirgate_aqm::{UdpState, UdpVerdict};
use weirgate_state::{Datagrams, Measured, SparedMark};
use weirgate_units::{Rate, Size, Span};

/// The object file and its program.
const FILE: &str = "udp";
const NAME: &str = "udp_states";

/// The loaded filter. It is unloaded when this is dropped, unless it is attached to a device.
#[derive(Debug)]
pub struct UdpControl(PacketPrograms);

/// A stream in the filter's map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpStream {
    /// The sender.
    pub sender: SocketAddr,
    /// The receiver.
    pub receiver: SocketAddr,
    /// The state of the stream.
    pub state: UdpState,
    /// The measured rate, in bytes of IP packets a second.
    pub rate_bytes_s: u64,
    /// Datagrams that were not delivered.
    pub discarded: u64,
}

/// The maps of a loaded filter, through which it is configured and read.
#[derive(Debug)]
pub struct UdpMaps {
    settings: Map<u32, udp_settings>,
    streams: Map<tuple, udp_stream>,
}

impl UdpControl {
    /// Loads the filter. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(wanted: &Datagrams) -> Result<Self, BpfError> {
        let control = Self(PacketPrograms::load(FILE, NAME, None)?);
        control.maps()?.set(wanted)?;
        Ok(control)
    }

    /// Returns its maps.
    pub fn maps(&self) -> Result<UdpMaps, BpfError> {
        UdpMaps::of(|name: &str| self.0.handle(name))
    }

    /// Changes the settings, from the next packet on.
    pub fn set(&self, wanted: &Datagrams) -> Result<(), BpfError> {
        self.maps()?.set(wanted)
    }

    /// Returns the number of known streams.
    pub fn streams(&self) -> Result<usize, BpfError> {
        Ok(self.maps()?.streams.keys().count())
    }

    /// Returns the descriptor of the program, for a filter in `direct-action` mode.
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        self.0.program(NAME)
    }

    /// Runs the filter once on an Ethernet frame with this mark. Returns what happens to it, and
    /// its mark after the run. A frame with all bits of `refuse_mark` is refused.
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

impl UdpMaps {
    /// Opens the maps of the loaded program with this identifier. Returns `None` if there is no
    /// such program, or if it is of another kind.
    pub fn of_program(id: u32) -> Option<Self> {
        Self::of(maps_of(id)?).ok()
    }

    fn of(mut find: impl Find) -> Result<Self, BpfError> {
        Ok(Self {
            settings: Map::find(NAME, "settings", &mut find)?,
            streams: Map::find(NAME, "streams", &mut find)?,
        })
    }

    /// Changes the settings, from the next packet on. The state of streams stays.
    pub fn set(&self, wanted: &Datagrams) -> Result<(), BpfError> {
        self.settings.set_first(&encode(wanted))
    }

    /// Returns the settings.
    pub fn settings(&self) -> Result<Datagrams, BpfError> {
        Ok(decode(&self.settings.first()?))
    }

    /// Returns the known streams, in no particular order.
    pub fn streams(&self) -> Result<Vec<UdpStream>, BpfError> {
        let stream = |(key, stream): (tuple, udp_stream)| {
            let (sender, receiver) = key.ends()?;
            Some(UdpStream {
                sender,
                receiver,
                state: UdpState::numbered(stream.flow.state),
                rate_bytes_s: stream.flow.meter.rate_bytes_s,
                discarded: stream.flow.discarded,
            })
        };
        Ok(self
            .streams
            .entries()?
            .into_iter()
            .filter_map(stream)
            .collect())
    }
}

fn encode(wanted: &Datagrams) -> udp_settings {
    udp_settings {
        rule: udp_rule {
            mode: wanted.bucket.into(),
            rate_bytes_s: wanted.rate.as_bytes_per_second(),
            burst_bytes: wanted.burst.as_bytes(),
            drop_ns: wanted.drop.as_nanos(),
            warn_ns: wanted.warn.as_nanos(),
            meter: wanted.measured.into(),
        },
        refuse_mark: wanted.refuse,
        spare_mask: wanted.spared.mask,
        spare_mark: wanted.spared.mark,
        pad: 0,
    }
}

fn decode(settings: &udp_settings) -> Datagrams {
    let rule = &settings.rule;
    Datagrams {
        rate: Rate::bytes_per_second(rule.rate_bytes_s),
        bucket: rule.mode != 0,
        burst: Size::bytes(rule.burst_bytes),
        drop: Span::from_nanos(rule.drop_ns),
        warn: Span::from_nanos(rule.warn_ns),
        measured: rule.meter.into(),
        refuse: settings.refuse_mark,
        spared: SparedMark {
            mark: settings.spare_mark,
            mask: settings.spare_mask,
        },
    }
}

impl From<Measured> for meter_rule {
    fn from(measured: Measured) -> Self {
        Self {
            chunk_ns: measured.chunk.as_nanos(),
            chunks: measured.chunks.into(),
            age_ns: measured.age.as_nanos(),
        }
    }
}

impl From<meter_rule> for Measured {
    fn from(rule: meter_rule) -> Self {
        Self {
            chunk: Span::from_nanos(rule.chunk_ns),
            chunks: u32::try_from(rule.chunks).unwrap_or(u32::MAX),
            age: Span::from_nanos(rule.age_ns),
        }
    }
}

impl Attach for Datagrams {
    fn load(settings: &Self, _: u32, _: &mut Loader) -> Result<Vec<OwnedFd>, BpfError> {
        Ok(vec![UdpControl::load(settings)?.program()?])
    }

    fn update(settings: &Self, id: u32, _: u32) -> Result<(), BpfError> {
        let maps = UdpMaps::of_program(id);
        maps.ok_or(BpfError::NoProgram(FILE))?.set(settings)
    }

    fn read(found: &[FoundFilter], _: u32) -> Option<Self> {
        UdpMaps::of_program(found.first()?.id)?.settings().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_holds_all_of_it() {
        for bucket in [false, true] {
            let wanted = Datagrams {
                rate: Rate::kbit(2_000),
                bucket,
                burst: Size::bytes(30_000),
                drop: Span::from_secs(2),
                warn: Span::from_secs(3),
                measured: Measured {
                    chunk: Span::from_millis(100),
                    chunks: 30,
                    age: Span::from_secs(5),
                },
                refuse: 0x0800_0000,
                spared: SparedMark {
                    mark: 0x10,
                    mask: 0xf0,
                },
            };
            assert_eq!(decode(&encode(&wanted)), wanted);
        }
    }
}

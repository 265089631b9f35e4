// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A survey of the packets that pass one device (`bpf/passive/survey.bpf.c`).

use crate::error::BpfError;
use crate::layout::{SURVEY_SIZE_BITS, survey_count, survey_direction, survey_of, survey_service};
use crate::maps::Map;
use crate::programs::packet::PacketPrograms;
use crate::qdisc::attach_point::own_namespace;
use crate::trace::spread::Spread;
use libbpf_rs::Link;
use std::collections::BTreeMap;
use weirgate_units::Inserted as _;
use zerocopy::IntoBytes;

/// The file, and what errors call its programs.
const FILE: &str = "survey";

/// Bytes of a step of [`SurveyWay::sizes`].
pub const SIZE_STEP: u32 = 1 << SURVEY_SIZE_BITS;

/// How much of something there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SurveyCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes, without the link's header.
    pub bytes: u64,
}

/// What packets are distinguished by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurveyService {
    /// The protocol of the packet: 0x0800 for IPv4, 0x86dd for IPv6.
    pub ethertype: u16,
    /// IP's protocol; 0 for none, and for fragments.
    pub protocol: u8,
    /// The lower of the two ports; 0 for none.
    pub port: u16,
    /// Whether it left or arrived.
    pub out: bool,
}

/// One direction through the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyDirection {
    /// Everything.
    pub all: SurveyCount,
    /// Its bytes on the wire, by the [`SurveyLink`].
    pub wire: u64,
    /// By size, in steps of [`SIZE_STEP`] bytes; the last has all larger ones.
    pub sizes: Vec<SurveyCount>,
    /// The times from one packet to the next.
    pub gaps: Spread,
}

/// What a packet is on the wire of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyLink {
    /// Bytes beside the IP packet.
    pub overhead: i32,
    /// The smallest frame, in bytes.
    pub smallest: u32,
    /// Bytes of a frame's pieces (of a cell, of a code word); 0 where it is whole.
    pub piece: u32,
    /// What each piece, also one that is not full, adds on the wire.
    pub piece_wire: u32,
    /// Whether the frame's own bytes count beside that.
    pub kept: bool,
}

impl SurveyLink {
    /// Packets as they are.
    pub const NONE: Self = Self {
        overhead: 0,
        smallest: 0,
        piece: 0,
        piece_wire: 0,
        kept: true,
    };
}

/// Looks on until it is dropped.
#[derive(Debug)]
pub struct Survey {
    programs: PacketPrograms,
    _links: Vec<Link>,
}

impl Survey {
    /// Begins to look at a device of this thread's network namespace. Needs
    /// CAP_BPF and CAP_PERFMON, and the kernel's type information.
    pub fn open(ifindex: u32, link: &SurveyLink) -> Result<Self, BpfError> {
        let namespace = own_namespace().map_err(BpfError::Namespace)?;
        let of = survey_of {
            namespace,
            surveyed: ifindex.into(),
            overhead: link.overhead.into(),
            smallest: link.smallest.into(),
            kept: link.kept.into(),
            piece: link.piece.into(),
            piece_wire: link.piece_wire.into(),
        };
        let programs = PacketPrograms::load(FILE, FILE, Some(of.as_bytes()))?;
        let links = programs.attach()?;
        Ok(Self {
            programs,
            _links: links,
        })
    }

    /// What passed so far, by protocol and port: the 4,096 that were seen last.
    pub fn services(&self) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        self.counts("services")
    }

    /// The same by protocol alone, with port 0: all that passed, also what was
    /// forgotten of ports.
    pub fn protocols(&self) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        self.counts("protocols")
    }

    fn counts(&self, name: &'static str) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        let map: Map<survey_service, survey_count> = self.programs.map(name)?;
        let entry = |(key, count): (survey_service, survey_count)| {
            let service = SurveyService {
                ethertype: u16::from_be(key.ethertype),
                protocol: key.protocol,
                out: key.out != 0,
                port: key.port,
            };
            (service, count.into())
        };
        Ok(map.entries()?.into_iter().map(entry).inserted())
    }

    /// What arrived and what left so far.
    pub fn directions(&self) -> Result<[SurveyDirection; 2], BpfError> {
        let map: Map<u32, survey_direction> = self.programs.map("directions")?;
        let read = |out: u32| {
            let direction = map.get_or_zero(&out)?;
            Ok(SurveyDirection {
                all: direction.all.into(),
                wire: direction.wire,
                sizes: direction.sizes.map(SurveyCount::from).to_vec(),
                gaps: Spread::from(&direction.gaps),
            })
        };
        Ok([read(0)?, read(1)?])
    }
}

impl From<survey_count> for SurveyCount {
    fn from(count: survey_count) -> Self {
        Self {
            packets: count.packets,
            bytes: count.bytes,
        }
    }
}

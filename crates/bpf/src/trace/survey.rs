// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts and classifies the packets that pass one device (`bpf/passive/survey.bpf.c`).

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

/// The object file, and the name of its programs in errors.
const FILE: &str = "survey";

/// The width in bytes of one bin of [`SurveyDirection::sizes`].
pub const SIZE_STEP: u32 = 1 << SURVEY_SIZE_BITS;

/// A number of packets with their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SurveyCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes, without the link-layer header.
    pub bytes: u64,
}

/// The properties by which packets are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurveyService {
    /// The EtherType: 0x0800 for IPv4, 0x86dd for IPv6.
    pub ethertype: u16,
    /// The IP protocol; 0 for packets without one, and for fragments.
    pub protocol: u8,
    /// The lower of the two ports; 0 for none.
    pub port: u16,
    /// Whether the packets left; otherwise they arrived.
    pub out: bool,
}

/// The packets in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyDirection {
    /// All packets.
    pub all: SurveyCount,
    /// Their bytes on the wire, calculated by the [`SurveyLink`].
    pub wire: u64,
    /// A histogram of sizes in bins of [`SIZE_STEP`] bytes; the last bin includes all larger
    /// packets.
    pub sizes: Vec<SurveyCount>,
    /// The intervals between consecutive packets.
    pub gaps: Spread,
}

/// The overhead and framing of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyLink {
    /// Bytes that the link adds to an IP packet.
    pub overhead: i32,
    /// The smallest frame in bytes.
    pub smallest: u32,
    /// Bytes of a frame in one ATM cell or PTM code word; 0 if frames are not split.
    pub piece: u32,
    /// Bytes on the wire that each cell or code word adds, even if it is not full.
    pub piece_wire: u32,
    /// Whether the bytes of the frame itself are added to that.
    pub kept: bool,
}

impl SurveyLink {
    /// No overhead or framing.
    pub const NONE: Self = Self {
        overhead: 0,
        smallest: 0,
        piece: 0,
        piece_wire: 0,
        kept: true,
    };
}

/// A running survey, which ends when this is dropped.
#[derive(Debug)]
pub struct Survey {
    programs: PacketPrograms,
    _links: Vec<Link>,
}

impl Survey {
    /// Starts a survey of a device in the network namespace of this thread. Needs CAP_BPF,
    /// CAP_PERFMON and the kernel's BTF.
    ///
    /// On a device that a switch's mirror port feeds, the packets from the Ethernet address
    /// `router` count as leaving, and all others as arriving. The first octet is the highest.
    pub fn open(ifindex: u32, link: &SurveyLink, router: Option<u64>) -> Result<Self, BpfError> {
        let namespace = own_namespace().map_err(BpfError::Namespace)?;
        let of = survey_of {
            namespace,
            surveyed: ifindex.into(),
            overhead: link.overhead.into(),
            smallest: link.smallest.into(),
            kept: link.kept.into(),
            piece: link.piece.into(),
            piece_wire: link.piece_wire.into(),
            router: router.unwrap_or(0),
        };
        let (programs, links) = PacketPrograms::observe(FILE, of.as_bytes())?;
        Ok(Self {
            programs,
            _links: links,
        })
    }

    /// Returns the packets so far by protocol and port, for the 4,096 combinations seen last.
    pub fn services(&self) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        self.counts("services")
    }

    /// Returns the packets so far by protocol only, with port 0. This includes ports that were
    /// evicted from [`Self::services`].
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

    /// Returns the packets so far: those that arrived, and those that left.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A survey of what passes one device (`bpf/passive/survey.bpf.c`).

use crate::error::BpfError;
use crate::programs::packet::{PacketPrograms, word};
use crate::qdisc::attach_point::own_namespace;
use crate::qdisc::kind::{failed, sized};
use crate::trace::spread::{SPREAD_BYTES, Spread};
use libbpf_rs::{Link, MapCore, MapFlags};
use std::collections::BTreeMap;

/// The file, and what errors call its programs.
const FILE: &str = "survey";

/// Its maps.
const SERVICES: &str = "services";
const PROTOCOLS: &str = "protocols";
const WAYS: &str = "ways";

/// Bytes of `struct survey_count` and where in `struct survey_way` what is.
const COUNT_BYTES: usize = 16;
const ALL_AT: usize = 8;
const WIRE_AT: usize = ALL_AT + COUNT_BYTES;
const SIZES_AT: usize = WIRE_AT + 8;
const SIZES: usize = 25;
const GAPS_AT: usize = SIZES_AT + SIZES * COUNT_BYTES;
const WAY_BYTES: usize = GAPS_AT + SPREAD_BYTES;

/// Bytes of a step of [`SurveyWay::sizes`].
pub const SIZE_STEP: u32 = 64;

/// How much of something there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SurveyCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes, without the link's header.
    pub bytes: u64,
}

/// What packets are told apart by.
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

/// One way through the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyWay {
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
        let constants = [
            namespace,
            u64::from(ifindex),
            i64::from(link.overhead).cast_unsigned(),
            link.smallest.into(),
            link.kept.into(),
            link.piece.into(),
            link.piece_wire.into(),
        ];
        let constants = constants.map(u64::to_ne_bytes);
        let programs = PacketPrograms::load(FILE, FILE, Some(constants.as_flattened()))?;
        let links = programs.attach()?;
        Ok(Self {
            programs,
            _links: links,
        })
    }

    /// What passed so far, by protocol and port: the 4,096 that were seen last.
    pub fn services(&self) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        self.counts(SERVICES)
    }

    /// The same by protocol alone, with port 0: all that passed, also what was
    /// forgotten of ports.
    pub fn protocols(&self) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        self.counts(PROTOCOLS)
    }

    fn counts(&self, name: &'static str) -> Result<BTreeMap<SurveyService, SurveyCount>, BpfError> {
        let map = sized(FILE, name, COUNT_BYTES, self.programs.handle(name))?;
        let batch = map
            .lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)
            .map_err(failed(FILE, name, "read"))?;
        let entry = |(key, value): (Vec<u8>, Vec<u8>)| {
            let key: &[u8; 8] = key.first_chunk()?;
            let service = SurveyService {
                ethertype: u16::from_be_bytes([key[0], key[1]]),
                protocol: key[2],
                out: key[3] != 0,
                port: u16::from_ne_bytes([key[4], key[5]]),
            };
            Some((service, count(&value, 0)))
        };
        Ok(batch.filter_map(entry).collect())
    }

    /// What arrived and what left so far.
    pub fn ways(&self) -> Result<[SurveyWay; 2], BpfError> {
        let map = sized(FILE, WAYS, WAY_BYTES, self.programs.handle(WAYS))?;
        let read = |out: u32| {
            let value = map
                .lookup(&out.to_ne_bytes(), MapFlags::ANY)
                .map_err(failed(FILE, WAYS, "read"))?
                .unwrap_or_default();
            let gaps = value.get(GAPS_AT..).and_then(Spread::decode);
            Ok(SurveyWay {
                all: count(&value, ALL_AT),
                wire: word(&value, WIRE_AT),
                sizes: (0..SIZES)
                    .map(|step| count(&value, SIZES_AT + step * COUNT_BYTES))
                    .collect(),
                gaps: gaps.unwrap_or_default(),
            })
        };
        Ok([read(0)?, read(1)?])
    }
}

fn count(value: &[u8], at: usize) -> SurveyCount {
    SurveyCount {
        packets: word(value, at),
        bytes: word(value, at + 8),
    }
}

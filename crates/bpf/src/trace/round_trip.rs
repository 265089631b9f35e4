// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round trips of a line's own TCP (`bpf/passive/round_trip.bpf.c`).

use crate::error::BpfError;
use crate::layout::{round_trip_end, round_trip_heard};
use crate::maps::Map;
use crate::programs::packet::{PacketPrograms, address};
use crate::qdisc::attach_point::own_namespace;
use libbpf_rs::Link;
use std::net::IpAddr;
use std::time::Duration;
use weirgate_units::Arrange as _;

/// The file, and what errors call its programs.
const FILE: &str = "round_trip";

/// Looks on until it is dropped. Nothing that it does can change a packet.
#[derive(Debug)]
pub struct RoundTrips {
    _programs: PacketPrograms,
    _links: Vec<Link>,
    line: Map<u32, u32>,
    ends: Map<round_trip_end, round_trip_heard>,
}

/// What an end outside reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The end.
    pub end: IpAddr,
    /// The least time in which one of its answers came.
    pub least: Duration,
    /// How many came.
    pub count: u64,
}

impl RoundTrips {
    /// Begins to look at this thread's network namespace; at no device yet.
    /// Needs CAP_BPF and CAP_PERFMON, and the kernel's type information.
    pub fn open() -> Result<Self, BpfError> {
        let namespace = own_namespace().map_err(BpfError::Namespace)?;
        let programs = PacketPrograms::load(FILE, FILE, Some(&namespace.to_ne_bytes()))?;
        let line = programs.map("line")?;
        let ends = programs.map("ends")?;
        let links = programs.attach()?;
        Ok(Self {
            _programs: programs,
            _links: links,
            line,
            ends,
        })
    }

    /// From now on looks at the device of this number; 0 for none.
    pub fn watch(&self, ifindex: u32) -> Result<(), BpfError> {
        self.line.set_first(&ifindex)
    }

    /// Who answered since the last time, by address: the 64 that did so last.
    pub fn take(&self) -> Result<Vec<RoundTrip>, BpfError> {
        let keys: Vec<round_trip_end> = self.ends.keys().collect();
        let mut all = Vec::new();
        for key in keys {
            // Forgotten by the kernel meanwhile.
            let Some(heard) = self.ends.get(&key)? else {
                continue;
            };
            self.ends.remove(&key)?;
            let version = u8::try_from(key.version).unwrap_or_default();
            all.extend(address(version, &key.address).map(|end| RoundTrip {
                end,
                least: Duration::from_nanos(heard.least_ns),
                count: heard.count,
            }));
        }
        all.arrange_by_key(|one| one.end);
        Ok(all)
    }
}

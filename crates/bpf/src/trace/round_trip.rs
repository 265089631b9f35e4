// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the round trips of TCP connections that end at this machine's line
//! (`bpf/passive/round_trip.bpf.c`).

use crate::error::BpfError;
use crate::layout::{round_trip_end, round_trip_heard};
use crate::maps::Map;
use crate::programs::packet::{PacketPrograms, address};
use crate::qdisc::attach_point::own_namespace;
use libbpf_rs::Link;
use std::net::IpAddr;
use std::time::Duration;
use weirgate_units::Arrange as _;

/// The object file, and the name of its programs in errors.
const FILE: &str = "round_trip";

/// A running measurement, which ends when this is dropped. It cannot change packets.
#[derive(Debug)]
pub struct RoundTrips {
    _programs: PacketPrograms,
    _links: Vec<Link>,
    line: Map<u32, u32>,
    ends: Map<round_trip_end, round_trip_heard>,
}

/// The round trips to one remote address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The remote address.
    pub end: IpAddr,
    /// The shortest round trip.
    pub least: Duration,
    /// The number of round trips measured.
    pub count: u64,
}

impl RoundTrips {
    /// Starts a measurement in the network namespace of this thread, at no device yet. Needs
    /// CAP_BPF, CAP_PERFMON and the kernel's BTF.
    pub fn open() -> Result<Self, BpfError> {
        let namespace = own_namespace().map_err(BpfError::Namespace)?;
        let (programs, links) = PacketPrograms::observe(FILE, &namespace.to_ne_bytes())?;
        let line = programs.map("line")?;
        let ends = programs.map("ends")?;
        Ok(Self {
            _programs: programs,
            _links: links,
            line,
            ends,
        })
    }

    /// Selects the device with this index; 0 for none.
    pub fn watch(&self, ifindex: u32) -> Result<(), BpfError> {
        self.line.set_first(&ifindex)
    }

    /// Returns and clears the results by address, for the 64 addresses that answered last.
    pub fn take(&self) -> Result<Vec<RoundTrip>, BpfError> {
        let keys: Vec<round_trip_end> = self.ends.keys().collect();
        let mut all = Vec::new();
        for key in keys {
            // The kernel has evicted it since.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round trips of a line's own TCP (`bpf/passive/round_trip.bpf.c`).

use crate::error::BpfError;
use crate::programs::packet::{PacketPrograms, half, word};
use crate::qdisc::attach_point::own_namespace;
use crate::qdisc::kind::{failed, sized};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The file, and what errors call its programs.
const FILE: &str = "round_trip";

/// Its maps, with the bytes of their values.
const LINE: &str = "line";
const ENDS: &str = "ends";
const HEARD_BYTES: usize = 16;

/// Looks on until it is dropped. Nothing that it does can change a packet.
#[derive(Debug)]
pub struct RoundTrips {
    _programs: PacketPrograms,
    _links: Vec<Link>,
    line: MapHandle,
    ends: MapHandle,
}

/// What an end outside told.
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
        let line = sized(FILE, LINE, 4, programs.handle(LINE))?;
        let ends = sized(FILE, ENDS, HEARD_BYTES, programs.handle(ENDS))?;
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
        self.line
            .update(&[0; 4], &ifindex.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed(FILE, LINE, "written"))
    }

    /// Who answered since the last time, by address: the 64 that did so last.
    pub fn take(&self) -> Result<Vec<RoundTrip>, BpfError> {
        let keys: Vec<Vec<u8>> = self.ends.keys().collect();
        let mut all = Vec::new();
        for key in keys {
            let found = self.ends.lookup(&key, MapFlags::ANY);
            let found = found.map_err(failed(FILE, ENDS, "read"))?;
            // Forgotten by the kernel meanwhile.
            let Some(found) = found else {
                continue;
            };
            self.ends
                .delete(&key)
                .map_err(failed(FILE, ENDS, "written"))?;
            all.extend(end(&key).map(|end| RoundTrip {
                end,
                least: Duration::from_nanos(word(&found, 0)),
                count: word(&found, 8),
            }));
        }
        all.sort_by_key(|one| one.end);
        Ok(all)
    }
}

/// `struct outside`.
fn end(key: &[u8]) -> Option<IpAddr> {
    match half(key, 16) {
        4 => Some(Ipv4Addr::from_octets(*key.first_chunk()?).into()),
        6 => Some(Ipv6Addr::from_octets(*key.first_chunk()?).into()),
        _ => None,
    }
}

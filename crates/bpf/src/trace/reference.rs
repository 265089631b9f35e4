// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the decisions of the kernel's own disciplines (`bpf/bench/watch.bpf.c`), to compare
//! them with those of the kit.

use crate::error::BpfError;
use crate::layout::{SEEN_DEQUEUE, SEEN_ENQUEUE, seen};
use crate::maps::{Map, failed};
use crate::programs::{self, log};
use libbpf_rs::{ErrorExt, Link, MapCore, MapHandle, ObjectBuilder, RingBufferBuilder};
use std::cell::RefCell;
use std::time::Duration;
use zerocopy::FromBytes;

const NAME: &str = "watch";

/// One of the kernel's disciplines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// `sch_codel`.
    Codel,
    /// `sch_fq_codel`.
    FqCodel,
    /// `sch_pie`.
    Pie,
}

impl Watched {
    /// Returns the prefix of the names of its programs.
    fn prefix(self) -> &'static str {
        match self {
            Self::Codel => "codel_",
            Self::FqCodel => "fq_codel_",
            Self::Pie => "pie_",
        }
    }
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenKind {
    /// A packet arrived; true if it was queued.
    Came(bool),
    /// A packet was requested; `packet` is 0 if there was none.
    Left,
    /// PIE updated its drop probability.
    Updated,
}

/// One event of a discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The kind.
    pub kind: SeenKind,
    /// A number that identifies the packet until it has left. For an update: the delay on which
    /// it is based, in units of 64 ns; `len` is then the backlog in bytes.
    pub packet: u64,
    /// The time that the discipline read, in units of 1024 ns for CoDel and fq_codel, otherwise
    /// in nanoseconds; 0 if it read no clock.
    pub time: u64,
    /// PIE's probability in units of 2^-56.
    pub probability: u64,
    /// The size in bytes, as the kernel counts it.
    pub len: u32,
    /// The hash of the flow.
    pub hash: u32,
}

impl From<seen> for Seen {
    fn from(seen: seen) -> Self {
        Self {
            kind: match seen.kind {
                SEEN_ENQUEUE => SeenKind::Came(seen.refused == 0),
                SEEN_DEQUEUE => SeenKind::Left,
                _ => SeenKind::Updated,
            },
            packet: seen.packet,
            time: seen.time,
            probability: seen.probability,
            len: seen.len,
            hash: seen.hash,
        }
    }
}

/// A running trace, which ends when this is dropped.
#[derive(Debug)]
pub struct QdiscTrace {
    events: MapHandle,
    lost: Map<u32, u64>,
    _links: Vec<Link>,
}

impl QdiscTrace {
    /// Starts a trace of every qdisc of a kind. Needs root, a kernel with fexit programs, and
    /// the loaded module of the kind.
    pub fn begin(of: Watched) -> Result<Self, BpfError> {
        let object = programs::named(NAME).ok_or(BpfError::NoProgram(NAME))?;
        let (watch, log) = log::recorded(|| {
            let mut builder = ObjectBuilder::default();
            let mut open = builder.name(NAME)?.open_memory(&object)?;
            let own = |name: &str| name.starts_with(of.prefix());
            for mut program in open.progs_mut() {
                let wanted = own(&program.name().to_string_lossy());
                program.set_autoload(wanted);
            }
            let object = open.load()?;
            let mut links = Vec::new();
            for program in object.progs_mut() {
                if own(&program.name().to_string_lossy()) {
                    links.push(program.attach()?);
                }
            }
            let map = |name: &str| {
                let found = object.maps().find(|map| map.name() == name);
                let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
                MapHandle::try_from(&found.ok_or_else(missing).context(name.to_owned())?)
            };
            Ok((map("events")?, map("lost")?, links))
        });
        let (events, lost, links) =
            watch.map_err(|source: libbpf_rs::Error| BpfError::Refused {
                kind: NAME.to_owned(),
                source,
                log,
            })?;
        Ok(Self {
            events,
            lost: Map::of(NAME, "lost", Some(lost))?,
            _links: links,
        })
    }

    /// Passes every event to `take` until `more` returns false; `more` is called several times a
    /// second.
    pub fn follow(
        &self,
        take: impl FnMut(Seen),
        mut more: impl FnMut() -> bool,
    ) -> Result<(), BpfError> {
        let failed = failed(NAME, "events", "read");
        let take = RefCell::new(take);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.events, |bytes| {
                if let Ok((seen, _)) = seen::read_from_prefix(bytes) {
                    take.borrow_mut()(seen.into());
                }
                0
            })
            .map_err(&failed)?;
        let ring = builder.build().map_err(&failed)?;
        while more() {
            ring.poll(Duration::from_millis(100)).map_err(&failed)?;
        }
        Ok(())
    }

    /// Returns the number of events that were lost because they were not read fast enough.
    pub fn lost(&self) -> Result<u64, BpfError> {
        self.lost.first()
    }
}

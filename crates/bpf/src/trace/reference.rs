// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches the kernel's own disciplines at work (`bpf/bench/watch.bpf.c`), so
//! that those of the kit can be compared with them.

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
    /// What its programs' names begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Codel => "codel_",
            Self::FqCodel => "fq_codel_",
            Self::Pie => "pie_",
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenKind {
    /// A packet came; whether it was taken.
    Came(bool),
    /// The device asked; `packet` is 0 where it got none.
    Left,
    /// PIE brought its probability up to date.
    Updated,
}

/// One event of the discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// What.
    pub kind: SeenKind,
    /// Which packet: the same number until it has left. Of an update the delay
    /// that it went by, in 64 ns, and `len` the bytes queued.
    pub packet: u64,
    /// When, as the discipline took it: units of 1024 ns for those with a
    /// CoDel, else nanoseconds; 0 where it took no time.
    pub time: u64,
    /// PIE's probability, in 2^-56.
    pub probability: u64,
    /// Bytes, as the kernel counts them.
    pub len: u32,
    /// The flow's hash.
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

/// Watches from when it is made.
#[derive(Debug)]
pub struct QdiscTrace {
    events: MapHandle,
    lost: Map<u32, u64>,
    _links: Vec<Link>,
}

impl QdiscTrace {
    /// Watches every qdisc of a kind. Needs root, a kernel with fexit programs,
    /// and the kind's module in the kernel already.
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

    /// Gives every event as it comes, until `more` says false; it is asked
    /// several times a second.
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

    /// Events that were lost because they were not read fast enough.
    pub fn lost(&self) -> Result<u64, BpfError> {
        self.lost.first()
    }
}

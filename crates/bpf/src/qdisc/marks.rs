// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ECN marks of BPF qdiscs: a program at egress of the device applies them, because it runs
//! before the qdisc and may write to packets (`bpf/egress/marks.bpf.c`).

use crate::error::BpfError;
use crate::layout::{marks_count, marks_flow, marks_pending, marks_total};
use crate::maps::{Map, Named};
use crate::programs::tcx::{Attached, End};
use crate::programs::{self, log};
use crate::qdisc::attach_point::AttachPoint;
use libbpf_rs::{ErrorExt, MapHandle, ObjectBuilder};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::AsFd;

/// The object file and the program in it.
const FILE: &str = "marks";
const PROGRAM: &str = "marks_egress";

/// The maps that it shares with the qdisc.
const PENDING: &str = "marks_pending";
const PLACES: &str = "marks_places";
const TOTALS: &str = "marks_totals";

pub(crate) const MAPS: [&str; 3] = [PENDING, PLACES, TOTALS];

/// The maps for marks of one qdisc kind.
#[derive(Debug)]
pub struct Marks {
    kind: String,
    pending: Map<marks_flow, marks_pending>,
    points: Map<AttachPoint, marks_count>,
    totals: Map<u32, marks_total>,
}

/// Counts of the marks at an attach point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkCount {
    /// Marks that were written to packets.
    pub made: u64,
    /// Marks that flows have yet to get.
    pub pending: u64,
    /// Marks that expired: the flow sent nothing for ten seconds, and then continued.
    pub lapsed: u64,
}

impl Marks {
    pub(crate) fn of(
        kind: &str,
        maps: &mut impl Iterator<Item = MapHandle>,
    ) -> Result<Self, BpfError> {
        Ok(Self {
            kind: kind.to_owned(),
            pending: Map::of(kind, PENDING, maps.next())?,
            points: Map::of(kind, PLACES, maps.next())?,
            totals: Map::of(kind, TOTALS, maps.next())?,
        })
    }

    /// Returns the maps with their names, to pin them.
    pub(crate) fn named(&mut self) -> [Named<'_>; 3] {
        [
            self.pending.handle(),
            self.points.handle(),
            self.totals.handle(),
        ]
    }

    /// Attaches the program to the device of an attach point, which must be in the network
    /// namespace of this thread, and informs the qdisc. It takes effect with the next change of
    /// the qdisc's settings.
    pub(crate) fn attach(&self, point: AttachPoint) -> Result<Attached, BpfError> {
        let random = RandomState::new().build_hasher().finish();
        let stamp = (random as u32) & !3 | 4;
        let marker = self.load(point.ifindex, stamp)?;
        let mut total = self.totals.first()?;
        // All devices of the kind share one key, so keep an existing one.
        if total.key == 0 {
            total.key = random >> 32 | 1 << 63;
            self.totals.set_first(&total)?;
        }
        let count = marks_count {
            stamp: stamp.into(),
            made: 0,
            lapsed: 0,
        };
        self.points.put(&key(point), &count)?;
        Ok(marker)
    }

    /// Makes the qdisc at an attach point stop marking with its next change of settings.
    pub(crate) fn forget(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.points.remove(&key(point))
    }

    /// Returns the counts of marks at an attach point; `None` if it makes none.
    pub fn count(&self, point: AttachPoint) -> Result<Option<MarkCount>, BpfError> {
        let Some(count) = self.points.get(&key(point))? else {
            return Ok(None);
        };
        let mut pending = 0;
        for flow in self.pending.keys() {
            if (flow.netns, flow.ifindex) == (point.netns, point.ifindex) {
                pending += self.pending.get(&flow)?.map_or(0, |marks| marks.pending);
            }
        }
        Ok(Some(MarkCount {
            made: count.made,
            pending,
            lapsed: count.lapsed,
        }))
    }

    /// Loads the program with the qdisc's maps, and attaches it to a device.
    fn load(&self, ifindex: u32, stamp: u32) -> Result<Attached, BpfError> {
        let program = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
        let shared = [
            (PENDING, self.pending.descriptor()),
            (PLACES, self.points.descriptor()),
            (TOTALS, self.totals.descriptor()),
        ];
        let (attached, log) = log::recorded(|| {
            let mut open = ObjectBuilder::default().name(FILE)?.open_memory(&program)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if name.ends_with(".rodata") {
                    map.set_initial_value(&stamp.to_ne_bytes())
                        .context("the program's constants")?;
                } else if let Some((_, own)) = shared.iter().find(|(own, _)| *own == name) {
                    map.reuse_fd(*own).context("the qdisc's maps")?;
                }
            }
            let object = open.load()?;
            let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
            let program = object.progs().find(|program| program.name() == PROGRAM);
            let program = program.ok_or_else(missing).context(PROGRAM)?;
            Attached::to(program.as_fd(), ifindex, End::Egress).context("putting it on the device")
        });
        attached.map_err(|source| BpfError::Refused {
            kind: format!("the program that makes marks for {}", self.kind),
            source,
            log,
        })
    }
}

/// Returns the attach point of the whole device.
fn key(point: AttachPoint) -> AttachPoint {
    AttachPoint { queue: 0, ..point }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ECN marks of qdiscs made of programs: a program at egress of a device, which
//! runs before the qdisc and may write to packets (`bpf/egress/marks.bpf.c`).

use crate::error::BpfError;
use crate::programs;
use crate::programs::log;
use crate::programs::packet::word;
use crate::programs::tcx::{Attached, End};
use crate::qdisc::attach_point::{self, Place};
use crate::qdisc::kind::{failed, sized};
use libbpf_rs::{ErrorExt, MapCore, MapFlags, MapHandle, ObjectBuilder};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::AsFd;

/// Its file, and the program in it.
const FILE: &str = "marks";
const PROGRAM: &str = "marks_egress";

/// The maps that it shares with the qdisc.
const DEBTS: &str = "marks_debts";
const PLACES: &str = "marks_places";
const TOTALS: &str = "marks_totals";

pub(crate) const MAPS: [&str; 3] = [DEBTS, PLACES, TOTALS];

/// Bytes of `struct marks_debt`, `struct marks_count` and `struct marks_total`.
const DEBT_BYTES: usize = 16;
const COUNT_BYTES: usize = 24;
const TOTAL_BYTES: usize = 24;

/// The only key of the map of totals.
const KEY: [u8; 4] = [0; 4];

/// A kind of qdisc's maps for marks.
#[derive(Debug)]
pub struct Marks {
    kind: String,
    debts: MapHandle,
    places: MapHandle,
    totals: MapHandle,
}

/// What became of the marks of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkCount {
    /// Marks that were put on packets.
    pub made: u64,
    /// Marks that flows owe now.
    pub owed: u64,
    /// Marks whose flow sent nothing more within ten seconds, and then did.
    pub lapsed: u64,
}

impl Marks {
    pub(crate) fn of(
        kind: &str,
        maps: &mut impl Iterator<Item = MapHandle>,
    ) -> Result<Self, BpfError> {
        Ok(Self {
            kind: kind.to_owned(),
            debts: sized(kind, DEBTS, DEBT_BYTES, maps.next())?,
            places: sized(kind, PLACES, COUNT_BYTES, maps.next())?,
            totals: sized(kind, TOTALS, TOTAL_BYTES, maps.next())?,
        })
    }

    /// Its maps by name, to pin.
    pub(crate) fn named(&mut self) -> [(&'static str, &mut MapHandle); 3] {
        [
            (DEBTS, &mut self.debts),
            (PLACES, &mut self.places),
            (TOTALS, &mut self.totals),
        ]
    }

    /// Puts the program on the device of a place, which is in the network
    /// namespace of this thread, and lets the qdisc there know. It takes effect
    /// with the next change of the qdisc's settings.
    pub(crate) fn attach(&self, place: Place) -> Result<Attached, BpfError> {
        let random = RandomState::new().build_hasher().finish();
        let stamp = (random as u32) & !3 | 4;
        let marker = self.load(place.ifindex, stamp)?;
        let total = self.totals.lookup(&KEY, MapFlags::ANY);
        let mut total = total
            .map_err(failed(&self.kind, TOTALS, "read"))?
            .unwrap_or_else(|| vec![0; TOTAL_BYTES]);
        // One for all devices of the kind: it stays.
        if word(&total, 16) == 0 {
            total[16..].copy_from_slice(&(random >> 32 | 1 << 63).to_ne_bytes());
            self.totals
                .update(&KEY, &total, MapFlags::ANY)
                .map_err(failed(&self.kind, TOTALS, "written"))?;
        }
        let mut count = u64::from(stamp).to_ne_bytes().to_vec();
        count.resize(COUNT_BYTES, 0);
        self.places
            .update(&key(place), &count, MapFlags::ANY)
            .map_err(failed(&self.kind, PLACES, "written"))?;
        Ok(marker)
    }

    /// From its next change on the qdisc of a place marks nothing any more.
    pub(crate) fn forget(&self, place: Place) -> Result<(), BpfError> {
        match self.places.delete(&key(place)) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed(&self.kind, PLACES, "written")),
        }
    }

    /// What became of the marks of a place; `None` where it makes none.
    pub fn count(&self, place: Place) -> Result<Option<MarkCount>, BpfError> {
        let own = key(place);
        let found = self.places.lookup(&own, MapFlags::ANY);
        let Some(count) = found.map_err(failed(&self.kind, PLACES, "read"))? else {
            return Ok(None);
        };
        let mut owed = 0;
        for flow in self.debts.keys() {
            if flow.get(..12) == own.get(..12) {
                let debt = self.debts.lookup(&flow, MapFlags::ANY);
                let debt = debt.map_err(failed(&self.kind, DEBTS, "read"))?;
                owed += debt.map_or(0, |debt| word(&debt, 0));
            }
        }
        Ok(Some(MarkCount {
            made: word(&count, 8),
            owed,
            lapsed: word(&count, 16),
        }))
    }

    /// Loads the program with the qdisc's maps, and puts it on a device.
    fn load(&self, ifindex: u32, stamp: u32) -> Result<Attached, BpfError> {
        let bytes = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
        let shared = [
            (DEBTS, &self.debts),
            (PLACES, &self.places),
            (TOTALS, &self.totals),
        ];
        let (attached, log) = log::recorded(|| {
            let mut open = ObjectBuilder::default().name(FILE)?.open_memory(bytes)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if name.ends_with(".rodata") {
                    map.set_initial_value(&stamp.to_ne_bytes())
                        .context("the program's constants")?;
                } else if let Some((_, own)) = shared.iter().find(|(own, _)| *own == name) {
                    map.reuse_fd(own.as_fd()).context("the qdisc's maps")?;
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

/// A place as the map has it: that of the whole device.
fn key(place: Place) -> [u8; attach_point::BYTES] {
    Place { queue: 0, ..place }.to_bytes()
}

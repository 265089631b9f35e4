// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of disciplines, with the names and units of their parameters and statistics.

use crate::ffi::{self, RawDescriptor, RawRow};
use crate::own::Own;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::ops::Range;

/// A discipline of the kit.
#[derive(Clone, Copy)]
pub struct Discipline {
    pub(crate) raw: &'static RawDescriptor,
    /// What is known of one that is not part of this library.
    pub(crate) own: Option<&'static Own>,
}

/// A parameter, a number of state, or a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its name, which ends in its unit where it has one.
    pub name: &'static str,
    /// The unit: a word; or a word and `/2^n` for fixed point; or words
    /// separated by `|` for 0, 1, 2 and so on.
    pub unit: &'static str,
    /// What it is.
    pub help: &'static str,
    /// The default value (parameters only).
    pub default: u64,
    /// Smallest value allowed (parameters only).
    pub least: u64,
    /// Largest value allowed (parameters only).
    pub most: u64,
}

/// Where in an instance's memory things lie, in bytes from its beginning. The
/// kernel's instances have the same layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The whole, without slots.
    pub size: usize,
    /// [`crate::Link`].
    pub link: Range<usize>,
    /// One `u64` for each parameter.
    pub params: Range<usize>,
    /// One `u64` for each number of state in the table, then what it does not
    /// describe.
    pub vars: Range<usize>,
    /// One `u64` for each statistic.
    pub stats: Range<usize>,
    /// One `u64` for each of [`Discipline::counters`], then drops, then marks
    /// by reason.
    pub counts: Range<usize>,
}

impl Discipline {
    /// All of the kit, by their numbers, as `aqm/disciplines.txt` lists them.
    pub fn all() -> Vec<Self> {
        let kit = ffi::KIT.iter();
        kit.map(|raw| Self { raw, own: None }).collect()
    }

    /// Those that come with the laboratory's program as sources, for this machine alone:
    /// a file with the kernel's programs is built of each (`weirgate-lab aqm build`).
    pub fn of_the_lab() -> Vec<Self> {
        let lab = ffi::LAB.iter();
        lab.map(|raw| Self { raw, own: None }).collect()
    }

    /// The names of [`Discipline::of_the_lab`]. A program that uses only this does not contain the
    /// disciplines.
    pub fn lab_names() -> &'static [&'static str] {
        &ffi::LAB_NAMES
    }

    /// All of the kit, then those of the laboratory.
    pub fn every() -> Vec<Self> {
        let mut every = Self::all();
        every.extend(Self::of_the_lab());
        every
    }

    /// The one of that name in the kit.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|one| one.name() == name)
    }

    /// Its name, as in `aqm/NAME.c`.
    pub fn name(self) -> &'static str {
        text(self.raw.name)
    }

    /// What it is, in a line.
    pub fn summary(self) -> &'static str {
        text(self.raw.summary)
    }

    /// What an administrator may set.
    pub fn params(self) -> Vec<Row> {
        // SAFETY: C states how many rows the table has.
        unsafe { rows(self.raw.params, self.raw.params_count) }
    }

    /// The described part of its state.
    pub fn vars(self) -> Vec<Row> {
        // SAFETY: C states how many rows the table has.
        unsafe { rows(self.raw.vars, self.raw.vars_count) }
    }

    /// What it counts beside [`Discipline::counters`].
    pub fn stats(self) -> Vec<Row> {
        // SAFETY: C states how many rows the table has.
        unsafe { rows(self.raw.stats, self.raw.stats_count) }
    }

    /// What the hosts count for every discipline.
    pub fn counters() -> Vec<Row> {
        counters()
    }

    /// How many queues it uses.
    pub fn queues(self) -> u32 {
        self.raw.queues
    }

    /// How many packets an instance holds at most.
    pub fn packets(self) -> u32 {
        self.raw.packets
    }

    /// Where an instance keeps what.
    pub fn layout(self) -> Layout {
        let part = |offset: u32, bytes: u32| offset as usize..(offset + bytes) as usize;
        let raw = self.raw;
        let counts = counters().len() + 2 * reasons().len();
        Layout {
            size: raw.size as usize,
            link: part(raw.link_offset, size_of::<crate::Link>() as u32),
            params: part(raw.params_offset, 8 * raw.params_count),
            vars: part(raw.vars_offset, raw.vars_size),
            stats: part(raw.stats_offset, 8 * raw.stats_count),
            counts: part(raw.counts_offset, 8 * counts as u32),
        }
    }
}

impl fmt::Debug for Discipline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Discipline({})", self.name())
    }
}

impl PartialEq for Discipline {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Discipline {}

/// Why a packet may be marked or dropped, by number: `name` is the word.
pub fn reasons() -> Vec<Row> {
    // SAFETY: C states how many rows the table has.
    unsafe { rows((&raw const ffi::aqm_reasons).cast(), ffi::aqm_reasons_count) }
}

/// What both hosts count.
pub(crate) fn counters() -> Vec<Row> {
    // SAFETY: C states how many rows the table has.
    unsafe { rows((&raw const ffi::aqm_counts).cast(), ffi::aqm_counts_count) }
}

/// # Safety
///
/// `count` rows lie at `first`, constant.
unsafe fn rows(first: *const RawRow, count: u32) -> Vec<Row> {
    (0..count as usize)
        .map(|index| {
            // SAFETY: the caller vouches for `count` rows.
            let raw = unsafe { &*first.add(index) };
            Row {
                name: text(raw.name),
                unit: text(raw.unit),
                help: text(raw.help),
                default: raw.dflt,
                least: raw.least,
                most: raw.most,
            }
        })
        .collect()
}

/// A string literal of C.
fn text(literal: *const c_char) -> &'static str {
    // SAFETY: every pointer in the tables is to a string literal.
    unsafe { CStr::from_ptr(literal) }
        .to_str()
        .unwrap_or_default()
}

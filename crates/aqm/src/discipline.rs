// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disciplines, with the names and units of their parameters and statistics.

use crate::ffi::{self, RawDescriptor, RawRow};
use crate::own::Own;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::ops::Range;

/// A discipline of the kit.
#[derive(Clone, Copy)]
pub struct Discipline {
    pub(crate) raw: &'static RawDescriptor,
    /// Further data of a discipline that is not part of this library.
    pub(crate) own: Option<&'static Own>,
}

/// The unit of bytes as the device counts them (`AQM_BYTES` of `aqm/include/aqm.h`).
pub const BYTES: &str = "bytes";

/// The unit of bytes on the wire (`AQM_WIRE_BYTES` of `aqm/include/aqm.h`).
pub const WIRE_BYTES: &str = "bytes on the wire";

/// A parameter, a state variable, or a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The name, which ends in the unit if there is one.
    pub name: &'static str,
    /// The unit: a word; a word and `/2^n` for fixed point; or words separated by `|` that name
    /// the values 0, 1, 2 and so on.
    pub unit: &'static str,
    /// The description.
    pub help: &'static str,
    /// The default value (only for parameters).
    pub default: u64,
    /// The smallest allowed value (only for parameters).
    pub least: u64,
    /// The largest allowed value (only for parameters).
    pub most: u64,
}

/// What a discipline reads as [`crate::Packet::flow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowInput {
    /// Nothing: it is 0.
    Nothing,
    /// A hash of the packet's flow.
    Hash,
    /// The packet's DS code point.
    Code,
}

impl FlowInput {
    /// Returns the input of a discipline with these flags of `enum aqm_needs`.
    pub fn of_needs(needs: u32) -> Self {
        match needs {
            _ if needs & ffi::NEEDS_CODE != 0 => Self::Code,
            _ if needs & ffi::NEEDS_FLOW != 0 => Self::Hash,
            _ => Self::Nothing,
        }
    }
}

/// The layout of an instance's memory, as ranges of byte offsets. Instances in the kernel have
/// the same layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The size without slots.
    pub size: usize,
    /// [`crate::Link`].
    pub link: Range<usize>,
    /// A `u64` for each parameter.
    pub params: Range<usize>,
    /// A `u64` for each state variable in the table, followed by state that the table does not
    /// describe.
    pub vars: Range<usize>,
    /// A `u64` for each statistic.
    pub stats: Range<usize>,
    /// A `u64` for each of [`Discipline::counters`], then drops by reason, then marks by reason.
    pub counts: Range<usize>,
}

impl Discipline {
    /// Returns the disciplines of the kit by number, in the order of `aqm/disciplines.txt`.
    pub fn all() -> Vec<Self> {
        let kit = ffi::KIT.iter();
        kit.map(|raw| Self { raw, own: None }).collect()
    }

    /// Returns the disciplines that the laboratory's program contains for this machine. For the
    /// kernel, `weirgate-lab aqm build` compiles a file from the sources of each.
    pub fn of_the_lab() -> Vec<Self> {
        let lab = ffi::LAB.iter();
        lab.map(|raw| Self { raw, own: None }).collect()
    }

    /// Returns the names of [`Discipline::of_the_lab`]. A program that uses only this function
    /// does not contain the disciplines.
    pub fn lab_names() -> &'static [&'static str] {
        &ffi::LAB_NAMES
    }

    /// Returns the disciplines of the kit, then those of the laboratory.
    pub fn every() -> Vec<Self> {
        let mut every = Self::all();
        every.extend(Self::of_the_lab());
        every
    }

    /// Returns the discipline of the kit with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|one| one.name() == name)
    }

    /// Returns the name, as in `aqm/NAME.c`.
    pub fn name(self) -> &'static str {
        text(self.raw.name)
    }

    /// Returns a description in one line.
    pub fn summary(self) -> &'static str {
        text(self.raw.summary)
    }

    /// Returns the parameters.
    pub fn params(self) -> Vec<Row> {
        // SAFETY: C states how many rows the table has.
        unsafe { rows(self.raw.params, self.raw.params_count) }
    }

    /// Returns the state variables that it describes.
    pub fn vars(self) -> Vec<Row> {
        // SAFETY: C states how many rows the table has.
        unsafe { rows(self.raw.vars, self.raw.vars_count) }
    }

    /// Returns its own statistics, besides [`Discipline::counters`].
    pub fn stats(self) -> Vec<Row> {
        // SAFETY: C states how many rows the table has.
        unsafe { rows(self.raw.stats, self.raw.stats_count) }
    }

    /// Returns the statistics that the hosts keep for every discipline.
    pub fn counters() -> Vec<Row> {
        counters()
    }

    /// Returns the number of queues that it uses.
    pub fn queues(self) -> u32 {
        self.raw.queues
    }

    /// Returns how many packets an instance can hold.
    pub fn packets(self) -> u32 {
        self.raw.packets
    }

    /// Returns what it reads as a packet's flow.
    pub fn flow_input(self) -> FlowInput {
        FlowInput::of_needs(self.raw.needs)
    }

    /// Returns the layout of an instance's memory.
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

/// Returns the reasons for marking or dropping a packet, by number; `name` is the word.
pub fn reasons() -> Vec<Row> {
    // SAFETY: C states how many rows the table has.
    unsafe { rows((&raw const ffi::aqm_reasons).cast(), ffi::aqm_reasons_count) }
}

/// Returns the statistics that both hosts keep.
pub(crate) fn counters() -> Vec<Row> {
    // SAFETY: C states how many rows the table has.
    unsafe { rows((&raw const ffi::aqm_counts).cast(), ffi::aqm_counts_count) }
}

/// # Safety
///
/// There must be `count` constant rows at `first`.
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

/// Converts a string literal of C.
fn text(literal: *const c_char) -> &'static str {
    // SAFETY: every pointer in the tables is to a string literal.
    unsafe { CStr::from_ptr(literal) }
        .to_str()
        .unwrap_or_default()
}

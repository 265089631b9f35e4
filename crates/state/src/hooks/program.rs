// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kind of program at a device's hooks states about itself.
//!
//! This file names no program, so that each program can be read by itself. The parent module lists
//! them.

/// A hook of a device's `clsact` qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClsactHook {
    /// Arriving packets.
    Ingress,
    /// Departing packets, before the root qdisc.
    Egress,
}

impl ClsactHook {
    /// Returns its name in tc(8).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// Where a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramRow {
    /// The name of its object file, `bpf/*/OBJECT.bpf.c`.
    pub object: &'static str,
    /// The preference of its filters: the kernel runs those with lower ones first. The filter that
    /// restores marks has 87 and runs first, because it overwrites all bits of the mark.
    pub preference: u16,
    /// One filter for each function of the object.
    pub filters: &'static [ProgramFilter],
    /// Whether its settings are in a map, which can be written while it is attached.
    pub in_map: bool,
    /// Whether it looks connections up, so that conntrack has to be loaded.
    pub tracks: bool,
}

impl ProgramRow {
    /// The values of most programs.
    pub(super) const DEFAULT: Self = Self {
        object: "",
        preference: 0,
        filters: &[],
        in_map: true,
        tracks: false,
    };
}

/// A function of a program at a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramFilter {
    /// The hook.
    pub hook: ClsactHook,
    /// The function.
    pub function: &'static str,
    /// The beginning of the filter's name; the version of the program follows.
    pub label: &'static str,
}

pub(super) const fn ingress(function: &'static str, label: &'static str) -> ProgramFilter {
    ProgramFilter {
        hook: ClsactHook::Ingress,
        function,
        label,
    }
}

pub(super) const fn egress(function: &'static str, label: &'static str) -> ProgramFilter {
    ProgramFilter {
        hook: ClsactHook::Egress,
        function,
        label,
    }
}

/// What a program does, as a part of one line about all programs of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clause {
    /// How arriving packets are policed; this part comes first.
    Policed(String),
    /// What is written into the mark of arriving packets.
    Mark(String),
    /// What else happens to arriving packets.
    Arriving(String),
    /// A complete sentence.
    Alone(String),
}

/// A program at a device's hooks, or two that share their maps. Each is in a file of its own, and
/// crate `bpf` has another file that loads it.
pub trait HookProgram {
    /// Its settings.
    type Settings: PartialEq;

    /// Where it is attached.
    const ROW: ProgramRow;

    /// Returns whether a filter whose name begins with its label belongs to this program.
    fn has_name(_: &str) -> bool {
        true
    }

    /// Returns the part of its filters' names between their label and the program's version.
    fn in_name(_: &Self::Settings) -> String {
        String::new()
    }

    /// Returns whether it does the same with both settings.
    fn same(one: &Self::Settings, other: &Self::Settings) -> bool {
        one == other
    }

    /// Describes it with all settings.
    fn text(own: &Self::Settings) -> String;

    /// Describes it briefly.
    fn clause(own: &Self::Settings) -> Clause;

    /// Returns what a command that attaches it does not show.
    fn comment(own: &Self::Settings) -> String {
        Self::text(own)
    }
}

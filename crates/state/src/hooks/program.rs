// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kind of program at a device's hooks says about itself.
//!
//! Nothing here names one, so that each can be read by itself; the list of them is in
//! the parent module.

/// A hook of a device's `clsact` qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClsactHook {
    /// Packets arrive.
    Ingress,
    /// They leave, before the root qdisc.
    Egress,
}

impl ClsactHook {
    /// As tc(8) calls it.
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
    /// Its object, `bpf/*/OBJECT.bpf.c`.
    pub object: &'static str,
    /// The preference of its filters: the kernel runs those with lower ones first. The
    /// filter that restores marks has 87 and comes first, because it overwrites what
    /// others write into marks.
    pub preference: u16,
    /// A filter for each function of the object.
    pub filters: &'static [ProgramFilter],
    /// Whether its settings are in a map, which can be written while it is attached.
    pub in_map: bool,
    /// Whether it asks connection tracking, which then has to be loaded.
    pub tracks: bool,
}

impl ProgramRow {
    /// What most programs have.
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
    /// What the filter's name begins with; the version of the program follows.
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
    /// Arriving packets are policed before anything else is said of them.
    Policed(String),
    /// What arriving packets get written into their mark.
    Mark(String),
    /// What else happens to arriving packets.
    Arriving(String),
    /// A sentence of its own.
    Alone(String),
}

/// A program at a device's hooks, or two that share their maps. Each is in a file of
/// its own, and crate `bpf` has another that loads it.
pub trait HookProgram {
    /// Its settings.
    type Settings: PartialEq;

    /// Where it is attached.
    const ROW: ProgramRow;

    /// Whether a filter whose name begins with its label is one of this program.
    fn has_name(_: &str) -> bool {
        true
    }

    /// What the names of its filters have between their label and the program's version.
    fn in_name(_: &Self::Settings) -> String {
        String::new()
    }

    /// Whether it does the same with both settings.
    fn same(one: &Self::Settings, other: &Self::Settings) -> bool {
        one == other
    }

    /// What it does, with all settings.
    fn text(own: &Self::Settings) -> String;

    /// What it does, in short.
    fn clause(own: &Self::Settings) -> Clause;

    /// What a command that attaches it does not show.
    fn comment(own: &Self::Settings) -> String {
        Self::text(own)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs at a device's ingress and egress hooks, which run before any table.
//!
//! [`HookProgram`] is what each program states about itself, in a file of its own. Crate `bpf`
//! loads it (`crates/bpf/src/hooks/attached.rs`). To add one, follow `docs/adding/hook-program.md`.

pub(crate) mod conditioner;
pub(crate) mod datagrams;
pub(crate) mod measured;
pub(crate) mod order;
pub(crate) mod payload;
pub(crate) mod program;
pub(crate) mod virtual_queue;
pub(crate) mod window;

use crate::Origin;
use conditioner::{Conditioning, EgressConditioners, IngressConditioners};
use datagrams::Datagrams;
use order::Order;
use payload::Payload;
use program::{Clause, ClsactHook, HookProgram, ProgramFilter, ProgramRow};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use virtual_queue::VirtualQueueFilter;
use window::Windows;

/// A program with a field for its settings in [`HookPrograms`].
pub trait InHooks: HookProgram {
    /// Returns its settings; `None` if it is not attached.
    fn of(hooks: &HookPrograms) -> Option<&Self::Settings>;

    /// Sets its settings, so that it is attached.
    fn put(hooks: &mut HookPrograms, settings: Self::Settings);
}

macro_rules! programs {
    ($(
        $(#[doc = $about:literal])* $(#[serde($($stored:tt)+)])?
        $name:ident: $kind:ty, $field:ident: $type:ty;
    )+) => {
        /// A program, or two that share their maps. The order is that of a plan's text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Program {
            $($(#[doc = $about])* $name,)+
        }

        /// A device's ingress and egress hooks: the `clsact` qdisc (net/sched/sch_ingress.c), and
        /// which of its filters are weirgate's.
        ///
        /// The kernel runs them before a `netdev` ingress chain (`sch_handle_ingress` before
        /// `nf_ingress`, net/core/dev.c). So the rules for an IFB see what they write into a
        /// packet's mark. The filters pass every packet on to the filters of other programs, so
        /// that the hooks can be shared. Only [`VirtualQueueFilter`], [`Datagrams`] and
        /// [`Conditioning`] drop packets.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct HookPrograms {
            /// The bits of the connection's mark that are written into the packet's (`act_ctinfo`).
            /// This works for packets that conntrack has not seen yet, and behind address
            /// translation. All other bits of the packet's mark become 0. A packet without a
            /// connection keeps its mark.
            pub restore: Option<u32>,
            $(
                $(#[doc = $about])*
                $(#[serde($($stored)+)])?
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )+
            /// Programs that come from another version, miss a filter or cannot be read. They are
            /// only observed, never desired, so that a plan replaces them.
            #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
            pub stale: BTreeSet<Program>,
            /// Whether other programs have filters there: only observed, never desired. In that
            /// case the hooks stay when weirgate's filters are removed.
            #[serde(default)]
            pub others: bool,
            /// The policy line that requires it.
            pub origin: Origin,
        }

        $(
            impl InHooks for $kind {
                fn of(hooks: &HookPrograms) -> Option<&Self::Settings> {
                    hooks.$field.as_ref().map(Borrow::borrow)
                }

                fn put(hooks: &mut HookPrograms, settings: Self::Settings) {
                    hooks.$field = Some(settings.into());
                }
            }
        )+

        impl Program {
            /// All programs.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            const fn kind(self) -> Kind {
                match self {
                    $(Self::$name => Kind::of::<$kind>()),+
                }
            }
        }
    };
}

programs! {
    /// The payload classifier, which runs after the filter that restores marks.
    Payload: Payload, payload: Payload;

    /// The filter that polices arriving packets by a virtual queue. It runs after all filters that
    /// drop nothing. Stored states call it `hold`.
    #[serde(rename = "hold")]
    VirtualQueue: VirtualQueueFilter, virtual_queue: VirtualQueueFilter;

    /// The control of receive windows: a program for arriving packets, which runs before the filter
    /// that may drop them, and one for departing packets.
    Windows: Windows, windows: Box<Windows>;

    /// The datagram filter, the last one that polices.
    Datagrams: Datagrams, datagrams: Box<Datagrams>;

    /// The conditioners of arriving packets, which run after all other programs.
    IngressConditioners: IngressConditioners, entering: Box<Conditioning>;

    /// The conditioners of departing packets.
    EgressConditioners: EgressConditioners, leaving: Box<Conditioning>;

    /// Keeps the segments of connections in order when these change their class: a program for
    /// departing data and one for arriving acknowledgements. Both run last.
    Order: Order, order: Order;
}

/// The functions of a [`HookProgram`], without its type.
struct Kind {
    row: ProgramRow,
    has_name: fn(&str) -> bool,
    is_in: fn(&HookPrograms) -> bool,
    same: fn(&HookPrograms, &HookPrograms) -> bool,
    in_name: fn(&HookPrograms) -> Option<String>,
    text: fn(&HookPrograms) -> Option<String>,
    clause: fn(&HookPrograms) -> Option<Clause>,
    comment: fn(&HookPrograms) -> Option<String>,
}

impl Kind {
    const fn of<P: InHooks>() -> Self {
        Self {
            row: P::ROW,
            has_name: P::has_name,
            is_in: |hooks| P::of(hooks).is_some(),
            same: |one, other| match (P::of(one), P::of(other)) {
                (Some(one), Some(other)) => P::same(one, other),
                (one, other) => one.is_none() && other.is_none(),
            },
            in_name: |hooks| P::of(hooks).map(P::in_name),
            text: |hooks| P::of(hooks).map(P::text),
            clause: |hooks| P::of(hooks).map(P::clause),
            comment: |hooks| P::of(hooks).map(P::comment),
        }
    }
}

/// What a change does to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramChange<'a> {
    /// Leaves it.
    Keep,
    /// Attaches it with these settings. It replaces another version, or a program whose settings
    /// cannot be written.
    Attach(&'a HookPrograms),
    /// Writes its settings; it keeps its state.
    Update(&'a HookPrograms),
    /// Detaches it.
    Detach,
}

impl Program {
    /// Returns where it is attached.
    #[must_use]
    pub const fn row(self) -> ProgramRow {
        self.kind().row
    }

    /// Returns the part of its filters' names between their label and the program's version.
    #[must_use]
    pub fn in_name(self, hooks: &HookPrograms) -> String {
        (self.kind().in_name)(hooks).unwrap_or_default()
    }

    /// Describes it with all settings; `None` if the hooks do not have it.
    #[must_use]
    pub fn text(self, hooks: &HookPrograms) -> Option<String> {
        (self.kind().text)(hooks)
    }

    /// Describes it briefly.
    #[must_use]
    pub fn clause(self, hooks: &HookPrograms) -> Option<Clause> {
        (self.kind().clause)(hooks)
    }

    /// Returns what a command that attaches it does not show.
    #[must_use]
    pub fn comment(self, hooks: &HookPrograms) -> Option<String> {
        (self.kind().comment)(hooks)
    }

    /// Returns the program to which a filter with this hook, preference and name belongs, and the
    /// index of the filter. Returns `None` for a filter of another program.
    #[must_use]
    pub fn of_filter(hook: ClsactHook, preference: u16, name: &str) -> Option<(Self, usize)> {
        Self::ALL.into_iter().find_map(|program| {
            let kind = program.kind();
            let own =
                |filter: &ProgramFilter| filter.hook == hook && name.starts_with(filter.label);
            let at = kind.row.filters.iter().position(own)?;
            (kind.row.preference == preference && (kind.has_name)(name)).then_some((program, at))
        })
    }

    /// Returns what a change of a device's hooks does to it. A stale program is only kept if a
    /// stale one is wanted, which cannot be loaded again.
    #[must_use]
    pub fn change<'a>(
        self,
        before: Option<&HookPrograms>,
        after: Option<&'a HookPrograms>,
    ) -> ProgramChange<'a> {
        let kind = self.kind();
        let stale = |hooks: &HookPrograms| hooks.stale.contains(&self);
        let before = before.filter(|hooks| (kind.is_in)(hooks));
        let after = after.filter(|hooks| (kind.is_in)(hooks));
        match (before, after) {
            (None, None) => ProgramChange::Keep,
            (Some(_), None) => ProgramChange::Detach,
            (Some(seen), Some(wanted))
                if (kind.same)(wanted, seen) && (stale(wanted) || !stale(seen)) =>
            {
                ProgramChange::Keep
            }
            (Some(seen), Some(wanted)) if kind.row.in_map && !stale(seen) => {
                ProgramChange::Update(wanted)
            }
            (_, Some(wanted)) => ProgramChange::Attach(wanted),
        }
    }
}

impl HookPrograms {
    /// Returns whether a program is attached.
    #[must_use]
    pub fn has(&self, program: Program) -> bool {
        (program.kind().is_in)(self)
    }

    /// Returns whether nothing of weirgate's is attached.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.restore.is_none() && !Program::ALL.into_iter().any(|one| self.has(one))
    }

    /// Returns whether a device's hooks have exactly weirgate's wanted programs; a device without
    /// `clsact` has none.
    #[must_use]
    pub fn same(wanted: Option<&Self>, seen: Option<&Self>) -> bool {
        let restore = |hooks: Option<&Self>| hooks.and_then(|hooks| hooks.restore);
        let keeps = |program: Program| program.change(seen, wanted) == ProgramChange::Keep;
        restore(wanted) == restore(seen) && Program::ALL.into_iter().all(keeps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Rate;

    #[test]
    fn a_program_of_another_version_will_not_do() {
        let hooks = |rate: Rate, stale: &[Program]| HookPrograms {
            windows: Some(Box::new(Windows {
                rate,
                ..Windows::default()
            })),
            stale: stale.iter().copied().collect(),
            ..HookPrograms::default()
        };
        let change =
            |before: Option<&HookPrograms>, after: Option<&HookPrograms>| match Program::Windows
                .change(before, after)
            {
                ProgramChange::Keep => "keep",
                ProgramChange::Attach(_) => "attach",
                ProgramChange::Update(_) => "update",
                ProgramChange::Detach => "detach",
            };
        let own = hooks(Rate::default(), &[]);
        let old = hooks(Rate::default(), &[Program::Windows]);
        let other = hooks(Rate::kbit(8), &[]);
        assert_eq!(change(None, None), "keep");
        assert_eq!(change(None, Some(&own)), "attach");
        assert_eq!(change(Some(&own), Some(&own)), "keep");
        assert_eq!(change(Some(&old), Some(&own)), "attach");
        assert_eq!(change(Some(&own), Some(&old)), "keep");
        assert_eq!(change(Some(&own), Some(&other)), "update");
        assert_eq!(change(Some(&own), None), "detach");
        // A stale entry of another program makes no difference.
        let aside = hooks(Rate::default(), &[Program::Order]);
        assert_eq!(change(Some(&aside), Some(&own)), "keep");
    }

    #[test]
    fn a_filter_is_known_by_hook_preference_and_name() {
        for program in Program::ALL {
            let row = program.row();
            for (at, filter) in row.filters.iter().enumerate() {
                let name = format!("{}24-0123abcd", filter.label);
                let of = |hook, preference| Program::of_filter(hook, preference, &name);
                assert_eq!(of(filter.hook, row.preference), Some((program, at)));
                assert_eq!(of(filter.hook, row.preference + 7), None);
                let other = match filter.hook {
                    ClsactHook::Ingress => ClsactHook::Egress,
                    ClsactHook::Egress => ClsactHook::Ingress,
                };
                assert_eq!(of(other, row.preference), None);
            }
        }
        let foreign = "weirgate-payload-30-00000000";
        assert_eq!(Program::of_filter(ClsactHook::Ingress, 88, foreign), None);
    }
}

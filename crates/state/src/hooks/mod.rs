// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is attached at a device's ingress and egress hooks, before any table.
//!
//! [`HookProgram`] is what each program says about itself, in a file of its own. Crate
//! `bpf` loads it (`crates/bpf/src/hooks/attached.rs`). To add one, follow
//! `docs/adding/hook-program.md`.

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

/// Where [`HookPrograms`] has the settings of a program.
pub trait InHooks: HookProgram {
    /// Its settings; `None` where it is not attached.
    fn of(hooks: &HookPrograms) -> Option<&Self::Settings>;

    /// Attaches it.
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

        /// A device's ingress and egress hooks: the `clsact` qdisc
        /// (net/sched/sch_ingress.c), and which of its filters are weirgate's.
        ///
        /// The kernel runs them before a `netdev` ingress chain (`sch_handle_ingress`
        /// before `nf_ingress`, net/core/dev.c), so what they write into a packet's
        /// mark is there for the rules of an IFB. They pass every packet on to the
        /// filters of others, but for those that [`VirtualQueueFilter`], [`Datagrams`] and
        /// [`Conditioning`] drop, so that the hooks can be shared.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct HookPrograms {
            /// The bits of the connection's mark that are written into the packet's
            /// (`act_ctinfo`, which finds the connection of a packet that conntrack has
            /// not seen, also behind address translation); all other bits of the
            /// packet's mark become 0. A packet without a connection keeps its mark.
            pub restore: Option<u32>,
            $(
                $(#[doc = $about])*
                $(#[serde($($stored)+)])?
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )+
            /// Programs that are another version's, miss a filter or cannot be read:
            /// observed only, never desired, so that a plan exchanges them.
            #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
            pub stale: BTreeSet<Program>,
            /// Whether others have filters there: observed only, never desired. The
            /// hooks stay when weirgate's filters go.
            #[serde(default)]
            pub others: bool,
            /// Which policy line wants it.
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
            /// All of them.
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
    /// The classifier of payloads, which runs after that.
    Payload: Payload, payload: Payload;

    /// The filter that polices what arrives by a virtual queue. It runs after all
    /// those that drop nothing. Stored states call it `hold`.
    #[serde(rename = "hold")]
    VirtualQueue: VirtualQueueFilter, virtual_queue: VirtualQueueFilter;

    /// What chooses receive windows: a program for what arrives, before the
    /// filter that may drop it, and one for what leaves.
    Windows: Windows, windows: Box<Windows>;

    /// The filter of datagrams, which runs last of those that police.
    Datagrams: Datagrams, datagrams: Box<Datagrams>;

    /// What conditions packets that enter the device, after all others.
    IngressConditioners: IngressConditioners, entering: Box<Conditioning>;

    /// What conditions packets that leave it.
    EgressConditioners: EgressConditioners, leaving: Box<Conditioning>;

    /// What keeps connections in order that change their class: a program for the
    /// data that leaves, one for the acknowledgements that arrive, both last.
    Order: Order, order: Order;
}

/// The functions of a [`HookProgram`] whose type is not known.
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
    /// Nothing.
    Keep,
    /// It is attached as these hooks have it, in place of another version's or one
    /// without settings.
    Attach(&'a HookPrograms),
    /// Its settings are written; it forgets nothing.
    Update(&'a HookPrograms),
    /// It goes.
    Detach,
}

impl Program {
    /// Where it is attached.
    #[must_use]
    pub const fn row(self) -> ProgramRow {
        self.kind().row
    }

    /// What the names of its filters have between their label and the program's version.
    #[must_use]
    pub fn in_name(self, hooks: &HookPrograms) -> String {
        (self.kind().in_name)(hooks).unwrap_or_default()
    }

    /// What it does, with all settings; `None` where hooks have it not.
    #[must_use]
    pub fn text(self, hooks: &HookPrograms) -> Option<String> {
        (self.kind().text)(hooks)
    }

    /// What it does, in short.
    #[must_use]
    pub fn clause(self, hooks: &HookPrograms) -> Option<Clause> {
        (self.kind().clause)(hooks)
    }

    /// What a command that attaches it does not show.
    #[must_use]
    pub fn comment(self, hooks: &HookPrograms) -> Option<String> {
        (self.kind().comment)(hooks)
    }

    /// The program that a filter with this hook, preference and name is, and which
    /// of its filters; `None` for a filter of others.
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

    /// What a change of a device's hooks does to it. A stale one will do only where
    /// such is wanted, as it cannot be loaded again.
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
    /// Whether a program is attached.
    #[must_use]
    pub fn has(&self, program: Program) -> bool {
        (program.kind().is_in)(self)
    }

    /// Whether nothing of weirgate's is there.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.restore.is_none() && !Program::ALL.into_iter().any(|one| self.has(one))
    }

    /// Whether a device's hooks have what is wanted of weirgate's; a device without
    /// `clsact` has nothing.
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
        // Another program's being stale makes no difference.
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

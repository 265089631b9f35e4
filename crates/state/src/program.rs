// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that a device's ingress and egress hooks can have: where each is
//! attached, and whether one does what is wanted.

use crate::{
    Conditioning, Datagrams, HookPrograms, KitSetting, Order, Payload, VirtualQueueFilter, Windows,
};
use serde::{Deserialize, Serialize};

/// A program, or two that share their maps. The order is that of a plan's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Program {
    /// The classifier of payloads.
    Payload,
    /// The virtual-queue filter.
    VirtualQueue,
    /// Receive-window control.
    Windows,
    /// The filter of datagrams.
    Datagrams,
    /// Conditioners of what enters the device.
    IngressConditioners,
    /// Conditioners of what leaves it.
    EgressConditioners,
    /// What keeps connections in order that change their class.
    Order,
}

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
    /// The preference of its filters: the kernel runs those with lower ones first.
    pub preference: u16,
    /// A filter for each function of the object.
    pub filters: &'static [ProgramFilter],
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

const fn ingress(function: &'static str, label: &'static str) -> ProgramFilter {
    ProgramFilter {
        hook: ClsactHook::Ingress,
        function,
        label,
    }
}

const fn egress(function: &'static str, label: &'static str) -> ProgramFilter {
    ProgramFilter {
        hook: ClsactHook::Egress,
        function,
        label,
    }
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Payload,
        Self::VirtualQueue,
        Self::Windows,
        Self::Datagrams,
        Self::IngressConditioners,
        Self::EgressConditioners,
        Self::Order,
    ];

    /// Its row. The filter that restores marks has preference 87 and comes first,
    /// because it overwrites what others write into marks.
    #[must_use]
    pub const fn row(self) -> ProgramRow {
        let (object, preference, filters): (_, _, &'static [ProgramFilter]) = match self {
            Self::Payload => (
                "payload",
                88,
                const { &[ingress("payload", "weirgate-payload-")] },
            ),
            // Before the filter that may drop packets, because what that drops has
            // crossed the line too. Were it not counted, windows would open the wider
            // the more is dropped.
            Self::Windows => (
                "window",
                89,
                const {
                    &[
                        ingress("window_in", "weirgate-window-in-"),
                        egress("window_out", "weirgate-window-out-"),
                    ]
                },
            ),
            Self::VirtualQueue => (
                "ingress_meredt",
                90,
                const { &[ingress("inbound", "weirgate-inbound-")] },
            ),
            // After the virtual queue, which has to count what this one drops.
            Self::Datagrams => (
                "udp",
                91,
                const { &[ingress("udp_states", "weirgate-udp-")] },
            ),
            // After all that drop packets, to measure what they let go.
            Self::IngressConditioners => (
                "condition",
                92,
                const { &[ingress("condition", "weirgate-condition-in-")] },
            ),
            Self::EgressConditioners => (
                "condition",
                92,
                const { &[egress("condition", "weirgate-condition-out-")] },
            ),
            // Last, to see the data that goes into the queues, and no other.
            Self::Order => (
                "order",
                93,
                const {
                    &[
                        ingress("order_in", "weirgate-order-in-"),
                        egress("order_out", "weirgate-order-out-"),
                    ]
                },
            ),
        };
        ProgramRow {
            object,
            preference,
            filters,
        }
    }

    /// The program that a filter with this hook, preference and name is, and which
    /// of its filters; `None` for a filter of others.
    #[must_use]
    pub fn of_filter(hook: ClsactHook, preference: u16, name: &str) -> Option<(Self, usize)> {
        let mut all = Self::ALL.into_iter().filter_map(|program| {
            let row = program.row();
            let own =
                |filter: &ProgramFilter| filter.hook == hook && name.starts_with(filter.label);
            let at = row.filters.iter().position(own)?;
            (row.preference == preference).then_some((program, at))
        });
        let (program, at) = all.next()?;
        let foreign = program == Self::Payload && Payload::of_name(name).is_none();
        (!foreign).then_some((program, at))
    }
}

/// A program with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached<'a> {
    /// [`Program::Payload`].
    Payload(Payload),
    /// [`Program::VirtualQueue`].
    VirtualQueue(&'a VirtualQueueFilter),
    /// [`Program::Windows`].
    Windows(&'a Windows),
    /// [`Program::Datagrams`].
    Datagrams(&'a Datagrams),
    /// Both programs of conditioners.
    Conditioners(&'a Conditioning),
    /// [`Program::Order`].
    Order(Order),
}

impl Attached<'_> {
    /// Whether its settings are in a map, which can be written while it is attached.
    #[must_use]
    pub const fn has_settings(self) -> bool {
        !matches!(self, Self::Payload(_) | Self::Order(_))
    }

    /// Whether another one does the same.
    #[must_use]
    pub fn same(self, other: Self) -> bool {
        match (self, other) {
            (Self::VirtualQueue(one), Self::VirtualQueue(other)) => alike(one, other),
            _ => self == other,
        }
    }
}

/// Whether two virtual-queue filters hold to the same. Parameters without an explicit
/// value have their defaults.
fn alike(one: &VirtualQueueFilter, other: &VirtualQueueFilter) -> bool {
    let has = |of: &VirtualQueueFilter, setting: &KitSetting| {
        let own = of.settings.iter().find(|own| own.name == setting.name);
        own.is_some_and(|own| own.value == setting.value)
    };
    let explicit = |one: &VirtualQueueFilter, other: &VirtualQueueFilter| {
        let mut explicit = one.settings.iter().filter(|setting| !setting.usual);
        explicit.all(|setting| has(other, setting))
    };
    (one.rate, one.wire, one.mtu, one.parts) == (other.rate, other.wire, other.mtu, other.parts)
        && explicit(one, other)
        && explicit(other, one)
}

/// What a change does to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramChange<'a> {
    /// Nothing.
    Keep,
    /// It is attached, in place of another version's or one without settings.
    Attach(Attached<'a>),
    /// Its settings are written; it forgets nothing.
    Update(Attached<'a>),
    /// It goes.
    Detach,
}

impl Program {
    /// What a change of a device's hooks does to it. A stale one will do only where
    /// such is wanted, as it cannot be loaded again.
    #[must_use]
    pub fn change<'a>(
        self,
        before: Option<&'a HookPrograms>,
        after: Option<&'a HookPrograms>,
    ) -> ProgramChange<'a> {
        let of = |hooks: Option<&'a HookPrograms>| hooks.and_then(|hooks| hooks.program(self));
        let stale =
            |hooks: Option<&HookPrograms>| hooks.is_some_and(|hooks| hooks.stale.contains(&self));
        match (of(before), of(after)) {
            (None, None) => ProgramChange::Keep,
            (Some(_), None) => ProgramChange::Detach,
            (Some(seen), Some(wanted)) if wanted.same(seen) && (stale(after) || !stale(before)) => {
                ProgramChange::Keep
            }
            (Some(_), Some(wanted)) if wanted.has_settings() && !stale(before) => {
                ProgramChange::Update(wanted)
            }
            (_, Some(wanted)) => ProgramChange::Attach(wanted),
        }
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

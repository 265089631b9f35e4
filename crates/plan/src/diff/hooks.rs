// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs and filters at a device's hooks: their differences, steps and texts.

use crate::action::{Action, Step};
use std::fmt;
use weirgate_state::{Clause, DeviceName, HookPrograms, Origin, Program, ProgramChange, State};
use weirgate_units::Arrange as _;

/// The preference of weirgate's filter that restores marks. It is low, so that it precedes most
/// filters of other programs, but unlikely to be used by another one.
pub const RESTORE_PREFERENCE: u16 = 87;

/// Returns the devices whose hooks differ from the desired state: the name, the desired programs,
/// the observed ones.
pub fn pairs<'a>(
    observed: &'a State,
    desired: &'a State,
) -> Vec<(
    &'a DeviceName,
    Option<&'a HookPrograms>,
    Option<&'a HookPrograms>,
)> {
    let mut names: Vec<&DeviceName> = observed.hooks.keys().collect();
    names.extend(desired.hooks.keys());
    names.arrange();
    names.dedup();
    let of = |state: &'a State, name| state.hooks.get(name);
    names
        .into_iter()
        .map(|name| (name, of(desired, name), of(observed, name)))
        .filter(|(_, wanted, seen)| !HookPrograms::same(*wanted, *seen))
        .collect()
}

/// Returns the steps that attach something, and those that detach everything.
pub fn steps(observed: &State, desired: &State) -> (Vec<Step>, Vec<Step>) {
    let steps = pairs(observed, desired)
        .into_iter()
        .map(|(name, wanted, seen)| Step {
            action: Action::SetHooks {
                device: name.clone(),
                before: seen.cloned(),
                after: wanted.cloned(),
            },
            origin: wanted.map_or_else(Origin::default, |hooks| hooks.origin.clone()),
        });
    steps.partition(|step| {
        matches!(&step.action, Action::SetHooks { after: Some(after), .. } if !after.is_bare())
    })
}

/// Returns the state after this step.
pub fn run(
    state: &mut State,
    device: &DeviceName,
    before: Option<&HookPrograms>,
    after: Option<&HookPrograms>,
) -> Result<(), &'static str> {
    if !state.devices.contains_key(device) {
        return Err("no such device");
    }
    let there = state.hooks.get(device);
    if there.is_some() != before.is_some() || !HookPrograms::same(there, before) {
        return Err("the hooks have other programs");
    }
    let others = before.is_some_and(|hooks| hooks.others);
    if after.is_none() && !others {
        state.hooks.remove(device);
    } else {
        let hooks = after.cloned().unwrap_or_default();
        state
            .hooks
            .insert(device.clone(), HookPrograms { others, ..hooks });
    }
    Ok(())
}

/// The part of a command line that tc cannot provide by itself.
pub(crate) const ANY_PROGRAM: &str = "object-file";

/// Describes weirgate's programs at a device's hooks.
pub fn text(hooks: Option<&HookPrograms>) -> String {
    let restored = hooks.and_then(|hooks| hooks.restore);
    let restored = restored.map(|mask| format!("the connection's mark under {mask:#010x}"));
    let programs = Program::ALL.into_iter().filter_map(|program| {
        let hooks = hooks?;
        let text = program.text(hooks)?;
        Some(if hooks.stale.contains(&program) {
            format!("{text}, by another version's program")
        } else {
            text
        })
    });
    let all: Vec<String> = restored.into_iter().chain(programs).collect();
    if all.is_empty() {
        "nothing of weirgate's".to_owned()
    } else {
        all.join(", and ")
    }
}

/// Writes one line of plain English.
pub fn describe(
    f: &mut fmt::Formatter<'_>,
    device: &DeviceName,
    after: Option<&HookPrograms>,
) -> fmt::Result {
    let Some(hooks) = after.filter(|hooks| !hooks.is_bare()) else {
        return write!(f, "{device}: remove weirgate's filters and programs");
    };
    let restored = hooks.restore;
    let restored = restored.map(|mask| format!("their connection's mark under {mask:#010x}"));
    let mut marks = Vec::from_iter(restored);
    let (mut arriving, mut others, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for program in Program::ALL {
        match program.clause(hooks) {
            Some(Clause::Policed(text)) => arriving.push(text),
            Some(Clause::Mark(text)) => marks.push(text),
            Some(Clause::Arriving(text)) => others.push(text),
            Some(Clause::Alone(text)) => alone.push(text),
            None => {}
        }
    }
    if !marks.is_empty() {
        arriving.push(format!("get {}", marks.join(" and ")));
    }
    arriving.append(&mut others);
    if !arriving.is_empty() {
        alone.insert(0, format!("arriving packets {}", arriving.join(" and ")));
    }
    write!(f, "{device}: {}", alone.join("; "))
}

/// Returns the nearest command lines.
pub fn command(
    device: &DeviceName,
    before: Option<&HookPrograms>,
    after: Option<&HookPrograms>,
) -> String {
    let mut lines = Vec::new();
    if before.is_none() {
        lines.push(format!("tc qdisc add dev {device} clsact"));
    }
    let old = before.and_then(|hooks| hooks.restore);
    let new = after.and_then(|hooks| hooks.restore);
    if old.is_some() && old != new {
        lines.push(format!(
            "tc filter del dev {device} ingress pref {RESTORE_PREFERENCE}"
        ));
    }
    if let Some(mask) = new.filter(|_| old != new) {
        lines.push(format!(
            "tc filter add dev {device} ingress pref {RESTORE_PREFERENCE} protocol all handle 1 \
             matchall skip_hw action ctinfo cpmark {mask:#010x} continue cookie {COOKIE_HEX}"
        ));
    }
    for program in Program::ALL {
        let row = program.row();
        let wanted = match program.change(before, after) {
            ProgramChange::Keep => continue,
            ProgramChange::Attach(wanted) | ProgramChange::Update(wanted) => Some(wanted),
            ProgramChange::Detach => None,
        };
        for filter in row.filters {
            let (hook, preference) = (filter.hook.as_str(), row.preference);
            lines.push(match wanted {
                Some(wanted) => format!(
                    "tc filter replace dev {device} {hook} pref {preference} protocol all handle 1 \
                     bpf direct-action skip_hw {ANY_PROGRAM} {}.bpf.o {}  # {}",
                    row.object,
                    match row.filters {
                        [_] => "section tc".to_owned(),
                        _ => format!("program {}", filter.function),
                    },
                    program.comment(wanted).unwrap_or_default()
                ),
                None => format!("tc filter del dev {device} {hook} pref {preference}"),
            });
        }
    }
    if after.is_none() && before.is_some_and(|hooks| !hooks.others) {
        lines.push(format!("tc qdisc del dev {device} clsact"));
    }
    lines.join("\n")
}

/// `weirgate` in hexadecimal, as tc takes a cookie.
const COOKIE_HEX: &str = "7765697267617465";

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{
        Conditioning, Datagrams, Device, Order, Payload, VirtualQueueFilter, Windows,
    };

    fn state(hooks: Option<HookPrograms>) -> State {
        let name = DeviceName::new("wan").unwrap();
        let device = Device {
            owned_ifb: false,
            offloads: None,
            root: None,
            origin: Origin::default(),
        };
        State {
            devices: [(name.clone(), device)].into(),
            hooks: hooks
                .into_iter()
                .map(|hooks| (name.clone(), hooks))
                .collect(),
            ..State::default()
        }
    }

    /// Marks a program of the device as one of another version.
    fn stale(program: Program, hooks: Option<HookPrograms>) -> Option<HookPrograms> {
        hooks.map(|mut hooks| {
            hooks.stale.insert(program);
            hooks
        })
    }

    #[test]
    fn a_filter_that_holds_a_rate_comes_changes_in_place_and_goes() {
        let filter = |kbit, settings: &[(&str, u64, bool)]| VirtualQueueFilter {
            rate: weirgate_units::Rate::kbit(kbit),
            wire: weirgate_state::KitWire {
                overhead: 14,
                mpu: 0,
                framing: weirgate_state::CakeFraming::Atm,
            },
            mtu: 1514,
            parts: 31,
            settings: settings
                .iter()
                .map(|(name, value, usual)| weirgate_state::KitSetting {
                    name: (*name).to_owned(),
                    value: *value,
                    usual: *usual,
                })
                .collect(),
        };
        let hooks = |filter| {
            Some(HookPrograms {
                virtual_queue: Some(filter),
                ..HookPrograms::default()
            })
        };
        let one = hooks(filter(1940, &[("min_bytes", 3000, false)]));
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter replace dev wan ingress",
        ];
        assert_eq!(lines(None, one.clone()), add);
        let delete = [
            "tc filter del dev wan ingress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(lines(one.clone(), None), delete);
        // As a kernel lists it: all parameters, including those with default values.
        let listed = [("min_bytes", 3000, false), ("delay_ns", 5, true)];
        let seen = hooks(filter(1940, &listed));
        assert_eq!(lines(seen.clone(), one.clone()), Vec::<String>::new());
        assert_eq!(lines(one.clone(), seen), Vec::<String>::new());
        for other in [
            filter(1900, &[("min_bytes", 3000, false)]),
            filter(1940, &[("min_bytes", 4000, false)]),
            filter(1940, &[]),
            filter(1940, &[("min_bytes", 3000, false), ("delay_ns", 6, false)]),
        ] {
            assert_eq!(lines(hooks(other), one.clone()), add[1..]);
        }
        let old = stale(Program::VirtualQueue, one.clone());
        let plan = crate::plan(&state(old), &state(one)).unwrap();
        assert_eq!(plan.steps.len(), 1);
    }

    #[test]
    fn what_holds_senders_comes_changes_in_place_and_goes() {
        let windows = |kbit| Windows {
            rate: weirgate_units::Rate::kbit(kbit),
            ..Windows::default()
        };
        let datagrams = |kbit| Datagrams {
            rate: weirgate_units::Rate::kbit(kbit),
            ..Datagrams::default()
        };
        let hooks = |windows: Option<Windows>, datagrams: Option<Datagrams>| {
            Some(HookPrograms {
                windows: windows.map(Box::new),
                datagrams: datagrams.map(Box::new),
                ..HookPrograms::default()
            })
        };
        let both = hooks(Some(windows(4_000)), Some(datagrams(2_000)));
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter replace dev wan ingress",
            "tc filter replace dev wan egress",
            "tc filter replace dev wan ingress",
        ];
        assert_eq!(lines(None, both.clone()), add);
        assert_eq!(lines(both.clone(), both.clone()), Vec::<String>::new());
        let other = hooks(Some(windows(3_000)), Some(datagrams(2_000)));
        assert_eq!(lines(both.clone(), other), add[1..3]);
        let fewer = hooks(Some(windows(4_000)), None);
        let delete = ["tc filter del dev wan ingress"];
        assert_eq!(lines(both.clone(), fewer.clone()), delete);
        let gone = [
            "tc filter del dev wan ingress",
            "tc filter del dev wan egress",
            "tc filter del dev wan ingress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(lines(both.clone(), None), gone);
        // A program of another version is replaced.
        let old = stale(Program::Windows, fewer.clone());
        let plan = crate::plan(&state(old), &state(fewer)).unwrap();
        assert_eq!(plan.steps.len(), 1);
        let plan = crate::plan(&state(None), &state(both)).unwrap();
        let text = plan.steps[0].action.to_string();
        assert_eq!(
            text,
            "wan: arriving packets are answered with receive windows that hold TCP to 4mbit and are \
             dropped, in the end refused, where a stream of datagrams is above 2mbit"
        );
    }

    #[test]
    fn conditioners_of_each_direction_come_and_go_by_themselves() {
        let own = Some(Box::<Conditioning>::default());
        let hooks = |entering, leaving| {
            Some(HookPrograms {
                entering,
                leaving,
                ..HookPrograms::default()
            })
        };
        let both = hooks(own.clone(), own.clone());
        let leaving = hooks(None, own);
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter replace dev wan ingress",
            "tc filter replace dev wan egress",
        ];
        assert_eq!(lines(None, both.clone()), add);
        let delete = ["tc filter del dev wan ingress"];
        assert_eq!(lines(both.clone(), leaving.clone()), delete);
        assert_eq!(lines(leaving, both.clone()), add[1..2]);
        assert_eq!(lines(both.clone(), both), Vec::<String>::new());
    }

    #[test]
    fn both_programs_that_keep_order_come_are_exchanged_and_go() {
        let own = Some(HookPrograms {
            order: Some(Order {}),
            ..HookPrograms::default()
        });
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter replace dev wan ingress",
            "tc filter replace dev wan egress",
        ];
        assert_eq!(lines(None, own.clone()), add);
        assert_eq!(lines(own.clone(), own.clone()), Vec::<String>::new());
        let gone = [
            "tc filter del dev wan ingress",
            "tc filter del dev wan egress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(lines(own.clone(), None), gone);
        let (old, own) = (state(stale(Program::Order, own.clone())), state(own));
        let plan = crate::plan(&old, &own).unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.steps[0].action.command().lines().count(), 2);
        assert_eq!(crate::verify(&old, &own).len(), 1);
        assert_eq!(crate::verify(&own, &old), [], "the old ones cannot return");
        assert_eq!(
            plan.steps[0].action.to_string(),
            "wan: connections that leave change their class in order"
        );
    }

    fn restoring(mask: u32) -> HookPrograms {
        HookPrograms {
            restore: Some(mask),
            ..HookPrograms::default()
        }
    }

    #[test]
    fn the_classifier_of_payloads_comes_goes_and_is_exchanged() {
        let hooks = |restore, payload| {
            Some(HookPrograms {
                restore,
                payload,
                ..HookPrograms::default()
            })
        };
        let looking = |lowest| Some(Payload { lowest });
        let with = hooks(None, looking(24));
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter replace dev wan ingress",
        ];
        assert_eq!(lines(None, with.clone()), add);
        assert_eq!(lines(with.clone(), with.clone()), Vec::<String>::new());
        let delete = [
            "tc filter del dev wan ingress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(lines(with.clone(), None), delete);
        let both = hooks(Some(1), looking(24));
        let only = ["tc filter add dev wan ingress"];
        assert_eq!(lines(with.clone(), both.clone()), only);
        assert_eq!(lines(both, with.clone()), delete[..1]);
        // Other bits, or a program of another version.
        assert_eq!(lines(hooks(None, looking(20)), with.clone()), add[1..]);
        let old = state(stale(Program::Payload, with.clone()));
        let with = state(with);
        let plan = crate::plan(&old, &with).unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(crate::verify(&old, &with).len(), 1);
        assert_eq!(
            crate::verify(&with, &old),
            [],
            "the old one cannot come back"
        );
    }

    fn lines(before: Option<HookPrograms>, after: Option<HookPrograms>) -> Vec<String> {
        let (before, after) = (state(before), state(after));
        let plan = crate::plan(&before, &after).unwrap();
        let end = crate::run(&plan.steps, &before).unwrap();
        assert_eq!(crate::verify(&end, &after), []);
        let back = crate::inverse(&plan.steps, &before).unwrap();
        let restored = crate::run(&back, &end).unwrap();
        assert_eq!(restored.hooks, before.hooks);
        let commands = plan.steps.iter().map(|step| step.action.command());
        let all: Vec<String> = commands.collect();
        let words = |line: &str| line.split(" pref").next().unwrap_or_default().to_owned();
        all.iter()
            .flat_map(|text| text.lines())
            .map(words)
            .collect()
    }

    #[test]
    fn the_place_goes_only_where_weirgate_made_it() {
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter add dev wan ingress",
        ];
        let delete = [
            "tc filter del dev wan ingress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(lines(None, Some(restoring(1))), add);
        assert_eq!(lines(Some(restoring(1)), None), delete);
        let bare = HookPrograms::default();
        assert_eq!(lines(Some(bare.clone()), Some(restoring(1))), add[1..]);
        assert_eq!(lines(Some(restoring(1)), Some(bare.clone())), delete[..1]);
        let shared = HookPrograms {
            others: true,
            ..restoring(1)
        };
        assert_eq!(lines(Some(shared), None), delete[..1]);
    }

    #[test]
    fn what_is_not_weirgates_is_left_alone() {
        let bare = HookPrograms::default();
        assert_eq!(lines(Some(bare.clone()), None), Vec::<String>::new());
        let others = HookPrograms {
            others: true,
            ..bare
        };
        assert_eq!(lines(Some(others), None), Vec::<String>::new());
        assert_eq!(
            lines(Some(restoring(1)), Some(restoring(1))),
            Vec::<String>::new()
        );
        assert_eq!(lines(Some(restoring(1)), Some(restoring(2))).len(), 2);
    }
}

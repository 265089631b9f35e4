// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What arriving packets get before the tables see them: what differs, the
//! steps, and how they read.

use crate::action::{Action, Step};
use crate::text::conditioner;
use crate::text::order;
use crate::text::receive_window;
use crate::text::virtual_queue;
use std::fmt;
use weirgate_state::{Arriving, Datagrams, DeviceName, Hold, Origin, State, Windows};

/// The preference of weirgate's filter that restores marks. A low one, so that
/// it comes before most filters of others; one that nobody takes for a first
/// filter of his own.
pub const RESTORE_PREFERENCE: u16 = 87;

/// That of the classifier of payloads: behind the one that restores marks,
/// which overwrites them.
pub const PAYLOAD_PREFERENCE: u16 = 88;

/// That of the programs that choose receive windows, at arriving packets and at
/// those that leave: before the filter that may drop packets, because what it
/// drops has crossed the line too. Were it not counted, windows would open the
/// wider the more is dropped.
pub const WINDOWS_PREFERENCE: u16 = 89;

/// That of the filter that holds what arrives to a rate: behind those, so that
/// marks are there for it to pass on, and it sees what others let go.
pub const HOLD_PREFERENCE: u16 = 90;

/// That of the filter of datagrams: last, because what it drops has crossed the
/// line and counts in the virtual queue.
pub const DATAGRAMS_PREFERENCE: u16 = 91;

/// That of the traffic conditioner, for what enters and for what leaves: behind
/// all others, so that it measures what they let go.
pub const CONDITION_PREFERENCE: u16 = 92;

/// That of the programs that keep the order of connections, at both places: last,
/// so that they see the data that goes into the queues, and no other.
pub const ORDER_PREFERENCE: u16 = 93;

/// Devices whose places hold something else of weirgate's than is desired: the
/// name, what is desired, what is there.
pub fn pairs<'a>(
    observed: &'a State,
    desired: &'a State,
) -> Vec<(&'a DeviceName, Option<&'a Arriving>, Option<&'a Arriving>)> {
    let mut names: Vec<&DeviceName> = observed.arriving.keys().collect();
    names.extend(desired.arriving.keys());
    names.sort_unstable();
    names.dedup();
    let of = |state: &'a State, name| state.arriving.get(name);
    names
        .into_iter()
        .map(|name| (name, of(desired, name), of(observed, name)))
        .filter(|(_, wanted, seen)| !Arriving::same(*wanted, *seen))
        .collect()
}

/// The steps that give arriving packets something, and those that take it away.
pub fn steps(observed: &State, desired: &State) -> (Vec<Step>, Vec<Step>) {
    let steps = pairs(observed, desired)
        .into_iter()
        .map(|(name, wanted, seen)| Step {
            action: Action::SetArriving {
                device: name.clone(),
                before: seen.cloned(),
                after: wanted.cloned(),
            },
            origin: wanted.map_or_else(Origin::default, |place| place.origin.clone()),
        });
    steps.partition(|step| {
        matches!(&step.action, Action::SetArriving { after: Some(after), .. } if !after.is_bare())
    })
}

/// The state after such a step.
pub fn run(
    state: &mut State,
    device: &DeviceName,
    before: Option<&Arriving>,
    after: Option<&Arriving>,
) -> Result<(), &'static str> {
    if !state.devices.contains_key(device) {
        return Err("no such device");
    }
    let there = state.arriving.get(device);
    if there.is_some() != before.is_some() || !Arriving::same(there, before) {
        return Err("arriving packets get something else");
    }
    let others = before.is_some_and(|place| place.others);
    if after.is_none() && !others {
        state.arriving.remove(device);
    } else {
        let place = after.cloned().unwrap_or_default();
        state
            .arriving
            .insert(device.clone(), Arriving { others, ..place });
    }
    Ok(())
}

/// The classifier of payloads, as tc(8) would take it.
pub(crate) const PROGRAM: &str = "object-file payload.bpf.o section tc";

/// What a line of a program has that tc cannot make by itself.
pub(crate) const ANY_PROGRAM: &str = "object-file";

/// What a place holds of weirgate's, in words.
pub fn text(place: Option<&Arriving>) -> String {
    let restored = place
        .and_then(|place| place.restore)
        .map(|mask| format!("the connection's mark under {mask:#010x}"));
    let payload = place.and_then(|place| place.payload).map(|payload| {
        let whose = if payload.stale {
            "what another version finds"
        } else {
            "what is found"
        };
        format!("{whose} in payloads in {:#010x}", payload.mask())
    });
    let held = place
        .and_then(|place| place.hold.as_ref())
        .map(virtual_queue::text);
    let windows = place
        .and_then(|place| place.windows.as_deref())
        .map(receive_window::windows);
    let datagrams = place
        .and_then(|place| place.datagrams.as_deref())
        .map(receive_window::datagrams);
    let entering = place
        .and_then(|place| place.entering.as_deref())
        .map(|own| conditioner::text(own, "enters"));
    let leaving = place
        .and_then(|place| place.leaving.as_deref())
        .map(|own| conditioner::text(own, "leaves"));
    let ordered = place.and_then(|place| place.order).map(order::text);
    let all = [
        restored, payload, held, windows, datagrams, entering, leaving, ordered,
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    if all.is_empty() {
        "nothing of weirgate's".to_owned()
    } else {
        all.join(", and ")
    }
}

/// One line of plain English.
pub fn describe(
    f: &mut fmt::Formatter<'_>,
    device: &DeviceName,
    after: Option<&Arriving>,
) -> fmt::Result {
    if after.is_none_or(Arriving::is_bare) {
        return write!(f, "{device}: arriving packets get nothing any more");
    }
    let mut said: Vec<String> = Vec::new();
    let place = after.cloned().unwrap_or_default();
    if let Some(held) = &place.hold {
        said.push(format!("are held to {} without a queue", held.rate));
    }
    let restored = place
        .restore
        .map(|mask| format!("their connection's mark under {mask:#010x}"));
    let payload = place.payload.map(|payload| {
        format!(
            "what is found in their flow's payload in {:#010x} of their mark",
            payload.mask()
        )
    });
    let gets: Vec<String> = [restored, payload].into_iter().flatten().collect();
    if !gets.is_empty() {
        said.push(format!("get {}", gets.join(" and ")));
    }
    if let Some(windows) = &place.windows {
        said.push(receive_window::windows_in_short(windows));
    }
    if let Some(datagrams) = &place.datagrams {
        said.push(receive_window::datagrams_in_short(datagrams));
    }
    if let Some(own) = &place.entering {
        said.push(conditioner::in_short(own, "enter"));
    }
    let arriving = (!said.is_empty()).then(|| format!("arriving packets {}", said.join(" and ")));
    let leaving = place
        .leaving
        .as_ref()
        .map(|own| format!("packets {}", conditioner::in_short(own, "leave")));
    let ordered = place.order.map(|_| order::IN_SHORT.to_owned());
    let text: Vec<String> = arriving.into_iter().chain(leaving).chain(ordered).collect();
    write!(f, "{device}: {}", text.join("; "))
}

/// The nearest command lines.
pub fn command(device: &DeviceName, before: Option<&Arriving>, after: Option<&Arriving>) -> String {
    let mut lines = Vec::new();
    if before.is_none() {
        lines.push(format!("tc qdisc add dev {device} clsact"));
    }
    let old = before.and_then(|place| place.restore);
    let new = after.and_then(|place| place.restore);
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
    let old = before.and_then(|place| place.payload);
    let new = after.and_then(|place| place.payload);
    match new.filter(|_| old != new) {
        Some(payload) => lines.push(format!(
            "tc filter replace dev {device} ingress pref {PAYLOAD_PREFERENCE} protocol all \
             handle 1 bpf direct-action skip_hw {PROGRAM}  # bits {:#010x} of the mark",
            payload.mask()
        )),
        None if old.is_some() && new.is_none() => lines.push(format!(
            "tc filter del dev {device} ingress pref {PAYLOAD_PREFERENCE}"
        )),
        None => {}
    }
    let old = before.and_then(|place| place.hold.as_ref());
    let new = after.and_then(|place| place.hold.as_ref());
    match new.filter(|_| !Hold::same(new, old)) {
        Some(new) => lines.push(format!(
            "tc filter replace dev {device} ingress pref {HOLD_PREFERENCE} protocol all handle 1 \
             bpf direct-action skip_hw object-file ingress_meredt.bpf.o section tc  # {}",
            virtual_queue::text(new)
        )),
        None if old.is_some() && new.is_none() => lines.push(format!(
            "tc filter del dev {device} ingress pref {HOLD_PREFERENCE}"
        )),
        None => {}
    }
    receiving(device, before, after, &mut lines);
    conditioner::commands(device, before, after, &mut lines);
    order::commands(device, before, after, &mut lines);
    if after.is_none() && before.is_some_and(|place| !place.others) {
        lines.push(format!("tc qdisc del dev {device} clsact"));
    }
    lines.join("\n")
}

/// The lines of what holds senders to a rate from here.
fn receiving(
    device: &DeviceName,
    before: Option<&Arriving>,
    after: Option<&Arriving>,
    lines: &mut Vec<String>,
) {
    let mut filter = |way: &str, preference: u16, section: &str, said: Option<String>| {
        lines.push(match said {
            Some(said) => format!(
                "tc filter replace dev {device} {way} pref {preference} protocol all handle 1 bpf \
                 direct-action skip_hw object-file {section}  # {said}"
            ),
            None => format!("tc filter del dev {device} {way} pref {preference}"),
        });
    };
    let old = before.and_then(|place| place.windows.as_deref());
    let new = after.and_then(|place| place.windows.as_deref());
    if !Windows::same(new, old) {
        let said = new.map(receive_window::windows);
        let programs = [("ingress", "window_in"), ("egress", "window_out")];
        for (way, program) in programs {
            let section = format!("window.bpf.o program {program}");
            filter(way, WINDOWS_PREFERENCE, &section, said.clone());
        }
    }
    let old = before.and_then(|place| place.datagrams.as_deref());
    let new = after.and_then(|place| place.datagrams.as_deref());
    if !Datagrams::same(new, old) {
        let said = new.map(receive_window::datagrams);
        let section = "udp.bpf.o section tc";
        filter("ingress", DATAGRAMS_PREFERENCE, section, said);
    }
}

/// `weirgate` as tc takes a cookie.
const COOKIE_HEX: &str = "7765697267617465";

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Device, Payload};

    fn state(place: Option<Arriving>) -> State {
        let name = DeviceName::new("wan").unwrap();
        let device = Device {
            owned_ifb: false,
            offloads: None,
            root: None,
            origin: Origin::default(),
        };
        State {
            devices: [(name.clone(), device)].into(),
            arriving: place
                .into_iter()
                .map(|place| (name.clone(), place))
                .collect(),
            ..State::default()
        }
    }

    #[test]
    fn a_filter_that_holds_a_rate_comes_changes_in_place_and_goes() {
        let hold = |kbit, settings: &[(&str, u64, bool)]| Hold {
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
            stale: false,
        };
        let place = |hold| {
            Some(Arriving {
                hold: Some(hold),
                ..Arriving::default()
            })
        };
        let one = place(hold(1940, &[("min_bytes", 3000, false)]));
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
        // As a kernel lists it: all parameters, usual ones among them.
        let listed = [("min_bytes", 3000, false), ("delay_ns", 5, true)];
        let seen = place(hold(1940, &listed));
        assert_eq!(lines(seen.clone(), one.clone()), Vec::<String>::new());
        assert_eq!(lines(one.clone(), seen), Vec::<String>::new());
        for other in [
            hold(1900, &[("min_bytes", 3000, false)]),
            hold(1940, &[("min_bytes", 4000, false)]),
            hold(1940, &[]),
            hold(1940, &[("min_bytes", 3000, false), ("delay_ns", 6, false)]),
        ] {
            assert_eq!(lines(place(other), one.clone()), add[1..]);
        }
        let mut old = hold(1940, &[("min_bytes", 3000, false)]);
        old.stale = true;
        let plan = crate::plan(&state(place(old)), &state(one)).unwrap();
        assert_eq!(plan.steps.len(), 1);
    }

    #[test]
    fn what_holds_senders_comes_changes_in_place_and_goes() {
        let windows = |kbit, stale| Windows {
            rate: weirgate_units::Rate::kbit(kbit),
            stale,
            ..Windows::default()
        };
        let datagrams = |kbit| Datagrams {
            rate: weirgate_units::Rate::kbit(kbit),
            ..Datagrams::default()
        };
        let place = |windows: Option<Windows>, datagrams: Option<Datagrams>| {
            Some(Arriving {
                windows: windows.map(Box::new),
                datagrams: datagrams.map(Box::new),
                ..Arriving::default()
            })
        };
        let both = place(Some(windows(4_000, false)), Some(datagrams(2_000)));
        let add = [
            "tc qdisc add dev wan clsact",
            "tc filter replace dev wan ingress",
            "tc filter replace dev wan egress",
            "tc filter replace dev wan ingress",
        ];
        assert_eq!(lines(None, both.clone()), add);
        assert_eq!(lines(both.clone(), both.clone()), Vec::<String>::new());
        let other = place(Some(windows(3_000, false)), Some(datagrams(2_000)));
        assert_eq!(lines(both.clone(), other), add[1..3]);
        let fewer = place(Some(windows(4_000, false)), None);
        let delete = ["tc filter del dev wan ingress"];
        assert_eq!(lines(both.clone(), fewer.clone()), delete);
        let gone = [
            "tc filter del dev wan ingress",
            "tc filter del dev wan egress",
            "tc filter del dev wan ingress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(lines(both.clone(), None), gone);
        // A program of another version is exchanged.
        let old = place(Some(windows(4_000, true)), None);
        let plan = crate::plan(&state(old), &state(fewer)).unwrap();
        assert_eq!(plan.steps.len(), 1);
        let said = crate::plan(&state(None), &state(both)).unwrap();
        let said = said.steps[0].action.to_string();
        assert_eq!(
            said,
            "wan: arriving packets are answered with receive windows that hold TCP to 4mbit and are \
             dropped, in the end refused, where a stream of datagrams is above 2mbit"
        );
    }

    fn restoring(mask: u32) -> Arriving {
        Arriving {
            restore: Some(mask),
            ..Arriving::default()
        }
    }

    #[test]
    fn the_classifier_of_payloads_comes_goes_and_is_exchanged() {
        let place = |restore, payload| {
            Some(Arriving {
                restore,
                payload,
                ..Arriving::default()
            })
        };
        let looking = |lowest, stale| Some(Payload { lowest, stale });
        let with = place(None, looking(24, false));
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
        let both = place(Some(1), looking(24, false));
        let only = ["tc filter add dev wan ingress"];
        assert_eq!(lines(with.clone(), both.clone()), only);
        assert_eq!(lines(both, with.clone()), delete[..1]);
        // Other bits, or a program of another version.
        assert_eq!(
            lines(place(None, looking(20, false)), with.clone()),
            add[1..]
        );
        let (stale, with) = (state(place(None, looking(24, true))), state(with));
        let plan = crate::plan(&stale, &with).unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(crate::verify(&stale, &with).len(), 1);
        assert_eq!(
            crate::verify(&with, &stale),
            [],
            "the old one cannot come back"
        );
    }

    fn lines(before: Option<Arriving>, after: Option<Arriving>) -> Vec<String> {
        let (before, after) = (state(before), state(after));
        let plan = crate::plan(&before, &after).unwrap();
        let end = crate::run(&plan.steps, &before).unwrap();
        assert_eq!(crate::verify(&end, &after), []);
        let back = crate::inverse(&plan.steps, &before).unwrap();
        let restored = crate::run(&back, &end).unwrap();
        assert_eq!(restored.arriving, before.arriving);
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
        let bare = Arriving::default();
        assert_eq!(lines(Some(bare.clone()), Some(restoring(1))), add[1..]);
        assert_eq!(lines(Some(restoring(1)), Some(bare.clone())), delete[..1]);
        let shared = Arriving {
            others: true,
            ..restoring(1)
        };
        assert_eq!(lines(Some(shared), None), delete[..1]);
    }

    #[test]
    fn what_is_not_weirgates_is_left_alone() {
        let bare = Arriving::default();
        assert_eq!(lines(Some(bare.clone()), None), Vec::<String>::new());
        let others = Arriving {
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

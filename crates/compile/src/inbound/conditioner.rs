// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic conditioners: the programs for packets that enter or leave a device.

use crate::codes;
use crate::scheduler;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weirgate_document::{Problems, Value};
use weirgate_policy::{Conditioner as Wanted, Direction, Policy, Ports, Prefix, SharedClass};
use weirgate_state::{
    Capabilities, ColourAction, ColourMeter, Conditioner, Conditioning, DeviceName, HookPrograms,
    Origin,
};
use weirgate_units::{Handle, Inserted as _, Size};

/// The largest number of classes that one conditioner distinguishes (`CONDITION_CLASSES`).
const MOST_CLASSES: usize = 8;

/// The drop precedences of the four assured forwarding classes, as sets of code points (RFC 2597
/// section 6): the second is yellow, the third red.
const PRECEDENCE: [u64; 2] = [
    1 << 12 | 1 << 20 | 1 << 28 | 1 << 36,
    1 << 14 | 1 << 22 | 1 << 30 | 1 << 38,
];

/// Adds the conditioners to the hooks of their devices.
pub(crate) fn add(policy: &Policy, hooks: &mut BTreeMap<DeviceName, HookPrograms>) {
    for wanted in &policy.conditioners {
        let line = match policy.sources.included(&wanted.span) {
            Some(_) => 0,
            None => wanted.line,
        };
        let device = wanted.at(policy).clone();
        let programs = hooks.entry(device).or_insert_with(|| HookPrograms {
            origin: Origin::new(
                line,
                "packets are measured, and conditioned by their colour",
            ),
            ..HookPrograms::default()
        });
        let conditioning = if wanted.enters {
            &mut programs.entering
        } else {
            &mut programs.leaving
        };
        let all = conditioning.get_or_insert_with(Box::<Conditioning>::default);
        all.conditioners.push(conditioner(policy, wanted));
    }
}

fn conditioner(policy: &Policy, wanted: &Wanted) -> Conditioner {
    let nets = |nets: &[Value<Prefix>]| -> Vec<(IpAddr, u8)> {
        nets.iter()
            .map(|net| (net.value.address, net.value.length))
            .collect()
    };
    let ports = |ports: &[Value<Ports>]| -> Vec<(u16, u16)> {
        let each = ports.iter().map(|one| (one.value.from, one.value.to));
        each.collect()
    };
    let carried = &wanted.carried;
    let local = (nets(&wanted.local), ports(&carried.local_ports));
    let remote = (nets(&wanted.remote), ports(&carried.remote_ports));
    let ((source, source_ports), (destination, destination_ports)) = match wanted.direction(policy)
    {
        Direction::Up => (local, remote),
        Direction::Down => (remote, local),
    };
    let protocols: BTreeSet<u8> = carried.protocols.iter().map(|one| one.value.0).inserted();
    let smallest = wanted.smallest.map_or(0, Size::as_bytes);
    let named = wanted.dscp.iter();
    let codes = named.fold(0, |bits, code| bits | 1 << code.value.value());
    Conditioner {
        name: wanted.name.value.clone(),
        classes: classes(policy, wanted),
        source,
        destination,
        protocols: protocols.into_iter().collect(),
        source_ports,
        destination_ports,
        codes: if wanted.dscp.is_empty() {
            u64::MAX
        } else {
            codes
        },
        meter: wanted.meter,
        smallest: u32::try_from(smallest).unwrap_or(u32::MAX),
        aware: wanted.color_aware,
        brings: if wanted.color_aware {
            PRECEDENCE
        } else {
            [0, 0]
        },
        actions: wanted.actions,
    }
}

/// Returns the identifiers of the classes to which a conditioner applies; a divided class has
/// one for each part and each host with a limit.
fn classes(policy: &Policy, wanted: &Wanted) -> Vec<Handle> {
    if wanted.classes.is_empty() {
        return Vec::new();
    }
    let direction = wanted.direction(policy);
    let scheduler = scheduler::of(policy, direction, &Problems::default());
    let named = |class: &SharedClass| wanted.classes.iter().any(|own| own.value == class.name);
    scheduler.map_or_else(Vec::new, |scheduler| scheduler.identifiers(named))
}

/// Reports what this kernel lacks for them, and what the program cannot do.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let Some(first) = policy.conditioners.first() else {
        return;
    };
    if !kernel.payload {
        let release = kernel.lacking_programs(release);
        problems.error(
            codes::CONDITIONER,
            first.span.clone(),
            format!("{release} has no cls_bpf, which conditioners need"),
            format!("{}, or leave `[[conditioner]]` out", kernel.bring_cls_bpf()),
        );
    }
    for wanted in &policy.conditioners {
        let parts = classes(policy, wanted).len();
        if parts > MOST_CLASSES {
            problems.error(
                codes::CONDITIONER,
                wanted.span.clone(),
                format!(
                    "`{}` has {parts} classes and parts of classes",
                    wanted.name.value
                ),
                format!("use at most {MOST_CLASSES} classes and parts"),
            );
        }
        let full = u64::from(policy.link.mtu.value);
        // The largest packet that is not red, and what determines it.
        let (burst, field) = match wanted.meter {
            Some(ColourMeter::Bucket { burst, .. }) => (burst.as_bytes(), "burst"),
            Some(ColourMeter::SingleRate { burst, excess, .. }) if burst >= excess => {
                (burst.as_bytes(), "burst")
            }
            Some(ColourMeter::SingleRate { excess, .. }) => (excess.as_bytes(), "excess-burst"),
            Some(ColourMeter::TwoRate { peak_burst, .. }) => (peak_burst.as_bytes(), "peak-burst"),
            _ => (full, "burst"),
        };
        // RFC 2697 and 2698 section 1 recommend at least this.
        if burst < full && wanted.actions[2] == ColourAction::Drop {
            problems.warning(
                codes::CONDITIONER,
                wanted.span.clone(),
                format!(
                    "a packet of more than {burst} bytes never conforms to `{}`, at any rate",
                    wanted.name.value
                ),
                format!("write `{field}` of at least {full} bytes, unless this is intended"),
            );
        }
    }
}

/// Describes each conditioner in one line.
pub(crate) fn notes(policy: &Policy) -> Vec<String> {
    policy
        .conditioners
        .iter()
        .map(|one| note(policy, one))
        .collect()
}

fn note(policy: &Policy, one: &Wanted) -> String {
    let direction = if one.enters { "enters" } else { "leaves" };
    let found = one.meter.map(|meter| match meter {
        ColourMeter::Bucket { rate, burst } => format!("within {rate} and {burst} at once"),
        ColourMeter::SingleRate {
            rate,
            burst,
            excess,
        } => format!("within {rate} and {burst} at once, yellow within {excess} more"),
        ColourMeter::TwoRate {
            rate,
            burst,
            peak,
            peak_burst,
        } => format!(
            "within {rate} and {burst} at once, yellow within {peak} and {peak_burst} at once"
        ),
        ColourMeter::Average { rate, interval } => format!("within {rate} in each {interval}"),
        ColourMeter::Moving { rate, interval, .. } => {
            format!("while the average over intervals of {interval} is within {rate}")
        }
    });
    let [green, yellow, red] = one.actions.map(|action| match action {
        ColourAction::Pass => "passes".to_owned(),
        ColourAction::Drop => "is dropped".to_owned(),
        ColourAction::Mark(code) => format!("gets {code}"),
    });
    let yellow = if one.finds_yellow() {
        format!(", yellow {yellow}")
    } else {
        String::new()
    };
    let does = found.map_or_else(
        || format!("all of it {green}"),
        |found| format!("green {found} (IP bytes); green {green}{yellow}, red {red}"),
    );
    format!(
        "conditioner {}: what {direction} {}, {does}",
        one.name.value,
        one.at(policy)
    )
}

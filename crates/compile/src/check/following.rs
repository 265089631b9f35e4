// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings with which the tracker follows a line's rate.

use weirgate_policy::{Amount, Direction, Inbound, Policy};
use weirgate_track::{Cost, Limits, Settings, Setup};
use weirgate_units::Rate;

/// The sizes of an acknowledgement without data and of a full packet, in IP bytes.
const ENDS: (u32, u32) = (40, 1500);

/// Returns the ends to probe, the packets to count, and the range of rates; `None` if the policy
/// does not follow a rate.
#[must_use]
pub fn following(policy: &Policy) -> Option<Setup> {
    let track = policy.track.as_ref()?;
    let layer = policy.link.layer.value;
    let link = &policy.link;
    let header = link.device_kind.value.counted();
    let counted = |ip: u32| (ip + header, layer.wire_bytes(ip));
    let settings = Settings {
        up: limits(policy, Direction::Up),
        down: limits(policy, Direction::Down),
        reflectors: u16::try_from(track.reflectors.len()).unwrap_or(u16::MAX),
        probe_ns: track.interval().as_nanos(),
        delay_ns: track.delay_threshold().as_nanos(),
        packet: layer.wire_bytes(link.mtu.value).into(),
    };
    Some(Setup {
        settings,
        reflectors: track.reflectors.iter().map(|one| one.value).collect(),
        passive: track.passive,
        dscp: track.dscp(),
        line: link.device.value.clone(),
        bound: false,
        waits: match link.inbound.value {
            Inbound::Ifb => Some(link.ifb.value.clone()),
            Inbound::Lan => link.lan.first().map(|lan| lan.value.clone()),
            _ => None,
        },
        cost: Cost::through(counted(ENDS.0), counted(ENDS.1)),
    })
}

fn limits(policy: &Policy, direction: Direction) -> Option<Limits> {
    let bounds = policy.bounds(direction)?;
    let base = bounds.base;
    let margin = match direction {
        Direction::Up => policy.link.margin.value,
        Direction::Down => policy.link.margin_down.value,
    };
    // A share shrinks with the line's rate. A rate stays.
    let (share, rate) = match margin {
        Amount::Share(_) => (margin.of(base), Rate::ZERO),
        Amount::Rate(rate) => (Rate::ZERO, rate),
    };
    let held = held(policy, direction, base).map_or(share, |rate| {
        let bits = base
            .as_bits_per_second()
            .saturating_sub(rate.as_bits_per_second());
        share.max(Rate::bits_per_second(bits))
    });
    let bits = u128::from(base.as_bits_per_second()).max(1);
    let margin_ppm = u128::from(held.as_bits_per_second()) * 1_000_000 / bits;
    Some(Limits {
        floor: bounds.floor.as_bits_per_second(),
        base: base.as_bits_per_second(),
        ceiling: bounds.ceiling.as_bits_per_second(),
        margin_ppm: u64::try_from(margin_ppm).unwrap_or(0).min(900_000),
        margin_bits: rate.as_bits_per_second(),
    })
}

/// Returns the rate to which windows limit senders, if that is stated as a share.
fn held(policy: &Policy, direction: Direction, base: Rate) -> Option<Rate> {
    let rate = policy.receive.as_ref()?.rate.as_ref()?;
    match rate.value {
        Amount::Share(_) if direction == Direction::Down => Some(rate.value.of(base)),
        _ => None,
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that polices arriving packets by a virtual queue, and the policer, which is the
//! same filter with unreachable thresholds.

use weirgate_linklayer::Framing;
use weirgate_policy::{Flows, Inbound, Policy, in_kbit};
use weirgate_state::{CakeFraming, KitSetting, KitWire, Origin, VirtualQueueFilter};
use weirgate_units::{Rate, Size};

/// The largest queue in bytes that the kit's arithmetic supports (`AQM_MOST_BYTES`).
const MOST: u64 = (1 << 30) - 1;

/// The ratio 1 as a weight or a leak (2^16), and as a share in millionths.
const ONE: u64 = 1 << 16;
const MILLION: u64 = 1_000_000;

/// The burst of a policer in bytes (Brouer 8.3: burst 10k).
const BURST: u64 = 10_000;

/// The bytes for which a new flow is spared: the text of a page, without pictures (Braithwaite
/// 2006, section 5.3: 20000 bytes).
const SPARE: u64 = 20_000;

/// The time of a full line after which the drop probability is at its maximum. A shorter time
/// responds to a queue at the far end sooner, but more strongly than senders can follow. With 16
/// downloads on 8000 kbit/s, both the queue and the lost capacity grow
/// (experiments/inbound/filter.toml).
const REACH_SECONDS: u64 = 6;

/// The marks of L4S packets in 25 ms while one full packet would wait (aqm/include/shallow.h).
/// This number limits seven senders.
const L4S_MARKS: u64 = 14;

/// The coupling factor: if classic packets are dropped with p'^2, L4S packets are marked with p'
/// times this. RFC 9332 has 2 for two queues, where classic senders have longer round trips;
/// here all share one queue.
const COUPLING: u64 = 3;

/// Values of parameters: `measure=wire`, `gentle=double`, `mark=drop` and `mark-or-drop`
/// (aqm/include/red.h, aqm/meredt.c).
const ON_WIRE: u64 = 2;
const TO_DOUBLE: u64 = 2;
const DROP: u64 = 0;
const MARK_OR_DROP: u64 = 2;

/// Returns the filter of a policy, and the reason; `None` if arriving packets are queued or not
/// limited.
pub(crate) fn filter(policy: &Policy) -> Option<(VirtualQueueFilter, Origin)> {
    let rate = policy.policed_rate()?;
    let link = &policy.link;
    let layer = &link.layer.value;
    let device = link.device_kind.value;
    let own = policy.policing.as_ref();
    let (settings, what) = match link.inbound.value {
        Inbound::Police => (police(policy), "what comes faster is dropped"),
        _ => (
            virtual_queue(policy, rate),
            "a virtual queue of that rate decides who is marked or dropped",
        ),
    };
    let flows = own.and_then(|own| own.flows.as_ref());
    let origin = Origin::new(
        link.inbound.line,
        format!(
            "held to {} of a line of {}, counted as on the wire ({layer}); {what}",
            in_kbit(rate),
            in_kbit(link.down.as_ref().map_or(rate, |down| down.value)),
        ),
    );
    let filter = VirtualQueueFilter {
        rate,
        wire: KitWire {
            overhead: layer.overhead_on(device),
            mpu: layer.mpu(),
            framing: match layer.framing() {
                Framing::None => CakeFraming::None,
                Framing::Atm => CakeFraming::Atm,
                Framing::Ptm => CakeFraming::Ptm,
            },
        },
        mtu: link.mtu.value + device.counted(),
        parts: match flows.map_or(Flows::default(), |flows| flows.value) {
            Flows::Connections => {
                VirtualQueueFilter::SOURCE
                    | VirtualQueueFilter::DESTINATION
                    | VirtualQueueFilter::CONNECTION
            }
            Flows::Pairs => VirtualQueueFilter::SOURCE | VirtualQueueFilter::DESTINATION,
            Flows::Senders => VirtualQueueFilter::SOURCE,
            Flows::Receivers => VirtualQueueFilter::DESTINATION,
        },
        settings: settings
            .into_iter()
            .map(|(name, value)| KitSetting {
                name: name.to_owned(),
                value,
                usual: false,
            })
            .collect(),
    };
    Some((filter, origin))
}

/// Describes the treatment of arriving packets; `None` if they are queued or not limited.
pub(crate) fn note(policy: &Policy) -> Option<String> {
    let rate = policy.policed_rate()?;
    let line = policy.link.down.as_ref()?.value;
    let how = match policy.link.inbound.value {
        Inbound::Police => "faster traffic is dropped",
        _ if policy.link.low_latency().is_some() => {
            "a virtual queue selects packets to mark or drop, and a shorter one of `l4s` \
             selects ECT(1) packets to mark"
        }
        _ => "a virtual queue selects packets to mark or drop",
    };
    Some(format!(
        "downstream on {}: a line of {}, limited to {} without a queue; {how}",
        policy.link.device.value,
        in_kbit(line),
        in_kbit(rate)
    ))
}

/// Returns the parameters of a token bucket: thresholds beyond the limit are never reached.
fn police(policy: &Policy) -> Vec<(&'static str, u64)> {
    let stated = policy.policing.as_ref().and_then(|own| own.burst.as_ref());
    let least = 2 * u64::from(policy.full_packet());
    let burst = stated.map_or(BURST.max(least), |burst| burst.value.as_bytes());
    let burst = burst.clamp(u64::from(policy.full_packet()), MOST / 4);
    vec![
        ("bands", 1),
        ("limit_bytes", burst),
        ("min_bytes", 2 * burst),
        ("max_bytes", 4 * burst),
        ("measure", ON_WIRE),
    ]
}

/// Returns the parameters of a virtual queue. It accumulates the bytes beyond the rate, so
/// slowly that a burst leaves hardly a trace. Its length therefore tells how long the queue at
/// the far end has been standing, and the thresholds are times of that excess.
fn virtual_queue(policy: &Policy, rate: Rate) -> Vec<(&'static str, u64)> {
    let own = policy.policing.as_ref();
    let size = |value: Option<&weirgate_document::Value<Size>>, usual: u64| {
        value.map_or(usual, |value| value.value.as_bytes())
    };
    let full = u64::from(policy.full_packet());
    let line = policy.link.down.as_ref().map_or(rate, |down| down.value);
    let usable = policy.link.layer.value.usable_rate(line);
    let excess = usable
        .as_bytes_per_second()
        .saturating_sub(rate.as_bytes_per_second());
    let usual_min = 2 * full;
    let min = size(own.and_then(|own| own.min.as_ref()), usual_min);
    let usual_max = min + (2 * full).max(excess * REACH_SECONDS);
    let max = size(own.and_then(|own| own.max.as_ref()), usual_max);
    let max = max.clamp(2, MOST / 8);
    let min = min.min(max - 1);
    let spare = size(own.and_then(|own| own.spare.as_ref()), SPARE).min(MOST / 64);
    let ecn = own.and_then(|own| own.ecn.as_ref());
    let leak = own.and_then(|own| own.leak.as_ref());
    let mark = if ecn.is_none_or(|ecn| ecn.value) {
        MARK_OR_DROP
    } else {
        DROP
    };
    let mut settings = vec![
        ("bands", 1),
        ("limit_bytes", 4 * max),
        ("min_bytes", min),
        ("max_bytes", max),
        // The virtual queue is already an average.
        ("weight", 1 << 31),
        ("measure", ON_WIRE),
        ("gentle", TO_DOUBLE),
        ("knot1_bytes", spare),
        ("knot2_bytes", 5 * spare),
        ("knot3_bytes", 50 * spare),
        ("mark", mark),
    ];
    if policy.link.low_latency().is_some() {
        settings.extend([("l4s_marks", L4S_MARKS), ("coupling", COUPLING)]);
    }
    if let Some(leak) = leak {
        settings.push((
            "fairness",
            u64::from(leak.value.as_millionths()) * ONE / MILLION,
        ));
    }
    settings
}

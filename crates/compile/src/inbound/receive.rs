// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits senders from the receiving side: the programs at the link's device, the chain that
//! rejects datagrams, and the smaller MSS that remote senders are told.

use crate::codes;
use crate::engine;
use crate::scheduler::{self, Scheduler};
use weirgate_document::Problems;
use weirgate_policy::{
    Ack, Algorithm, Asked, Direction, Engine, Inbound, Meters, Policy, REFUSE_MARK, Receive,
    SharedClass, Sharing, in_kbit,
};
use weirgate_state::{
    Capabilities, Chain, Datagrams, Effect, Field, Frame, Hook, IpVersion, Match, Measured, Origin,
    Rule, RuleVerdict, SparedMark, TCP, UDP, WindowAlgorithm, Windows,
};
use weirgate_units::{Handle, Rate, Size, Span};

/// The name of the chain that rejects datagrams.
const REFUSED: &str = "refused";

/// The largest number of classes that the programs distinguish (`WINDOW_CLASSES`).
const MOST_CLASSES: usize = 15;

/// The defaults of the rate measurement: Shah's 30 intervals of 100 ms (section 6.2), and an
/// idle time of more than two periods of his clock, 2 s each.
const CHUNK: Span = Span::from_millis(100);
const CHUNKS: u32 = 30;
const AGE: Span = Span::from_secs(5);

/// The default horizon, longer than any round trip except over a satellite.
const HORIZON: Span = Span::from_secs(1);
/// The default initial window: ten full segments, with which senders start (RFC 6928 section 2).
const INITIAL: Size = Size::bytes(14_600);

/// The round trip to assume for unknown ends. It is short, because segments for too long a round
/// trip would not limit anyone.
const ROUND_TRIP: Span = Span::from_millis(20);

/// How long a stream is discarded, and how long it then has to slow down. A responsive sender
/// does so within seconds.
const DROP: Span = Span::from_secs(2);
const WARN: Span = Span::from_secs(2);

/// The default burst of a token bucket, as a time at its rate; it allows for a jitter of a few
/// packets.
const BURST: Span = Span::from_millis(100);

/// The SYN flag in the 14th byte of a TCP header.
const SYN: u8 = 2;

/// Returns the programs that choose receive windows, and the reason.
pub(crate) fn windows(policy: &Policy) -> Option<(Windows, Origin)> {
    let receive = policy
        .receive
        .as_ref()
        .filter(|receive| receive.chooses())?;
    let rate = receive
        .rate
        .as_ref()
        .and_then(|rate| policy.received_rate(rate.value));
    let classes = classes(policy, receive);
    let acknowledgements = scheduler::of(policy, Direction::Up, &Problems::default())
        .and_then(|scheduler| {
            let mut members = scheduler.members.into_iter();
            members.find(|member| member.class.ack)
        })
        .map_or_else(Handle::default, |member| member.id);
    let algorithm = receive.algorithm.as_ref();
    let origin = Origin::new(
        receive.line,
        match (&receive.window, rate) {
            (Some(window), _) => {
                format!("senders are offered a receive window of {}", window.value)
            }
            (None, Some(rate)) => {
                format!(
                    "TCP held to {} of payload by receive windows",
                    in_kbit(rate)
                )
            }
            (None, None) if receive.initial_window.is_some() || receive.max_window.is_some() => {
                "what one TCP sender may send at once is bounded by receive windows".to_owned()
            }
            (None, None) if receive.classes.is_empty() => {
                "sessions that are announced have room made for them".to_owned()
            }
            (None, None) => "TCP of some classes held by receive windows".to_owned(),
        },
    );
    let announced = receive.announced.as_ref();
    let windows = Windows {
        rate: rate.unwrap_or_default(),
        algorithm: match algorithm.map_or(Algorithm::Ours, |one| one.value) {
            Algorithm::Ours => WindowAlgorithm::Edge,
            Algorithm::Shah1 => WindowAlgorithm::Steps,
            Algorithm::Shah2 => WindowAlgorithm::Segments,
        },
        fixed: receive
            .window
            .as_ref()
            .map_or_else(Size::default, |window| window.value),
        horizon: receive
            .horizon
            .as_ref()
            .map_or(HORIZON, |horizon| horizon.value),
        hold: receive
            .max_ack_delay
            .as_ref()
            .map_or(Span::ZERO, |delay| delay.value),
        initial: initial(receive),
        limit: receive
            .max_window
            .as_ref()
            .map_or_else(Size::default, |one| one.value),
        measured: measured(&receive.measured),
        spared: spared(receive),
        acknowledgements,
        classes,
        announced_segment: announced.map_or(0, |one| one.mss.as_ref().map_or(0, |mss| mss.value)),
        announced_resets: announced.is_some_and(|one| one.reset),
        round_trip: round_trip(receive),
        by_hosts: by_hosts(policy, receive),
        beside_others: has_own_windows(policy),
        l4s: receive.l4s,
    };
    Some((windows, origin))
}

/// Returns the default initial window: as much as a sender sends anyway. Shah's algorithms start
/// with the receiver's own window.
fn initial(receive: &Receive) -> Size {
    let ours = receive
        .algorithm
        .as_ref()
        .is_none_or(|algorithm| algorithm.value == Algorithm::Ours);
    match &receive.initial_window {
        Some(initial) => initial.value,
        None if ours && receive.holds() && receive.window.is_none() => INITIAL,
        None => Size::default(),
    }
}

/// Returns whether hosts share a rate: as the rate states, or else like the queues of the link.
fn by_hosts(policy: &Policy, receive: &Receive) -> bool {
    let link = policy.link.fair.as_ref();
    receive.keeps_to_rates()
        && receive.share.as_ref().map_or_else(
            || link.is_some_and(|fair| fair.value.knows_hosts()),
            |share| share.value == Sharing::Hosts,
        )
}

/// Returns the round trip to assume for unknown ends, if the segment size depends on it.
fn round_trip(receive: &Receive) -> Span {
    let shares = receive.mss.as_ref();
    if shares.is_none_or(|segment| segment.value != Asked::Share) {
        return Span::ZERO;
    }
    let stated = receive.initial_rtt.as_ref();
    stated.map_or(ROUND_TRIP, |stated| stated.value)
}

/// Returns the class identifiers with their rates, or nothing if no class has its own. A divided
/// class has one for each part and each host with a limit.
fn classes(policy: &Policy, receive: &Receive) -> Vec<(Handle, Rate)> {
    let Some(scheduler) = scheduler::of(policy, Direction::Up, &Problems::default()) else {
        return Vec::new();
    };
    let rate = receive.rate.as_ref().filter(|_| has_own_windows(policy));
    if let Some(rate) = rate.and_then(|rate| policy.received_rate(rate.value)) {
        return apart(&scheduler, receive, rate);
    }
    let limited = receive
        .classes
        .iter()
        .map(|(name, amount)| (&name.value, policy.received_rate(*amount)));
    let protected = receive
        .protect
        .iter()
        .map(|name| (&name.value, Some(Rate::default())));
    let mut classes = Vec::new();
    for (name, rate) in limited.chain(protected) {
        let of_class = scheduler.identifiers(|class| class.name == *name);
        let of_class = of_class.into_iter();
        classes.extend(of_class.map(|id| (id, rate.unwrap_or_default())));
    }
    classes
}

/// Returns whether `inbound = "auto"` chose the common rate.
fn has_own_windows(policy: &Policy) -> bool {
    let automatic = policy.link.automatic;
    automatic.is_some_and(|chosen| chosen.has_windows())
}

/// Returns the rates for `inbound = "auto"`: each class has the whole rate. Windows are for the
/// case that one class fills the line; if several do, the queue gives each its share. A
/// protected class is not limited.
fn apart(scheduler: &Scheduler, receive: &Receive, rate: Rate) -> Vec<(Handle, Rate)> {
    let protected = |class: &SharedClass| {
        let mut names = receive.protect.iter();
        !class.ack && names.any(|name| name.value == class.name)
    };
    let free = scheduler.identifiers(protected);
    let members = scheduler.members.iter().filter(|member| !member.class.ack);
    let mut ids: Vec<Handle> = members.map(|member| member.id).collect();
    // Other hosts with limits have the common rate, which is the same.
    let hosts: Vec<Handle> = free
        .iter()
        .copied()
        .filter(|id| !ids.contains(id))
        .collect();
    ids.extend(hosts);
    let own = |id: &Handle| {
        if free.contains(id) {
            Rate::default()
        } else {
            rate
        }
    };
    let all: Vec<_> = ids.iter().map(|id| (*id, own(id))).collect();
    match all.as_slice() {
        [(_, one)] if *one == rate => Vec::new(),
        _ => all,
    }
}

/// Returns whether there are more classes and parts of classes than the programs distinguish.
/// They know one class of acknowledgements.
pub(crate) fn has_too_many(policy: &Policy) -> bool {
    let receive = policy.receive.as_ref();
    receive.is_some_and(|receive| {
        let classes = classes(policy, receive);
        classes.len() > MOST_CLASSES || (!classes.is_empty() && has_parts_of_acks(policy))
    })
}

/// Returns whether the class of acknowledgements is divided between hosts with limits.
fn has_parts_of_acks(policy: &Policy) -> bool {
    let scheduler = scheduler::of(policy, Direction::Up, &Problems::default());
    scheduler.is_some_and(|scheduler| scheduler.identifiers(|class| class.ack).len() > 1)
}

/// Returns the filter of datagrams, and the reason.
pub(crate) fn datagrams(policy: &Policy) -> Option<(Datagrams, Origin)> {
    let receive = policy.receive.as_ref()?;
    let udp = receive.udp.as_ref()?;
    let rate = policy.datagram_rate(udp.rate.value)?;
    let usual = rate.bytes_in(BURST).as_bytes();
    let least = 2 * u64::from(policy.link.mtu.value);
    let burst = udp.burst.as_ref();
    let origin = Origin::new(
        udp.line,
        format!("each stream of datagrams held to {}", in_kbit(rate)),
    );
    let datagrams = Datagrams {
        rate,
        bucket: udp.bucket,
        burst: burst.map_or(Size::bytes(usual.max(least)), |burst| burst.value),
        drop: udp.drop.as_ref().map_or(DROP, |drop| drop.value),
        warn: udp.warn.as_ref().map_or(WARN, |warn| warn.value),
        measured: measured(&udp.measured),
        refuse: udp.mark.as_ref().map_or(REFUSE_MARK, |mark| mark.value),
        spared: spared(receive),
    };
    Some((datagrams, origin))
}

fn measured(meters: &Meters) -> Measured {
    Measured {
        chunk: meters.chunk.as_ref().map_or(CHUNK, |chunk| chunk.value),
        chunks: meters.chunks.unwrap_or(CHUNKS),
        age: meters.age.as_ref().map_or(AGE, |age| age.value),
    }
}

fn spared(receive: &Receive) -> SparedMark {
    let mark = receive.protect_mark.as_ref();
    mark.map_or_else(SparedMark::default, |mark| SparedMark {
        mark: mark.value.value,
        mask: mark.value.mask,
    })
}

/// Returns the chain that rejects refused streams, so that their senders learn that no one
/// listens.
pub(crate) fn refusing(policy: &Policy) -> Option<Chain> {
    let (datagrams, origin) = datagrams(policy).filter(|(datagrams, _)| !datagrams.bucket)?;
    let mark = datagrams.refuse;
    let device = policy.link.device.value.as_str();
    let rule = Rule {
        frame: Frame::Plain,
        matches: vec![
            Match::one(Field::Protocol, u128::from(UDP)),
            Match::text(Field::InputDevice, device),
            Match::one(Field::Mark { mask: mark }, u128::from(mark)),
        ],
        counter: Some(REFUSED.to_owned()),
        effects: Vec::new(),
        verdict: RuleVerdict::Refuse,
        origin,
    };
    Some(Chain {
        name: REFUSED.to_owned(),
        hook: Hook::Prerouting,
        rules: vec![rule].into(),
    })
}

/// Returns the rules at the head of the upstream chain that announce a smaller MSS to remote
/// senders.
pub(crate) fn segments(policy: &Policy, direction: Direction) -> Vec<Rule> {
    let receive = policy.receive.as_ref();
    let segment = receive.and_then(|receive| receive.mss.as_ref());
    let Some((segment, line)) =
        segment
            .filter(|_| direction == Direction::Up)
            .and_then(|segment| match segment.value {
                Asked::Bytes(bytes) => Some((bytes, segment.line)),
                Asked::Share => None,
            })
    else {
        return Vec::new();
    };
    let rule = |version: IpVersion| Rule {
        frame: Frame::Plain,
        matches: vec![
            Match::version_is(version),
            Match::one(Field::Protocol, u128::from(TCP)),
            Match::tcp_flags(SYN, SYN),
        ],
        counter: None,
        effects: vec![Effect::MaxSegment(segment)],
        verdict: RuleVerdict::Continue,
        origin: Origin::new(line, "segments that those outside are asked for"),
    };
    IpVersion::BOTH.map(rule).to_vec()
}

/// Describes the treatment of TCP and datagrams from outside.
pub(crate) fn notes(policy: &Policy) -> Vec<String> {
    let device = &policy.link.device.value;
    let mut notes = Vec::new();
    // Windows that `inbound = "auto"` chose have their own note.
    let stated = windows(policy).filter(|_| !has_own_windows(policy));
    if let Some((windows, origin)) = stated {
        let own = windows
            .classes
            .iter()
            .filter(|(_, rate)| *rate != Rate::default());
        let free = windows.classes.len() - own.clone().count();
        let besides = match (own.count(), free) {
            (0, 0) => String::new(),
            (own, free) => format!("; classes at rates of their own: {own}, not limited: {free}"),
        };
        let hosts = if windows.by_hosts {
            ", shared by hosts"
        } else {
            ""
        };
        notes.push(format!(
            "downstream on {device}: {}{hosts}{besides}",
            origin.reason
        ));
    }
    if let Some((datagrams, origin)) = datagrams(policy) {
        let how = if datagrams.bucket {
            format!("by a token bucket of {}", datagrams.burst)
        } else {
            format!(
                "dropped for {} if it is faster, and rejected if it is still faster {} later",
                datagrams.drop, datagrams.warn
            )
        };
        notes.push(format!("downstream on {device}: {}, {how}", origin.reason));
    }
    notes
}

/// Reports what this kernel lacks for it, and what the programs cannot do.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let Some(receive) = &policy.receive else {
        return;
    };
    let needed = receive.chooses() || receive.udp.is_some();
    if needed && !kernel.payload {
        let release = kernel.lacking_programs(release);
        problems.error(
            codes::POLICED,
            receive.span.clone(),
            format!("{release} has no cls_bpf, which `[receive]` needs"),
            format!("{}, or leave `[receive]` out", kernel.bring_cls_bpf()),
        );
    }
    hold(policy, receive, kernel, release, problems);
    let classes = classes(policy, receive);
    if classes.len() > MOST_CLASSES {
        problems.error(
            codes::RECEIVE,
            receive.span.clone(),
            format!(
                "{} classes and parts of classes have a rate of their own or are protected",
                classes.len()
            ),
            format!("use at most {MOST_CLASSES} classes and parts"),
        );
    }
    if !classes.is_empty() && has_parts_of_acks(policy) {
        problems.error(
            codes::RECEIVE,
            receive.span.clone(),
            "limits of hosts divide the class of acknowledgements, which receive windows with \
             rates of classes cannot tell from other classes",
            "leave `[ack]` out, or name a `class` in `[[cap]]`",
        );
    }
    if let (Some(_), Inbound::None, Some(rate)) = (
        &policy.link.down,
        policy.link.inbound.value,
        receive.rate.as_ref(),
    ) && let Some(down) = &policy.link.down
        && let Some(wanted) = policy.received_rate(rate.value)
    {
        let most = policy.payload_of(policy.link.layer.value.usable_rate(down.value));
        if wanted > most {
            problems.warning(
                codes::RECEIVE,
                rate.span.clone(),
                format!(
                    "receive windows for {} limit nothing: the line carries {} of TCP payload",
                    in_kbit(wanted),
                    in_kbit(most)
                ),
                "write a lower rate",
            );
        }
    }
}

/// Reports what is missing for delaying acknowledgements: they need their own queue, which obeys
/// departure times.
fn hold(
    policy: &Policy,
    receive: &Receive,
    kernel: &Capabilities,
    release: &str,
    problems: &Problems,
) {
    let Some(delay) = &receive.max_ack_delay else {
        return;
    };
    let error = |wrong: String, right: &str| {
        problems.error(codes::RECEIVE, delay.span.clone(), wrong, right);
    };
    if engine::chosen(policy, Some(kernel)) != Engine::Htb {
        error(
            "acknowledgements are held back in a queue of their own, which only `engine = \
             \"htb\"` has"
                .to_owned(),
            "leave `max-ack-delay` out, or write `engine = \"htb\"` in `[link]`",
        );
    }
    // A default queue has the span of the table (`check::default_queue`).
    let stated = |ack: &Ack| {
        let queue = ack.queue.as_ref();
        queue.is_some_and(|queue| queue.span != ack.span)
    };
    match policy.ack.as_ref().map(stated) {
        None => error(
            "acknowledgements are held back in a queue of their own, but they have none".to_owned(),
            "add `[ack]`",
        ),
        Some(true) => error(
            "the queue of `[ack]` ignores the departure times of packets".to_owned(),
            "leave `queue` of `[ack]` out; with `max-ack-delay` it is fq",
        ),
        Some(false) => {}
    }
    if !kernel.has_qdisc("fq") {
        error(
            format!("{release} has no fq, which holds packets until their departure time"),
            "load or build the module sch_fq, or leave `max-ack-delay` out",
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks `[receive]` for contradictions, in itself and with the rest of the policy.

use crate::amount::Amount;
use crate::codes;
use crate::link::inbound::Inbound;
use crate::model::in_kbit;
use crate::policy::Policy;
use crate::policy::rates::HEADERS;
use crate::receive::{Algorithm, Asked, LEAST_ASKED, REFUSE_MARK, Receive, ReceiveUdp};
use weirgate_document::{Problems, SourceSpan};
use weirgate_units::{Direction, Rate, Share, Span};

/// The round-trip time for which the lowest rate of windows is computed: that of another
/// continent. Most are shorter, and make that rate higher.
const FAR: Span = Span::from_millis(100);

/// The longest delay of an acknowledgement: half of the horizon of fq (tc-fq(8)).
const MOST_ACK_DELAY: Span = Span::from_secs(5);

/// Checks `[receive]` for contradictions, in itself and with the rest of the policy.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    let Some(receive) = &policy.receive else {
        return;
    };
    let error = |span: &SourceSpan, wrong: String, right: &str| {
        problems.error(codes::RECEIVE, span.clone(), wrong, right);
    };
    let chooses = receive.chooses();
    if !chooses && receive.udp.is_none() && receive.mss.is_none() {
        error(
            &receive.span,
            "`[receive]` limits no sender".to_owned(),
            "write a `rate` such as `rate = \"50%\"`, a `window`, an `mss`, \
             `[receive.class]` or `[receive.udp]`",
        );
    }
    contradictions(receive, &error);
    amounts(policy, receive, &error);
    names(policy, receive, &error);
    let kind = &policy.link.inbound;
    let held = receive.keeps_to_rates() || receive.window.is_some();
    if kind.value == Inbound::Police && held {
        error(
            &receive.span,
            "`inbound = \"police\"` drops packets of senders that `[receive]` limits already"
                .to_owned(),
            "write `inbound = \"filter\"`, \"ifb\", \"lan\" or \"none\" in `[link]`",
        );
    }
    stop_and_wait(policy, receive, problems);
    let inside = policy.marks.inside.as_ref().map_or(0, |mask| mask.value);
    let protect = receive.protect_mark.as_ref();
    if let Some(mark) = protect.filter(|mark| mark.value.mask & inside != 0) {
        error(
            &mark.span,
            "`protect-mark` overlaps the bits that `inside` gives to hosts".to_owned(),
            "use other bits for one of them: `protect-mark` here, `inside` in `[marks]`",
        );
    }
    if let Some(udp) = &receive.udp {
        marks(policy, receive, udp, &error);
        if policy.link.bridge && !udp.bucket {
            error(
                &udp.rate.span,
                "a bridge cannot reject a stream of datagrams, because it routes no packets"
                    .to_owned(),
                "write `mode = \"bucket\"`",
            );
        }
    }
}

type Say<'a> = &'a dyn Fn(&SourceSpan, String, &str);

/// Returns the smallest size of full segments, in bytes of payload.
fn segment(policy: &Policy, receive: &Receive) -> u32 {
    let full = policy.link.mtu.value.saturating_sub(HEADERS);
    match receive.mss.as_ref().map(|one| one.value) {
        Some(Asked::Share) => full.min(LEAST_ASKED),
        Some(Asked::Bytes(bytes)) => full.min(bytes.into()),
        None => full,
    }
}

/// Returns the lowest rate to which windows alone can limit a connection: one segment per round
/// trip of [`FAR`].
pub(crate) fn least_by_windows(policy: &Policy, receive: &Receive) -> Rate {
    let bits = u64::from(segment(policy, receive)) * 8;
    Rate::bits_per_second(bits * 1_000_000_000 / FAR.as_nanos())
}

/// Reports rates below one segment per round trip, which windows alone cannot enforce (Shah
/// 1999, section 6.5).
fn stop_and_wait(policy: &Policy, receive: &Receive, problems: &Problems) {
    if receive.max_ack_delay.is_some() || receive.window.is_some() {
        return;
    }
    let segment = segment(policy, receive);
    let least = least_by_windows(policy, receive);
    let own = receive
        .classes
        .iter()
        .map(|(name, amount)| (name.span.clone(), *amount));
    let all = receive.rate.iter();
    let all = all.map(|rate| (rate.span.clone(), rate.value));
    for (span, amount) in all.chain(own) {
        let Some(rate) = policy.received_rate(amount).filter(|rate| *rate < least) else {
            continue;
        };
        problems.warning(
            codes::RECEIVE,
            span,
            format!(
                "receive windows alone cannot limit a connection to {}: one segment of {segment} \
                 bytes per round trip of {FAR} is already {}, and more if the round trip is \
                 shorter",
                in_kbit(rate),
                in_kbit(least)
            ),
            "add `max-ack-delay = \"500ms\"`, or use smaller segments with `mss = \"auto\"`",
        );
    }
}

/// Reports fields that do not apply to the chosen algorithm.
fn contradictions(receive: &Receive, error: Say<'_>) {
    let ours = receive
        .algorithm
        .as_ref()
        .is_none_or(|algorithm| algorithm.value == Algorithm::Ours);
    if let Some(delay) = &receive.max_ack_delay
        && delay.value > MOST_ACK_DELAY
    {
        error(
            &delay.span,
            format!(
                "`max-ack-delay` is {}, but fq drops packets that are due more than 10s ahead",
                delay.value
            ),
            "write at most 5s",
        );
    }
    for (key, span) in receive.of_ours().into_iter().filter(|_| !ours) {
        let wrong = format!("`{key}` belongs to `algorithm = \"ours\"`");
        error(span, wrong, "leave it out, or leave `algorithm` out");
    }
    let beside = [
        ("initial-window", &receive.initial_window),
        ("max-window", &receive.max_window),
    ];
    for (key, size) in beside {
        if let Some(size) = size.as_ref().filter(|_| receive.window.is_some()) {
            error(
                &size.span,
                format!("`{key}` has no effect beside a fixed `window`"),
                "leave one of them out",
            );
        }
    }
    if let Some(window) = &receive.window
        && (receive.rate.is_some() || !receive.classes.is_empty() || receive.algorithm.is_some())
    {
        error(
            &window.span,
            "a fixed `window` excludes a rate".to_owned(),
            "leave `window` out, or `rate`, `algorithm` and `[receive.class]`",
        );
    }
    if let Some(announced) = &receive.announced
        && announced.mss.is_none()
        && !announced.reset
    {
        error(
            &announced.span,
            "`[receive.announced]` has no effect".to_owned(),
            "write an `mss` such as `mss = 536`, or `reset = true`",
        );
    }
    let shares = receive.mss.iter().find(|one| one.value == Asked::Share);
    if let Some(initial_rtt) = receive.initial_rtt.as_ref().filter(|_| shares.is_none()) {
        error(
            &initial_rtt.span,
            "`initial-rtt` has an effect only with `mss = \"auto\"`".to_owned(),
            "write `mss = \"auto\"`, or leave it out",
        );
    }
    if let Some(mss) = shares.filter(|_| !receive.keeps_to_rates()) {
        error(
            &mss.span,
            "`mss = \"auto\"` needs a rate, but `[receive]` has none".to_owned(),
            "write a `rate`, or a number of bytes",
        );
    }
    if !receive.keeps_to_rates() {
        let protects = receive.protect.first().filter(|_| !receive.chooses());
        let unused = [
            protects.map(|one| ("protect", &one.span)),
            receive.share.as_ref().map(|one| ("share", &one.span)),
            receive
                .algorithm
                .as_ref()
                .map(|one| ("algorithm", &one.span)),
        ];
        let edges = receive.of_ours().into_iter();
        let edges = edges.filter(|(key, _)| *key != "initial-window");
        for (key, span) in unused.into_iter().flatten().chain(edges) {
            error(
                span,
                format!("`{key}` needs a rate, but `[receive]` has none"),
                "write a `rate`, or leave it out",
            );
        }
    }
}

/// Reports rates of 0, shares of a line without a configured rate, and rates above what the
/// downstream gate lets through.
fn amounts(policy: &Policy, receive: &Receive, error: Say<'_>) {
    let rate = receive.rate.iter().map(|rate| (rate.value, &rate.span));
    let classes = receive
        .classes
        .iter()
        .map(|(name, amount)| (*amount, &name.span));
    let tcp = rate.chain(classes).map(|one| (one, true));
    let udp = receive.udp.iter();
    let udp = udp.map(|udp| ((udp.rate.value, &udp.rate.span), false));
    let limit = policy
        .policed_rate()
        .or_else(|| policy.gate(Direction::Down))
        .map(|wire| policy.payload_of(wire));
    for ((amount, span), is_tcp) in tcp.chain(udp) {
        if let Amount::Share(share) = amount
            && share > Share::percent(100)
        {
            error(
                span,
                format!("a share of {share} is more than the whole line"),
                "write at most `100%`",
            );
            continue;
        }
        let rate = if is_tcp {
            policy.received_rate(amount)
        } else {
            policy.datagram_rate(amount)
        };
        let Some(rate) = rate else {
            error(
                span,
                "a share needs the line's downstream rate, which is missing".to_owned(),
                "add `down` to `[link]`, or write a rate such as `4mbit`",
            );
            continue;
        };
        if rate < Rate::kbit(1) {
            error(
                span,
                format!("{} lets nothing through", in_kbit(rate)),
                "write at least 1kbit; `protect` names classes that are not limited",
            );
        }
        if let Some(limit) = limit.filter(|limit| is_tcp && rate > *limit) {
            error(
                span,
                format!(
                    "receive windows for {} limit nothing: arriving packets are already held to \
                     {} of TCP payload (`margin-down`)",
                    in_kbit(rate),
                    in_kbit(limit)
                ),
                "write a rate below that, or a smaller `margin-down`",
            );
        }
    }
}

/// Reports classes that do not exist, or are named twice.
fn names(policy: &Policy, receive: &Receive, error: Say<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    let limited = receive.classes.iter().map(|(name, _)| name);
    for name in limited.chain(&receive.protect) {
        let known: Vec<&str> = policy
            .classes_of(Direction::Up)
            .map(|class| class.name.value.as_str())
            .collect();
        if !known.contains(&name.value.as_str()) {
            error(
                &name.span,
                format!("there is no upstream class `{}`", name.value),
                "a connection has the class of the packets that it sends; name one of those",
            );
        } else if seen.contains(&name.value.as_str()) {
            error(
                &name.span,
                format!("class `{}` is named twice", name.value),
                "name it once, with a rate or in `protect`",
            );
        }
        seen.push(&name.value);
    }
}

/// Reports mark bits that have another use.
fn marks(policy: &Policy, receive: &Receive, udp: &ReceiveUdp, error: Say<'_>) {
    if udp.bucket {
        return;
    }
    let (own, span) = match &udp.mark {
        Some(mark) => (mark.value, &mark.span),
        None => (REFUSE_MARK, &udp.rate.span),
    };
    let protected = receive
        .protect_mark
        .as_ref()
        .map_or(0, |mark| mark.value.value);
    let inside = policy.marks.inside.as_ref().map_or(0, |mask| mask.value);
    let others = [
        ("stored decisions", policy.marks.decisions),
        ("payload signatures", policy.marks.payload()),
        ("`protect-mark`", protected),
        ("`inside`", inside),
    ];
    for (whose, bits) in others {
        if own & bits != 0 {
            error(
                span,
                format!(
                    "the mark of rejected datagrams, {own:#010x}, overlaps the bits of {whose}"
                ),
                "give `[receive.udp]` another `mark`, such as `mark = \"0x10000000\"`",
            );
        }
    }
}

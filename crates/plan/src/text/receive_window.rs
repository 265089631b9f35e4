// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How what holds senders to a rate from here reads.

use std::fmt::Write;
use weirgate_state::{Datagrams, Measured, SparedMark, WindowAlgorithm, Windows};
use weirgate_units::{Rate, Size, Span};

/// The programs that choose receive windows, in words.
pub(crate) fn windows(windows: &Windows) -> String {
    let mut text = String::from("receive windows by ");
    text.push_str(match windows.algorithm {
        WindowAlgorithm::Edge => "their edge",
        WindowAlgorithm::Steps => "steps (shah-1)",
        WindowAlgorithm::Segments => "segments (shah-2)",
    });
    if windows.fixed != Size::default() {
        text = format!("receive windows of {}", windows.fixed);
    }
    text.push_str(&limit(windows.rate));
    if windows.by_hosts {
        text.push_str(", shared by hosts");
    }
    if windows.beside_others {
        text.push_str(", less what no window holds");
    }
    if windows.l4s {
        text.push_str(", senders of L4S too");
    }
    // Writing to a String cannot fail.
    for (class, rate) in &windows.classes {
        let _ = write!(text, ", class {class}{}", limit(*rate));
    }
    let _ = write!(
        text,
        ", horizon {} max-ack-delay {}{}",
        windows.horizon,
        windows.hold,
        measured(windows.measured)
    );
    if windows.initial != Size::default() {
        let _ = write!(text, ", {} at first", windows.initial);
    }
    if windows.limit != Size::default() {
        let _ = write!(text, ", never more than {}", windows.limit);
    }
    if windows.acknowledgements != weirgate_units::Handle::default() {
        let _ = write!(text, ", ACKs in {}", windows.acknowledgements);
    }
    text.push_str(&spared(windows.spared));
    if windows.round_trip != Span::default() {
        let _ = write!(
            text,
            ", segments of a part of a round trip, {} where none is known",
            windows.round_trip
        );
    }
    if windows.announced_segment != 0 {
        let _ = write!(
            text,
            ", segments of {} B while a session is announced",
            windows.announced_segment
        );
    }
    if windows.announced_resets {
        text.push_str(", others reset while a session is announced");
    }
    text
}

/// The filter of datagrams, in words.
pub(crate) fn datagrams(datagrams: &Datagrams) -> String {
    let how = if datagrams.bucket {
        format!("a bucket of {}", datagrams.burst)
    } else {
        format!(
            "states, drop {} warn {} refused with {:#010x}",
            datagrams.drop, datagrams.warn, datagrams.refuse
        )
    };
    format!(
        "streams of datagrams at {} each by {how}{}{}",
        datagrams.rate,
        measured(datagrams.measured),
        spared(datagrams.spared)
    )
}

/// What happens to TCP, after "arriving packets".
pub(crate) fn windows_in_short(windows: &Windows) -> String {
    if windows.fixed != Size::default() {
        return format!("are answered with receive windows of {}", windows.fixed);
    }
    format!(
        "are answered with receive windows that hold TCP{}",
        limit(windows.rate).replace(" at", " to")
    )
}

/// What happens to datagrams, after "arriving packets".
pub(crate) fn datagrams_in_short(datagrams: &Datagrams) -> String {
    let refused = if datagrams.bucket {
        ""
    } else {
        ", in the end refused,"
    };
    format!(
        "are dropped{refused} where a stream of datagrams is above {}",
        datagrams.rate
    )
}

fn limit(rate: Rate) -> String {
    if rate == Rate::default() {
        String::from(" without a limit")
    } else {
        format!(" at {rate}")
    }
}

fn measured(measured: Measured) -> String {
    format!(
        ", measured in {} chunks of {} forgotten after {}",
        measured.chunks, measured.chunk, measured.age
    )
}

fn spared(spared: SparedMark) -> String {
    if spared.mask == 0 {
        return String::new();
    }
    format!(
        ", mark {:#010x} under {:#010x} spared",
        spared.mark, spared.mask
    )
}

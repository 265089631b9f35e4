// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive-window control: TCP's senders are held to a rate from the receiving side.

use super::measured::{Measured, SparedMark};
use super::program::{Clause, HookProgram, ProgramRow, egress, ingress};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use weirgate_units::{Handle, Rate, Size, Span};

/// How receive windows are chosen (`aqm/include/window.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WindowAlgorithm {
    /// The right edge of the window goes on at the rate.
    #[default]
    Edge,
    /// Shah's algorithm 1: steps of 256 bytes where the window is small.
    Steps,
    /// Shah's algorithm 2: steps of a segment, never less than one.
    Segments,
}

/// Two programs at a device's `clsact` qdisc that choose the receive windows of
/// what leaves by what arrives (`bpf/inbound/window.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "whom and what windows hold, each by itself"
)]
pub struct Windows {
    /// What all connections of no class of their own may have together, of TCP's
    /// payload; 0 for no limit.
    pub rate: Rate,
    /// How windows are chosen.
    pub algorithm: WindowAlgorithm,
    /// This window and no other; 0 bytes for none.
    pub fixed: Size,
    /// The most that is offered, earned or owed, as a time at the rate.
    pub horizon: Span,
    /// For how long an acknowledgement is held back at most, which `fq` does.
    pub hold: Span,
    /// What is on offer before anything came; 0 bytes for what the receiver
    /// offers.
    #[serde(default)]
    pub initial: Size,
    /// The largest window of any connection; 0 bytes for no such limit.
    #[serde(default)]
    pub limit: Size,
    /// How the rate is measured.
    pub measured: Measured,
    /// Whose connections are not limited.
    pub spared: SparedMark,
    /// The class of bare acknowledgements, which tells nothing of the
    /// connection's; 0:0 for none.
    pub acknowledgements: Handle,
    /// Classes with a rate of their own, which their connections share; 0 for no
    /// limit. A connection has the class of what it sends.
    pub classes: Vec<(Handle, Rate)>,
    /// While a session is announced: the largest segment that new connections
    /// ask for, in bytes, 0 for what they would ask for anyway.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub announced_segment: u16,
    /// While a session is announced: whether older connections that have
    /// received much are reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced_resets: bool,
    /// New connections ask for segments of what they may have in a round trip,
    /// which is this to ends of whom none is known; 0 for what they would ask
    /// for anyway.
    #[serde(default, skip_serializing_if = "is_never")]
    pub round_trip: Span,
    /// A rate is shared by hosts inside, and what one of them may have by its
    /// connections; else by connections, whosever they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hosts: bool,
    /// What no window holds, datagrams and connections that are not known, leaves less of
    /// a rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
    /// Windows hold senders of L4S as well, which are left alone otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub l4s: bool,
}

/// What is as ever is not written down.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes what it may leave out by reference"
)]
const fn is_zero(segment: &u16) -> bool {
    *segment == 0
}

/// As [`is_zero`].
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes what it may leave out by reference"
)]
const fn is_never(time: &Span) -> bool {
    time.as_nanos() == 0
}

impl Windows {
    /// Whether announced sessions change anything.
    #[must_use]
    pub const fn heeds_announcements(&self) -> bool {
        self.announced_segment != 0 || self.announced_resets
    }
}

impl HookProgram for Windows {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "window",
        // Before the filter that may drop packets, because what that drops has crossed
        // the line too. Were it not counted, windows would open the wider the more is
        // dropped.
        preference: 89,
        filters: &[
            ingress("window_in", "weirgate-window-in-"),
            egress("window_out", "weirgate-window-out-"),
        ],
        // It asks for the host inside.
        tracks: true,
        ..ProgramRow::DEFAULT
    };

    fn text(windows: &Self) -> String {
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
            windows.horizon, windows.hold, windows.measured
        );
        if windows.initial != Size::default() {
            let _ = write!(text, ", {} at first", windows.initial);
        }
        if windows.limit != Size::default() {
            let _ = write!(text, ", never more than {}", windows.limit);
        }
        if windows.acknowledgements != Handle::default() {
            let _ = write!(text, ", ACKs in {}", windows.acknowledgements);
        }
        let _ = write!(text, "{}", windows.spared);
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

    fn clause(windows: &Self) -> Clause {
        Clause::Arriving(if windows.fixed == Size::default() {
            format!(
                "are answered with receive windows that hold TCP{}",
                limit(windows.rate).replace(" at", " to")
            )
        } else {
            format!("are answered with receive windows of {}", windows.fixed)
        })
    }
}

fn limit(rate: Rate) -> String {
    if rate == Rate::default() {
        String::from(" without a limit")
    } else {
        format!(" at {rate}")
    }
}

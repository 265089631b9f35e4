// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive-window control: the receiving side limits the rate of TCP senders.

use super::measured::{Measured, SparedMark};
use super::program::{Clause, HookProgram, ProgramRow, egress, ingress};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use weirgate_units::{Handle, Rate, Size, Span};

/// How receive windows are chosen (`aqm/include/window.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WindowAlgorithm {
    /// The right edge of the window advances at the rate.
    #[default]
    Edge,
    /// Shah's algorithm 1: steps of 256 bytes if the window is small.
    Steps,
    /// Shah's algorithm 2: steps of one segment, and never less than one.
    Segments,
}

/// Two programs at a device's `clsact` qdisc: they measure arriving data, and write the receive
/// windows of departing segments (`bpf/inbound/window.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "whom and what windows hold, each by itself"
)]
pub struct Windows {
    /// The total rate of all connections without a class rate, in TCP payload; 0 for no limit.
    pub rate: Rate,
    /// How windows are chosen.
    pub algorithm: WindowAlgorithm,
    /// A fixed window; 0 bytes for none.
    pub fixed: Size,
    /// The most that is offered, and the most credit or debt, as a time at the rate.
    pub horizon: Span,
    /// How long an acknowledgement is delayed at most, by `fq`.
    pub hold: Span,
    /// The window that is offered before any data has arrived; 0 bytes for the receiver's own.
    #[serde(default)]
    pub initial: Size,
    /// The largest window of any connection; 0 bytes for no limit.
    #[serde(default)]
    pub limit: Size,
    /// How the rate is measured.
    pub measured: Measured,
    /// The connections that are exempt.
    pub spared: SparedMark,
    /// The class of pure ACKs, which says nothing about their connection; 0:0 for none.
    pub acknowledgements: Handle,
    /// The rates of classes, each shared by the class's connections; 0 for no limit. A connection
    /// has the class of what it sends.
    pub classes: Vec<(Handle, Rate)>,
    /// While a session is announced: the maximum segment size that new connections request, in
    /// bytes; 0 to leave it unchanged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub announced_segment: u16,
    /// While a session is announced: whether older connections that have received much data are
    /// reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced_resets: bool,
    /// The round trip that is assumed for hosts without a measured one. New connections request
    /// segments of what they may receive in a round trip. 0 leaves the requested segment size
    /// unchanged.
    #[serde(default, skip_serializing_if = "is_never")]
    pub round_trip: Span,
    /// Whether a rate is shared by inside hosts, and the share of a host by its connections.
    /// Otherwise it is shared by connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hosts: bool,
    /// Whether traffic that no window limits (datagrams and unknown connections) reduces the rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
    /// Whether senders of L4S are limited too; otherwise they are exempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub l4s: bool,
}

/// Omits the default value from stored states.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes what it may leave out by reference"
)]
const fn is_zero(segment: &u16) -> bool {
    *segment == 0
}

/// Omits the default value, as [`is_zero`] does.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes what it may leave out by reference"
)]
const fn is_never(time: &Span) -> bool {
    time.as_nanos() == 0
}

impl Windows {
    /// Returns whether announced sessions change anything.
    #[must_use]
    pub const fn heeds_announcements(&self) -> bool {
        self.announced_segment != 0 || self.announced_resets
    }
}

impl HookProgram for Windows {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "window",
        // Before the filter that may drop packets, because dropped packets have crossed the line
        // too. If they were not counted, windows would open wider the more is dropped.
        preference: 89,
        filters: &[
            ingress("window_in", "weirgate-window-in-"),
            egress("window_out", "weirgate-window-out-"),
        ],
        // It looks up the inside host in conntrack.
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

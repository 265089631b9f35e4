// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that limits the rate of datagram streams, by a state machine or a token bucket.

use super::measured::{Measured, SparedMark};
use super::program::{Clause, HookProgram, ProgramRow, ingress};
use serde::{Deserialize, Serialize};
use weirgate_units::{Rate, Size, Span};

/// UDP's protocol number.
pub const UDP: u8 = 17;

/// A filter of arriving packets that limits the rate of each datagram stream
/// (`bpf/inbound/udp.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Datagrams {
    /// The rate of each stream, in IP packets.
    pub rate: Rate,
    /// Whether a token bucket is used, and not the state machine.
    pub bucket: bool,
    /// The size of the token bucket.
    pub burst: Size,
    /// How long a stream above the rate is dropped.
    pub drop: Span,
    /// How long it is then delivered before it is judged.
    pub warn: Span,
    /// How the rate is measured.
    pub measured: Measured,
    /// The bits that are set in the mark of packets that the firewall should refuse.
    pub refuse: u32,
    /// The streams that are exempt.
    pub spared: SparedMark,
}

impl HookProgram for Datagrams {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "udp",
        // After the virtual queue, which has to count what this filter drops.
        preference: 91,
        filters: &[ingress("udp_states", "weirgate-udp-")],
        ..ProgramRow::DEFAULT
    };

    fn text(own: &Self) -> String {
        let how = if own.bucket {
            format!("a bucket of {}", own.burst)
        } else {
            format!(
                "states, drop {} warn {} refused with {:#010x}",
                own.drop, own.warn, own.refuse
            )
        };
        format!(
            "streams of datagrams at {} each by {how}{}{}",
            own.rate, own.measured, own.spared
        )
    }

    fn clause(own: &Self) -> Clause {
        let refused = if own.bucket {
            ""
        } else {
            ", in the end refused,"
        };
        Clause::Arriving(format!(
            "are dropped{refused} where a stream of datagrams is above {}",
            own.rate
        ))
    }
}

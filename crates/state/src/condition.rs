// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What gives packets a colour where they enter a device or leave it, and
//! acts on each colour as configured.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use weirgate_units::{Dscp, Handle, Rate, Size, Span};

/// A program at a device's `clsact` qdisc, for what enters or for what leaves
/// (`bpf/inbound/condition.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conditioning {
    /// The conditioners; the first whose packets they are conditions them.
    pub conditioners: Vec<Conditioner>,
}

/// One conditioner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditioner {
    /// Its name, by which it is counted.
    pub name: String,
    /// The classes that it is about; none is all.
    pub classes: Vec<Handle>,
    /// Whose packets it is about, as networks; none is everybody's.
    pub source: Vec<(IpAddr, u8)>,
    /// For whom.
    pub destination: Vec<(IpAddr, u8)>,
    /// Protocols that packets carry, in ascending order; none is all.
    #[serde(default)]
    pub protocols: Vec<u8>,
    /// Ports from..=to that they come from; none is all.
    #[serde(default)]
    pub source_ports: Vec<(u16, u16)>,
    /// Ports that they go to.
    #[serde(default)]
    pub destination_ports: Vec<(u16, u16)>,
    /// The code points that it is about, a bit for each value.
    pub codes: u64,
    /// What it measures by; `None` takes every packet as green.
    pub meter: Option<ColourMeter>,
    /// What a smaller packet is measured as, in IP bytes: the minimum policed
    /// unit (RFC 2215 section 3.6). 0 measures every packet as it is.
    #[serde(default)]
    pub smallest: u32,
    /// Whether the colours that code points bring count.
    pub aware: bool,
    /// Code points that bring yellow and those that bring red, a bit for each;
    /// others bring green.
    pub brings: [u64; 2],
    /// What is done with green, yellow and red packets.
    pub actions: [ColourAction; 3],
}

/// A meter; rates and sizes are of IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColourMeter {
    /// One rate and one burst: green or red (RFC 3290 section 5.1.3).
    Bucket {
        /// The rate.
        rate: Rate,
        /// What may come at once.
        burst: Size,
    },
    /// The single rate three colour marker (RFC 2697).
    SingleRate {
        /// CIR.
        rate: Rate,
        /// CBS.
        burst: Size,
        /// EBS.
        excess: Size,
    },
    /// The two rate three colour marker (RFC 2698).
    TwoRate {
        /// CIR.
        rate: Rate,
        /// CBS.
        burst: Size,
        /// PIR.
        peak: Rate,
        /// PBS.
        peak_burst: Size,
    },
    /// A rate's bytes in each interval (RFC 3290 section 5.1.1).
    Average {
        /// The rate.
        rate: Rate,
        /// The interval.
        interval: Span,
    },
    /// An exponential average of what is offered (RFC 3290 section 5.1.2).
    Moving {
        /// The rate.
        rate: Rate,
        /// The interval.
        interval: Span,
        /// The gain, in 2^-32.
        gain: u64,
    },
}

/// What is done with packets of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ColourAction {
    /// Nothing.
    #[default]
    Pass,
    /// They get another code point.
    Mark(Dscp),
    /// They end here.
    Drop,
}

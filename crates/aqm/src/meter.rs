// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meters of `aqm/include/conditioner.h`, built for this machine: what a traffic
//! conditioner asks for the colour of a packet (RFC 3290 section 5).

use std::fmt;

/// The fastest rate of a meter, 100 Gbit/s (`METER_MOST_BYTES_S`).
const MOST_RATE: u64 = 12_500_000_000;
/// The largest burst (`METER_MOST_BURST`).
const MOST_BURST: u64 = (1 << 29) - 1;
/// The longest interval: what a rate brings in one has to fit in 47 bits.
const MOST_INTERVAL: u64 = 1_000_000_000_000;
/// One as a ratio (`AQM_ONE`).
const ONE: u64 = 1 << 32;

/// What a meter says of a packet, in the order of what is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Colour {
    /// Within the committed rate and burst.
    Green,
    /// Beyond it, within the excess burst or the peak rate.
    Yellow,
    /// Beyond everything.
    Red,
}

/// How a meter measures. Rates are in bytes a second, from 1 to 100 Gbit/s;
/// bursts in bytes, less than 2^29.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterKind {
    /// One token bucket: green within rate and burst, else red (RFC 3290
    /// section 5.1.3).
    Bucket {
        /// How fast tokens come.
        rate: u64,
        /// How many the bucket holds.
        burst: u64,
    },
    /// The single rate three colour marker of RFC 2697.
    SingleRate {
        /// CIR.
        rate: u64,
        /// CBS.
        burst: u64,
        /// EBS.
        excess: u64,
    },
    /// The two rate three colour marker of RFC 2698.
    TwoRate {
        /// CIR.
        rate: u64,
        /// CBS.
        burst: u64,
        /// PIR, at least the CIR.
        peak: u64,
        /// PBS.
        peak_burst: u64,
    },
    /// At most a rate's bytes in each interval (RFC 3290 section 5.1.1).
    Average {
        /// The rate.
        rate: u64,
        /// Delta in nanoseconds, up to 1000 s.
        interval: u64,
    },
    /// An exponentially weighted moving average of what is offered (RFC 3290
    /// section 5.1.2).
    Moving {
        /// The rate.
        rate: u64,
        /// Delta in nanoseconds, up to 1000 s.
        interval: u64,
        /// Gain in 2^-32, above 0 and at most 2^32.
        gain: u64,
    },
}

/// A figure of a meter that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterError {
    what: &'static str,
    value: u64,
    least: u64,
    most: u64,
}

impl fmt::Display for MeterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            value,
            least,
            most,
        } = self;
        write!(f, "{what} is {value}; it may be {least} to {most}")
    }
}

impl std::error::Error for MeterError {}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Params {
    rate: u64,
    burst: u64,
    peak: u64,
    excess: u64,
    interval: u64,
    gain: u64,
    kind: u32,
    aware: u32,
}

/// `struct meter_vars`: its owner is C.
type Vars = [u64; 8];

unsafe extern "C" {
    fn meter_native_colour(
        vars: *mut Vars,
        params: *const Params,
        bytes: u32,
        colour: u32,
        now_ns: u64,
    ) -> u32;
}

impl MeterKind {
    /// Bytes of [`MeterKind::encode`].
    pub const BYTES: usize = size_of::<Params>();

    /// `struct meter_params`, as a program for the kernel takes it.
    pub fn encode(self, aware: bool) -> Result<Vec<u8>, MeterError> {
        let params = self.params(aware)?;
        let words = [
            params.rate,
            params.burst,
            params.peak,
            params.excess,
            params.interval,
            params.gain,
        ];
        let mut bytes = words.map(u64::to_ne_bytes).as_flattened().to_vec();
        bytes.extend(
            [params.kind, params.aware]
                .map(u32::to_ne_bytes)
                .as_flattened(),
        );
        Ok(bytes)
    }

    /// What such bytes say, and whether the meter is colour-aware; `None` where
    /// none of this kind made them.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, bool)> {
        let bytes = bytes.get(..Self::BYTES)?;
        let word = |index: usize| {
            let own = bytes.get(8 * index..).and_then(<[u8]>::first_chunk);
            u64::from_ne_bytes(own.copied().unwrap_or_default())
        };
        let half = |at: usize| {
            let own = bytes.get(at..).and_then(<[u8]>::first_chunk);
            u32::from_ne_bytes(own.copied().unwrap_or_default())
        };
        let (rate, burst, interval) = (word(0), word(1), word(4));
        let kind = match half(48) {
            0 => Self::Bucket { rate, burst },
            1 => Self::SingleRate {
                rate,
                burst,
                excess: word(3),
            },
            2 => Self::TwoRate {
                rate,
                burst,
                peak: word(2),
                peak_burst: word(3),
            },
            3 => Self::Average { rate, interval },
            4 => Self::Moving {
                rate,
                interval,
                gain: word(5),
            },
            _ => return None,
        };
        Some((kind, half(52) != 0))
    }

    fn params(self, aware: bool) -> Result<Params, MeterError> {
        let mut params = Params {
            aware: aware.into(),
            ..Params::default()
        };
        match self {
            Self::Bucket { rate, burst } => {
                params.rate = rate;
                params.burst = within("burst", burst, 0, MOST_BURST)?;
            }
            Self::SingleRate {
                rate,
                burst,
                excess,
            } => {
                params.kind = 1;
                params.rate = rate;
                params.burst = within("committed burst", burst, 0, MOST_BURST)?;
                params.excess = within("excess burst", excess, 0, MOST_BURST)?;
                // RFC 2697 section 1: one of them must be larger than 0.
                within("the larger burst", burst.max(excess), 1, MOST_BURST)?;
            }
            Self::TwoRate {
                rate,
                burst,
                peak,
                peak_burst,
            } => {
                params.kind = 2;
                params.rate = rate;
                // RFC 2698 section 1: both larger than 0, PIR >= CIR.
                params.burst = within("committed burst", burst, 1, MOST_BURST)?;
                params.peak = within("peak rate", peak, rate, MOST_RATE)?;
                params.excess = within("peak burst", peak_burst, 1, MOST_BURST)?;
            }
            Self::Average { rate, interval } => {
                params.kind = 3;
                params.rate = rate;
                params.interval = within("interval", interval, 1, MOST_INTERVAL)?;
            }
            Self::Moving {
                rate,
                interval,
                gain,
            } => {
                params.kind = 4;
                params.rate = rate;
                params.interval = within("interval", interval, 1, MOST_INTERVAL)?;
                params.gain = within("gain", gain, 1, ONE)?;
            }
        }
        within("rate", params.rate, 1, MOST_RATE)?;
        Ok(params)
    }
}

/// One meter and its state. It is full when its first packet comes.
#[derive(Debug, Clone)]
pub struct Meter {
    params: Params,
    vars: Vars,
}

impl Meter {
    /// A colour-blind one, or one that heeds the colours packets bring.
    pub fn new(kind: MeterKind, aware: bool) -> Result<Self, MeterError> {
        Ok(Self {
            params: kind.params(aware)?,
            vars: Vars::default(),
        })
    }

    /// The colour of an IP packet of so many bytes at a time in nanoseconds;
    /// it brings a colour, which a colour-blind meter does not look at. A time
    /// before the last packet's counts as the last packet's.
    pub fn colour(&mut self, bytes: u32, brings: Colour, now_ns: u64) -> Colour {
        // SAFETY: both structures are C's own in size (a test compares them)
        // and stay where they are while the function runs.
        let colour = unsafe {
            meter_native_colour(
                &raw mut self.vars,
                &raw const self.params,
                bytes,
                brings as u32,
                now_ns,
            )
        };
        match colour {
            0 => Colour::Green,
            1 => Colour::Yellow,
            _ => Colour::Red,
        }
    }
}

fn within(what: &'static str, value: u64, least: u64, most: u64) -> Result<u64, MeterError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(MeterError {
        what,
        value,
        least,
        most,
    })
}

#[cfg(test)]
mod tests {
    use super::{MeterKind, Params, Vars};

    #[test]
    fn bytes_say_what_was_meant() {
        let (rate, burst, interval) = (1_000, 3_000, 1_000_000);
        for kind in [
            MeterKind::Bucket { rate, burst },
            MeterKind::SingleRate {
                rate,
                burst,
                excess: 4_000,
            },
            MeterKind::TwoRate {
                rate,
                burst,
                peak: 2_000,
                peak_burst: 5_000,
            },
            MeterKind::Average { rate, interval },
            MeterKind::Moving {
                rate,
                interval,
                gain: 1 << 30,
            },
        ] {
            for aware in [false, true] {
                let bytes = kind.encode(aware);
                let back = bytes.ok().and_then(|bytes| MeterKind::decode(&bytes));
                assert_eq!(back, Some((kind, aware)));
            }
        }
        assert_eq!(MeterKind::decode(&[0; 55]), None);
        assert_eq!(MeterKind::decode(&[9; 56]), None);
    }

    unsafe extern "C" {
        static meter_layout: [u32; 2];
    }

    #[test]
    fn both_structures_have_the_size_that_c_gives_them() {
        // SAFETY: C defines two constant numbers of that name.
        let theirs = unsafe { meter_layout };
        assert_eq!(
            [size_of::<Params>(), size_of::<Vars>()].map(|n| n as u32),
            theirs
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meters of `aqm/include/conditioner.h`, compiled for this machine. They tell a traffic
//! conditioner the colour of each packet (RFC 3290 section 5).

use std::fmt;

/// The fastest rate of a meter, 100 Gbit/s (`METER_MOST_BYTES_S`).
const MOST_RATE: u64 = 12_500_000_000;
/// The largest burst (`METER_MOST_BURST`).
const MOST_BURST: u64 = (1 << 29) - 1;
/// The longest interval: the bytes of a rate in one interval must fit in 47 bits.
const MOST_INTERVAL: u64 = 1_000_000_000_000;
/// The ratio 1 in fixed point (`AQM_ONE`).
const ONE: u64 = 1 << 32;

/// A meter's verdict on a packet, from the best colour to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Colour {
    /// Within the committed rate and burst.
    Green,
    /// Beyond it, within the excess burst or the peak rate.
    Yellow,
    /// Beyond all of these.
    Red,
}

/// How a meter measures. Rates are in bytes a second, up to 100 Gbit/s; bursts are in bytes,
/// below 2^29.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterKind {
    /// One token bucket: green within rate and burst, else red (RFC 3290
    /// section 5.1.3).
    Bucket {
        /// The rate of tokens.
        rate: u64,
        /// The depth of the bucket.
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
    /// At most the bytes of a rate in each interval (RFC 3290 section 5.1.1).
    Average {
        /// The rate.
        rate: u64,
        /// Delta in nanoseconds, up to 1000 s.
        interval: u64,
    },
    /// An exponentially weighted moving average of the offered traffic (RFC 3290 section 5.1.2).
    Moving {
        /// The rate.
        rate: u64,
        /// Delta in nanoseconds, up to 1000 s.
        interval: u64,
        /// The gain in units of 2^-32, above 0 and at most 2^32.
        gain: u64,
    },
}

/// A parameter of a meter that is out of range.
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

/// The parameters as `struct meter_params` (`aqm/include/conditioner.h`), which documents the
/// fields.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "C documents them")]
pub struct MeterParams {
    pub rate: u64,
    pub burst: u64,
    pub peak: u64,
    pub excess: u64,
    pub interval: u64,
    pub gain: u64,
    pub kind: u32,
    pub aware: u32,
}

/// `struct meter_vars`, which only C reads.
type Vars = [u64; 8];

unsafe extern "C" {
    fn meter_native_colour(
        vars: *mut Vars,
        params: *const MeterParams,
        bytes: u32,
        colour: u32,
        now_ns: u64,
    ) -> u32;
}

impl MeterParams {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if one is out of range.
    pub fn check(&self) -> Result<(), MeterError> {
        within("rate", self.rate, 1, MOST_RATE)?;
        match self.kind {
            0 => within("burst", self.burst, 0, MOST_BURST),
            1 => {
                within("committed burst", self.burst, 0, MOST_BURST)?;
                within("excess burst", self.excess, 0, MOST_BURST)?;
                // RFC 2697 section 1: one of them must be larger than 0.
                let larger = self.burst.max(self.excess);
                within("the larger burst", larger, 1, MOST_BURST)
            }
            2 => {
                // RFC 2698 section 1: both larger than 0, PIR >= CIR.
                within("committed burst", self.burst, 1, MOST_BURST)?;
                within("peak rate", self.peak, self.rate, MOST_RATE)?;
                within("peak burst", self.excess, 1, MOST_BURST)
            }
            3 => within("interval", self.interval, 1, MOST_INTERVAL),
            4 => {
                within("interval", self.interval, 1, MOST_INTERVAL)?;
                within("gain", self.gain, 1, ONE)
            }
            kind => within("kind", kind.into(), 0, 4),
        }
    }

    fn of(kind: MeterKind, aware: bool) -> Self {
        let mut params = Self {
            aware: aware.into(),
            ..Self::default()
        };
        (params.kind, params.rate) = match kind {
            MeterKind::Bucket { rate, burst } => {
                params.burst = burst;
                (0, rate)
            }
            MeterKind::SingleRate {
                rate,
                burst,
                excess,
            } => {
                (params.burst, params.excess) = (burst, excess);
                (1, rate)
            }
            MeterKind::TwoRate {
                rate,
                burst,
                peak,
                peak_burst,
            } => {
                (params.burst, params.peak, params.excess) = (burst, peak, peak_burst);
                (2, rate)
            }
            MeterKind::Average { rate, interval } => {
                params.interval = interval;
                (3, rate)
            }
            MeterKind::Moving {
                rate,
                interval,
                gain,
            } => {
                (params.interval, params.gain) = (interval, gain);
                (4, rate)
            }
        };
        params
    }
}

/// A meter and its state. Its buckets are full when the first packet arrives.
#[derive(Debug, Clone)]
pub struct Meter {
    params: MeterParams,
    vars: Vars,
}

impl Meter {
    /// Makes a meter, which is colour-aware if `aware` is set and otherwise colour-blind.
    pub fn new(kind: MeterKind, aware: bool) -> Result<Self, MeterError> {
        let params = MeterParams::of(kind, aware);
        params.check()?;
        Ok(Self {
            params,
            vars: Vars::default(),
        })
    }

    /// Returns the colour of an IP packet of `bytes`. `brings` is its earlier colour, which a
    /// colour-blind meter ignores. A time before that of the last packet counts as that time.
    pub fn colour(&mut self, bytes: u32, brings: Colour, now_ns: u64) -> Colour {
        // SAFETY: both structures have the size that C expects (a test compares them), and do
        // not move during the call.
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

fn within(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), MeterError> {
    if (least..=most).contains(&value) {
        return Ok(());
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
    use super::{MeterParams, Vars};

    unsafe extern "C" {
        static meter_layout: [u32; 2];
    }

    #[test]
    fn both_structures_have_the_size_that_c_gives_them() {
        // SAFETY: C defines this array of two constants.
        let theirs = unsafe { meter_layout };
        assert_eq!(
            [size_of::<MeterParams>(), size_of::<Vars>()].map(|n| n as u32),
            theirs
        );
    }
}

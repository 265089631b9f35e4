// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meters as their RFCs word them: tokens arrive one by one, at the instants k/rate, and
//! buckets take one at a time. The code only counts, and shares nothing with the code under test.

use weirgate_aqm::{Colour, MeterKind};

const NS: u128 = 1_000_000_000;

/// Returns the tokens that have arrived by a time at `rate` tokens a second: the k-th arrives at
/// k/rate.
fn come(rate: u64, ns: u64) -> u128 {
    u128::from(ns) * u128::from(rate) / NS
}

/// A meter as its RFC words it: the code only counts.
pub struct Definition {
    kind: MeterKind,
    aware: bool,
    begin: Option<u64>,
    committed: u128,
    peak: u128,
    tc: u64,
    te: u64,
}

impl Definition {
    /// Returns a meter of this kind, before its first packet.
    pub fn new(kind: MeterKind, aware: bool) -> Self {
        Self {
            kind,
            aware,
            begin: None,
            committed: 0,
            peak: 0,
            tc: 0,
            te: 0,
        }
    }

    /// Returns the colour at a time of a packet of `bytes` bytes that arrives with the colour
    /// `brings`.
    pub fn colour(&mut self, bytes: u32, brings: Colour, now: u64) -> Colour {
        let bytes = u64::from(bytes);
        let begin = *self.begin.get_or_insert_with(|| {
            (self.tc, self.te) = match self.kind {
                MeterKind::SingleRate { burst, excess, .. } => (burst, excess),
                MeterKind::TwoRate {
                    burst, peak_burst, ..
                } => (burst, peak_burst),
                MeterKind::Bucket { burst, .. } => (burst, 0),
                MeterKind::Average { .. } => (0, 0),
                MeterKind::Moving { .. } => unreachable!("an average has no definition in bits"),
            };
            now
        });
        let brings = if self.aware { brings } else { Colour::Green };
        let since = now - begin;
        match self.kind {
            MeterKind::SingleRate {
                rate,
                burst,
                excess,
            } => {
                // RFC 2697 section 3: CIR times a second, Tc by one if less
                // than CBS, else Te by one if less than EBS, else neither.
                for _ in self.committed..come(rate, since) {
                    if self.tc < burst {
                        self.tc += 1;
                    } else if self.te < excess {
                        self.te += 1;
                    } else {
                        break;
                    }
                }
                self.committed = come(rate, since);
                if brings == Colour::Green && self.tc >= bytes {
                    self.tc -= bytes;
                    Colour::Green
                } else if brings != Colour::Red && self.te >= bytes {
                    self.te -= bytes;
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            MeterKind::TwoRate {
                rate,
                burst,
                peak,
                peak_burst,
            } => {
                for _ in self.committed..come(rate, since) {
                    if self.tc == burst {
                        break;
                    }
                    self.tc += 1;
                }
                for _ in self.peak..come(peak, since) {
                    if self.te == peak_burst {
                        break;
                    }
                    self.te += 1;
                }
                self.committed = come(rate, since);
                self.peak = come(peak, since);
                // RFC 2698 section 3: "Tp(t)-B < 0" is red, else "Tc(t)-B < 0"
                // is yellow and takes from Tp, else green and takes from both.
                if brings == Colour::Red || self.te < bytes {
                    Colour::Red
                } else if brings == Colour::Yellow || self.tc < bytes {
                    self.te -= bytes;
                    Colour::Yellow
                } else {
                    self.te -= bytes;
                    self.tc -= bytes;
                    Colour::Green
                }
            }
            MeterKind::Bucket { rate, burst } => {
                for _ in self.committed..come(rate, since) {
                    if self.tc == burst {
                        break;
                    }
                    self.tc += 1;
                }
                self.committed = come(rate, since);
                if brings != Colour::Red && self.tc >= bytes {
                    self.tc -= bytes;
                    brings
                } else {
                    Colour::Red
                }
            }
            MeterKind::Average { rate, interval } => {
                self.average(come(rate, interval), since / interval, bytes, brings)
            }
            MeterKind::Moving { .. } => unreachable!("an average has no definition in bits"),
        }
    }

    /// RFC 3290 section 5.1.1: counts the bytes of each interval separately, without those that do
    /// not conform.
    fn average(&mut self, allowed: u128, number: u64, bytes: u64, brings: Colour) -> Colour {
        if number != self.te {
            (self.te, self.tc) = (number, 0);
        }
        if brings == Colour::Red || u128::from(self.tc + bytes) > allowed {
            return Colour::Red;
        }
        self.tc += bytes;
        brings
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control loop of cake-autorate, reimplemented from its documentation.
//!
//! The source is the documentation of <https://github.com/lynxthecat/cake-autorate> at version
//! 3.5.0, not the program itself. `README.md` describes the algorithm. `defaults.sh` has every
//! constant; each constant here names its own there. `CHANGELOG.md` lists changes of the
//! algorithm. Issues and forum posts are cited where they are used. The caller passes the time
//! with each call.
//!
//! Parts are omitted that change no rate by default or need more than one reflector:
//!
//! - choosing, comparing and replacing reflectors: all six pingers ask one node, and each has a
//!   baseline of its own as six reflectors have;
//! - one-way delays: `fping`, the default, knows round trips, half of which each way takes;
//! - `min_shaper_rates_enforcement`, which is off: with it rates fall to the least when nothing
//!   passes or nobody answers; `global_ping_response_timeout_s` needs it;
//! - the wait for devices, the start-up wait, and the logs;
//! - the stretching of `monitor_achieved_rates_interval_ms` on slow lines, whose formula no text
//!   states.
//!
//! Where the texts leave a choice, this implementation decides: A baseline begins at the first
//! reply. A rate increase waits for the bufferbloat refractory period, as a decrease does, since
//! `README.md` says that no further change is made in it. A decay waits only for its own
//! refractory period.

/// `no_pingers`.
pub const PINGERS: usize = 6;
/// Interval between two echo requests: `reflector_ping_interval_s` of 0.3 s, divided by the
/// pingers.
pub const PING_NS: u64 = 300_000_000 / PINGERS as u64;
/// `monitor_achieved_rates_interval_ms`.
pub const LOAD_NS: u64 = 200_000_000;

/// `alpha_baseline_increase`.
const BASELINE_UP: f64 = 0.001;
/// `alpha_baseline_decrease`.
const BASELINE_DOWN: f64 = 0.9;
/// `alpha_delta_ewma`.
const DELTA_SHARE: f64 = 0.095;

/// `bufferbloat_detection_window`.
const WINDOW: usize = 6;
/// `bufferbloat_detection_thr`.
const DELAYED: usize = 3;
/// `dl_owd_delta_delay_thr_ms`, `ul_owd_delta_delay_thr_ms`.
const DELAY_MS: f64 = 30.0;
/// `dl_avg_owd_delta_max_adjust_up_thr_ms`, and its `ul` equivalent.
const UP_MS: f64 = 10.0;
/// `dl_avg_owd_delta_max_adjust_down_thr_ms`, and its `ul` equivalent.
const DOWN_MS: f64 = 60.0;

/// `shaper_rate_min_adjust_down_bufferbloat` and `shaper_rate_max_adjust_down_bufferbloat`.
const BLOAT: (f64, f64) = (0.99, 0.75);
/// `shaper_rate_max_adjust_up_load_high` and `shaper_rate_min_adjust_up_load_high`.
const HIGH: (f64, f64) = (1.04, 1.0);
/// `shaper_rate_adjust_down_load_low`.
const LOW_DOWN: f64 = 0.99;
/// `shaper_rate_adjust_up_load_low`.
const LOW_UP: f64 = 1.01;
/// `high_load_thr`.
const HIGH_LOAD: f64 = 0.75;
/// `bufferbloat_refractory_period_ms`.
const BLOAT_NS: u64 = 300_000_000;
/// `decay_refractory_period_ms`.
const DECAY_NS: u64 = 1_000_000_000;

/// `connection_active_thr_kbps`. If a lowest rate is below it, that rate is used instead:
/// cake-autorate refuses to start in this case (its pull request 272).
const ACTIVE_KBIT: f64 = 2_000.0;
/// `sustained_idle_sleep_thr_s`.
const SLEEP_NS: u64 = 60_000_000_000;
/// `stall_detection_thr`, in intervals between echo requests.
const STALL_NS: u64 = 5 * PING_NS;
/// `connection_stall_thr_kbps`.
const STALL_KBIT: f64 = 10.0;

/// The rates of one direction, in kbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// `min_dl_shaper_rate_kbps`, or its `ul` equivalent.
    pub least: f64,
    /// `base_dl_shaper_rate_kbps`.
    pub base: f64,
    /// `max_dl_shaper_rate_kbps`.
    pub most: f64,
}

/// Why a rate changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Replies were late: bufferbloat.
    Bloat,
    /// The load is high, and replies are not late.
    High,
    /// The load is low: the rate returns towards the base rate.
    Low,
}

/// A change of one direction's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// 0 upstream, 1 downstream.
    pub direction: usize,
    /// The new rate in kbit/s.
    pub kbit: f64,
    /// The reason.
    pub why: Why,
    /// The load: achieved rate over the shaper rate before the change.
    pub load: f64,
    /// Mean delay of the replies in the window above the baseline, in milliseconds.
    pub late_ms: f64,
    /// Moving average of the delay of the last pinger's replies without load, above the
    /// baseline. cake-autorate compares reflectors by it; here it is only recorded.
    pub quiet_ms: f64,
}

/// The control loop for both directions.
#[derive(Debug)]
pub struct Controller {
    sides: [Option<Side>; 2],
    pingers: [Pinger; PINGERS],
    /// Length of the largest packet on the wire in bits.
    packet_bits: f64,
    active_kbit: f64,
    /// The pinger of the last reply.
    last: usize,
    answered_ns: u64,
    /// Since when no direction is active.
    idle_since_ns: Option<u64>,
    asleep: bool,
}

#[derive(Debug)]
struct Side {
    limits: Limits,
    kbit: f64,
    load: f64,
    /// Delays of the last replies above the baseline in milliseconds, and whether each exceeded
    /// the threshold.
    window: [(f64, bool); WINDOW],
    next: usize,
    bloat_ns: Option<u64>,
    decay_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pinger {
    baseline_ms: Option<f64>,
    quiet_ms: f64,
}

impl Controller {
    /// Returns a controller that starts at the base rates. `limits` are for upstream and
    /// downstream; a direction without limits is not changed. `packet_bits` is the length of the
    /// largest packet on the wire.
    pub fn new(limits: [Option<Limits>; 2], packet_bits: f64) -> Self {
        let least = limits.iter().flatten().map(|one| one.least);
        Self {
            sides: limits.map(|one| one.map(Side::new)),
            pingers: [Pinger::default(); PINGERS],
            packet_bits,
            active_kbit: least.fold(ACTIVE_KBIT, f64::min),
            last: 0,
            answered_ns: 0,
            idle_since_ns: None,
            asleep: false,
        }
    }

    /// Returns whether echo requests are sent. They stop after a minute of low traffic.
    pub fn asks(&self) -> bool {
        !self.asleep
    }

    /// Handles a reply to a pinger, with its round-trip time in nanoseconds.
    pub fn answer(&mut self, at_ns: u64, pinger: usize, round_trip_ns: u64) -> Vec<Change> {
        self.answered_ns = at_ns;
        if self.asleep {
            return Vec::new();
        }
        self.last = pinger % PINGERS;
        let one_way_ms = round_trip_ns as f64 / 2e6;
        let loaded = self
            .sides
            .iter()
            .flatten()
            .any(|side| side.load > HIGH_LOAD);
        let Some(pinger) = self.pingers.get_mut(self.last) else {
            return Vec::new();
        };
        let late_ms = pinger.late_ms(one_way_ms, !loaded);
        let packet_bits = self.packet_bits;
        self.each(|side| {
            let packet_ms = packet_bits / side.kbit;
            side.note(late_ms, packet_ms);
            side.fall(at_ns, packet_ms)
        })
    }

    /// Handles the achieved rates since the last call, upstream and downstream, in kbit/s.
    pub fn load(&mut self, at_ns: u64, achieved_kbit: [f64; 2]) -> Vec<Change> {
        for (side, achieved) in self.sides.iter_mut().zip(achieved_kbit) {
            if let Some(side) = side {
                side.load = achieved / side.kbit;
            }
        }
        self.sleep_or_wake(at_ns, achieved_kbit);
        let silent = at_ns.saturating_sub(self.answered_ns) > STALL_NS;
        let stands = achieved_kbit.iter().any(|&kbit| kbit < STALL_KBIT);
        if self.asleep || (silent && stands) {
            return Vec::new();
        }
        let packet_bits = self.packet_bits;
        self.each(|side| side.rise_or_decay(at_ns, packet_bits / side.kbit))
    }

    fn sleep_or_wake(&mut self, at_ns: u64, achieved_kbit: [f64; 2]) {
        if achieved_kbit.iter().any(|&kbit| kbit >= self.active_kbit) {
            if self.asleep {
                self.answered_ns = at_ns;
            }
            self.idle_since_ns = None;
            self.asleep = false;
        } else {
            let since_ns = *self.idle_since_ns.get_or_insert(at_ns);
            self.asleep |= at_ns.saturating_sub(since_ns) >= SLEEP_NS;
        }
    }

    /// Decides the rate of each direction, and returns the changes.
    fn each(&mut self, mut decide: impl FnMut(&mut Side) -> Option<(f64, Why)>) -> Vec<Change> {
        let quiet_ms = self.pingers[self.last].quiet_ms;
        let mut changes = Vec::new();
        for (direction, side) in self.sides.iter_mut().enumerate() {
            let Some(side) = side else { continue };
            let Some((kbit, why)) = decide(side) else {
                continue;
            };
            let kbit = kbit.clamp(side.limits.least, side.limits.most);
            // A rate at its limit stays equal bit for bit.
            if kbit.to_bits() == side.kbit.to_bits() {
                continue;
            }
            side.kbit = kbit;
            changes.push(Change {
                direction,
                kbit,
                why,
                load: side.load,
                late_ms: side.late_ms(),
                quiet_ms,
            });
        }
        changes
    }
}

impl Side {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            kbit: limits.base,
            load: 0.0,
            window: [(0.0, false); WINDOW],
            next: 0,
            bloat_ns: None,
            decay_ns: None,
        }
    }

    /// Adds a reply to the window. Thresholds increase by the transmission time of a packet at
    /// the current rate. With 1500 bytes, the log in cake-autorate's issue 192 shows 30.24 ms at
    /// 50 Mbit/s and 32.4 ms at 5 Mbit/s.
    fn note(&mut self, late_ms: f64, packet_ms: f64) {
        self.window[self.next] = (late_ms, late_ms > DELAY_MS + packet_ms);
        self.next = (self.next + 1) % WINDOW;
    }

    fn late_ms(&self) -> f64 {
        self.window.iter().map(|one| one.0).sum::<f64>() / WINDOW as f64
    }

    fn is_bloated(&self) -> bool {
        self.window.iter().filter(|one| one.1).count() >= DELAYED
    }

    /// Lowers the rate if replies are late, at any load (cake-autorate's thread in OpenWrt's
    /// forum, 135379, page 165).
    fn fall(&mut self, at_ns: u64, packet_ms: f64) -> Option<(f64, Why)> {
        if !self.is_bloated() || is_within(BLOAT_NS, self.bloat_ns, at_ns) {
            return None;
        }
        self.bloat_ns = Some(at_ns);
        let factor = between(self.late_ms() - packet_ms, (DELAY_MS, DOWN_MS), BLOAT);
        Some((self.kbit * factor, Why::Bloat))
    }

    /// Raises the rate or lets it decay. A rate rises only when the load is measured (change
    /// log, 3.2.0), and less if replies get closer to being late (3.3.0).
    fn rise_or_decay(&mut self, at_ns: u64, packet_ms: f64) -> Option<(f64, Why)> {
        if self.is_bloated() {
            return None;
        }
        if self.load > HIGH_LOAD {
            if is_within(BLOAT_NS, self.bloat_ns, at_ns) {
                return None;
            }
            let factor = between(self.late_ms() - packet_ms, (UP_MS, DELAY_MS), HIGH);
            return Some((self.kbit * factor, Why::High));
        }
        if is_within(DECAY_NS, self.decay_ns, at_ns) {
            return None;
        }
        self.decay_ns = Some(at_ns);
        let base = self.limits.base;
        let kbit = if self.kbit > base {
            (self.kbit * LOW_DOWN).max(base)
        } else {
            (self.kbit * LOW_UP).min(base)
        };
        Some((kbit, Why::Low))
    }
}

impl Pinger {
    /// Returns the delay of a reply above the baseline, which the reply updates first (change
    /// log, 1.2). Without load, the delay also updates the moving average (its issue 377).
    fn late_ms(&mut self, one_way_ms: f64, quiet: bool) -> f64 {
        let before_ms = self.baseline_ms.unwrap_or(one_way_ms);
        let share = if one_way_ms > before_ms {
            BASELINE_UP
        } else {
            BASELINE_DOWN
        };
        let baseline_ms = mean(share, one_way_ms, before_ms);
        self.baseline_ms = Some(baseline_ms);
        let late_ms = one_way_ms - baseline_ms;
        if quiet {
            self.quiet_ms = mean(DELTA_SHARE, late_ms, self.quiet_ms);
        }
        late_ms
    }
}

/// Returns an exponentially weighted moving average.
fn mean(share: f64, new: f64, old: f64) -> f64 {
    share * new + (1.0 - share) * old
}

/// Returns whether an event was at most `span_ns` ago.
fn is_within(span_ns: u64, last_ns: Option<u64>, at_ns: u64) -> bool {
    last_ns.is_some_and(|last_ns| at_ns.saturating_sub(last_ns) <= span_ns)
}

/// Interpolates linearly: `of.0` up to `span.0`, `of.1` from `span.1` on.
fn between(value: f64, span: (f64, f64), of: (f64, f64)) -> f64 {
    let part = ((value - span.0) / (span.1 - span.0)).clamp(0.0, 1.0);
    of.0 + (of.1 - of.0) * part
}

#[cfg(test)]
mod tests;

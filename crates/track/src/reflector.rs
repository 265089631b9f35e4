// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One reflector: how long its answers take without a queue, and whether they can be trusted.

use crate::model::Trouble;

const SECOND: u64 = 1_000_000_000;
/// How long a larger value has to last before the baseline adopts it.
const LONG: u64 = 10 * SECOND;
/// How long a reflector may contradict all others.
const PATIENCE: u64 = 5 * SECOND;
/// The number of last probes of which a reflector has to answer half.
const REMEMBERED: u32 = 16;

/// A minimum that rises slowly: a delay that stays for long is no queue, but another path or
/// drifting clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Baseline {
    least: Option<i64>,
    at: u64,
    /// The minimum of the present interval, and when the interval began.
    lately: Option<(i64, u64)>,
}

impl Baseline {
    /// Takes a delay in nanoseconds, at a time in nanoseconds. Returns how much longer than the
    /// baseline it is. `loaded` says whether packets may be queued; the baseline rises faster
    /// while none can be.
    pub fn delta(&mut self, at: u64, value: i64, loaded: bool) -> u64 {
        let least = self.least.get_or_insert(value);
        if value < *least {
            *least = value;
        } else {
            // A thousandth of the difference in a second while packets may be queued; a quarter
            // while none can be.
            let part = if loaded { 1_000 } else { 4 };
            let time = at.saturating_sub(self.at).min(SECOND);
            let rise = i128::from(value - *least) * i128::from(time) / i128::from(SECOND * part);
            *least += rise as i64;
        }
        self.at = at;
        let lately = self.lately.get_or_insert((value, at));
        lately.0 = lately.0.min(value);
        (value - *least).max(0) as u64
    }

    /// Adopts the minimum of the present interval if that is long enough.
    pub(crate) fn give_in(&mut self, at: u64) {
        if let Some((value, since)) = self.lately
            && at.saturating_sub(since) >= LONG / 2
        {
            self.least = Some(value);
        }
    }

    /// Adopts the minimum of the present interval.
    pub(crate) fn take_lately(&mut self) {
        if let Some((value, _)) = self.lately {
            self.least = Some(value);
        }
    }

    /// Begins an interval.
    pub(crate) fn begin(&mut self) {
        self.lately = None;
    }

    pub(crate) const fn least(&self) -> Option<i64> {
        self.least
    }
}

/// One reflector.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reflector {
    pub(crate) rtt: Baseline,
    /// One-way times to it and back, if it reports times.
    pub(crate) one_way: [Baseline; 2],
    /// Which of the last probes were lost, one bit each.
    lost: u32,
    seen: u32,
    /// Since when it has contradicted all others.
    alone: Option<u64>,
    /// Since when it has reported nothing wrong.
    good: Option<u64>,
    pub(crate) trouble: Option<Trouble>,
}

impl Reflector {
    /// Notes that a probe was answered or lost.
    pub(crate) fn count(&mut self, answered: bool) {
        self.lost = self.lost << 1 | u32::from(!answered);
        self.seen = (self.seen + 1).min(REMEMBERED);
    }

    fn silent(&self) -> bool {
        let lost = (self.lost & ((1 << REMEMBERED) - 1)).count_ones();
        self.seen >= REMEMBERED / 2 && lost * 2 > self.seen
    }

    /// Judges the reflector; `alone` if it contradicts all others now. Returns true if the
    /// verdict has changed.
    pub(crate) fn judge(&mut self, at: u64, alone: bool) -> bool {
        if alone {
            self.alone.get_or_insert(at);
        } else {
            self.alone = None;
        }
        let now = if self.silent() {
            Some(Trouble::Silent)
        } else if self
            .alone
            .is_some_and(|since| at.saturating_sub(since) >= PATIENCE)
        {
            Some(Trouble::Alone)
        } else {
            None
        };
        if now.is_some() {
            self.good = None;
        } else if self.trouble.is_some() {
            // It has to behave for a while before it counts again.
            let since = *self.good.get_or_insert(at);
            if at.saturating_sub(since) < PATIENCE {
                return false;
            }
        }
        let other = now != self.trouble;
        self.trouble = now;
        other
    }

    /// A delay that stays although the rate cannot go lower is the path's.
    pub(crate) fn give_in(&mut self, at: u64) {
        self.rtt.give_in(at);
        for one in &mut self.one_way {
            one.give_in(at);
        }
    }

    /// Adopts the minima of the present interval, for the round trip and both one-way times.
    pub(crate) fn take_lately(&mut self) {
        self.rtt.take_lately();
        for one in &mut self.one_way {
            one.take_lately();
        }
    }

    /// See [`Reflector::give_in`].
    pub(crate) fn begin(&mut self) {
        self.rtt.begin();
        for one in &mut self.one_way {
            one.begin();
        }
    }
}

/// How long a delay may last at the floor rate before it counts as the delay of the path.
pub(crate) const GIVE_IN: u64 = LONG;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_falls_at_once_and_rises_slowly() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.delta(0, 20_000_000, true), 0);
        assert_eq!(baseline.delta(SECOND, 10_000_000, true), 0);
        let delta = baseline.delta(2 * SECOND, 30_000_000, true);
        assert_eq!(delta, 20_000_000 - 20_000);
        // On an idle line, a new path is adopted within some seconds.
        let mut last = delta;
        for second in 3..20 {
            let now = baseline.delta(second * SECOND, 30_000_000, false);
            assert!(now < last);
            last = now;
        }
        assert!(last < 200_000, "{last}");
    }

    #[test]
    fn a_silent_reflector_is_left_out_and_comes_back() {
        let mut one = Reflector::default();
        for _ in 0..8 {
            one.count(false);
        }
        assert!(one.judge(0, false));
        assert_eq!(one.trouble, Some(Trouble::Silent));
        for _ in 0..16 {
            one.count(true);
        }
        assert!(!one.judge(SECOND, false));
        assert!(!one.judge(5 * SECOND, false));
        assert!(one.judge(6 * SECOND, false));
        assert_eq!(one.trouble, None);
    }
}

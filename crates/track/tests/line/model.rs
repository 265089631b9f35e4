// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fluid model of a line: a sender that keeps the shaper full, the shaper's and the far end's
//! queue, and a variable rate. It does not prove how a real line behaves, for which the laboratory
//! exists, but runs in a moment.

use weirgate_track::{Decided, Decision, Direction, Input, Limits, Reason, Record, Settings};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

pub fn settings(base: u64, reflectors: u16) -> Settings {
    Settings {
        up: None,
        down: Some(Limits {
            floor: 500_000,
            base,
            ceiling: 10_000_000,
            margin_ppm: 30_000,
            margin_bits: 0,
        }),
        reflectors,
        probe_ns: 100 * MS,
        delay_ns: 5 * MS,
        packet: 1_696,
    }
}

/// Returns the same settings, upstream.
pub fn upstream(base: u64, reflectors: u16) -> Settings {
    let both = settings(base, reflectors);
    Settings {
        up: both.down,
        down: None,
        ..both
    }
}

/// Remote hosts of the traffic, with their round-trip times.
const ENDS: [(u32, u64); 2] = [(0, 20 * MS), (1, 60 * MS)];

/// Returns a pseudo-random number below `end`.
fn some(noise: &mut u64, end: u64) -> u64 {
    *noise = noise
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*noise >> 33) % end
}

/// Round trips of the traffic: the time of each end, the remote host, and the duration.
#[derive(Default)]
struct Passing(Vec<(u64, u32, u64)>);

impl Passing {
    fn leave(&mut self, at: u64, wait: u64, packet: u64, noise: &mut u64) {
        for (end, path) in ENDS {
            let round_trip = path + wait + some(noise, packet);
            self.0.push((at + round_trip, end, round_trip));
        }
    }

    /// Reports the shortest completed round trip of each remote host.
    fn look(&mut self, at: u64, record: &mut Record) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (end, _) in ENDS {
            let over = self.0.extract_if(.., |one| one.0 <= at && one.1 == end);
            if let Some(round_trip) = over.map(|one| one.2).min() {
                decisions.extend(record.take(&Input::Passive {
                    at,
                    end,
                    round_trip,
                }));
            }
        }
        decisions
    }
}

/// The results of a run.
pub struct Shown {
    /// Every 10 ms: the rate, and the queue at the far end in nanoseconds.
    pub steps: Vec<(u64, u64)>,
    pub text: String,
    pub reasons: Vec<(u64, Reason)>,
}

/// Runs a download over a line with the rate `line`. `answered` says which probes are answered.
/// Without reflectors, round trips of the traffic itself to two hosts are observed.
pub fn run(
    settings: Settings,
    seconds: u64,
    seed: u64,
    line: impl Fn(u64) -> u64,
    answered: impl Fn(u64) -> bool,
) -> Shown {
    run_along(settings, seconds, seed, line, answered, |_| 0)
}

/// Returns the time in which a line sends a backlog, at its changing rate.
fn wait(line: &impl Fn(u64) -> u64, at: u64, mut bits: f64) -> u64 {
    let mut then = at;
    while then < at + SECOND {
        let rate = line(then) as f64;
        if rate > 0.0 && bits <= rate * 1e-3 {
            return then - at + (bits / rate * 1e9) as u64;
        }
        bits -= rate * 1e-3;
        then += MS;
    }
    then - at
}

/// What the shaper lets through at a rate of the line.
fn shaped(limits: &Limits, rate: f64) -> f64 {
    let share = rate * (1.0 - limits.margin_ppm as f64 * 1e-6);
    share.min(rate - limits.margin_bits as f64)
}

/// Runs with a path that is `longer` by this many nanoseconds.
pub fn run_along(
    settings: Settings,
    seconds: u64,
    seed: u64,
    line: impl Fn(u64) -> u64,
    answered: impl Fn(u64) -> bool,
    longer: impl Fn(u64) -> u64,
) -> Shown {
    let reflectors = settings.reflectors;
    let up = settings.up.is_some();
    let direction = if up { Direction::Up } else { Direction::Down };
    let limits = *settings.limits(direction).unwrap();
    let mut record = Record::new(settings).unwrap();
    let mut shown = Shown {
        steps: Vec::new(),
        text: String::new(),
        reasons: Vec::new(),
    };
    // In bits: the backlog at the far end, and here.
    let (mut far, mut here) = (0.0f64, 0.0f64);
    let (mut counted, mut last_load) = (0.0f64, 0);
    let (mut next_probe, mut id) = (0, 0u32);
    let mut replies: Vec<(u64, u16, u32)> = Vec::new();
    let mut passing = Passing::default();
    let mut noise = seed | 1;
    let mut at = 0;
    while at < seconds * SECOND {
        let (rate, known) = (line(at), record.controller().rate(direction).unwrap());
        let (rate, shaped) = (rate as f64, shaped(&limits, known as f64));
        let tick = 1e-3;
        // Both ends send their backlog. The senders, whose windows grow, replace what left here.
        let crosses = far.min(rate * tick);
        far -= crosses;
        here += crosses;
        let leaves = here.min(shaped * tick);
        here -= leaves;
        far += leaves;
        counted += if up { leaves } else { crosses };
        // One packet more for each round trip.
        let grows = 8.0 * 1500.0 * tick / (0.02 + (far + here) / rate.max(1e5));
        if here > 250_000.0 {
            here *= 0.7;
        } else {
            far += grows;
        }
        if far + here < 100_000.0 {
            far += 3_000.0;
        }
        let mut decisions = Vec::new();
        if reflectors > 0 && at >= next_probe {
            let reflector = (id % u32::from(reflectors)) as u16;
            decisions.extend(record.take(&Input::Sent { at, reflector, id }));
            let jitter = some(&mut noise, 12_000 * SECOND / line(at).max(1));
            let took = wait(&line, at, far) + longer(at);
            if answered(at) {
                replies.push((at + 20 * MS + took + jitter, reflector, id));
            }
            id += 1;
            next_probe = at + record.controller().pause();
        }
        replies.sort_unstable();
        while replies.first().is_some_and(|first| first.0 <= at) {
            let (_, reflector, id) = replies.remove(0);
            decisions.extend(record.take(&Input::Reply {
                at,
                reflector,
                id,
                one_way_us: None,
            }));
        }
        if reflectors == 0 && answered(at) && at.is_multiple_of(5 * MS) {
            let took = wait(&line, at, far) + longer(at);
            passing.leave(
                at,
                took,
                12_000 * SECOND / line(at).max(1_000_000),
                &mut noise,
            );
        }
        if at - last_load >= 50 * MS {
            last_load = at;
            decisions.extend(passing.look(at, &mut record));
            decisions.extend(record.take(&Input::Load {
                at,
                direction,
                bytes: (counted / 8.0) as u64,
                backlog: if here > 12_000.0 {
                    (here / 8.0) as u64
                } else {
                    0
                },
            }));
            counted = 0.0;
        }
        for decision in decisions {
            if let Decided::Rate { reason, .. } = decision.what {
                shown.reasons.push((decision.at, reason));
            }
        }
        if at % (10 * MS) == 0 {
            let rate = record.controller().rate(direction).unwrap();
            shown
                .steps
                .push((rate, (far / rate.max(1) as f64 * 1e9) as u64));
        }
        at += MS;
    }
    shown.text = record.written();
    shown
}

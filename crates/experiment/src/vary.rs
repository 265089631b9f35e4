// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of lines whose rates vary. They compute the changes of a line from a seed.
//!
//! The models are not traces of real lines. Each has the features that papers name as hard to
//! follow: rates that swing or jump, outages, changes of the path. The numbers are chosen here
//! and not taken from these papers.

use crate::{LineStep, Random, Variation};
use weirgate_units::{Rate, Span};

/// The parameters of a model. Times are in seconds, rates are fractions of the highest rate.
struct Model {
    /// The interval between changes of the rate.
    step: f64,
    /// Levels between which the rate jumps: the range from which each is drawn, and its mean
    /// duration.
    levels: &'static [(f64, f64, f64)],
    /// Whether every level has exactly this duration instead of a random one.
    clocked: bool,
    /// How far rates swing around the level: the standard deviation of their logarithm, and its
    /// correlation time.
    swing: (f64, f64),
    /// The shortest and longest outage when the level changes.
    changing: (f64, f64),
    outage: (f64, f64),
    /// The mean time between outages.
    between: f64,
    /// The largest one-way delay that a new level can add.
    later: f64,
}

/// The lowest rate outside outages, as a fraction of the highest.
const LEAST: f64 = 0.03;

impl Variation {
    const fn model(self) -> Model {
        match self {
            // Rates swing as in the model that Sprout infers, a Brownian motion with outages
            // (Winstein, Sivaraman and Balakrishnan, NSDI 2013).
            Self::Lte => Model {
                step: 0.1,
                levels: &[(0.3, 0.8, 12.0)],
                clocked: false,
                swing: (0.35, 2.0),
                changing: (0.0, 0.0),
                outage: (0.1, 0.4),
                between: 20.0,
                later: 0.0,
            },
            // With or without line of sight, for seconds each (Narayanan and others, "A
            // Variegated Look at 5G in the Wild", SIGCOMM 2021).
            Self::FiveG => Model {
                step: 0.05,
                levels: &[(0.6, 1.0, 8.0), (0.1, 0.3, 3.0)],
                clocked: false,
                swing: (0.2, 0.5),
                changing: (0.0, 0.15),
                outage: (0.0, 0.0),
                between: f64::INFINITY,
                later: 0.0,
            },
            // Satellites are reassigned every 15 s, with another rate, another path, and a short
            // outage (Mohan and others, "A Multifaceted Look at Starlink Performance", WWW
            // 2024).
            Self::Starlink => Model {
                step: 0.1,
                levels: &[(0.35, 1.0, 15.0)],
                clocked: true,
                swing: (0.15, 1.0),
                changing: (0.04, 0.15),
                outage: (0.02, 0.08),
                between: 10.0,
                later: 0.006,
            },
            // The capacity that neighbours leave at a busy hour. The modem's grants are
            // `bursts`.
            Self::Cable => Model {
                step: 0.25,
                levels: &[(0.5, 1.0, 6.0)],
                clocked: false,
                swing: (0.05, 2.0),
                changing: (0.0, 0.0),
                outage: (0.0, 0.0),
                between: f64::INFINITY,
                later: 0.0,
            },
        }
    }
}

/// Returns the changes of a line with these highest rates (up and down).
pub fn steps(variation: Variation, highest: [Rate; 2], seed: u64, until: Span) -> Vec<LineStep> {
    let model = variation.model();
    let mut draws = Draws {
        random: Random::of_flow(seed, "line varies", 0),
    };
    let mut swings = [0.0, 0.0];
    let forgets = (-model.step / model.swing.1).exp();
    let seconds = until.as_nanos() as f64 / 1e9;
    let mut level = Level::begin(&model, &mut draws);
    let mut outage_at = draws.random.exponential(model.between.min(1e9));
    let mut silent_until = 0.0;
    let mut all = Vec::new();
    for number in 0..(seconds / model.step).ceil() as u32 {
        let at = f64::from(number) * model.step;
        if at >= level.until {
            level.follow(&model, at, &mut draws);
            silent_until = at + draws.between(model.changing);
        }
        if at >= outage_at {
            silent_until = f64::max(silent_until, at + draws.between(model.outage));
            outage_at = at + draws.random.exponential(model.between);
        }
        for swing in &mut swings {
            *swing = *swing * forgets + (1.0 - forgets * forgets).sqrt() * draws.normal();
        }
        let rates = [0, 1].map(|direction| {
            let part = level.part * (model.swing.0 * swings[direction]).exp();
            scaled(highest[direction], part.clamp(LEAST, 1.0))
        });
        if at < silent_until {
            push(&mut all, at, [Rate::ZERO; 2], level.later);
        }
        let from = silent_until.max(at);
        if from < at + model.step {
            push(&mut all, from, rates, level.later);
        }
    }
    // The last rate is not 0, so that every transmission ends.
    if silent_until >= seconds {
        push(&mut all, seconds.max(silent_until), highest, level.later);
    }
    all
}

/// The current level.
struct Level {
    index: usize,
    part: f64,
    later: f64,
    until: f64,
}

impl Level {
    fn begin(model: &Model, draws: &mut Draws) -> Self {
        let mut level = Self {
            index: model.levels.len() - 1,
            part: 0.0,
            later: 0.0,
            until: 0.0,
        };
        level.follow(model, 0.0, draws);
        if model.clocked {
            // Start at a random phase: the line's clock is independent of the run's.
            level.until *= draws.random.unit();
        }
        level
    }

    fn follow(&mut self, model: &Model, at: f64, draws: &mut Draws) {
        self.index = (self.index + 1) % model.levels.len();
        let (least, most, lasts) = model.levels[self.index];
        self.part = draws.between((least, most));
        self.later = draws.between((0.0, model.later));
        self.until = at
            + if model.clocked {
                lasts
            } else {
                draws.random.exponential(lasts)
            };
    }
}

struct Draws {
    random: Random,
}

impl Draws {
    fn between(&mut self, (least, most): (f64, f64)) -> f64 {
        least + (most - least) * self.random.unit()
    }

    /// Returns a normally distributed number of variance 1 (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.random.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.unit()).cos()
    }
}

/// Returns a fraction of a rate, in whole kbit/s.
fn scaled(rate: Rate, part: f64) -> Rate {
    let kbit = (rate.as_bits_per_second() as f64 * part / 1e3).round();
    Rate::kbit((kbit as u64).max(1))
}

fn push(all: &mut Vec<LineStep>, at: f64, [up, down]: [Rate; 2], later: f64) {
    // A change needs a time after 0; before it, the line has its highest rates.
    let at = Span::from_nanos(((at * 1e9) as u64).max(1));
    if all.last().is_some_and(|last| last.at >= at) {
        all.pop();
    }
    all.push(LineStep {
        at,
        up: Some(up),
        down: Some(down),
        later: Some(Span::from_micros((later * 1e6) as u64)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Variation; 4] = [
        Variation::Lte,
        Variation::FiveG,
        Variation::Starlink,
        Variation::Cable,
    ];
    const HIGHEST: [Rate; 2] = [Rate::kbit(10_000), Rate::kbit(50_000)];

    #[test]
    fn steps_are_in_order_and_end_with_a_rate() {
        for variation in ALL {
            for seed in 1..50 {
                let all = steps(variation, HIGHEST, seed, Span::from_secs(60));
                assert!(all.windows(2).all(|pair| pair[0].at < pair[1].at));
                assert!(all.last().and_then(|last| last.down) > Some(Rate::ZERO));
                assert!(all.iter().all(|one| one.down <= Some(HIGHEST[1])));
            }
        }
    }

    #[test]
    fn a_seed_is_a_line_and_another_seed_another() {
        for variation in ALL {
            let of = |seed| steps(variation, HIGHEST, seed, Span::from_secs(30));
            assert_eq!(of(7), of(7));
            assert_ne!(of(7), of(8));
        }
    }

    /// Returns the mean rate over many seeds as a fraction of the highest, and the fraction of
    /// time in outages.
    fn shares(variation: Variation) -> (f64, f64) {
        let (mut sum, mut silent, mut time) = (0.0, 0.0, 0.0);
        for seed in 1..=40 {
            let until = Span::from_secs(60);
            let all = steps(variation, HIGHEST, seed, until);
            let ends = all.iter().skip(1).map(|step| step.at).chain([until]);
            for (step, end) in all.iter().zip(ends) {
                let lasts = end.saturating_sub(step.at).as_nanos() as f64;
                let rate = step.down.unwrap_or_default().as_bits_per_second() as f64;
                sum += lasts * rate;
                time += lasts;
                silent += if rate == 0.0 { lasts } else { 0.0 };
            }
        }
        let highest = HIGHEST[1].as_bits_per_second() as f64;
        (sum / time / highest, silent / time)
    }

    #[test]
    fn each_kind_has_its_own_mean_and_outages() {
        let (rate, silent) = shares(Variation::Lte);
        assert!((0.45..0.65).contains(&rate), "{rate}");
        assert!((0.008..0.02).contains(&silent), "{silent}");
        let (rate, silent) = shares(Variation::FiveG);
        assert!((0.5..0.75).contains(&rate), "{rate}");
        assert!((0.005..0.03).contains(&silent), "{silent}");
        let (rate, silent) = shares(Variation::Starlink);
        assert!((0.55..0.75).contains(&rate), "{rate}");
        assert!((0.005..0.03).contains(&silent), "{silent}");
        let (rate, silent) = shares(Variation::Cable);
        assert!((0.65..0.85).contains(&rate), "{rate}");
        assert_eq!(silent, 0.0);
    }

    #[test]
    fn satellites_take_over_every_15_seconds() {
        let all = steps(Variation::Starlink, HIGHEST, 3, Span::from_secs(60));
        let mut changes: Vec<Span> = Vec::new();
        for pair in all.windows(2) {
            if pair[0].later != pair[1].later {
                changes.push(pair[1].at);
            }
        }
        assert!((3..=4).contains(&changes.len()), "{changes:?}");
        for pair in changes.windows(2) {
            let apart = pair[1].saturating_sub(pair[0]).as_nanos() as f64 / 1e9;
            assert!((14.7..15.3).contains(&apart), "{apart}");
        }
    }
}

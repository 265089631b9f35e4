// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranking: settings within all limits come first, ordered by the figure that the goal asks
//! for. The others follow, ordered by how many limits they miss.

use crate::candidate::AS_IT_IS;
use crate::goal::{Better, Limit};
use crate::question::Question;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use weirgate_measure::ArmFigures;

/// Figures that differ by less than this part count as equal. Among such settings, the simpler
/// one is better.
const EQUAL: f64 = 0.02;

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The question as a sentence.
    pub question: String,
    /// Settings, the best first.
    pub settings: Vec<Ranked>,
    /// The policy of the best setting; none if no setting is within all limits.
    pub policy: Option<String>,
}

/// A setting with its figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its figures; the first decides the rank.
    pub figures: Vec<Figure>,
}

/// A figure of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its heading, with the unit.
    pub title: String,
    /// Its value; none if the run did not give one.
    pub value: Option<f64>,
    /// Its limit, in words.
    pub limit: Option<String>,
    /// Whether the value is within its limit; true if it has none.
    pub holds: bool,
}

impl Ranked {
    /// Returns how many limits it misses.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.figures.iter().filter(|one| !one.holds).count()
    }

    fn deciding(&self) -> Option<f64> {
        self.figures.first().and_then(|one| one.value)
    }
}

/// Ranks the measured figures, which are given by arm.
#[must_use]
pub fn answer(question: &Question, figures: &BTreeMap<String, ArmFigures>) -> Answer {
    let (measures, better) = question.measures();
    let candidates = question.candidates();
    let own = candidates.iter().map(|one| (one.name, one.about));
    let mut settings: Vec<Ranked> = [AS_IT_IS]
        .into_iter()
        .chain(own)
        .filter_map(|(name, about)| {
            let metrics = &figures.get(name)?.metrics;
            let figure = |measure: &crate::Measure| {
                let value = metrics.get(&measure.metric).map(|one| one * measure.factor);
                let met = |limit: Limit| value.is_some_and(|value| limit.holds(value));
                Figure {
                    title: measure.title.to_owned(),
                    value,
                    limit: measure.limit.map(words),
                    holds: measure.limit.is_none_or(met),
                }
            };
            Some(Ranked {
                name: name.to_owned(),
                about: about.to_owned(),
                figures: measures.iter().map(figure).collect(),
            })
        })
        .collect();
    settings.sort_by(|a, b| {
        let by_figure = match (a.deciding(), b.deciding()) {
            (Some(a), Some(b)) if better == Better::Lower => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        a.missed().cmp(&b.missed()).then(by_figure)
    });
    simplest_first(
        &mut settings,
        &candidates.iter().map(|one| one.name).collect::<Vec<_>>(),
    );
    let best = settings.first();
    let best = best.filter(|one| one.missed() == 0 && one.deciding().is_some());
    let policy = best.and_then(|best| {
        let candidate = candidates.iter().find(|one| one.name == best.name)?;
        Some(question.policy(candidate))
    });
    Answer {
        question: question.words(),
        settings,
        policy,
    }
}

/// Moves the simplest of the settings that are as good as the first one to the front.
fn simplest_first(settings: &mut [Ranked], simple: &[&str]) {
    let Some((missed, best)) = settings
        .first()
        .and_then(|one| Some((one.missed(), one.deciding()?)))
    else {
        return;
    };
    let place = |name: &str| simple.iter().position(|one| *one == name);
    let as_good = settings.iter().enumerate().filter(|(_, one)| {
        let near = |value: f64| (value - best).abs() <= EQUAL * best.abs();
        one.missed() == missed && one.deciding().is_some_and(near)
    });
    let first = as_good
        .min_by_key(|(_, one)| place(&one.name))
        .map(|(at, _)| at);
    if let Some(at) = first {
        settings[..=at].rotate_right(1);
    }
}

fn words(limit: Limit) -> String {
    match limit {
        Limit::AtMost(most) => format!("at most {}", number(most)),
        Limit::AtLeast(least) => format!("at least {}", number(least)),
        Limit::Between(least, most) => format!("{} to {}", number(least), number(most)),
    }
}

/// Formats a number: three decimal places for small values, none for large ones.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.question)?;
        let titles = self.settings.first().map_or(&[][..], |one| &one.figures);
        write!(f, "{:<19}", "setting")?;
        for figure in titles {
            write!(f, "  {:>11}", figure.title)?;
        }
        writeln!(f)?;
        for setting in &self.settings {
            write!(f, "{:<19}", setting.name)?;
            for figure in &setting.figures {
                let value = figure.value.map_or_else(|| "-".to_owned(), number);
                let mark = if figure.holds { " " } else { "!" };
                write!(f, "  {:>11}", format!("{value}{mark}"))?;
            }
            writeln!(f)?;
        }
        let limits: Vec<String> = titles
            .iter()
            .filter_map(|one| Some(format!("{} {}", one.title, one.limit.as_ref()?)))
            .collect();
        writeln!(
            f,
            "\nMust hold, `!` where it does not: {}.",
            limits.join(", ")
        )?;
        for setting in &self.settings {
            writeln!(f, "{}: {}", setting.name, setting.about)?;
        }
        match (&self.policy, self.settings.first()) {
            (Some(policy), Some(best)) => {
                writeln!(f, "\nBest is `{}`. Its policy:\n\n{policy}", best.name)
            }
            (None, Some(best)) if best.missed() == 0 => {
                writeln!(
                    f,
                    "\nNothing is better than what is there without a policy."
                )
            }
            _ => writeln!(f, "\nNo setting does what was asked for."),
        }
    }
}

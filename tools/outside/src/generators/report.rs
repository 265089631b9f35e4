// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section of the page: both figures of each row, and their difference.

use super::figures::Figures;
use super::{Found, SEEDS};
use std::fmt::Write as _;
use weirgate_measure::stats;

/// The permitted relative difference, as a part of ours.
const AGREEING: f64 = 0.02;

/// Returns the text of the section; `versions` are those of the other programs.
pub fn text(found: &[Found], versions: &str) -> String {
    let mut out = format!(
        "{versions}.\n\n\
         | load | figure | weirgate's | from seed to seed | the others' | from seed to seed | \
         difference | |\n|---|---|--:|--:|--:|--:|--:|---|\n",
    );
    let (mut rows, mut agreeing) = (0, 0);
    for one in found {
        for row in one.case.rows() {
            rows += 1;
            let (ours, theirs) = (seeds(row.ours, &one.ours), seeds(row.theirs, &one.theirs));
            let judged = Judged {
                ours: stats::mean(&ours),
                theirs: stats::mean(&theirs),
            };
            agreeing += usize::from(judged.agrees());
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                one.case.title,
                row.figure,
                shown(judged.ours, row.unit),
                apart(&ours),
                shown(judged.theirs, row.unit),
                apart(&theirs),
                judged.difference(),
                if judged.agrees() {
                    "agrees"
                } else {
                    "**differs**"
                },
            );
        }
    }
    let _ = writeln!(
        out,
        "\n{agreeing} of {rows} figures agree within 2 %, in the mean of {SEEDS} seeds."
    );
    out
}

/// Returns a figure for every seed; empty if one did not measure it.
fn seeds(name: &str, all: &[Figures]) -> Vec<f64> {
    let every: Option<Vec<f64>> = all.iter().map(|one| mean(name, one)).collect();
    every.unwrap_or_default()
}

/// Returns the range of the seeds' figures, relative to their mean.
fn apart(seeds: &[f64]) -> String {
    let (least, most) = seeds
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), &one| {
            (least.min(one), most.max(one))
        });
    match stats::mean(seeds) {
        Some(mean) if mean > 0.0 => format!("{:.2} %", 100.0 * (most - least) / mean),
        Some(_) => "0.00 %".to_owned(),
        None => "-".to_owned(),
    }
}

/// Both means of a row; `None` if one was not measured.
struct Judged {
    ours: Option<f64>,
    theirs: Option<f64>,
}

impl Judged {
    /// Returns their figure minus ours, relative to ours; if ours is 0, their figure.
    fn part(&self) -> Option<f64> {
        let (ours, theirs) = (self.ours?, self.theirs?);
        Some(if ours == 0.0 {
            theirs
        } else {
            theirs / ours - 1.0
        })
    }

    fn agrees(&self) -> bool {
        self.part().is_some_and(|part| part.abs() <= AGREEING)
    }

    fn difference(&self) -> String {
        self.part()
            .map_or_else(|| "-".to_owned(), |part| format!("{:+.2} %", 100.0 * part))
    }
}

/// Returns the figure of this name, or the mean of three.
fn mean(name: &str, figures: &Figures) -> Option<f64> {
    if !name.contains('N') {
        return figures.get(name).copied();
    }
    let of = |number| figures.get(&name.replace('N', number)).copied();
    Some((of("1")? + of("2")? + of("3")?) / 3.0)
}

fn shown(figure: Option<f64>, unit: &str) -> String {
    let Some(figure) = figure else {
        return "not measured".to_owned();
    };
    match unit {
        "kbit/s" => format!("{figure:.0} kbit/s"),
        "ms" => format!("{figure:.3} ms"),
        _ => format!("{:.2} %", 100.0 * figure),
    }
}

#[cfg(test)]
mod tests {
    use super::{Judged, apart, mean, seeds};

    #[test]
    fn two_per_cent_is_the_bound() {
        let judged = |ours: Option<f64>, theirs| {
            let judged = Judged {
                ours,
                theirs: Some(theirs),
            };
            (judged.agrees(), judged.difference())
        };
        assert_eq!(judged(Some(100.0), 101.9), (true, "+1.90 %".to_owned()));
        assert_eq!(judged(Some(100.0), 97.9), (false, "-2.10 %".to_owned()));
        assert_eq!(judged(Some(0.0), 0.0), (true, "+0.00 %".to_owned()));
        assert!(!judged(Some(0.0), 0.5).0);
        assert_eq!(judged(None, 1.0), (false, "-".to_owned()));
    }

    #[test]
    fn seeds_are_apart_by_their_ends() {
        let figures = |value| [("u".to_owned(), value)].into();
        let all = [figures(9.0), figures(11.0), figures(10.0)];
        assert_eq!(apart(&seeds("u", &all)), "20.00 %");
        assert_eq!(apart(&seeds("v", &all)), "-");
    }

    #[test]
    fn a_name_may_stand_for_three() {
        let named = |name: &str, value| (name.to_owned(), value);
        let figures = [named("u1", 1.0), named("u2", 2.0), named("u3", 6.0)].into();
        assert_eq!(mean("uN", &figures), Some(3.0));
        assert_eq!(mean("u2", &figures), Some(2.0));
        assert_eq!(mean("vN", &figures), None);
    }
}

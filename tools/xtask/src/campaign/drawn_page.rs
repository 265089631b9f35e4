// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of drawn lines and loads: each row with the cake of most similar goodput.

use super::drawn::OURS;
use super::figures::{Figures, Run};
use std::fmt::Write as _;

/// The compared figures: goodput, where more is better; mean and 99th percentile of the delay,
/// where less is better.
type Three = [f64; 3];

/// The comparison of a row with cake.
struct Row<'r> {
    run: &'r Run<'r>,
    ours: Figures,
    nearest: (&'r str, Figures),
    /// Whether we are better than the nearest in two of three figures, and within 2 % in the third.
    wins: bool,
    /// A cake that is better in all three figures.
    beaten_by: Option<&'r str>,
}

fn three(figures: &Figures) -> Three {
    let [mean, _, latest, _] = figures.delay;
    [figures.kept, -mean, -latest]
}

/// Returns the difference of two values relative to the second.
fn above(one: Three, other: Three) -> Three {
    let mut parts = [0.0; 3];
    for ((part, one), other) in parts.iter_mut().zip(one).zip(other) {
        *part = (one - other) / other.abs().max(f64::MIN_POSITIVE);
    }
    parts
}

/// Returns the row of a line, if all its arms have been run; before that, the nearest cake is
/// unknown.
fn row<'r>(runs: &'r [Run<'r>]) -> Option<Row<'r>> {
    if runs.iter().any(|run| run.figures.is_none()) {
        return None;
    }
    let found = |run: &'r Run<'r>| Some((run.arm, run.figures?));
    let ours = runs.iter().find(|run| run.arm == OURS)?;
    let (_, own) = found(ours)?;
    let cakes = runs.iter().filter(|run| run.arm != OURS).filter_map(found);
    let apart = |one: &Figures| (one.kept - own.kept).abs();
    let nearest = cakes
        .clone()
        .min_by(|(_, one), (_, other)| apart(one).total_cmp(&apart(other)))?;
    let parts = above(three(&own), three(&nearest.1));
    let better = parts.iter().filter(|part| **part > 0.0).count();
    let beaten_by = cakes
        .filter(|(_, cake)| {
            above(three(cake), three(&own))
                .iter()
                .all(|part| *part > 0.0)
        })
        .map(|(name, _)| name)
        .next();
    Some(Row {
        run: ours,
        ours: own,
        nearest,
        wins: better >= 2 && parts.iter().all(|part| *part >= -0.02),
        beaten_by,
    })
}

/// Returns the page of the completed runs.
pub fn text(seed: u64, ranges: &str, runs: &[Run<'_>]) -> String {
    let rows: Vec<Row<'_>> = runs
        .chunk_by(|one, other| one.line.name == other.line.name)
        .filter_map(row)
        .collect();
    let all = runs.chunk_by(|one, other| one.line.name == other.line.name);
    let count = |which: &dyn Fn(&Row<'_>) -> bool| rows.iter().filter(|row| which(row)).count();
    let slower = |row: &Row<'_>| row.ours.delay[0] > 1.1 * row.nearest.1.delay[0];
    let mut text = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <!-- Made by `cargo xtask inbound-drawn`; do not edit. -->\n\
         # `inbound = \"auto\"` on lines that nobody chose\n\n\
         Lines and loads are drawn by seed {seed}, from these ranges:\n\n{ranges}\n\
         The policy states \
         rates, link layer and two classes, and nothing of `inbound` but the default. Beside it \
         stands cake `ingress` at 85, 90, 95, 97 and 99 % of the line downstream and at 98 % \
         upstream. Each run is one seed of the lab, 12 virtual seconds of it looked at, with an \
         echo each 50 ms.\n\n\
         Each row is compared with the cake whose goodput is nearest, in goodput, mean delay and \
         the 99th percentile. The round trip of the path is part of the delays.\n\n\
         | of {} rows drawn, {} run | |\n|---|---:|\n\
         | better in two, and within 2 % in the third | {} |\n\
         | a cake is better in all three | {} |\n\
         | a mean delay of more than 1.1 times that cake's | {} |\n\n\
         | line and load | goodput | mean, ms | 99 %, ms | nearest | goodput | mean, ms | 99 %, ms | |\n\
         |---|---:|---:|---:|---|---:|---:|---:|---|\n",
        all.count(),
        rows.len(),
        count(&|row| row.wins),
        count(&|row| row.beaten_by.is_some()),
        count(&slower),
    );
    for row in &rows {
        let cells = |figures: &Figures| {
            let [mean, _, latest, _] = figures.delay;
            let kept = 100.0 * figures.kept;
            format!("{kept:.1} % | {mean:.1} | {latest:.1}")
        };
        let verdict = match (row.beaten_by, row.wins) {
            (Some(cake), _) => format!("`{cake}` is better in all"),
            (None, true) => "better".to_owned(),
            (None, false) => String::new(),
        };
        let _ = writeln!(
            text,
            "| {}: {} | {} | `{}` | {} | {verdict} |",
            row.run.line.about,
            row.run.load.about,
            cells(&row.ours),
            row.nearest.0,
            cells(&row.nearest.1)
        );
    }
    text
}

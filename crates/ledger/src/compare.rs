// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The differences between a stored entry and a new one.

use crate::{Entry, Expected, Figure, Standing};
use std::collections::BTreeMap;
use std::fmt;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The verdict is worse than the stored one, or a new expectation is missed.
    Worse,
    /// The expectation changed or was removed. It counts as worse until it is accepted, because a
    /// loosened expectation looks like this.
    Expectation,
    /// The verdict is better than the stored one.
    Better,
    /// A new expectation is kept or explained.
    New,
    /// The verdict is the stored one, but the interval of the mean has left the stored
    /// interval.
    Moved,
}

/// A line that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the change.
    pub change: Change,
    /// The experiment.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// The stored and the measured figure, in words.
    pub what: String,
}

impl Change {
    /// Returns whether the change blocks acceptance: a worse verdict or a changed expectation.
    #[must_use]
    pub const fn is_worse(self) -> bool {
        matches!(self, Self::Worse | Self::Expectation)
    }

    /// Returns the word that a finding of this kind begins with.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Expectation => "expectation changed",
            Self::Better => "better",
            Self::New => "new",
            Self::Moved => "moved",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, experiment) = (self.change.word(), &self.experiment);
        let (arm, metric, what) = (&self.arm, &self.metric, &self.what);
        write!(f, "{word}: {experiment}, arm `{arm}`: {metric}: {what}")
    }
}

/// The lines of an entry by arm and metric.
type Lines<'e> = BTreeMap<(&'e str, &'e str), Vec<&'e Figure>>;

/// Compares a new entry with the stored one, the worst first.
#[must_use]
pub fn compare(stored: &Entry, new: &Entry) -> Vec<Finding> {
    let (before, after) = (lines(stored), lines(new));
    let mut findings = Vec::new();
    let mut keys: Vec<(&str, &str)> = before.keys().chain(after.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let old = before.get(&key).map_or(&[][..], Vec::as_slice);
        let new_lines = after.get(&key).map_or(&[][..], Vec::as_slice);
        let changes = changes(old, new_lines);
        findings.extend(changes.into_iter().map(|(change, what)| Finding {
            change,
            experiment: new.experiment.clone(),
            arm: key.0.to_owned(),
            metric: key.1.to_owned(),
            what,
        }));
    }
    findings.sort_by_key(|finding| finding.change);
    findings
}

fn lines(entry: &Entry) -> Lines<'_> {
    let mut lines = Lines::new();
    for arm in &entry.arms {
        for figure in &arm.figures {
            let key = (arm.name.as_str(), figure.metric.as_str());
            lines.entry(key).or_default().push(figure);
        }
    }
    lines
}

/// Returns the changes between the lines of one figure.
fn changes(before: &[&Figure], after: &[&Figure]) -> Vec<(Change, String)> {
    let mut found = Vec::new();
    let mut dropped = Vec::new();
    let mut added: Vec<(&Figure, &Expected)> = after.iter().copied().filter_map(expected).collect();
    for (old, stored) in before.iter().copied().filter_map(expected) {
        let same = |one: &(&Figure, &Expected)| one.1.promise == stored.promise;
        let Some(at) = added.iter().position(same) else {
            dropped.push((old, stored));
            continue;
        };
        let (new, expected) = added.remove(at);
        let change = match expected.verdict.rank().cmp(&stored.verdict.rank()) {
            std::cmp::Ordering::Greater => Change::Worse,
            std::cmp::Ordering::Less => Change::Better,
            std::cmp::Ordering::Equal => continue,
        };
        found.push((
            change,
            difference(&stored.promise, (old, stored), (new, expected)),
        ));
    }
    if !dropped.is_empty() {
        let words = |list: &[(&Figure, &Expected)]| {
            let promises: Vec<String> = list
                .iter()
                .map(|(line, one)| format!("{} ({})", one.promise, state(line, one)))
                .collect();
            promises.join("; ")
        };
        let now = if added.is_empty() {
            "is expected no more".to_owned()
        } else {
            format!("is now {}", words(&added))
        };
        found.push((Change::Expectation, format!("{} {now}", words(&dropped))));
        added.clear();
    }
    for (new, expected) in added {
        let change = match expected.verdict {
            Standing::Missed { .. } => Change::Worse,
            _ => Change::New,
        };
        let what = format!("{} is new: {}", expected.promise, state(new, expected));
        found.push((change, what));
    }
    if found.is_empty()
        && let (Some(old), Some(new)) = (before.first(), after.first())
        && !overlap(old, new)
    {
        let what = format!("{}, was {}", interval(new), interval(old));
        found.push((Change::Moved, what));
    }
    found
}

fn expected(line: &Figure) -> Option<(&Figure, &Expected)> {
    Some((line, line.expected.as_ref()?))
}

fn difference(promise: &str, old: (&Figure, &Expected), new: (&Figure, &Expected)) -> String {
    format!(
        "{promise}: {}; the ledger has {}",
        state(new.0, new.1),
        state(old.0, old.1)
    )
}

/// Returns the judged figure and its verdict, in words.
fn state(line: &Figure, expected: &Expected) -> String {
    let figure = match line.judged() {
        Some(figure) => figure.to_string(),
        None => "no figure".to_owned(),
    };
    match expected.value {
        Some(value) => format!("{figure} for {value}, {}", expected.verdict.word()),
        None => format!("{figure}, {}", expected.verdict.word()),
    }
}

/// Returns whether two means agree within their intervals; both may be absent.
pub(crate) fn overlap(one: &Figure, other: &Figure) -> bool {
    match (one.mean(), other.mean()) {
        (Some(a), Some(b)) => {
            let room = one.interval().unwrap_or(0.0) + other.interval().unwrap_or(0.0);
            (a - b).abs() <= room
        }
        (None, None) => true,
        _ => false,
    }
}

/// Returns a mean with its interval, in words.
pub(crate) fn interval(line: &Figure) -> String {
    match (line.mean(), line.interval()) {
        (None, _) => "no figure".to_owned(),
        (Some(mean), None) => mean.to_string(),
        (Some(mean), Some(half)) => format!("{mean} ± {half}"),
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shares of files and cases that apply and pass: of each kind, and of all. weirgate models
//! qdiscs, classes and filters. It does not model actions, whose shares stand apart.

use super::File;
use super::report::counts;
use std::fmt::Write as _;

/// The smallest shares that count as reached, in percent: of files that apply, and of their cases
/// that are restored exactly.
const GOALS: [f64; 2] = [80.0, 95.0];

/// The kinds, and the beginnings of their files' names.
const KINDS: [(&str, &[&str]); 3] = [
    ("qdiscs", &["qdiscs/", "infra/qdiscs."]),
    ("classes and filters", &["filters/", "infra/filter."]),
    ("actions", &["actions/", "infra/actions."]),
];

/// The counts of some files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    files: u32,
    /// Files of which at least one case applies.
    apply: u32,
    cases: u32,
    /// Cases that apply.
    applying: u32,
    /// Cases whose state is restored exactly.
    restored: u32,
}

impl Sum {
    fn of<'a>(files: impl Iterator<Item = &'a File>) -> Self {
        files.fold(Self::default(), |sum, file| {
            let [cases, applying, restored, ..] = counts(&file.results);
            Self {
                files: sum.files + 1,
                apply: sum.apply + u32::from(applying > 0),
                cases: sum.cases + cases,
                applying: sum.applying + applying,
                restored: sum.restored + restored,
            }
        })
    }

    fn row(self, kind: &str) -> String {
        format!(
            "| {kind} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            self.files,
            self.apply,
            percent(self.apply, self.files),
            self.cases,
            self.applying,
            percent(self.applying, self.cases),
            self.restored,
            percent(self.restored, self.applying),
        )
    }
}

/// Returns the table of shares, and whether the goals are reached. A case that weirgate refuses or
/// announces as lost does not pass.
pub fn text(files: &[File]) -> String {
    let mut out = String::from(
        "| kind | files | apply | share | cases | apply | share | restored exactly | share of \
         these |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let of = |file: &File, begins: &[&str]| begins.iter().any(|one| file.name.starts_with(one));
    for (kind, begins) in KINDS {
        let own = files.iter().filter(|file| of(file, begins));
        out.push_str(&Sum::of(own).row(kind));
    }
    let known = |file: &File| KINDS.iter().any(|(_, begins)| of(file, begins));
    let rest = Sum::of(files.iter().filter(|file| !known(file)));
    if rest.files > 0 {
        out.push_str(&rest.row("others"));
    }
    let all = Sum::of(files.iter());
    out.push_str(&all.row("all"));
    let [apply, restored] = GOALS;
    let _ = writeln!(
        out,
        "\nThe goals are {apply} % of files that apply ({}), and {restored} % of their cases \
         restored exactly ({}).",
        reached(all.apply, all.files, apply),
        reached(all.restored, all.applying, restored),
    );
    out
}

/// Returns a share with a decimal; none of nothing.
fn percent(part: u32, whole: u32) -> String {
    match share(part, whole) {
        None => "-".to_owned(),
        Some(share) => format!("{share:.1} %"),
    }
}

fn reached(part: u32, whole: u32, goal: f64) -> &'static str {
    match share(part, whole) {
        Some(share) if share >= goal => "reached",
        _ => "missed",
    }
}

fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| 100.0 * f64::from(part) / f64::from(whole))
}

#[cfg(test)]
mod tests {
    use super::super::inside::{CaseResult, Outcome};
    use super::*;

    fn file(name: &str, outcomes: &[Outcome]) -> File {
        let result = |outcome: &Outcome| CaseResult {
            file: 0,
            id: String::new(),
            name: String::new(),
            outcome: outcome.clone(),
        };
        File {
            name: name.to_owned(),
            results: outcomes.iter().map(result).collect(),
        }
    }

    #[test]
    fn each_kind_has_its_own_shares() {
        let cannot = || Outcome::Cannot("it needs a network card".to_owned());
        let lost = || Outcome::Lost(true, vec!["- qdisc plug 1:".to_owned()]);
        let files = [
            file("actions/gact.json", &[Outcome::Restored]),
            file("filters/flower.json", &[cannot()]),
            file("infra/qdiscs.json", &[Outcome::Restored, lost()]),
            file("infra/new.json", &[Outcome::Restored]),
            file("qdiscs/red.json", &[Outcome::Restored, cannot()]),
        ];
        let text = text(&files);
        assert!(text.contains("| qdiscs | 2 | 2 | 100.0 % | 4 | 3 | 75.0 % | 2 | 66.7 % |"));
        assert!(text.contains("| classes and filters | 1 | 0 | 0.0 % | 1 | 0 | 0.0 % | 0 | - |"));
        assert!(text.contains("| actions | 1 | 1 | 100.0 % | 1 | 1 | 100.0 % | 1 | 100.0 % |"));
        assert!(text.contains("| others | 1 | 1 | 100.0 % | 1 | 1 | 100.0 % | 1 | 100.0 % |"));
        assert!(text.contains("| all | 5 | 4 | 80.0 % | 7 | 5 | 71.4 % | 4 | 80.0 % |"));
        assert!(text.contains("80 % of files that apply (reached), and 95 % of their cases"));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of tc-testing's cases, as a section of the page.

use super::inside::{CaseResult, Outcome};
use super::{File, shares};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Why a state is not restored, by a text in the message of weirgate or tc; the first match counts.
const WHY: [(&str, &str); 13] = [
    (
        "size table",
        "the kernel never lists the slots of a size table",
    ),
    (
        "qdisc netem",
        "the kernel does not list whether netem's jitter or slots have a distribution",
    ),
    (
        "qdisc gred",
        "gred's listing is not what makes it: its queues are set one after another",
    ),
    (
        "qdisc mqprio",
        "not kept by weirgate: queues of a network card",
    ),
    (
        "qdisc taprio",
        "not kept by weirgate: queues and times of a network card",
    ),
    ("qdisc plug", "the kernel does not list plug's limit"),
    ("qdisc teql0", "teql needs all devices that it joins"),
    (
        "action order",
        "actions of filters are not kept by weirgate",
    ),
    (
        "_block ",
        "blocks of filters that several qdiscs share are not kept by weirgate",
    ),
    (
        "linklayer ethernet overhead",
        "the kernel never lists the slots of a size table",
    ),
    (
        "fh 801: ht divisor",
        "the kernel numbers the first table of u32 itself, and a filter that had the number \
         before is gone",
    ),
    (
        "\"quantum\": ",
        "the quantum of an inner class of htb, which the kernel neither uses nor changes",
    ),
    (
        "- chain chain 0",
        "chains without a filter are not kept by weirgate",
    ),
];

/// Returns the section: a table of files, why cases do not apply, and the differences. `left` are
/// the files that were not run.
pub fn text(files: &[File], left: &[String]) -> String {
    let mut out = String::from(
        "| file | cases | apply | restored exactly | refused, as before | lost, as announced | \
         fail |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut sum = [0; 6];
    for file in files {
        let counts = counts(&file.results);
        let _ = writeln!(out, "| `{}` | {} |", file.name, cells(counts));
        for (all, one) in sum.iter_mut().zip(counts) {
            *all += one;
        }
    }
    let _ = writeln!(out, "| all | {} |\n", cells(sum));
    out.push_str(&shares::text(files));
    if !left.is_empty() {
        let names: Vec<String> = left.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(
            out,
            "\n{} files have not been run, and are in no figure above: {}.",
            left.len(),
            names.join(", ")
        );
    }
    let results = || files.iter().flat_map(|file| &file.results);
    out.push_str("\nWhy cases do not apply:\n\n");
    let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
    for one in results() {
        if let Outcome::Cannot(why) = &one.outcome {
            *reasons.entry(reason(why)).or_default() += 1;
        }
    }
    let mut reasons: Vec<(String, u32)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (why, count) in reasons {
        let _ = writeln!(out, "- {count}: {why}");
    }
    out.push_str("\nWhat is not restored:\n\n");
    let mut causes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in results() {
        if let Some(why) = cause(&one.outcome) {
            causes.entry(why).or_default().push(&one.id);
        }
    }
    for (why, ids) in causes {
        let _ = writeln!(out, "- {} ({}): {why}", ids.len(), ids.join(", "));
    }
    out
}

/// Returns counts of cases: all, applicable, restored, refused, lost as announced, failed.
pub fn counts(results: &[CaseResult]) -> [u32; 6] {
    let mut counts = [0; 6];
    for one in results {
        counts[0] += 1;
        let at = match &one.outcome {
            Outcome::Cannot(_) => continue,
            Outcome::Restored => 2,
            Outcome::Refused(_) => 3,
            Outcome::Lost(true, _) => 4,
            Outcome::Lost(false, _) | Outcome::Failed(_) => 5,
        };
        counts[1] += 1;
        counts[at] += 1;
    }
    counts
}

fn cells(counts: [u32; 6]) -> String {
    counts.map(|count| count.to_string()).join(" | ")
}

/// Returns a reason without the details of one case.
fn reason(why: &str) -> String {
    let quoted = || why.split('"').nth(1).unwrap_or_default().to_owned();
    if why.starts_with("Unknown qdisc") {
        format!("tc does not know the qdisc `{}`", quoted())
    } else if why.starts_with("Unknown filter") {
        format!("tc does not know the filter `{}`", quoted())
    } else {
        why.replace('|', "\\|")
    }
}

/// Returns why a state differs; `None` if it does not, or was never made.
fn cause(outcome: &Outcome) -> Option<String> {
    let known = |text: &str| {
        let found = WHY.iter().find(|(sign, _)| text.contains(sign));
        found.map(|(_, why)| (*why).to_owned())
    };
    match outcome {
        Outcome::Cannot(_) | Outcome::Restored => None,
        Outcome::Refused(message) => {
            let line = message.lines().last().unwrap_or_default();
            Some(format!("refused: {}", line.replace('|', "\\|")))
        }
        Outcome::Failed(what) => {
            let line = what.lines().next().unwrap_or_default();
            Some(format!("failed: {}", line.replace('|', "\\|")))
        }
        Outcome::Lost(_, lines) => {
            let text = lines.join("\n");
            let first = lines.iter().find(|line| line.contains(" qdisc "));
            let shown = first.or(lines.first()).map_or("", String::as_str);
            Some(known(&text).unwrap_or_else(|| format!("not explained: `{shown}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_counts_once_and_is_explained() {
        let result = |id: &str, outcome| CaseResult {
            file: 0,
            id: id.to_owned(),
            name: String::new(),
            outcome,
        };
        let lost = |line: &str| Outcome::Lost(true, vec![line.to_owned()]);
        let files = [File {
            name: "qdiscs/x.json".to_owned(),
            results: vec![
                result("a", Outcome::Restored),
                result(
                    "b",
                    Outcome::Cannot("Unknown qdisc \"x\", hence".to_owned()),
                ),
                result("c", lost("- qdisc netem 1: root delay 1ms 1ms")),
                result("d", Outcome::Lost(false, vec!["- qdisc y 1:".to_owned()])),
            ],
        }];
        let text = text(&files, &["filters/y.json".to_owned()]);
        assert!(text.contains("| `qdiscs/x.json` | 4 | 3 | 1 | 0 | 1 | 1 |"));
        assert!(text.contains("1 files have not been run, and are in no figure above"));
        assert!(text.contains("- 1: tc does not know the qdisc `x`"));
        assert!(text.contains("- 1 (c): the kernel does not list whether netem's"));
        assert!(text.contains("- 1 (d): not explained: `- qdisc y 1:`"));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section of the page: a row for each test, with the reason of a failure.

use super::Found;
use super::inside::{Outcome, TestResult, Way};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the text of the section; `left` were not run.
pub fn text(found: &[Found], left: &[String]) -> String {
    let mut out = String::from(
        "| test | with the kernel's tc | with the tree | with the kit | reason |\n\
         |---|---|---|---|---|\n",
    );
    let mut passed: BTreeMap<Way, usize> = BTreeMap::new();
    let (mut tests, mut apply) = (0, BTreeMap::<Way, usize>::new());
    for one in found {
        let kernel = of(one, Way::Kernel);
        for (at, result) in kernel.iter().enumerate() {
            tests += 1;
            let valid = result.outcome == Outcome::Passes;
            let mut cells = vec![word(Some(result))];
            let mut reasons = reason("kernel", result);
            *passed.entry(Way::Kernel).or_default() += usize::from(valid);
            for way in [Way::Tree, Way::Kit] {
                let ours = of(one, way);
                let ours = match ours {
                    [alone] if matches!(alone.outcome, Outcome::Cannot(_)) => Some(alone),
                    _ => ours.get(at),
                };
                cells.push(if valid {
                    word(ours)
                } else {
                    "not counted".to_owned()
                });
                let Some(ours) = ours.filter(|_| valid) else {
                    continue;
                };
                let is_passed = ours.outcome == Outcome::Passes;
                let applies = usize::from(!matches!(ours.outcome, Outcome::Cannot(_)));
                *passed.entry(way).or_default() += usize::from(is_passed);
                *apply.entry(way).or_default() += applies;
                reasons.extend(reason(way.name(), ours));
            }
            let _ = writeln!(
                out,
                "| `{}` {}: {} | {} | {} |",
                one.part.script,
                one.part.tests.join(" "),
                result.name,
                cells.join(" | "),
                reasons.join("; ").replace('|', "\\|"),
            );
        }
    }
    let count = |of: &BTreeMap<Way, usize>, way| of.get(&way).copied().unwrap_or_default();
    let _ = writeln!(
        out,
        "\nOf {tests} tests {} pass with the kernel's tc. Of these, with the tree {} apply and \
         {} pass, and with the kit {} apply and {} pass.",
        count(&passed, Way::Kernel),
        count(&apply, Way::Tree),
        count(&passed, Way::Tree),
        count(&apply, Way::Kit),
        count(&passed, Way::Kit),
    );
    if !left.is_empty() {
        let left: Vec<String> = left.iter().map(|title| format!("`{title}`")).collect();
        let _ = writeln!(out, "\nNot run: {}.", left.join(", "));
    }
    out
}

fn of(found: &Found, way: Way) -> &[TestResult] {
    let own = found.ways.iter().find(|(one, _)| *one == way);
    own.map_or(&[], |(_, results)| results)
}

fn word(result: Option<&TestResult>) -> String {
    let word = match result.map(|result| &result.outcome) {
        None => "not run",
        Some(Outcome::Passes) => "passes",
        Some(Outcome::Fails) => "fails",
        Some(Outcome::Cannot(_)) => "cannot apply",
    };
    word.to_owned()
}

/// Returns why a test did not pass, and what was measured.
fn reason(way: &str, result: &TestResult) -> Vec<String> {
    match &result.outcome {
        Outcome::Passes => Vec::new(),
        Outcome::Cannot(why) => vec![format!("{way}: {why}")],
        Outcome::Fails => vec![format!("{way}: {}", result.messages.join(", "))],
    }
}

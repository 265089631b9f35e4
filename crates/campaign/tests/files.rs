// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every experiment file in the repository loads, and none promises less than it must.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weirgate_campaign::ledger::Ledger;
use weirgate_experiment::{Experiment, parse};
use weirgate_ledger::{Change, Finding, compare};

fn folder() -> PathBuf {
    weirgate_testing::root().join("experiments")
}

fn files() -> BTreeMap<String, PathBuf> {
    weirgate_campaign::folder::files(&folder()).expect("the repository has its experiments")
}

fn load(path: &Path, text: &str) -> Experiment {
    let (experiment, problems) = parse(text);
    let name = path
        .file_name()
        .expect("the repository has its experiments")
        .to_string_lossy();
    let rendered: Vec<String> = problems.iter().map(|p| p.render(&name, text)).collect();
    assert!(rendered.is_empty(), "{}", rendered.join("\n\n"));
    experiment.expect("the repository has its experiments")
}

#[test]
fn every_file_loads_without_problems_and_has_its_own_name() {
    let files = files();
    assert!(!files.is_empty());
    for (name, file) in &files {
        let text = std::fs::read_to_string(file).expect("the repository has its experiments");
        let experiment = load(file, &text);
        assert_eq!(*name, experiment.name);
        for arm in &experiment.arms {
            if let Some(policy) = &arm.policy {
                let path = file.with_file_name(policy);
                let text = std::fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let (_, problems) = weirgate_policy::parse(&text);
                // The thesis's windows are also tested where they limit nothing, and its modem
                // lines are slow.
                let known = ["P187", "P189"];
                let problems = problems
                    .iter()
                    .filter(|problem| !known.contains(&problem.code));
                let rendered: Vec<String> = problems.map(|p| p.render(policy, &text)).collect();
                assert!(rendered.is_empty(), "{}", rendered.join("\n\n"));
            }
        }
    }
}

/// The code that judges is in no digest. It may give other bounds than it did when a result was
/// stored, but no figure without an
/// expectation that it had, and no worse verdict.
#[test]
fn stored_figures_are_judged_as_they_were() {
    let root = weirgate_testing::root();
    let ledger = Ledger {
        experiments: folder(),
        results: root.join("results"),
    };
    let mut judged = 0;
    let mut changes = Vec::new();
    for name in ledger.names().expect("experiments") {
        let stored = ledger.stored(&name).expect("a readable result");
        let subject = ledger.subject(&name).expect("a readable experiment");
        let Some(stored) = stored.filter(|stored| subject.is_of(stored)) else {
            continue;
        };
        let again = subject.judge_again(&stored).expect("a result with runs");
        let is_expected = |finding: &Finding| {
            let mut lines = again.expected();
            lines.any(|(arm, line, _)| (&arm.name, &line.metric) == (&finding.arm, &finding.metric))
        };
        // Results of before this rule are stored with figures that only some runs have.
        let is_whole = |finding: &Finding| {
            let mut lines = stored.expected();
            lines.all(|(arm, line, _)| {
                (&arm.name, &line.metric) != (&finding.arm, &finding.metric)
                    || line.runs.len() >= stored.seeds.len()
            })
        };
        let less = |finding: &&Finding| {
            finding.change == Change::Worse && is_whole(finding) || !is_expected(finding)
        };
        let found = compare(&stored, &again);
        changes.extend(found.iter().filter(less).map(ToString::to_string));
        judged += 1;
    }
    assert!(changes.is_empty(), "{}", changes.join("\n"));
    assert!(judged > 0);
}

/// A guest gets one text, so the production policy exists twice.
#[test]
fn the_labs_production_policy_is_the_shipped_one_but_for_addresses() {
    let read = |path: &str| {
        let path = folder().join(path);
        std::fs::read_to_string(&path).expect("the repository has its policies")
    };
    let shipped = read("../policies/kollegiegaarden.toml");
    let lab = read("policies/kollegiegaarden.toml");
    // The licence line, and in the lab's copy three more lines of explanation.
    let (shipped, lab) = (shipped.lines().skip(1), lab.lines().skip(4));
    assert_eq!(shipped.clone().count(), lab.clone().count());
    for (one, other) in shipped.zip(lab) {
        let address = ["addresses = [", "remote-address = \""]
            .iter()
            .any(|key| one.starts_with(key) && other.starts_with(key));
        assert!(one == other || address, "{one}\n{other}");
    }
}

/// The seeds of fuzzing must be valid, or fuzzing starts from nothing.
#[test]
fn seeds_of_the_fuzz_target_are_right() {
    let seeds = weirgate_testing::root().join("fuzz/seeds/experiment");
    let entries = std::fs::read_dir(seeds).expect("there are seeds");
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        // Inputs that a run found have no extension, and may be invalid.
        if path.extension().is_some() {
            let text = std::fs::read_to_string(&path).expect("a readable seed");
            load(&path, &text);
        }
    }
}

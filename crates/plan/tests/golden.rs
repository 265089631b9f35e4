// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares plans with golden texts: `tests/plan/<case>/` has the observed state, the desired
//! state, the plan and its inverse. A case without `desired.json` removes everything: it desires
//! the state of `former.json`.
#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use weirgate_plan::{Step, inverse, plan, run, verify, with_former};
use weirgate_state::State;
use weirgate_testing::golden;

fn read(path: &Path) -> Option<State> {
    let text = fs::read_to_string(path).ok()?;
    let state = serde_json::from_str(&text);
    Some(state.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        writeln!(text, "# {step}\n{}", step.action.command()).unwrap();
    }
    text
}

#[test]
fn plans_are_as_written() {
    let root = weirgate_testing::root().join("tests/plan");
    let mut cases: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(cases.len() >= 6, "cases are missing");
    for case in cases {
        let observed = read(&case.join("observed.json")).unwrap();
        let empty = State::default();
        let mut desired = read(&case.join("desired.json")).unwrap_or_default();
        if let Some(former) = read(&case.join("former.json")) {
            desired = with_former(&empty, &former);
        }
        match plan(&observed, &desired) {
            Ok(plan) => {
                golden(case.join("plan.txt"), &text(&plan.steps));
                let back = inverse(&plan.steps, &observed).unwrap();
                golden(case.join("inverse.txt"), &text(&back));
                let after = run(&plan.steps, &observed).unwrap();
                assert_eq!(verify(&after, &desired), vec![]);
                let again = run(&back, &after).unwrap();
                assert_eq!(verify(&again, &observed), vec![]);
            }
            Err(problems) => {
                let lines: Vec<String> = problems.iter().map(|p| format!("{p}\n")).collect();
                golden(case.join("problems.txt"), &lines.concat());
            }
        }
    }
}

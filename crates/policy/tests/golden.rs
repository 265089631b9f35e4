// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said about the policies in `tests/policy/bad`, word by word, and
//! that those in `policies` are right.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_document::{Problem, Severity};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn policies(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    paths.sort();
    assert!(!paths.is_empty(), "no policies in {}", folder.display());
    paths
}

fn rendered(file: &str, source: &str, problems: &[Problem]) -> String {
    let texts: Vec<String> = problems
        .iter()
        .map(|problem| problem.render(file, source))
        .collect();
    texts.join("\n\n") + "\n"
}

fn compare(folder: &str, usable: bool) {
    for path in policies(&root().join("tests/policy").join(folder)) {
        let source = fs::read_to_string(&path).expect("a policy");
        let (policy, problems) = weirgate_policy::parse(&source);
        assert_eq!(policy.is_some(), usable, "{}", path.display());
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let text = rendered(name, &source, &problems);
        let expected = path.with_extension("txt");
        if std::env::var_os("WEIRGATE_ACCEPT").is_some() {
            fs::write(&expected, &text).expect("writable");
        }
        let before = fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(text, before, "what is said about {name} has changed");
    }
}

#[test]
fn every_mistake_is_reported() {
    compare("bad", false);
}

#[test]
fn every_doubt_is_told() {
    compare("doubtful", true);
}

/// The issue's own test: twenty mistakes, all of them in one run, each with a
/// place and, except for TOML's own, a code of this project.
#[test]
fn twenty_mistakes_at_once() {
    let source = fs::read_to_string(root().join("tests/policy/bad/twenty.toml")).expect("there");
    let (_, problems) = weirgate_policy::parse(&source);
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error);
    let mut lines: Vec<usize> = errors
        .map(|problem| problem.line_column(&source).0)
        .collect();
    assert!(lines.len() >= 20, "{} errors", lines.len());
    lines.dedup();
    assert!(lines.len() >= 20, "errors on {} lines", lines.len());
    for problem in &problems {
        assert!(!problem.hint.is_empty(), "no hint: {problem:?}");
        assert!(problem.span.end <= source.len(), "{problem:?}");
    }
}

#[test]
fn shipped_policies_are_right() {
    for path in policies(&root().join("policies")) {
        let source = fs::read_to_string(&path).expect("a policy");
        let (policy, problems) = weirgate_policy::parse(&source);
        let name = path.display().to_string();
        assert!(
            problems.is_empty(),
            "{}",
            rendered(&name, &source, &problems)
        );
        assert!(policy.is_some());
    }
}

/// Each code is provoked by one of these policies, so that the table has no
/// dead entry and no mistake is without a golden text.
#[test]
fn every_code_is_provoked() {
    let mut seen: Vec<&str> = Vec::new();
    let tests = root().join("tests/policy");
    for path in [
        policies(&tests.join("bad")),
        policies(&tests.join("doubtful")),
    ]
    .concat()
    {
        let source = fs::read_to_string(&path).expect("a policy");
        seen.extend(
            weirgate_policy::parse(&source)
                .1
                .iter()
                .map(|problem| problem.code),
        );
    }
    seen.extend(
        weirgate_policy::parse(&crowded(201, 1))
            .1
            .iter()
            .map(|problem| problem.code),
    );
    let missing: Vec<&str> = weirgate_policy::CODES
        .iter()
        .map(|code| code.code)
        .filter(|code| !seen.contains(code))
        .collect();
    assert!(missing.is_empty(), "no policy here provokes {missing:?}");
}

/// So many classes, and a rule with so many ports of either side; too long for
/// a file.
fn crowded(classes: usize, ports: usize) -> String {
    let mut text =
        "version = 1\nlink = { device = \"wan\", up = \"1gbit\", layer = \"raw\" }\n".to_owned();
    for number in 0..classes {
        let default = number == 0;
        writeln!(
            text,
            "[[class]]\nname = \"c{number}\"\nrate = \"1mbit\"\ndefault = {default}"
        )
        .expect("a string");
    }
    let ports: Vec<String> = (1..=ports).map(|port| port.to_string()).collect();
    let ports = ports.join(", ");
    writeln!(
        text,
        "[[rule]]\nclass = \"c0\"\nlocal-port = [{ports}]\nremote-port = [{ports}]"
    )
    .expect("a string");
    text
}

#[test]
fn a_crowd_is_refused() {
    for (classes, ports, message) in [
        (201, 1, "there are 201 classes"),
        (
            1,
            65,
            "with all lists multiplied out there are more than 4096 rules here",
        ),
    ] {
        let (_, problems) = weirgate_policy::parse(&crowded(classes, ports));
        let found: Vec<&str> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| problem.message.as_str())
            .collect();
        assert_eq!(found, [message]);
    }
    let (policy, _) = weirgate_policy::parse(&crowded(200, 64));
    assert!(policy.is_some(), "what is allowed is taken");
}

/// A text of a megabyte is judged in the time of its length, not of its square.
#[test]
fn a_long_policy_takes_no_longer_than_its_length() {
    let text = crowded(20_000, 1) + &"[[rule]]\nclass = \"c1\"\ndscp = 1\n".repeat(10_000);
    assert!(text.len() > 1 << 20);
    let start = std::time::Instant::now();
    let (policy, _) = weirgate_policy::parse(&text);
    assert!(policy.is_none());
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares reports about the policies in `tests/policy/bad` with golden texts, and checks that
//! those in `policies` are valid.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use weirgate_document::{Problem, Severity};
use weirgate_policy::Parsed;
use weirgate_testing::{files, golden};

/// Parses a file's policy, with includes from its folder.
fn read(path: &Path) -> Parsed {
    let source = fs::read_to_string(path).expect("a policy");
    let name = path.file_name().and_then(|name| name.to_str());
    let folder = path.parent().expect("a folder");
    let load = |include: &str| {
        fs::read_to_string(folder.join(include)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            other => other.to_string(),
        })
    };
    weirgate_policy::parse_with(name.expect("a name"), &source, &load)
}

fn rendered(parsed: &Parsed) -> String {
    let texts: Vec<String> = parsed
        .problems
        .iter()
        .map(|problem| parsed.sources.render(problem))
        .collect();
    texts.join("\n\n") + "\n"
}

fn compare(folder: &str, usable: bool) {
    for path in files(&format!("tests/policy/{folder}"), "toml") {
        let parsed = read(&path);
        assert_eq!(parsed.policy.is_some(), usable, "{}", path.display());
        let text = rendered(&parsed);
        golden(path.with_extension("txt"), &text);
    }
}

/// A valid policy, to which a test adds lines.
const SOUND: &str = r#"version = 1
link = { device = "wan", lan = "lan", up = "10mbit", down = "50mbit", inbound = "lan", layer = "raw" }
[[class]]
name = "good"
share = "50%"
[[class]]
name = "rest"
share = "50%"
default = true
"#;

/// One mistake each: `tests/policy/mistakes.txt` has them one after the other. Each has `## name`
/// and the lines that are added to a valid policy (or, after `## name (whole)`, the whole policy);
/// the report follows after `--`.
#[test]
fn a_hundred_mistakes_one_by_one() {
    let path = "tests/policy/mistakes.txt";
    let text = weirgate_testing::read(path);
    let mut written = String::new();
    let mut names: Vec<&str> = Vec::new();
    let mut first_words: Vec<String> = Vec::new();
    for case in text.split("## ").skip(1) {
        let (title, rest) = case.split_once('\n').expect("a title");
        let added = rest.split("\n--\n").next().unwrap_or(rest).trim_end();
        let (name, whole) = match title.strip_suffix(" (whole)") {
            Some(name) => (name, true),
            None => (title, false),
        };
        assert!(!names.contains(&name), "{name} twice");
        names.push(name);
        let sound = if whole { "" } else { SOUND };
        // Fields of the file itself come before its tables.
        let source = match added.strip_prefix("^") {
            Some(top) => format!("{}\n{sound}", top.trim_start()),
            None => format!("{sound}{added}\n"),
        };
        let none = |_: &str| Err("there is no such file".to_owned());
        let parsed = weirgate_policy::parse_with("policy.toml", &source, &none);
        assert!(!parsed.problems.is_empty(), "{name}: nothing is reported");
        let is_error = |problem: &&Problem| problem.severity == Severity::Error;
        let errors = parsed.problems.iter().filter(is_error).count();
        assert_eq!(parsed.policy.is_none(), errors > 0, "{name}");
        for problem in &parsed.problems {
            assert!(problem.span.end <= source.len(), "{name}: {problem:?}");
        }
        first_words.push(parsed.problems[0].message.clone());
        let report = rendered(&parsed);
        write!(written, "## {title}\n{added}\n--\n{report}\n").expect("a string");
    }
    let head = text.split("## ").next().unwrap_or_default();
    let written = format!("{head}{}", written.trim_end()) + "\n";
    golden(path, &written);
    first_words.sort();
    first_words.dedup();
    assert!(
        first_words.len() >= 100,
        "{} distinct messages",
        first_words.len()
    );
}

/// The shipped services cause no report.
#[test]
fn the_library_is_right() {
    assert!(weirgate_policy::LIBRARY.len() >= 14);
    for (path, text) in weirgate_policy::LIBRARY {
        let load = |_: &str| Ok((*text).to_owned());
        let source = format!("include = \"{path}\"\n{SOUND}");
        let rule = "[[rule]]\nclass = \"good\"\nlocal-port = 9\n";
        let parsed = weirgate_policy::parse_with("policy.toml", &(source + rule), &load);
        assert!(parsed.problems.is_empty(), "{path}:\n{}", rendered(&parsed));
    }
}

#[test]
fn every_mistake_is_reported() {
    compare("bad", false);
}

#[test]
fn every_doubt_is_reported() {
    compare("doubtful", true);
}

/// Twenty mistakes are all reported in one run, each with a place and, except for TOML's own, a
/// code of this project.
#[test]
fn twenty_mistakes_at_once() {
    let source = weirgate_testing::read("tests/policy/bad/twenty.toml");
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
    for path in files("policies", "toml") {
        let parsed = read(&path);
        assert!(parsed.problems.is_empty(), "{}", rendered(&parsed));
        assert!(parsed.policy.is_some());
    }
}

/// One of these policies provokes each code, so that the table has no unused entry and no mistake
/// lacks a golden text.
#[test]
fn every_code_is_provoked() {
    let mut seen = String::new();
    for path in ["bad", "doubtful"]
        .map(|folder| files(&format!("tests/policy/{folder}"), "toml"))
        .concat()
    {
        seen += &rendered(&read(&path));
    }
    seen += &weirgate_testing::read("tests/policy/mistakes.txt");
    for problem in weirgate_policy::parse(&crowded(201, 1)).1 {
        seen += problem.code;
    }
    let missing: Vec<&str> = weirgate_policy::CODES
        .iter()
        .map(|code| code.code)
        .filter(|code| !seen.contains(code))
        .collect();
    assert!(missing.is_empty(), "no policy here provokes {missing:?}");
}

/// Generates a policy with many classes, and a rule with many ports of both sides; too long for a
/// file.
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

/// Returns the messages of a policy's errors.
fn errors(source: &str) -> Vec<String> {
    let (_, problems) = weirgate_policy::parse(source);
    let errors = problems
        .into_iter()
        .filter(|problem| problem.severity == Severity::Error);
    errors.map(|problem| problem.message).collect()
}

#[test]
fn a_crowd_is_refused() {
    assert_eq!(errors(&crowded(201, 1)), ["there are 201 classes"]);
    assert_eq!(
        errors(&crowded(200, 64)),
        [""; 0],
        "what is allowed is taken"
    );
    let hosts: Vec<String> = (0..1000)
        .map(|host| format!("\"10.{}.{}.1\"", host / 250, host % 250))
        .collect();
    let of = |rules: usize| {
        let group = format!("[group.hosts]\naddresses = [{}]\n", hosts.join(", "));
        let rule = "[[rule]]\nclass = \"good\"\nlocal-address = \"@hosts\"\nfinal = false\n";
        format!("{SOUND}{group}{}", rule.repeat(rules))
    };
    assert_eq!(errors(&of(200)), [""; 0], "a thousand hosts, 200 rules");
    assert_eq!(
        errors(&of(600)),
        ["the lists of the rules up to here have more than 524288 elements"]
    );
    let rule = "[[rule]]\nclass = \"good\"\nport = 9\nfinal = false\n";
    assert_eq!(
        errors(&format!("{SOUND}{}", rule.repeat(4097))),
        ["with all services and schedules expanded, there are more than 4096 rules here"]
    );
}

/// A text of a megabyte is parsed in linear time.
#[test]
fn a_long_policy_takes_no_longer_than_its_length() {
    let text = crowded(20_000, 1) + &"[[rule]]\nclass = \"c1\"\ndscp = 1\n".repeat(10_000);
    assert!(text.len() > 1 << 20);
    let start = std::time::Instant::now();
    let (policy, _) = weirgate_policy::parse(&text);
    assert!(policy.is_none());
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

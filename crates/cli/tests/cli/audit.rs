// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `domain audit`: a month judged from a history of verifications.

use crate::program::{root, weirgate};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The beginning of October 2026 (UTC).
const OCTOBER: u64 = 1_790_812_800;
const HOUR: u64 = 3600;

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let file = root().join("crates/domain/tests/domains/five-hops.toml");
    let text = fs::read_to_string(file).unwrap();
    let promise = "burst = \"15kB\"\navailability = \"99.9%\"\noutage = \"30min\"";
    let text = text.replace("burst = \"15kB\"", promise);
    fs::write(folder.path().join("five.toml"), text).unwrap();
    folder
}

/// Writes a history of these runs: service, what was broken, and its hours of October.
fn history(folder: &Path, runs: &[(&str, Value, u64, u64)]) {
    let lines = runs.iter().map(|(service, broken, from, until)| {
        json!({
            "service": service,
            "broken": broken,
            "from": OCTOBER + from * HOUR,
            "until": OCTOBER + until * HOUR,
            "count": until - from + 1,
        })
    });
    let lines: Vec<Value> = lines.collect();
    fs::write(folder.join("five.audits.json"), json!(lines).to_string()).unwrap();
}

const AUDIT: [&str; 5] = ["domain", "audit", "five.toml", "--month", "2026-10"];

#[test]
fn a_month_is_told_with_its_breaks() {
    let folder = folder();
    let path = folder.path();
    history(
        path,
        &[
            ("telephone", json!([]), 0, 743),
            ("books", json!([]), 0, 271),
            ("books", json!(["rate", "loss"]), 272, 273),
            ("books", json!([]), 274, 743),
        ],
    );
    let ended = weirgate(path, &AUDIT);
    let expected = "\
2026-10, until 2026-11-01 00:00:00Z. Of 2 services 1 kept what was promised.

telephone: available 100.000 %, not promised; longest outage 0:00:00, not promised

books: available 99.731 % of 99.9%, BROKEN; longest outage 2:00:00 of 0:30:00, BROKEN
  rate, loss broken from 2026-10-12 08:00:00Z to 2026-10-12 10:00:00Z, 2:00:00
";
    assert_eq!(
        (ended.status, ended.out.as_str()),
        (1, expected),
        "{ended:?}"
    );
    let ended = weirgate(path, &[&AUDIT[..], &["--json"]].concat());
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    let books = &found["services"][1];
    assert_eq!(books["availability"], "broken");
    assert_eq!(books["outage_s"], json!([7200.0, 7200.0]));
    assert_eq!(books["breaks"][0]["what"], json!(["rate", "loss"]));
    // Without the break, everything was kept.
    let all = ["telephone", "books"].map(|name| (name, json!([]), 0, 743));
    history(path, &all);
    assert_eq!(weirgate(path, &AUDIT).status, 0);
    // A day without a measurement leaves open what was.
    history(
        path,
        &all.map(|(name, kept, from, _)| (name, kept, from, 718)),
    );
    let ended = weirgate(path, &AUDIT);
    let expected = "books: available 96.774 to 100.000 % of 99.9%, unknown; longest outage \
                    0:00:00 to 24:00:00 of 0:30:00, unknown\n  unknown: 24:00:00\n";
    assert_eq!(ended.status, 1);
    assert!(ended.out.contains(expected), "{ended:?}");
}

#[test]
fn a_verification_is_added_to_the_history() {
    let folder = folder();
    let path = folder.path();
    // Nobody answers, so nothing is known about either service.
    let verify = [
        "domain",
        "verify",
        "five.toml",
        "--measure-only",
        "--ssh",
        "false",
    ];
    for count in 1..=2 {
        let ended = weirgate(path, &verify);
        assert_eq!(ended.status, 1, "{ended:?}");
        let text = fs::read_to_string(path.join("five.audits.json")).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
        assert_eq!(
            (&found[1]["service"], &found[1]["broken"]),
            (&json!("books"), &Value::Null)
        );
        assert_eq!(found[1]["count"], count);
    }
    let ended = weirgate(path, &["domain", "audit", "five.toml"]);
    assert_eq!(ended.status, 1);
    assert!(
        ended
            .out
            .contains("books: available 0.000 to 100.000 % of 99.9%, unknown"),
        "{ended:?}"
    );
}

#[test]
fn wrong_months_and_histories_are_named() {
    let folder = folder();
    let path = folder.path();
    for (month, expected) in [
        (
            "2026-13",
            "weirgate: `2026-13`: write a year and a month, such as `2026-11`\n",
        ),
        ("9999-12", "weirgate: `9999-12` has not begun\n"),
    ] {
        let ended = weirgate(path, &["domain", "audit", "five.toml", "--month", month]);
        assert_eq!((ended.status, ended.err.as_str()), (2, expected));
    }
    fs::write(path.join("five.audits.json"), "[{\"service\": \"books\"").unwrap();
    let ended = weirgate(path, &AUDIT);
    assert_eq!(ended.status, 2);
    assert!(
        ended.err.contains("is no history of `domain verify`"),
        "{ended:?}"
    );
    assert!(ended.err.contains("--history"), "{ended:?}");
}

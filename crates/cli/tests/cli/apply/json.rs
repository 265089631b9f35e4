// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--json` of commands that change something: one document on standard output, also on failure.

use crate::namespace::{Namespace, same};
use serde_json::{Value, json};

/// Runs `weirgate` with `--json`; returns its exit status and its document.
#[track_caller]
fn run(namespace: &Namespace, line: &str) -> (i32, Value) {
    let ended = namespace.weirgate(&format!("{line} --json"));
    let document = serde_json::from_str(&ended.out);
    let document = document.unwrap_or_else(|error| panic!("{line}: {error}: {ended:?}"));
    (ended.status, document)
}

/// Runs a command that fails with this status; returns its document's error.
#[track_caller]
fn error(namespace: &Namespace, line: &str, status: i32) -> String {
    let (found, document) = run(namespace, line);
    assert_eq!(found, status, "{line}: {document}");
    assert_eq!(document["problems"], json!([]), "{line}");
    document["error"].as_str().unwrap().to_owned()
}

/// Returns the texts of a document's steps.
fn steps(document: &Value) -> Vec<&str> {
    let steps = document["steps"].as_array().unwrap().iter();
    steps.map(|step| step["text"].as_str().unwrap()).collect()
}

#[test]
fn a_change_its_confirmation_its_return_and_its_removal_are_documents() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    let nothing = json!({ "steps": [], "losses": [] });
    assert_eq!(run(&namespace, "remove"), (0, nothing));
    let none = json!({ "taken_back": null });
    assert_eq!(run(&namespace, "rollback --waiting"), (0, none));
    let text = error(&namespace, "confirm", 1);
    assert!(text.contains("nothing waits"), "{text}");
    let text = error(&namespace, "rollback", 1);
    assert!(text.contains("there is no earlier state"), "{text}");
    let text = error(&namespace, "apply absent.toml", 2);
    assert!(text.contains("No such file"), "{text}");

    let (_, planned) = run(&namespace, "plan both.toml");
    let (status, applied) = run(&namespace, "apply both.toml --confirm 60s");
    assert_eq!((status, &applied["state"]), (0, &json!(1)));
    assert_eq!(steps(&applied), steps(&planned));
    assert_eq!(run(&namespace, "confirm"), (0, json!({ "state": 1 })));

    run(&namespace, "apply changed.toml --confirm 60s");
    let taken = json!({ "taken_back": 2 });
    assert_eq!(run(&namespace, "rollback --waiting"), (0, taken));
    run(&namespace, "apply changed.toml --confirm 60s");
    let taken = json!({ "taken_back": 3 });
    assert_eq!(run(&namespace, "rollback"), (0, taken));

    run(&namespace, "apply changed.toml");
    let (status, returned) = run(&namespace, "rollback");
    assert_eq!(status, 0, "{returned}");
    assert_eq!(returned["taken_back"], Value::Null);
    assert_eq!(returned["state"], 5);
    assert_eq!(returned["returns_s"], Value::Null);
    assert!(!steps(&returned).is_empty(), "{returned}");
    assert!(returned["steps"][0]["command"].is_string(), "{returned}");

    let text = error(&namespace, "rollback 77", 1);
    assert!(text.contains("77"), "{text}");
    let (status, removed) = run(&namespace, "remove");
    assert_eq!((status, &removed["losses"]), (0, &json!([])));
    assert!(!steps(&removed).is_empty(), "{removed}");
    same(&before, &namespace.snapshot());
}

const LINKS: &str = r#"
version = 1

[[link]]
name = "fibre"
device = "wan"
gateway = "10.9.0.2"
weight = 3
probe = "10.9.0.9"

[[link]]
name = "radio"
device = "lan"
gateway = "10.8.0.2"
"#;

#[test]
fn changes_of_links_are_documents() {
    let namespace = Namespace::new();
    namespace.run("ip address add 10.9.0.1/24 dev wan");
    namespace.run("ip address add 10.8.0.1/24 dev lan");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("links.toml");
    std::fs::write(&file, LINKS).unwrap();
    let file = file.display();

    let (status, checked) = run(
        &namespace,
        &format!("links check {file} --policy both.toml"),
    );
    assert_eq!(status, 1, "{checked}");
    let first = json!({
        "name": "fibre", "device": "wan", "weight": 3, "table": checked["links"][0]["table"],
        "mark": checked["links"][0]["mark"], "up_bit_s": 512_000, "down_bit_s": 2_000_000,
    });
    assert_eq!(checked["links"][0], first);
    assert_eq!(checked["links"][1]["up_bit_s"], Value::Null);
    let warnings = checked["warnings"].to_string();
    assert!(
        warnings.contains("no policy has the device lan"),
        "{warnings}"
    );

    let (status, planned) = run(&namespace, &format!("links plan {file}"));
    assert_eq!(status, 1, "{planned}");
    let (status, applied) = run(&namespace, &format!("links apply {file} --confirm 60s"));
    assert_eq!((status, &applied["returns_s"]), (0, &json!(60.0)));
    assert_eq!(steps(&applied), steps(&planned));
    let state = &applied["state"];
    assert_eq!(run(&namespace, "confirm"), (0, json!({ "state": state })));
    let (status, again) = run(&namespace, &format!("links plan {file}"));
    assert_eq!((status, &again["steps"]), (0, &json!([])));

    // The steps of links are those of the change back to an earlier state, too.
    let (status, removed) = run(&namespace, "links remove");
    assert_eq!(status, 0, "{removed}");
    assert!(!steps(&removed).is_empty(), "{removed}");
    let (status, returned) = run(&namespace, "rollback");
    assert_eq!(status, 0, "{returned}");
    assert_eq!(steps(&returned), steps(&planned));
    let text = error(&namespace, "links plan absent.toml", 2);
    assert!(text.contains("No such file"), "{text}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--json` of commands that read files: one document, also on failure.

use crate::program::{Ended, root, weirgate};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Returns the one document of a command.
#[track_caller]
fn document(ended: &Ended) -> Value {
    let document = serde_json::from_str(&ended.out);
    document.unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// Runs a command of these words with `--json`; returns its exit status and its document.
#[track_caller]
fn run(folder: &Path, words: &[&str]) -> (i32, Value) {
    let ended = weirgate(folder, &[words, &["--json"]].concat());
    (ended.status, document(&ended))
}

#[test]
fn an_imported_policy_is_in_a_document() {
    let folder = root().join("tests/import");
    let text = weirgate(&folder, &["import", "sqm", "eth1.iface.conf"]);
    let (status, found) = run(&folder, &["import", "sqm", "eth1.iface.conf"]);
    assert_eq!((status, &found["policy"]), (0, &json!(text.out)));
    let left_out = found["left_out"].as_array().unwrap();
    assert!(!left_out.is_empty());
    for one in left_out {
        text.says(0, &[one.as_str().unwrap()]);
    }

    let policy = root().join("policies/default.toml");
    let exported = weirgate(&root(), &["export", "--uci", policy.to_str().unwrap()]);
    let own = TempDir::new().unwrap();
    fs::write(own.path().join("weirgate"), exported.out).unwrap();
    let (status, found) = run(own.path(), &["import", "uci", "weirgate"]);
    assert_eq!((status, &found["enabled"]), (0, &json!(true)));
    assert_eq!(found["left_out"], json!([]));
    assert!(found["policy"].as_str().unwrap().contains("[link]"));

    let (status, found) = run(own.path(), &["import", "uci", "absent"]);
    assert_eq!((status, &found["problems"]), (2, &json!([])));
    assert!(found["error"].as_str().unwrap().contains("No such file"));
}

#[test]
fn a_checked_list_is_in_a_document() {
    let folder = TempDir::new().unwrap();
    let devices = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
                   Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n";
    let circuit = "1,One,1,router,,,100.64.0.1,2001:db8::/64,1,1,100,20,\n";
    fs::write(
        folder.path().join("good.csv"),
        format!("{devices}{circuit}"),
    )
    .unwrap();
    let (status, found) = run(folder.path(), &["circuits", "check", "good.csv"]);
    assert_eq!(status, 0, "{found}");
    let list = &found["list"];
    assert_eq!((&list["circuits"], &list["sites"]), (&json!(1), &json!(0)));
    assert_eq!(list["keys"]["addresses"], 2, "{found}");

    fs::write(
        folder.path().join("bad.csv"),
        devices.replace("IPv4", "IPv5"),
    )
    .unwrap();
    for words in [&["check"][..], &["apply", "sub0"], &["plan", "sub0"]] {
        let words = [&["circuits"], words, &["bad.csv"]].concat();
        let (status, found) = run(folder.path(), &words);
        assert_eq!(status, 2, "{found}");
        assert!(
            found["error"].as_str().unwrap().contains("bad.csv:1:"),
            "{found}"
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--json` of commands that read files and ask other machines: one document, also on failure.

use crate::program::{Ended, root, weirgate};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
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

    let wrong = circuit.replace("100.64.0.1", "100.64.0.300");
    fs::write(folder.path().join("bad.csv"), format!("{devices}{wrong}")).unwrap();
    for words in [&["check"][..], &["apply", "sub0"], &["plan", "sub0"]] {
        let words = [&["circuits"], words, &["bad.csv"]].concat();
        let (status, found) = run(folder.path(), &words);
        assert_eq!(status, 2, "{found}");
        assert!(
            found["error"].as_str().unwrap().contains("bad.csv:2:"),
            "{found}"
        );
    }
}

const DOMAIN: &str = r#"
version = 1
[class.gold]
behaviour = "AF1"
share = "40%"
[class.rest]
behaviour = "DF"
share = "25%"
[router.west]
role = "boundary"
[customer.alfa]
rate = "10mbit"
router = "west"
device = "alfa"
[customer.beta]
rate = "10mbit"
router = "west"
device = "beta"
[[service]]
name = "books"
from = "alfa"
to = "beta"
class = "gold"
rate = "500kbit"
"#;

/// Writes a program in place of ssh, which does this for a command on a router's policy. The
/// router has no circuits.
fn router(folder: &Path, does: &str) -> String {
    let file = folder.join("ssh");
    let script =
        format!("#!/bin/sh\ncat >/dev/null\ncase \"$3\" in\ncircuits) ;;\n*) {does} ;;\nesac\n");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_domain_is_in_documents() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::write(path.join("domain.toml"), DOMAIN).unwrap();
    let (status, found) = run(path, &["domain", "check", "domain.toml"]);
    assert_eq!((status, &found["findings"]), (0, &json!([])), "{found}");
    assert_eq!(found["services"][0]["name"], "books");
    assert_eq!(found["services"][0]["rate_bit_s"], 500_000);
    assert_eq!(found["loads"][0]["class"], "gold");
    let (status, found) = run(path, &["domain", "check", "absent.toml"]);
    assert_eq!((status, &found["problems"]), (2, &json!([])), "{found}");

    // Promises that cannot be kept are in the document of each command.
    fs::write(path.join("full.toml"), DOMAIN.replace("500kbit", "9mbit")).unwrap();
    for command in ["check", "plan", "apply", "verify"] {
        let (status, found) = run(path, &["domain", command, "full.toml"]);
        let finding = &found["findings"][0];
        assert_eq!(status, 1, "{command}: {found}");
        assert!(finding["changes"][0].is_string(), "{command}: {found}");
    }

    let (status, found) = run(path, &["domain", "apply", "domain.toml", "--files", "out"]);
    let written = json!([{ "router": "west", "circuits": false, "file": "out/west.toml" }]);
    assert_eq!((status, &found["files"]), (0, &written));
}

#[test]
fn what_the_routers_of_a_domain_answer_is_in_documents() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::write(path.join("domain.toml"), DOMAIN).unwrap();
    let asked = |command: &str, does: &str| {
        let ssh = router(path, does);
        run(path, &["domain", command, "domain.toml", "--ssh", &ssh])
    };
    let step = "alfa: add qdisc htb 1:";
    let differs = format!("echo '{step}'; exit 1");
    let (status, found) = asked("plan", &differs);
    let steps = json!([{ "router": "west", "circuits": false, "text": step }]);
    assert_eq!((status, found), (1, json!({ "steps": steps })));
    let same = "echo 'nothing to change'";
    assert_eq!(asked("plan", same), (0, json!({ "steps": [] })));
    let (status, found) = asked("plan", "exit 255");
    assert_eq!((status, &found["steps"]), (1, &json!([])));
    assert!(found["error"].as_str().unwrap().contains("west"), "{found}");

    let told = "5 steps done and read back: state 7";
    let (status, found) = asked("apply", &format!("echo '{told}' >&2"));
    let applied = json!([{ "router": "west", "circuits": false, "told": [told] }]);
    assert_eq!((status, found), (0, json!({ "applied": applied })));
    let (status, found) = asked("apply", "echo 'no such device' >&2; exit 2");
    assert_eq!(status, 3, "{found}");
    assert_eq!(found["failed"][0]["why"], "not applied: no such device");
    assert!(found["error"].as_str().unwrap().contains("1 router failed"));

    let (status, found) = asked("verify", &differs);
    assert_eq!(status, 1, "{found}");
    let west = json!([{ "router": "west", "state": "differs", "why": [step] }]);
    assert_eq!(found["routers"], west);
    let why = found["services"][0]["not_measured"].as_str().unwrap();
    assert!(why.contains("no `host` and `address`"), "{found}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate export`: the script does what `apply` does, and does not touch foreign objects.

use crate::namespace::{Namespace, same};
use crate::program::root;
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

/// Exports a policy to a file in the folder.
fn export(namespace: &Namespace, policy: &str, folder: &TempDir) -> String {
    let ended = namespace.weirgate(&format!("export {policy}"));
    assert_eq!(ended.status, 0, "{ended:?}");
    let script = folder.path().join("script").display().to_string();
    fs::write(&script, &ended.out).unwrap();
    script
}

#[test]
fn a_script_makes_what_apply_makes() {
    let namespace = Namespace::new();
    let folder = TempDir::new().unwrap();
    let script = export(&namespace, "both.toml", &folder);
    namespace.run(&format!("sh {script}"));
    // tc rounds its input, and sets made by nft have other types with the same contents. Tests of
    // crate kernel send packets through them.
    let planned = namespace.weirgate("plan both.toml");
    assert_eq!(planned.status, 1, "{planned:?}");
    // Receive windows are programs, which a script cannot load, and it says so. The first line
    // counts the steps.
    for step in planned.out.lines().skip(1) {
        let known = [
            "change class",
            "replace the size table",
            "set table",
            "receive windows",
        ];
        assert!(known.iter().any(|part| step.contains(part)), "{step}");
    }
    // `apply` replaces these in place; then nothing is left to do.
    namespace.weirgate("apply both.toml").says(0, &[]);
    assert_eq!(namespace.weirgate("plan both.toml").status, 0);
}

#[test]
fn a_script_leaves_alone_what_is_there() {
    for (made, part) in [
        (
            "tc qdisc add dev wan root handle 5: tbf rate 1mbit burst 2000 limit 3000",
            "a root qdisc of wan",
        ),
        ("ip link add ifb-wan type ifb", "the device ifb-wan"),
        ("nft add table inet weirgate", "the table inet weirgate"),
    ] {
        let namespace = Namespace::new();
        let folder = TempDir::new().unwrap();
        let script = export(&namespace, "both.toml", &folder);
        namespace.run(made);
        let before = namespace.snapshot();
        let mut command = namespace.command("sh");
        let output = command.arg(&script).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.contains(part) && message.contains("--adopt"),
            "{message}"
        );
        same(&before, &namespace.snapshot());
        namespace.run(&format!("sh {script} --adopt"));
        // A second time, over its own state.
        namespace.run(&format!("sh {script} --adopt"));
    }
}

/// nft accepts the tables of every shipped policy.
#[test]
fn nft_takes_the_tables_of_every_script() {
    let folder = TempDir::new().unwrap();
    let mut policies = 0;
    for entry in fs::read_dir(root().join("policies")).unwrap() {
        let policy = entry.unwrap().path();
        if policy.extension().is_none_or(|kind| kind != "toml") {
            continue;
        }
        policies += 1;
        let namespace = Namespace::new();
        let script = export(&namespace, &policy.display().to_string(), &folder);
        let text = fs::read_to_string(&script).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>();
        let named = words.windows(2).filter(|pair| pair[0] == "dev");
        let devices: BTreeSet<&str> = named.map(|pair| pair[1]).collect();
        for device in devices {
            if !["wan", "lan", "far", "inside"].contains(&device) {
                namespace.run(&format!("ip link add {device} type ifb"));
            }
        }
        let mut lines = text.lines();
        let mut tables = 0;
        while let Some(line) = lines.next() {
            if line.starts_with("nft -f") {
                let table: Vec<&str> = lines.by_ref().take_while(|line| *line != "END").collect();
                let file = folder.path().join("table");
                fs::write(&file, table.join("\n") + "\n").unwrap();
                namespace.run(&format!("nft -c -f {}", file.display()));
                tables += 1;
            }
        }
        assert!(tables > 0, "{}", policy.display());
    }
    assert!(policies >= 10, "{policies}");
}

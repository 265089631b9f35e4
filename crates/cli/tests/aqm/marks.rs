// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program for a shaper's ECN marks is part of the state that a policy requires: its absence
//! shows as a difference, and failing to load it is an error.

use super::inside::{net, objects, of_policy, settled};
use net::Far;
use std::fs;
use std::path::PathBuf;

const POLICY: &str = "version = 1\n[link]\ndevice = \"wan0\"\nup = \"2mbit\"\n\
     layer = \"ethernet\"\nengine = \"kit\"\n\
     [[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\n\
     queue = { kind = \"codel\", ecn = true }\n";

/// Returns the pin of the program, which keeps it on its device.
fn pin() -> Option<PathBuf> {
    let all = fs::read_dir("/sys/fs/bpf/weirgate/shaper").expect("the shaper's pins");
    let mut all = all.map(|entry| entry.expect("a pin").path());
    all.find(|path| path.to_string_lossy().contains("/marks-"))
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn of_a_policy() {
    let _far = Far::new(1);
    let before = objects();
    fs::write("/policy.toml", POLICY).expect("a file");
    let ended = |words: &[&str], expected: i32| {
        let (text, status) = of_policy(words);
        assert_eq!(status, Some(expected), "{words:?}: {text}");
        text
    };
    ended(&["apply", "/policy.toml"], 0);
    let first = pin().expect("a program that marks");
    let text = ended(&["plan", "/policy.toml"], 0);
    assert!(!text.contains("marks"), "all is as it should be: {text}");
    // The pin is removed behind weirgate's back.
    fs::remove_file(&first).expect("a pin");
    let text = ended(&["plan", "/policy.toml"], 1);
    assert!(text.contains("marks"), "{text}");
    ended(&["apply", "/policy.toml"], 0);
    assert_eq!(pin(), Some(first.clone()), "it is there again");
    // The program cannot be pinned, so the policy cannot be applied.
    fs::remove_file(&first).expect("a pin");
    fs::create_dir(&first).expect("a folder in its place");
    let (text, status) = of_policy(&["apply", "/policy.toml"]);
    assert!(status != Some(0) && text.contains("marks"), "{text}");
    fs::remove_dir(&first).expect("the folder");
    ended(&["apply", "/policy.toml"], 0);
    ended(&["remove"], 0);
    settled(before);
}

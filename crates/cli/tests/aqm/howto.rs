// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command of docs/aqm-howto.md, each exactly as on the page: here those that need no root,
//! in the guest (`inside::howto`) those on a device.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the page's commands, in order: lines of its `sh` blocks.
fn commands() -> Vec<String> {
    let text = weirgate_testing::read("docs/aqm-howto.md");
    let mut inside = false;
    let mut all = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && !line.is_empty() {
            all.push(line.split('#').next().unwrap_or_default().trim().to_owned());
        }
    }
    all.retain(|line| !line.is_empty());
    all
}

/// Returns the page's blocks of a kind.
fn blocks(kind: &str) -> Vec<String> {
    let text = weirgate_testing::read("docs/aqm-howto.md");
    let begin = format!("```{kind}\n");
    let after = text.split(&begin).skip(1);
    let block = |text: &str| text.split("```").next().unwrap_or_default().to_owned();
    after.map(block).collect()
}

/// Applies the page's changes to the template.
fn with_the_idea(folder: &Path) {
    let path = folder.join("mean/mean.c");
    let mut source = fs::read_to_string(&path).expect("the template");
    let changes = blocks("diff");
    assert_eq!(changes.len(), 2);
    for change in changes {
        let side = |left_out: char| -> String {
            let lines = change.split_inclusive('\n');
            let kept = lines.filter(|line| !line.starts_with(left_out));
            kept.map(|line| &line[1..]).collect()
        };
        let (from, to) = (side('+'), side('-'));
        assert_eq!(source.matches(&from).count(), 1, "{from}");
        source = source.replacen(&from, &to, 1);
    }
    fs::write(path, source).expect("room");
    let [script] = &blocks("script")[..] else {
        panic!("one script");
    };
    fs::write(folder.join("mean/delay.script"), script).expect("room");
}

/// Returns whether a command needs a device: `load`, `show`, `record`, ...
fn on_a_device(line: &str) -> bool {
    let words = [
        "load", "show", "change", "unload", "trace", "record", "replay",
    ];
    let command = line.split_whitespace().nth(2).unwrap_or_default();
    line.starts_with("weirgate aqm ") && words.contains(&command)
}

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    #[test]
    fn every_command_works() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut run = 0;
        for line in commands() {
            assert!(
                line.starts_with("weirgate aqm ") || line.starts_with("weirgate lab run "),
                "{line}"
            );
            if on_a_device(&line) {
                continue;
            }
            let words = line.split_whitespace().skip(1);
            let output = Command::new(env!("CARGO_BIN_EXE_weirgate"))
                .current_dir(folder.path())
                .args(words)
                .output()
                .expect("weirgate");
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{line}\n{message}");
            if line.contains("aqm new") {
                with_the_idea(folder.path());
            }
            run += 1;
        }
        assert!(run >= 6, "{run} commands");
    }

    /// `inside::howto` runs exactly these lines.
    #[test]
    fn every_command_on_a_device_works() {
        let page: Vec<String> = commands()
            .into_iter()
            .filter(|it| on_a_device(it))
            .collect();
        assert_eq!(page, crate::inside::HOWTO);
        let folder = tempfile::tempdir().expect("a folder");
        let mean = crate::work::built(folder.path(), "mean.so", with_the_idea);
        crate::with("howto", &[mean]);
    }
}

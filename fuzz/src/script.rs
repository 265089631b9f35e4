// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as the script of a discipline (`weirgate aqm test`) and as the driver's output.
//! Mistakes must name their lines, in order, and a valid script must accept the answers that it
//! expects.

use std::sync::LazyLock;
use weirgate_aqm::Discipline;
use weirgate_units::Handle;

#[path = "../../crates/workshop/src/script.rs"]
#[allow(dead_code)]
mod aqm_script;

use aqm_script::{Described, Script};

pub fn run(data: &[u8]) {
    // All needs are set, so that any line may be valid.
    static ABOUT: LazyLock<Described> = LazyLock::new(|| {
        let codel = Discipline::named("codel");
        Described {
            params: codel.map(Discipline::params).unwrap_or_default(),
            numbers: codel.map(Discipline::vars).unwrap_or_default(),
            needs: u32::MAX,
        }
    });
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // The driver's output follows after a separating line.
    let (script, output) = text.split_once("\nsaid\n").unwrap_or((text, ""));
    judged(script, output, Script::read(script, &ABOUT));
    judged(script, output, Script::with_classes(script, number_alone));
}

/// Parses a class that consists of its number.
fn number_alone(text: &str, at: usize) -> Result<(u32, String), String> {
    let number: Handle = text.parse().map_err(|error| format!("{error}"))?;
    Ok((number.as_u32(), format!("c {at}\n")))
}

fn judged(script: &str, output: &str, read: Result<Script, Vec<String>>) {
    match read {
        Ok(read) => {
            planted(&read.calls);
            let calls = read
                .calls
                .lines()
                .filter(|line| matches!(&line[..1], "a" | "d" | "s"));
            let calls = calls.count();
            let found = read.compare(output);
            assert!(
                found.len() <= calls,
                "{} mistakes in {calls} calls",
                found.len()
            );
            in_order(&found, script);
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            in_order(&mistakes, script);
        }
    }
}

/// Checks that each mistake begins with the number of an existing line, in ascending order.
fn in_order(mistakes: &[String], script: &str) {
    let mut last = 1;
    for mistake in mistakes {
        let (line, what) = mistake.split_once(": ").expect("LINE: what");
        let line: usize = line.parse().expect("a number");
        assert!(line >= last && line <= script.lines().count() && !what.is_empty());
        last = line;
    }
}

/// The planted mistake: a packet of a flow that no seed has.
#[cfg(feature = "planted")]
fn planted(calls: &str) {
    let flow = |line: &str| line.starts_with("a ") && line.split(' ').nth(3) == Some("5");
    assert!(!calls.lines().any(flow), "the planted mistake: flow 5");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &str) {}

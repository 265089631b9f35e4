// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks after each round whether the kernel has the expected state.

use crate::process::direct;
use crate::tdc::{differing, dump};
use anyhow::Result;

/// The state that must be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Nothing,
    /// One of the two policies.
    Policy(usize),
}

/// Returns what tc, ip and nft show of the router, and the state as weirgate reads it.
pub fn shown() -> Result<String> {
    let mut whole = dump()?;
    for words in [
        ["ip", "-4", "rule", "show"].as_slice(),
        &["ip", "-6", "rule", "show"],
        &["ip", "-4", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
    ] {
        whole += "\n";
        whole += &direct(words)?.output;
    }
    // The device of the users has another index and other routes each time that it is made. The
    // kernel adds routes of link-local addresses after a time.
    let own = |line: &&str| {
        let passing = [": lan@", " dev lan ", "fe80::", "ff00::/8"];
        !passing.iter().any(|part| line.contains(part))
    };
    let lines: Vec<&str> = whole.lines().filter(own).collect();
    Ok(lines.join("\n"))
}

/// Returns the deviations from the expected state.
pub fn wrong(expected: Expected, bare: &str) -> Result<Vec<String>> {
    Ok(match expected {
        Expected::Nothing => differing(bare, &shown()?),
        Expected::Policy(_) => {
            let shown = direct(&["weirgate", "show"])?;
            match shown.status {
                Some(0) => Vec::new(),
                status => vec![format!("show ends with {status:?}: {}", shown.error)],
            }
        }
    })
}

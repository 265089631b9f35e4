// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks after each round whether the kernel has the expected state.

use super::files::POLICIES;
use crate::process::direct;
use crate::tdc::{differing, dump};
use anyhow::{Result, bail};

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
        Expected::Policy(policy) => {
            let mut wrong = Vec::new();
            // The first is of the recorded state, whichever policy that is of.
            for words in [&["show"][..], &["plan", POLICIES[policy]]] {
                let done = direct(&[&["weirgate"], words].concat())?;
                if done.status != Some(0) {
                    let (words, status) = (words.join(" "), done.status);
                    wrong.push(format!("{words} ends with {status:?}: {}", done.message()));
                }
            }
            wrong
        }
    })
}

/// Returns which of the two policies is in force.
pub fn in_force() -> Result<usize> {
    let plan = |policy: usize| -> Result<Option<i32>> {
        Ok(direct(&["weirgate", "plan", POLICIES[policy]])?.status)
    };
    one_of([plan(0)?, plan(1)?])
}

/// Returns the policy whose plan is empty, by the exit statuses of both plans: 0 if nothing would
/// change, 1 if something would.
fn one_of(plans: [Option<i32>; 2]) -> Result<usize> {
    match plans {
        [Some(0), Some(1)] => Ok(0),
        [Some(1), Some(0)] => Ok(1),
        _ => bail!("neither policy alone is in force: their plans end with {plans:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_policy_is_in_force_if_its_plan_alone_is_empty() {
        assert_eq!(one_of([Some(0), Some(1)]).ok(), Some(0));
        assert_eq!(one_of([Some(1), Some(0)]).ok(), Some(1));
        for plans in [
            [Some(0); 2],
            [Some(1); 2],
            [Some(0), None],
            [Some(2), Some(0)],
        ] {
            assert!(one_of(plans).is_err(), "{plans:?}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The soak's policies, and what `check` promises for each of their classes.

use crate::process::direct;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The classes of the policies, and for each a port of the provider's end whose packets it gets.
pub const CLASSES: [(&str, u16); 4] = [
    ("urgent", 53),
    ("normal", 8000),
    ("bulk", 8001),
    ("last", 6881),
];

/// What a policy promises for each class: the longest wait of a packet there and back, in
/// milliseconds, while the class sends less than its guarantee.
pub type Bounds = [f64; CLASSES.len()];

/// Returns the policies: the dormitory's with two rates, and with the first of them as a rate that
/// is followed. The rates are so low that a machine which is slower than its clock keeps up.
///
/// # Errors
///
/// Fails if the dormitory's policy no longer has the lines that are replaced.
pub fn policies(dormitory: &str) -> Result<[String; 3]> {
    let bulk = "\n[[rule]]\nname = \"soak\"\nclass = \"bulk\"\nprotocol = [\"tcp\", \"udp\"]\n\
                remote-port = 8001\n";
    let session = "[receive.announced]\nmss = 536\n\n";
    let follow = "[track]\nreflectors = [\"192.0.2.2\"]\nup-floor = \"1mbit\"\n\
                  down-floor = \"2mbit\"\n\n";
    let first = "[[class]]\nname = \"urgent\"\n";
    for part in ["\"100mbit\"", "\"200mbit\"", first] {
        ensure!(dormitory.contains(part), "the policy has no {part}");
    }
    let slow = dormitory
        .replace("\"100mbit\"", "\"2mbit\"")
        .replace("\"200mbit\"", "\"4mbit\"")
        + bulk;
    let with = |tables: &str| slow.replacen(first, &format!("{tables}{first}"), 1);
    let one = with(session);
    let other = one.replace("\"2mbit\"", "\"3mbit\"");
    let followed = with(&format!("{follow}{session}"));
    Ok([one, other, followed])
}

/// Returns what `check` promises. The rest of the path takes no time here.
///
/// # Errors
///
/// Fails if `check` promises nothing for a class.
pub fn bounds(policy: &str) -> Result<Bounds> {
    let done = direct(&["weirgate", "check", "--json", policy])?;
    let report: Value = serde_json::from_str(&done.output).context("check --json")?;
    let directions = report["links"][0]["directions"].as_array();
    let directions = directions.context("no directions")?;
    ensure!(directions.len() == 2, "{policy}: not two directions");
    let mut bounds = [0.0; CLASSES.len()];
    for (bound, (name, _)) in bounds.iter_mut().zip(CLASSES) {
        for direction in directions {
            let classes = direction["classes"].as_array().into_iter().flatten();
            let class = classes.clone().find(|class| class["name"] == name);
            let wait = class.and_then(|class| class["within_guarantee"]["ms"].as_f64());
            *bound += wait.with_context(|| format!("{policy}: no promise for `{name}`"))?;
        }
    }
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_differ_in_rates_and_in_what_follows_them() {
        let dormitory = include_str!("../../../../policies/dormitory.toml");
        let [one, other, followed] = policies(dormitory).unwrap();
        assert!(one.contains("up = \"2mbit\"") && one.contains("down = \"4mbit\""));
        assert!(other.contains("up = \"3mbit\"") && !other.contains("[track]"));
        assert!(followed.contains("[track]") && followed.contains("up = \"2mbit\""));
        assert!(policies("").is_err());
    }
}

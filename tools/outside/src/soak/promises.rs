// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `check` promises for each class of the soak's policies.

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

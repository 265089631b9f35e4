// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holding arriving packets to a rate costs by the virtual queue, as a part of
//! what an IFB with cake costs: instructions, counted by the lab's clock.

use crate::bench::{Figure, Goal};
use crate::cargo;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// The test that measures both, and how the line begins that has the figure.
const TEST: &str = "holding_beside_queueing";
const LINE: &str = "saturated, as a part: ";

pub fn figure(root: &Path) -> Result<Figure> {
    let words = ["test", "--release", "--workspace", "--test", "guest", "--"];
    let output = cargo(root)
        .args(words)
        .args(["--exact", TEST, "--ignored", "--nocapture"])
        .output()
        .context("cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let value = text.lines().find_map(|line| line.strip_prefix(LINE));
    Ok(Figure {
        what: "virtual queue, saturated: part of IFB and cake's instructions",
        value: value
            .with_context(|| format!("`{TEST}` printed no `{LINE}`"))?
            .parse()?,
        goal: Goal::AtMost(0.2),
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of policing arriving packets by the virtual queue, relative to an IFB with
//! cake. The cost is in instructions, counted by the lab's clock.

use crate::bench::figure::{Figure, Goal};
use crate::command::cargo;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// The test that measures both.
const TEST: &str = "holding_beside_queueing";

/// The beginning of a line with a figure, the figure's name, and its goal.
const FIGURES: [(&str, &str, f64); 2] = [
    (
        "in nobody's way, as a part: ",
        "virtual queue, free: part of IFB and cake's instructions",
        0.333,
    ),
    (
        "saturated, as a part: ",
        "virtual queue, saturated: part of IFB and cake's instructions",
        0.2,
    ),
];

pub fn figures(root: &Path) -> Result<Vec<Figure>> {
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
    let figure = |(begin, what, most): (&str, &'static str, f64)| {
        let value = text.lines().find_map(|line| line.strip_prefix(begin));
        let value = value.with_context(|| format!("`{TEST}` printed no `{begin}`"))?;
        Ok(Figure {
            what,
            value: value.parse()?,
            goal: Goal::AtMost(most),
        })
    };
    FIGURES.into_iter().map(figure).collect()
}

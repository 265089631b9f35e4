// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other tools' files, made into the text of a policy, with the name of
//! everything that a policy does not express.
//!
//! * [`sqm`]: `/etc/config/sqm` and `/etc/sqm/DEVICE.iface.conf` of sqm-scripts.
//! * [`libreqos`]: `ShapedDevices.csv` with `lqos.conf` or `ispConfig.py`.
//!
//! Text in, text out: this crate knows neither files nor the policy's model.
//! What it writes is meant to be read and kept by a person.
//!
//! ```
//! let file = "config queue\n option enabled 1\n option interface wan\n option upload 9400\n";
//! let imported = weirgate_import::sqm::import(file, None)?;
//! assert!(imported.policy.contains("up = \"9419kbit\""));
//! assert!(imported.left_out.iter().any(|one| one.contains("LAN devices")));
//! # Ok::<(), weirgate_import::ImportError>(())
//! ```

pub mod libreqos;
pub mod sqm;

/// A policy made from other tools' files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The policy's text.
    pub policy: String,
    /// What was left out or has to be filled in, one sentence each, with its
    /// place in the file.
    pub left_out: Vec<String>,
}

/// Occurs when a file is not of the kind that it is read as, or lacks what no
/// policy can do without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what} ({hint})")]
pub struct ImportError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub hint: &'static str,
}

/// The head of an imported policy.
fn head(from: &str, left_out: &[String]) -> String {
    let mut text = format!("# Made by `weirgate import` from {from}.\n");
    for one in left_out {
        text.push_str("# Left out: ");
        // A comment is one line, whatever the file held.
        text.extend(one.chars().map(|c| if c.is_control() { ' ' } else { c }));
        text.push('\n');
    }
    text.push_str("version = 1\n");
    text
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

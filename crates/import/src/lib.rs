// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the files of other tools to the text of a policy, and lists everything that a policy
//! cannot express.
//!
//! * [`sqm`]: `/etc/config/sqm` and `/etc/sqm/DEVICE.iface.conf` of sqm-scripts.
//! * [`libreqos`]: `ShapedDevices.csv` with `lqos.conf` or `ispConfig.py`.
//!
//! This crate is pure: it reads no files, and does not use the policy's model. Its output is meant
//! to be read and maintained by a person.
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

/// A policy that was converted from other tools' files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The policy's text.
    pub policy: String,
    /// What was left out or must be filled in, one sentence each, with its place in the file.
    pub left_out: Vec<String>,
}

/// The error of a file that has another format, or lacks something that every policy needs.
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

/// Returns the head of an imported policy.
fn head(from: &str, left_out: &[String]) -> String {
    let mut text = format!("# Made by `weirgate import` from {from}.\n");
    for one in left_out {
        text.push_str("# Left out: ");
        // Replace control characters: a comment must stay on one line.
        text.extend(one.chars().map(|c| if c.is_control() { ' ' } else { c }));
        text.push('\n');
    }
    text.push_str("version = 1\n");
    text
}

/// Formats a text as TOML.
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

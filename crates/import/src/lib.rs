// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the files of other tools to the text of a policy, and lists everything that a policy
//! cannot express.
//!
//! * [`sqm`]: `/etc/config/sqm` and `/etc/sqm/DEVICE.iface.conf` of sqm-scripts.
//! * [`libreqos`]: `ShapedDevices.csv` with `lqos.conf` or `ispConfig.py`.
//! * [`uci`]: OpenWrt's `/etc/config/weirgate`.
//!
//! This crate is pure: it reads no files. Its output is meant to be read and maintained by a
//! person. `weirgate check` accepts it: what it would refuse is an error here, at the place in the
//! other tool's file.
//!
//! ```
//! let file = "config queue\n option enabled 1\n option interface wan\n option upload 9400\n";
//! let imported = weirgate_import::sqm::import(file, None).expect("it is right");
//! assert!(imported.policy.contains("up = \"9419kbit\""));
//! assert!(imported.left_out.iter().any(|one| one.contains("LAN devices")));
//! let wrong = file.replace("wan", "'a wan'").replace("9400", "fast");
//! let errors = weirgate_import::sqm::import(&wrong, None).expect_err("two mistakes");
//! let places: Vec<_> = errors.iter().map(|one| one.line_column(&wrong)).collect();
//! assert_eq!(places, [(3, 19), (4, 16)]);
//! ```

mod codes;
mod judge;
pub mod libreqos;
pub mod sqm;
pub mod uci;

pub use codes::CODES;

use weirgate_document::{Draft, Problem, Problems};
use weirgate_state::Capabilities;

/// A policy that was converted from other tools' files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The policy's text.
    pub policy: String,
    /// What was left out or must be filled in, one sentence each, with its place in the file.
    pub left_out: Vec<String>,
}

/// Returns the beginning of a policy.
fn begun() -> Draft {
    let mut draft = Draft::default();
    draft.push("version = 1\n\n", &(0..0));
    draft
}

/// Returns the policy with its head, unless something in the files or the policy is wrong.
fn finished(
    from: &str,
    draft: &Draft,
    left_out: Vec<String>,
    problems: Problems,
) -> Result<Imported, Vec<Problem>> {
    let errors = judge::errors(&draft.text, &draft.origins, &Capabilities::all());
    judge::report(errors, &problems);
    if problems.has_errors() {
        return Err(problems.into_sorted());
    }
    let mut policy = format!("# Made by `weirgate import` from {from}.\n");
    for one in &left_out {
        policy.push_str("# Left out: ");
        // Replace control characters: a comment must stay on one line.
        policy.extend(one.chars().map(|c| if c.is_control() { ' ' } else { c }));
        policy.push('\n');
    }
    policy.push_str(&draft.text);
    Ok(Imported { policy, left_out })
}

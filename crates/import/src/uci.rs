// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenWrt's `/etc/config/weirgate`: a policy as UCI.

use crate::judge;
use weirgate_document::{Problem, Problems};
use weirgate_state::Capabilities;
use weirgate_uci::{Configured, convert};

/// The code of a required field that a document lacks.
const MISSING: &str = "D002";

/// Returns the policy in a file. `kernel` has the features that `weirgate check` assumes.
///
/// A policy that includes files is not checked, because they are not at hand.
///
/// # Errors
///
/// Fails if the text is not such a file, or if `weirgate check` would refuse the policy. All
/// mistakes are returned, with their places in the file.
pub fn import(text: &str, kernel: &Capabilities) -> Result<Configured, Vec<Problem>> {
    let problems = Problems::default();
    let configured = convert(text, &problems);
    let Configured {
        policy, origins, ..
    } = &configured;
    if !policy.lines().any(|line| line.starts_with("include = ")) {
        let mut errors = judge::errors(policy, origins, kernel);
        if problems.has_errors() {
            // The missing field may be one that is reported already.
            errors.retain(|error| error.code != MISSING);
        }
        judge::report(errors, &problems);
    }
    if problems.has_errors() {
        return Err(problems.into_sorted());
    }
    Ok(configured)
}

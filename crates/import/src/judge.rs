// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks a made policy, as `weirgate check` does, and reports its errors where the file has what
//! is wrong.

use weirgate_document::{Origins, Problem, Problems, Severity};
use weirgate_state::Capabilities;

/// Returns the errors of a policy, with their places in the file that it was made from.
///
/// Warnings are left out: most of them are about what the file does not say, and
/// `weirgate check` shows them.
pub(crate) fn errors(policy: &str, origins: &Origins, kernel: &Capabilities) -> Vec<Problem> {
    let (parsed, mut problems) = weirgate_policy::parse(policy);
    if let Some(parsed) = parsed {
        problems.extend(weirgate_compile::compile(&parsed, kernel).1);
    }
    problems.retain(|problem| problem.severity == Severity::Error);
    for problem in &mut problems {
        problem.span = origins.of(problem.span.start);
    }
    problems
}

/// Adds errors to those that are found already.
pub(crate) fn report(errors: Vec<Problem>, problems: &Problems) {
    for error in errors {
        problems.error(error.code, error.span, error.message, error.hint);
    }
}

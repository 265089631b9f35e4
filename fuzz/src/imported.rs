// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as a file of sqm-scripts in either format, and as the two files of LibreQoS. It
//! must be refused at places that it has, or become a valid policy, whatever quotes, names and
//! comments contain.

use weirgate_document::Problem;
use weirgate_import::{Imported, libreqos, sqm};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    judged(sqm::import(text, None).map_err(|all| placed(text, &all)));
    judged(sqm::import(text, Some("eth1")).map_err(|all| placed(text, &all)));
    // The first empty line separates the circuits from the settings.
    if let Some((circuits, settings)) = text.split_once("\n\n") {
        judged(
            libreqos::import(circuits, settings).map_err(|[first, second]| {
                assert!(!first.is_empty() || !second.is_empty());
                for (text, all) in [(circuits, first), (settings, second)] {
                    if !all.is_empty() {
                        placed(text, &all);
                    }
                }
            }),
        );
    }
}

fn judged(result: Result<Imported, ()>) {
    if let Ok(imported) = result {
        planted(&imported);
        let (policy, problems) = weirgate_policy::parse(&imported.policy);
        assert!(policy.is_some(), "{problems:?}\n{}", imported.policy);
    }
}

/// Panics unless there are mistakes, each in the text.
pub(crate) fn placed(text: &str, errors: &[Problem]) {
    assert!(!errors.is_empty());
    for error in errors {
        assert!(error.span.end <= text.len(), "{error:?}");
    }
}

/// The planted mistake: a policy that leaves out two dozen items, more than any seed.
#[cfg(feature = "planted")]
fn planted(imported: &Imported) {
    let left_out = imported.left_out.len();
    assert!(
        left_out < 24,
        "the planted mistake: {left_out} things left out"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Imported) {}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as a file of sqm-scripts in either format, and as the two files of LibreQoS. It
//! must be refused with a valid line, or become valid TOML, whatever quotes, names and comments
//! contain.

use weirgate_import::{ImportError, Imported, libreqos, sqm};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    judged(text, sqm::import(text, None));
    judged(text, sqm::import(text, Some("eth1")));
    // The first empty line separates the circuits from the settings.
    if let Some((circuits, settings)) = text.split_once("\n\n") {
        judged(text, libreqos::import(circuits, settings));
    }
}

fn judged(text: &str, result: Result<Imported, ImportError>) {
    match result {
        Ok(imported) => {
            planted(&imported);
            let (policy, problems) = weirgate_policy::parse(&imported.policy);
            // Rates may be out of range and names too long, but the text must be TOML.
            let broken = problems.iter().any(|problem| problem.code == "D001");
            assert!(policy.is_some() || !broken, "{}", imported.policy);
        }
        Err(error) => {
            let lines = text.lines().count().max(1);
            assert!((1..=lines).contains(&error.line), "{error} of {lines}");
        }
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

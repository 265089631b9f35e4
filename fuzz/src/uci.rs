// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as OpenWrt's configuration. It must be refused with a valid line, or become the
//! text of a policy that does not change when it is converted to UCI and back.

use weirgate_uci::{of_policy, to_policy};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match to_policy(text) {
        Ok(read) => {
            planted(&read.policy);
            let file = of_policy(&read.policy, read.enabled);
            let file = file.unwrap_or_else(|error| panic!("{error}\n{}", read.policy));
            let back = to_policy(&file).unwrap_or_else(|all| panic!("{all:?}\n{file}"));
            let again = of_policy(&back.policy, back.enabled);
            assert_eq!(again.as_deref(), Ok(file.as_str()), "{}", read.policy);
            assert_eq!(back.enabled, read.enabled);
        }
        Err(errors) => crate::imported::placed(text, &errors),
    }
}

/// The planted mistake: more rules than any seed has.
#[cfg(feature = "planted")]
fn planted(policy: &str) {
    let rules = policy.matches("[[rule]]").count();
    assert!(rules < 12, "the planted mistake: {rules} rules");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &str) {}

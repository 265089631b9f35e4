// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cookie of a namespace is unique, also after the namespace has gone.

use crate::harness::in_namespace;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use weirgate_kernel::namespace_cookie;

#[test]
fn a_number_is_not_used_again() {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    seen.lock().unwrap().insert(namespace_cookie().unwrap());
    for _ in 0..4 {
        let seen = Arc::clone(&seen);
        in_namespace(|_| async move {
            let own = namespace_cookie().unwrap();
            assert!(seen.lock().unwrap().insert(own), "{own} was seen before");
        });
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the engine of a policy under traffic.

use crate::inside::{Busy, PINS, SITE, Site, configured, gone, root, site};
use std::fs;

/// Changes to the engine of rows and back. The new engine does not know what the old one sent just
/// before, so one packet may follow at once.
#[test]
#[ignore = "runs in the lab's kernel"]
fn take_turns() {
    let far = site();
    SITE.applied();
    let gate = configured("wan0").expect("a tree").gate;
    let busy = Busy::begin();
    for (engine, kind) in [
        ("htb", "qdisc htb"),
        ("rows", "qdisc weir_r"),
        ("kit", "qdisc weir_shaper"),
        ("rows", "qdisc weir_r"),
        ("htb", "qdisc htb"),
    ] {
        Site { engine, ..SITE }.applied();
        println!("{engine}: {}", root("wan0").trim());
        assert!(root("wan0").contains(kind), "{}", root("wan0"));
        let pinned = fs::read_dir(PINS).map_or(0, Iterator::count);
        assert_eq!(pinned, if engine == "rows" { 2 } else { 0 }, "{engine}");
    }
    busy.end(gate, 1_500.0);
    gone(far);
}

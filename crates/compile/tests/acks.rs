// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ACK filter of BPF engines: chosen at the same rates as that of the tree, without cake.

use weirgate_compile::compile;
use weirgate_state::CakeAckFilter::{self, Aggressive, Filter, No};
use weirgate_state::{Capabilities, DeviceName, QdiscKind};

/// Returns the filter upstream, on a kernel without cake.
fn filter(up: &str, engine: &str, stated: &str, ack: &str) -> CakeAckFilter {
    let text = format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{up}\"\n\
         down = \"17mbit\"\ninbound = \"ifb\"\nlayer = \"vdsl2:pppoe\"\n\
         engine = \"{engine}\"\n{stated}\n{ack}\n\
         [[class]]\nname = \"all\"\nshare = \"90%\"\ndefault = true\n"
    );
    let (policy, problems) = weirgate_policy::parse(&text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    let mut kernel = Capabilities::all();
    kernel.qdiscs.remove("cake");
    let (state, problems) = compile(&policy, &kernel);
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    assert!(
        !problems.iter().any(|one| one.code == "C215"),
        "{problems:#?}"
    );
    let [up, down] = ["wan", "ifb-wan"].map(|device| {
        let device = &state.devices[&DeviceName::new(device).expect("a name")];
        match &device.root.as_ref().expect("shaped").kind {
            QdiscKind::Kit(kit) => kit.acks,
            QdiscKind::Rows(rows) => rows.acks,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(down, No, "acknowledgements of uploads");
    up
}

/// A tenth of the upstream is where the filter begins, as in the tree
/// (`acknowledgements_are_filtered_where_the_rates_ask_for_it`).
#[test]
fn programs_filter_where_the_rates_ask_for_it() {
    for engine in ["kit", "rows"] {
        for ack in ["", "[ack]\ndirection = \"up\""] {
            assert_eq!(filter("4600kbit", engine, "", ack), Aggressive);
            assert_eq!(filter("4610kbit", engine, "", ack), No);
            assert_eq!(filter("10mbit", engine, "ack-filter = \"on\"", ack), Filter);
            assert_eq!(filter("2mbit", engine, "ack-filter = \"off\"", ack), No);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs in the guest. Ignored elsewhere.

use weirgate_aqm::Discipline;
use weirgate_bpf::Qdisc;

#[test]
#[ignore = "runs in the lab's kernel"]
fn loads() {
    let mut failed = false;
    for discipline in Discipline::all() {
        match Qdisc::load(discipline) {
            Ok(qdisc) => println!("{}: loaded", qdisc.kind()),
            Err(error) => {
                println!("{error}");
                failed = true;
            }
        }
    }
    assert!(!failed);
}

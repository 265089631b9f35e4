// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sites of a list that change places under traffic: tests that run in the guest.

use crate::inside::net::Far;
use crate::inside::{Flood, address, circuits, done, line, routes, sent, settled};
use crate::lists::{CircuitLine, written};
use std::fs;
use std::thread;
use std::time::Duration;
use weirgate_circuits::rows::Label;

/// Exchanges under traffic; each meets the engine in another state.
const EXCHANGES: usize = 20;

/// Writes a list of two circuits, each at a site; one site is below the other.
fn below(lines: &[CircuitLine], name: &str, [upper, lower]: [u32; 2]) -> String {
    let files = written(name, lines, 100);
    let rates = r#""downloadBandwidthMbps": 100, "uploadBandwidthMbps": 100"#;
    let network = format!(
        r#"{{ "site-{upper}": {{ {rates}, "children": {{ "site-{lower}": {{ {rates} }} }} }} }}"#
    );
    fs::write(format!("/tmp/{name}.json"), network).expect("a file");
    files
}

/// A site moves below its former child repeatedly, while both circuits are backlogged: they keep
/// their rates.
#[test]
#[ignore = "runs in the lab's kernel"]
fn sites_change_places() {
    settled([0; 3]);
    let _far = Far::new(1);
    routes();
    let lines = [line(1), line(2)];
    let lists = [
        below(&lines, "first", [1, 2]),
        below(&lines, "second", [2, 1]),
    ];
    done(&format!("apply wan0 {}", lists[0]));
    let floods: Vec<Flood> = lines
        .iter()
        .map(|line| Flood::to(address(line, false), 4))
        .collect();
    let labels = [1, 2].map(|number: u32| Label::Circuit(number.to_string()));
    let tree = circuits();
    thread::sleep(Duration::from_secs(1));
    for exchange in 1..=EXCHANGES {
        done(&format!("apply wan0 {}", lists[exchange % 2]));
        let from = sent(&tree, &labels);
        thread::sleep(Duration::from_millis(200));
        let to = sent(&tree, &labels);
        for ((line, from), to) in lines.iter().zip(from).zip(to) {
            let due = f64::from(line.kbit) * 125.0 * (to.1 - from.1).as_secs_f64();
            let had = (to.0 - from.0) as f64;
            // Counters are read between packets.
            assert!(
                (had - due).abs() <= 1_042.0,
                "exchange {exchange}: circuit {}: {had} of {due:.0} bytes",
                line.number
            );
        }
    }
    println!("{EXCHANGES} exchanges");
    drop(floods);
    done("remove wan0 --all");
}

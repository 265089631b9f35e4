// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the distribution of a list to a device's queues.

use weirgate_circuits::rows::{self, LabelText, RowLayout, UsedRow};
use weirgate_circuits::{Direction, File, read};

/// The first line of ShapedDevices.csv.
const HEADER: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
                      Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n";

/// Sites are distributed over the queues by their rates, and stay there with everything below them.
/// Circuits below no site are distributed by their identifiers.
#[test]
fn sites_have_a_queue_each() {
    let network = |names: &[(&str, u32)]| {
        let sites = names.iter().map(|(name, mbit)| {
            format!(
                "\"{name}\": {{ \"downloadBandwidthMbps\": {mbit}, \"uploadBandwidthMbps\": {mbit}, \
                 \"children\": {{ \"{name}-ap\": {{ \"downloadBandwidthMbps\": {mbit}, \
                 \"uploadBandwidthMbps\": {mbit} }} }} }}"
            )
        });
        format!("{{ {} }}", sites.collect::<Vec<_>>().join(","))
    };
    let line = |id: u32, site: &str| format!("{id},,,,{site},,10.0.0.{id},,1,1,500,500,\n");
    let of = |names: &[(&str, u32)]| {
        let below = names.iter().zip(1..);
        let below = below.map(|((name, _), id)| line(id, &format!("{name}-ap")));
        let devices =
            HEADER.to_owned() + &below.collect::<String>() + &line(90, "") + &line(91, "");
        let files = [
            File {
                name: "network.json",
                text: &network(names),
            },
            File {
                name: "ShapedDevices.csv",
                text: &devices,
            },
        ];
        read(&files).list.expect("a list")
    };
    let layout = RowLayout {
        queues: 3,
        inner: 40,
        leaves: 40,
    };
    let mut held: Vec<UsedRow> = Vec::new();
    let mut queues = |names: &[(&str, u32)]| {
        let list = of(names);
        let made = rows::rows(&list, Direction::Down, layout, None, &held).expect("room");
        held = made
            .0
            .iter()
            .map(|row| UsedRow {
                id: row.id,
                label: row.label,
                queue: row.queue,
                live: true,
                at_rest: true,
            })
            .collect();
        for row in &made.0 {
            let above = made.0.iter().find(|one| one.id == row.row.parent);
            assert!(
                above.is_none_or(|above| above.queue == row.queue),
                "{row:?}"
            );
            assert!(!layout.is_root(row.row.parent) || row.row.parent == layout.root(row.queue));
        }
        assert!(made.1.iter().all(|word| word >> rows::QUEUE_SHIFT < 3));
        let own = |name: &str| made.0.iter().find(|row| row.label == LabelText::site(name));
        names
            .iter()
            .map(|(name, _)| own(name).map(|row| row.queue))
            .collect::<Vec<_>>()
    };
    let first = [("a", 400), ("b", 300), ("c", 200), ("d", 100)];
    assert_eq!(queues(&first), [Some(0), Some(1), Some(2), Some(2)]);
    // Existing sites stay, and new ones go to the queue with the smallest rate.
    let then = [("d", 100), ("e", 50), ("a", 400)];
    assert_eq!(queues(&then), [Some(2), Some(1), Some(0)]);
}

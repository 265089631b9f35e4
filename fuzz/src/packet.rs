// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a packet's text, as a capture, and as a frame that passes a router. Mistakes
//! must have places within the line.

use std::sync::LazyLock;
use weirgate_explain::{Devices, Packet, Simulator, is_capture, parse_line, read_capture};
use weirgate_state::{DeviceName, Table};

pub fn run(data: &[u8]) {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(tables);
    let mut simulator = Simulator::new(&TABLES).tracking();
    if is_capture(data) {
        for one in read_capture(data).packets {
            let carried = one.carried;
            for packet in [carried.packet, carried.bridged].into_iter().flatten() {
                pass(&mut simulator, packet, one.time);
            }
        }
        return;
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let mut now = 0;
        for line in text.lines().take(64) {
            match parse_line(line) {
                Ok(Some(read)) => {
                    planted(read.repeat.0);
                    now += 1;
                    pass(&mut simulator, read.packet, now);
                }
                Ok(None) => {}
                Err(mistakes) => {
                    assert!(!mistakes.is_empty());
                    let length = line.chars().count();
                    for one in mistakes {
                        assert!(one.column >= 1 && one.column <= length + 1);
                        assert!(!one.wrong.is_empty() && !one.right.is_empty());
                    }
                }
            }
        }
    }
    for ethertype in [0x0800, 0x86dd, 0x8864] {
        pass(
            &mut simulator,
            Packet::whole(ethertype, data.to_vec()),
            1 << 40,
        );
    }
}

fn device(name: &str) -> Option<DeviceName> {
    DeviceName::new(name)
}

fn pass(simulator: &mut Simulator, packet: Packet, now: u64) {
    let path = Devices {
        arrives: device("lan"),
        leaves: device("wan"),
    };
    let fate = simulator.pass(packet, &path, now, Some(0));
    assert!(fate.packet.bytes.len() <= fate.packet.length.max(65_575));
}

/// Returns the tables of a policy that matches on every field.
fn tables() -> Vec<Table> {
    static POLICY: &str = include_str!("../seeds/policy/scheme.toml");
    let policy = weirgate_policy::parse(POLICY).0;
    let state = policy.and_then(|policy| {
        weirgate_compile::compile(&policy, &weirgate_state::Capabilities::all()).0
    });
    state.map(|state| state.tables).unwrap_or_default()
}

/// The planted mistake: a number of repetitions that no seed has.
#[cfg(feature = "planted")]
fn planted(repeat: u32) {
    assert!(repeat != 6, "the planted mistake: six packets");
}

#[cfg(not(feature = "planted"))]
fn planted(_: u32) {}

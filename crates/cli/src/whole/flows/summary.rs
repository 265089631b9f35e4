// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate flows --summary`: prints the size and make-up of the connection table.

use crate::whole::flows::{Flow, protocol};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_console::exit::Failure;
use weirgate_console::output;
use weirgate_kernel::Connection;
use weirgate_units::Arrange as _;

/// The numbers of the connection table.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// All tracked connections, whether they cross the link or not.
    entries: u64,
    /// The most connections that the kernel tracks, or `None` if unknown.
    limit: Option<u64>,
    /// The connections without any reply.
    unreplied: u64,
    /// The connections with a mark, which stores kept decisions.
    marked: u64,
    /// The counts by protocol and destination port, most connections first.
    ports: Vec<Service>,
    /// The counts by class, of the connections that cross the link; `-` stands for a direction
    /// without a class.
    classes: BTreeMap<String, Halves>,
}

#[derive(Debug, Serialize)]
struct Service {
    protocol: String,
    /// The port, or 0 if the protocol has none.
    port: u16,
    #[serde(flatten)]
    count: Count,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Count {
    entries: u64,
    unreplied: u64,
    marked: u64,
}

/// The number of connections with this class upstream and downstream, and their rates.
#[derive(Debug, Default, Serialize)]
struct Halves {
    up: u64,
    down: u64,
    up_bits_per_second: u64,
    down_bits_per_second: u64,
}

impl Count {
    fn add(&mut self, connection: &Connection) {
        self.entries += 1;
        self.unreplied += u64::from(!connection.answered);
        self.marked += u64::from(connection.mark != 0);
    }
}

impl Summary {
    /// Counts all connections, and the classes of the flows that cross the link.
    pub fn of(connections: &[Connection], flows: &[Flow], limit: Option<u64>) -> Self {
        let mut all = Count::default();
        let mut by_port: BTreeMap<(u8, u16), Count> = BTreeMap::new();
        for one in connections {
            all.add(one);
            let key = (one.original.protocol, one.original.destination_port);
            by_port.entry(key).or_default().add(one);
        }
        let mut ports: Vec<Service> = by_port
            .into_iter()
            .map(|((number, port), count)| Service {
                protocol: protocol(number),
                port,
                count,
            })
            .collect();
        ports.arrange_by_key(|port| std::cmp::Reverse(port.count.entries));
        let mut classes: BTreeMap<String, Halves> = BTreeMap::new();
        let none = || String::from("-");
        for flow in flows {
            let up = classes.entry(flow.up.class.clone().unwrap_or_else(none));
            let up = up.or_default();
            up.up += 1;
            up.up_bits_per_second += flow.up.bits_per_second;
            let down = classes.entry(flow.down.class.clone().unwrap_or_else(none));
            let down = down.or_default();
            down.down += 1;
            down.down_bits_per_second += flow.down.bits_per_second;
        }
        Self {
            entries: all.entries,
            limit,
            unreplied: all.unreplied,
            marked: all.marked,
            ports,
            classes,
        }
    }

    /// Prints the summary, with at most `most` ports.
    pub fn print(&self, most: usize, json: bool) -> Result<(), Failure> {
        if json {
            output::data(&serde_json::to_string_pretty(self)?)?;
            return Ok(());
        }
        let limit = self.limit.map_or_else(String::new, |limit| {
            let share = self.entries as f64 * 100.0 / limit.max(1) as f64;
            format!(" of at most {limit} ({share:.1} %)")
        });
        let mut text = format!(
            "{} connections{limit}, {} unreplied, {} marked\n\n",
            self.entries, self.unreplied, self.marked
        );
        let _ = writeln!(
            text,
            "{:<5} {:>5} {:>8} {:>9} {:>8}",
            "proto", "port", "entries", "unreplied", "marked"
        );
        for Service {
            protocol,
            port,
            count,
        } in self.ports.iter().take(most)
        {
            let _ = writeln!(
                text,
                "{protocol:<5} {port:>5} {:>8} {:>9} {:>8}",
                count.entries, count.unreplied, count.marked
            );
        }
        let _ = writeln!(
            text,
            "\n{:<16} {:>8} {:>10} {:>8} {:>10}",
            "class", "up", "kbit/s", "down", "kbit/s"
        );
        for (class, halves) in &self.classes {
            let _ = writeln!(
                text,
                "{class:<16} {:>8} {:>10} {:>8} {:>10}",
                halves.up,
                halves.up_bits_per_second / 1000,
                halves.down,
                halves.down_bits_per_second / 1000
            );
        }
        output::data(text.trim_end())?;
        if self.ports.len() > most {
            let more = self.ports.len() - most;
            let ports = if more == 1 { "port" } else { "ports" };
            output::note(&format!("{more} more {ports}"));
        }
        Ok(())
    }
}

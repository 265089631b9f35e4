// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the kernel, and makes objects of its answers.

pub(crate) mod circuits;
pub(crate) mod connections;
mod device;
mod kit_shaper;
pub(crate) mod link;
pub(crate) mod packet_stats;
pub(crate) mod probe;
mod rows;
pub(crate) mod site_links;
mod unqueued;

use crate::legend::Legend;
use crate::look::circuits::Circuits;
use crate::look::connections::{Connections, Flow, SORTED};
use crate::look::device::of_device;
use crate::look::kit_shaper::Kits;
use crate::look::link::LineNow;
use crate::look::packet_stats::{PacketStats, Untimed};
use crate::object::{Number, Object, Sort};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use weirgate_kernel::{DeviceOverview, Kernel, KernelError, RuleCounter};
use weirgate_units::Arrange as _;

/// Devices that are looked at: beyond them there is a fleet of containers, or
/// someone who makes them to do harm.
const MOST_DEVICES: usize = 64;
const MOST_RULES: usize = 1024;
/// Looks between two of the connection table; one more for each of so many
/// connections, so that a long table costs no more by the second.
const CONNECTIONS_EVERY: u32 = 10;
const CONNECTIONS_EACH: usize = 2_000;
/// Looks until what failed is tried again.
const AGAIN: u32 = 10;

/// Why rules and connections could not be read.
struct Refused {
    reason: String,
    /// Looks until it is tried again; `None` where this process may not.
    rest: Option<u32>,
}

/// Looks at one network namespace, again and again.
pub struct Looker {
    kernel: Kernel,
    legend: Legend,
    lines: Vec<LineNow>,
    /// Looks until the connection table is read again, and how many there were
    /// between the last two readings.
    rest: u32,
    between: u32,
    connections: Connections,
    /// Why rules and connections are not looked at.
    refused: Option<Refused>,
    kits: Kits,
    circuits: Circuits,
    packet_stats: Option<PacketStats>,
    /// Why packets that pass are not looked at.
    blind: Option<String>,
}

impl Looker {
    /// Looks at the calling thread's namespace. Needs a tokio runtime, and no
    /// privilege.
    pub fn open(legend: Legend) -> Result<Self, KernelError> {
        Ok(Self {
            kernel: Kernel::open()?,
            legend,
            lines: Vec::new(),
            rest: 0,
            between: CONNECTIONS_EVERY,
            connections: Connections::default(),
            refused: None,
            kits: Kits::default(),
            circuits: Circuits::default(),
            packet_stats: None,
            blind: None,
        })
    }

    /// Looks at packets that pass, too, where that is allowed.
    pub fn look_at_packets(&mut self) {
        match PacketStats::open() {
            Ok(packet_stats) => self.packet_stats = Some(packet_stats),
            Err(error) => self.blind = Some(first_line(&error)),
        }
    }

    /// What numbers stand for.
    pub fn legend(&self) -> &Legend {
        &self.legend
    }

    /// Takes another policy's.
    pub fn set_legend(&mut self, legend: Legend) {
        self.legend = legend;
        // Classes of connections may be others.
        self.connections = Connections::default();
        self.rest = 0;
        self.between = CONNECTIONS_EVERY;
    }

    /// Takes what `[track]` has the line to be.
    pub fn set_lines(&mut self, lines: Vec<LineNow>) {
        self.lines = lines;
    }

    /// What `[track]` has the line to be.
    pub fn lines(&self) -> &[LineNow] {
        &self.lines
    }

    /// The flows with most traffic at the last reading of the connection table.
    pub fn flows(&self) -> Arc<Vec<Flow>> {
        Arc::clone(&self.connections.flows)
    }

    /// What is known of circuits, to answer who asks.
    pub(crate) fn circuits(&self) -> &Circuits {
        &self.circuits
    }

    /// Why rules and connections are not looked at; `None` if they are.
    pub fn refused(&self) -> Option<&str> {
        Some(&*self.refused.as_ref()?.reason)
    }

    /// Why passing packets are not measured; `None` if they are, or if it was not requested.
    pub fn blind(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// What of packets that pass could not be timed; `None` where they are not
    /// looked at.
    pub(crate) fn untimed(&self) -> Option<Untimed> {
        self.packet_stats.as_ref().map(PacketStats::untimed)
    }

    /// Looks once.
    pub async fn look(&mut self) -> Result<(Vec<Object>, Vec<DeviceOverview>), KernelError> {
        let mut devices = self.kernel.overview().await?;
        // Those that are shaped first, then by the kernel's number.
        devices.arrange_by_key(|device| (!shaped(device), device.index));
        devices.truncate(MOST_DEVICES);
        let mut objects = Vec::new();
        for device in &mut devices {
            objects.extend(of_device(device, &self.legend));
            self.kits.look(device, &self.legend, &mut objects);
            rows::look(device, &self.legend, &mut objects);
        }
        self.circuits.look(&devices, &mut objects).await;
        objects.extend(link::objects(&self.legend, &devices, &self.lines));
        if let Some(packet_stats) = &mut self.packet_stats {
            // What fails once need not fail at the next look.
            let found = packet_stats.look(&devices, shaped, &self.legend, &mut objects);
            self.blind = found.err().map(|error| first_line(&error));
        }
        let due = match &mut self.refused {
            None => true,
            Some(Refused { rest: None, .. }) => false,
            Some(Refused {
                rest: Some(rest), ..
            }) => {
                *rest = rest.saturating_sub(1);
                *rest == 0
            }
        };
        if due {
            let found = self.privileged(&mut objects).await;
            self.refused = found.err().map(|error| Refused {
                reason: error.to_string(),
                rest: (!error.is_denied()).then_some(AGAIN),
            });
        }
        Ok((objects, devices))
    }

    async fn privileged(&mut self, objects: &mut Vec<Object>) -> Result<(), KernelError> {
        for (netdev, table) in &self.legend.tables {
            let counters = self.kernel.rule_counters(*netdev, table).await?;
            objects.extend(of_rules(table, &counters));
        }
        unqueued::look(&self.kernel, &self.legend, objects).await;
        if self.rest == 0 {
            let table = self.kernel.connection_table().await?;
            let subnets = self.kernel.subnets().await?;
            let sorter = &self.legend.sorter;
            let limit = self.kernel.connection_limit();
            let room = SORTED.saturating_mul(self.between as usize);
            self.connections
                .take(&table, &subnets, (sorter, room), limit, Instant::now());
            let count = usize::try_from(table.count.all).unwrap_or(usize::MAX);
            let more = u32::try_from(count / CONNECTIONS_EACH).unwrap_or(u32::MAX);
            self.between = CONNECTIONS_EVERY.saturating_add(more);
            self.rest = self.between;
        }
        self.rest -= 1;
        objects.extend(self.connections.objects.iter().cloned());
        let classes = &self.connections.classes;
        let named = objects.iter_mut().filter(|one| one.sort == Sort::Class);
        for class in named.filter(|_| self.legend.sorter.0.is_some()) {
            let direction = match class.label("direction") {
                "up" => "up",
                "down" => "down",
                _ => continue,
            };
            let key = (direction, class.label("class").to_owned());
            let count = classes.get(&key).copied().unwrap_or(0);
            class.numbers.push((Number::ClassConnections, count));
        }
        Ok(())
    }
}

/// What went wrong, without what the verifier had to say.
fn first_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Whether a qdisc stands there that somebody asked for.
fn shaped(device: &DeviceOverview) -> bool {
    device
        .counters
        .qdiscs
        .iter()
        .any(|qdisc| qdisc.handle.major != 0)
}

fn of_rules(table: &str, counters: &BTreeMap<String, RuleCounter>) -> Vec<Object> {
    let object = |(name, counter): (&String, &RuleCounter)| Object {
        sort: Sort::Rule,
        identity: String::new(),
        begins: false,
        labels: vec![("table", table.to_owned()), ("rule", name.clone())],
        numbers: vec![
            (Number::RulePackets, counter.packets),
            (Number::RuleBytes, counter.bytes),
        ],
    };
    counters.iter().take(MOST_RULES).map(object).collect()
}

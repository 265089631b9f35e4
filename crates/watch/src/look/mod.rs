// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries the kernel, and converts its answers to objects.

mod advice;
pub(crate) mod behaviour;
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
use crate::look::behaviour::HostAlert;
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

/// The largest number of devices that are observed. More are likely containers, or made by an
/// attacker.
const MOST_DEVICES: usize = 64;
const MOST_RULES: usize = 1024;
/// The number of looks between two readings of the connection table. Each further
/// CONNECTIONS_EACH connections add one, so that the cost per second stays constant.
const CONNECTIONS_EVERY: u32 = 10;
const CONNECTIONS_EACH: usize = 2_000;
/// The number of looks after which a failed query is repeated.
const AGAIN: u32 = 10;

/// The reason why rules and connections cannot be read.
struct Refused {
    reason: String,
    /// The number of looks until the next attempt; `None` without permission.
    rest: Option<u32>,
}

/// Observes one network namespace repeatedly.
pub struct Looker {
    kernel: Kernel,
    legend: Legend,
    lines: Vec<LineNow>,
    /// The number of looks until the connection table is read again, and that between the last
    /// two readings.
    rest: u32,
    between: u32,
    connections: Connections,
    /// Why rules and connections are not observed, if so.
    refused: Option<Refused>,
    kits: Kits,
    circuits: Circuits,
    packet_stats: Option<PacketStats>,
    /// Why passing packets are not measured, if so.
    blind: Option<String>,
}

impl Looker {
    /// Opens the namespace of the calling thread. Needs a tokio runtime, but no privilege.
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

    /// Also measures passing packets, if this process has the permission.
    pub fn look_at_packets(&mut self) {
        match PacketStats::open() {
            Ok(packet_stats) => self.packet_stats = Some(packet_stats),
            Err(error) => self.blind = Some(first_line(&error)),
        }
    }

    /// Returns the meaning of the numbers.
    pub fn legend(&self) -> &Legend {
        &self.legend
    }

    /// Changes to the legend of another policy.
    pub fn set_legend(&mut self, legend: Legend) {
        self.legend = legend;
        // Connections may belong to other classes now.
        self.connections.without_classes();
        self.rest = 0;
        self.between = CONNECTIONS_EVERY;
    }

    /// Sets the rates that `[track]` estimates.
    pub fn set_lines(&mut self, lines: Vec<LineNow>) {
        self.lines = lines;
    }

    /// Returns the rates that `[track]` estimates.
    pub fn lines(&self) -> &[LineNow] {
        &self.lines
    }

    /// Returns the flows with the most traffic at the last reading of the connection table.
    pub fn flows(&self) -> Arc<Vec<Flow>> {
        Arc::clone(&self.connections.flows)
    }

    /// Returns the alerts for inside hosts that are in force.
    pub fn alerts(&self) -> Arc<Vec<HostAlert>> {
        Arc::clone(&self.connections.behaviour.alerts)
    }

    /// Returns the events of flows and hosts since the last call: kind and text.
    pub(crate) fn behaviour_events(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.connections.behaviour.events)
    }

    /// Returns the circuits, to answer queries.
    pub(crate) fn circuits(&self) -> &Circuits {
        &self.circuits
    }

    /// Returns why rules and connections are not observed; `None` if they are.
    pub fn refused(&self) -> Option<&str> {
        Some(&*self.refused.as_ref()?.reason)
    }

    /// Returns why passing packets are not measured; `None` if they are, or if that was not
    /// requested.
    pub fn blind(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// Returns what could not be measured; `None` if passing packets are not measured.
    pub(crate) fn untimed(&self) -> Option<Untimed> {
        self.packet_stats.as_ref().map(PacketStats::untimed)
    }

    /// Takes one look.
    pub async fn look(&mut self) -> Result<(Vec<Object>, Vec<DeviceOverview>), KernelError> {
        let mut devices = self.kernel.overview().await?;
        // Shaped devices come first, then the order is that of device indices.
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
            // An error need not recur at the next look.
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
            let now = Instant::now();
            let behaviour = &mut self.connections.behaviour;
            behaviour.take(&table, &subnets, &self.legend, now);
            self.connections
                .take(&table, &subnets, (sorter, room), limit, now);
            advice::advise(&mut self.connections, &self.legend);
            let count = usize::try_from(table.count.all).unwrap_or(usize::MAX);
            let more = u32::try_from(count / CONNECTIONS_EACH).unwrap_or(u32::MAX);
            self.between = CONNECTIONS_EVERY.saturating_add(more);
            self.rest = self.between;
        }
        self.rest -= 1;
        objects.extend(self.connections.objects.iter().cloned());
        objects.extend(self.connections.behaviour.objects());
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

/// Returns the first line of an error, without the verifier's log.
fn first_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns whether the device has a configured qdisc.
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

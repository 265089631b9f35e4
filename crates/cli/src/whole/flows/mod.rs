// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate flows`: lists the tracked connections with class, rule, inside host, bytes and rate.
//!
//! Connection tracking knows connections, but not classes. So a packet of each direction runs
//! through the applied tables in the simulator (crate `explain`). It has the mean length of the
//! direction's packets, and the connection's mark, bytes and state. The result of a rate limit at
//! that moment is unknown; the packet counts as within it.
//!
//! The kind is that of what passed between two readings of the table, so it is not known whether
//! the flow is steady.

mod conditioners;
mod receive;
mod summary;

use crate::policy::apply::{site, unread};
use crate::whole::explain::class::class_of;
use receive::Wanted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use summary::Summary;
use weirgate_behaviour::{Counted, Kind};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::runtime::in_runtime;
use weirgate_explain::{
    Blueprint, Devices, Direction, GivenConnection, GivenState, Packet, Simulator,
};
use weirgate_keep::Memory;
use weirgate_kernel::{Carried, Connection, Subnet, Tuple};
use weirgate_policy::{Inbound, Policy};
use weirgate_state::{DeviceName, Origin, State, TCP};
use weirgate_units::{Arrange as _, Inserted as _};
use weirgate_units::{ParseError, Span};
use weirgate_watch::{Sorted, Sorter};

/// The TCP flags of a segment in mid-connection: ACK.
const ACK: u8 = 0x10;
/// The TCP flags of the first segment: SYN.
const SYN: u8 = 0x02;

/// What `weirgate flows` takes.
#[derive(clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the command line"
)]
pub struct Arguments {
    /// Measure rates over this time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Only connections of this inside host.
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// Only connections of this class, in either direction.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// List at most this many, those with the most traffic first.
    #[arg(long, default_value_t = 50)]
    most: usize,
    /// List what `[receive]` limits instead: rates, windows, states.
    #[arg(long, alias = "held")]
    policed: bool,
    /// List the green, yellow and red packets of each `[[conditioner]]` instead.
    #[arg(long, conflicts_with = "policed")]
    conditioners: bool,
    /// Print totals instead: all, unreplied and marked entries, by port and by class.
    #[arg(long, conflicts_with_all = ["policed", "conditioners", "host", "class"])]
    summary: bool,
    /// With several links, use the link on this device.
    #[arg(long, value_name = "DEVICE", value_parser = policy::device)]
    link: Option<DeviceName>,
    /// Print JSON: all connections that match.
    #[arg(long)]
    json: bool,
}

/// Parses the time over which rates are measured.
fn interval(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    if span < Span::from_millis(10) || span > Span::from_secs(3600) {
        return Err("from 10ms to 1h".to_owned());
    }
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// One direction of a connection.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Half {
    /// The class, or `None` if the direction is not shaped.
    pub class: Option<String>,
    /// The place in the policy that decides, or another reason.
    rule: String,
    packets: u64,
    /// The bytes of IP packets.
    bytes: u64,
    /// The rate of IP packets over the interval, in bits per second.
    pub bits_per_second: u64,
}

/// A connection with its two directions.
#[derive(Debug, Serialize)]
pub struct Flow {
    protocol: String,
    host: IpAddr,
    host_port: u16,
    remote: IpAddr,
    remote_port: u16,
    pub up: Half,
    pub down: Half,
    /// What passed in the interval looks like: `call`, `real-time` or `bulk`.
    kind: Option<&'static str>,
    /// The connection's mark.
    mark: u32,
}

/// `weirgate flows`.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let (memory, entry) = (
            Memory::read(&site.folders).map_err(unread)?,
            site.in_force().map_err(unread)?,
        );
        let (Some(memory), Some(entry)) = (memory, entry) else {
            let text = "weirgate: nothing is applied; `weirgate apply` a policy first";
            return Err(Failure::Input(text.to_owned()));
        };
        let policy = policy::again(&entry.sources)?;
        if arguments.conditioners {
            return conditioners::run(&site, &memory.applied, arguments.json).await;
        }
        if arguments.policed {
            let wanted = Wanted {
                host: arguments.host,
                class: arguments.class.as_deref(),
                most: arguments.most,
                json: arguments.json,
            };
            return receive::run(
                &site,
                policy.link(arguments.link.as_ref())?,
                &memory.applied,
                &wanted,
            )
            .await;
        }
        let asked = |error: weirgate_kernel::KernelError| unread(error.into());
        let subnets = site.kernel.subnets().await.map_err(asked)?;
        let before = site.kernel.connections().await.map_err(asked)?;
        let since = Instant::now();
        tokio::time::sleep(arguments.interval).await;
        let after = site.kernel.connections().await.map_err(asked)?;
        let seconds = since.elapsed().as_secs_f64();
        if after.is_empty() {
            output::note(
                "no connection is tracked in this network namespace; NAT, or a rule with \
                 `connection`, `connections` or `keep`, makes the kernel track them",
            );
        }
        let view = View {
            policy: policy.link(arguments.link.as_ref())?,
            applied: &memory.applied,
            subnets: &subnets,
            before: before.iter().map(|one| (one.original, one)).inserted(),
            seconds,
        };
        let mut flows: Vec<Flow> = after.iter().filter_map(|one| view.flow(one)).collect();
        if arguments.summary {
            let limit = site.kernel.connection_limit();
            Summary::of(&after, &flows, limit).print(arguments.most, arguments.json)?;
            return Ok(Status::Done);
        }
        flows.retain(|flow| arguments.wants(flow));
        flows.arrange_by_key(|flow| {
            let rate = flow.up.bits_per_second + flow.down.bits_per_second;
            std::cmp::Reverse((rate, flow.up.bytes + flow.down.bytes))
        });
        if arguments.json {
            output::data(&serde_json::to_string_pretty(&flows)?)?;
        } else {
            print(
                &flows,
                arguments.most,
                after.iter().all(|one| one.carried.is_none()),
            )?;
        }
        Ok(Status::Done)
    })
}

impl Arguments {
    fn wants(&self, flow: &Flow) -> bool {
        let of_class = |name: &String| {
            let halves = [&flow.up, &flow.down];
            halves
                .into_iter()
                .any(|half| half.class.as_ref() == Some(name))
        };
        self.host.is_none_or(|host| flow.host == host) && self.class.as_ref().is_none_or(of_class)
    }
}

fn print(flows: &[Flow], most: usize, uncounted: bool) -> Result<(), Failure> {
    output::data(&format!(
        "{:<5} {:<9} {:<28} {:<28} {:>9} {:>9} {:>10} {:>10}  {:<14} {:<14} rule",
        "proto",
        "kind",
        "host",
        "remote",
        "up kbit/s",
        "down",
        "up kB",
        "down kB",
        "class up",
        "class down"
    ))?;
    let class = |half: &Half| half.class.clone().unwrap_or_else(|| String::from("-"));
    for flow in flows.iter().take(most) {
        output::data(&format!(
            "{:<5} {:<9} {:<28} {:<28} {:>9} {:>9} {:>10} {:>10}  {:<14} {:<14} {}",
            flow.protocol,
            flow.kind.unwrap_or("-"),
            end(flow.host, flow.host_port),
            end(flow.remote, flow.remote_port),
            flow.up.bits_per_second / 1000,
            flow.down.bits_per_second / 1000,
            flow.up.bytes / 1000,
            flow.down.bytes / 1000,
            class(&flow.up),
            class(&flow.down),
            flow.up.rule
        ))?;
    }
    if flows.len() > most {
        output::note(&format!(
            "{} more; `--most {}` lists them all",
            flows.len() - most,
            flows.len()
        ));
    }
    if uncounted && !flows.is_empty() {
        output::note(
            "weirgate: warning: the kernel does not count connections' bytes \
             (net.netfilter.nf_conntrack_acct is 0), so bytes and rates are 0",
        );
    }
    Ok(())
}

fn end(address: IpAddr, port: u16) -> String {
    match (address, port) {
        (address, 0) => address.to_string(),
        (IpAddr::V4(v4), port) => format!("{v4}:{port}"),
        (IpAddr::V6(v6), port) => format!("[{v6}]:{port}"),
    }
}

/// Returns the sorter with which `watch` finds the classes of connections.
pub fn sorter(policy: Policy, applied: State) -> Sorter {
    let sort = move |connection: &Connection, subnets: &[Subnet]| {
        let view = View {
            policy: &policy,
            applied: &applied,
            subnets,
            before: BTreeMap::new(),
            seconds: 1.0,
        };
        let flow = view.flow(connection)?;
        Some(Sorted {
            host: (flow.host, flow.host_port),
            remote: (flow.remote, flow.remote_port),
            opened_inside: view.opened_inside(connection)?,
            up: flow.up.class,
            down: flow.down.class,
        })
    };
    Sorter(Some(Arc::new(sort)))
}

/// The data for turning connections into flows.
struct View<'a> {
    policy: &'a Policy,
    applied: &'a State,
    subnets: &'a [Subnet],
    before: BTreeMap<Tuple, &'a Connection>,
    seconds: f64,
}

impl View<'_> {
    /// Returns the connection as a flow, or `None` if it does not cross the link.
    fn flow(&self, connection: &Connection) -> Option<Flow> {
        let Connection {
            original, reply, ..
        } = connection;
        let opened_inside = self.opened_inside(connection)?;
        // The addresses before source NAT and after destination NAT.
        let upward = if opened_inside { *original } else { *reply };
        let arriving = if opened_inside { *reply } else { *original };
        // A new connection has carried all its bytes since the previous reading.
        let before = match self.before.get(original) {
            Some(before) => before.carried,
            None => Some(Default::default()),
        };
        let (up, down) = match (connection.carried, opened_inside) {
            (Some((first, second)), true) => (first, second),
            (Some((first, second)), false) => (second, first),
            (None, _) => Default::default(),
        };
        let (up_before, down_before) = match (before, opened_inside) {
            (Some((first, second)), true) => (first, second),
            (Some((first, second)), false) => (second, first),
            (None, _) => (up, down),
        };
        let own = self.is_own(upward.source);
        let down_tuple = if self.policy.link.inbound.value == Inbound::Ifb {
            arriving
        } else {
            turned(upward)
        };
        Some(Flow {
            protocol: protocol(original.protocol),
            host: upward.source,
            host_port: upward.source_port,
            remote: upward.destination,
            remote_port: upward.destination_port,
            up: self.half(connection, upward, Direction::Up, own, (up, up_before)),
            down: self.half(
                connection,
                down_tuple,
                Direction::Down,
                own,
                (down, down_before),
            ),
            kind: self.kind([(up, up_before), (down, down_before)]),
            mark: connection.mark,
        })
    }

    /// Returns what the flow looks like by what passed, now and before, in both directions.
    fn kind(&self, ways: [(Carried, Carried); 2]) -> Option<&'static str> {
        let passed = ways.map(|(now, before)| Counted {
            packets: now.packets.saturating_sub(before.packets),
            bytes: now.bytes.saturating_sub(before.bytes),
        });
        Kind::of_interval((self.seconds * 1000.0) as u64, passed).map(Kind::word)
    }

    /// Returns whether the inside end opened the connection, or `None` if both ends are inside.
    fn opened_inside(&self, connection: &Connection) -> Option<bool> {
        let Connection {
            original, reply, ..
        } = connection;
        let inside = |address| self.is_inside(address);
        let (source, answerer) = (inside(original.source), inside(reply.source));
        match (source, answerer) {
            (true, true) => None,
            (from_inside, _) => Some(from_inside),
        }
    }

    /// Returns whether an address is the router's or behind it: on a subnet of a device that is not
    /// the link's.
    fn is_inside(&self, address: IpAddr) -> bool {
        let wan = self.policy.link.device.value.as_str();
        let others = self.subnets.iter().filter(|subnet| subnet.device != wan);
        self.is_own(address) || others.into_iter().any(|subnet| subnet.contains(address))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.own == address)
    }

    /// Returns one direction: its class, and what it carried before and now.
    fn half(
        &self,
        connection: &Connection,
        tuple: Tuple,
        direction: Direction,
        own: bool,
        (now, before): (Carried, Carried),
    ) -> Half {
        let link = &self.policy.link;
        let wan = Some(link.device.value.clone());
        let lan = link.lan.first().map(|lan| lan.value.clone());
        let inside = if own {
            None
        } else {
            lan.or_else(|| DeviceName::new("lan0"))
        };
        let path = match direction {
            Direction::Up => Devices {
                arrives: inside,
                leaves: wan,
            },
            Direction::Down => Devices {
                arrives: wan,
                leaves: inside,
            },
        };
        let mut packet = packet(connection, tuple, now);
        packet.input = path.arrives.as_ref().map(ToString::to_string);
        let mut simulator = Simulator::new(&self.applied.tables)
            .with_hooks(&self.applied.hooks)
            .tracking();
        let fate = simulator.pass(packet, &path, 0, None);
        let class = class_of(self.policy, direction, &fate);
        let rule = fate.passes.iter().rev().find_map(|pass| {
            let table = simulator.tables().get(pass.table)?;
            let written = pass.matched().filter_map(|tried| {
                let chain = table.chain(&tried.chain)?;
                let rule = chain.rules.get(tried.index)?;
                rule.class().map(|_| &rule.origin)
            });
            written.last().map(Origin::to_string)
        });
        let bytes = now.bytes.saturating_sub(before.bytes);
        Half {
            class: class.name.clone(),
            rule: rule.or(class.why.map(str::to_owned)).unwrap_or_default(),
            packets: now.packets,
            bytes: now.bytes,
            bits_per_second: (bytes as f64 * 8.0 / self.seconds.max(f64::MIN_POSITIVE)) as u64,
        }
    }
}

fn turned(tuple: Tuple) -> Tuple {
    Tuple {
        source: tuple.destination,
        destination: tuple.source,
        source_port: tuple.destination_port,
        destination_port: tuple.source_port,
        ..tuple
    }
}

/// Returns a packet of the connection in this direction, with the mean length.
fn packet(connection: &Connection, tuple: Tuple, carried: Carried) -> Packet {
    let begins = !connection.answered;
    let mut blueprint = Blueprint {
        ports: (tuple.source_port, tuple.destination_port),
        flags: if begins && tuple.protocol == TCP {
            SYN
        } else {
            ACK
        },
        icmp: (tuple.icmp_type, 0),
        ..Blueprint::new(tuple.source, tuple.destination, tuple.protocol)
    };
    let mean = carried.bytes.checked_div(carried.packets).unwrap_or(0);
    let mean = usize::try_from(mean.min(65_000)).unwrap_or(0);
    blueprint.payload = mean.saturating_sub(blueprint.header_length());
    let bytes = blueprint.bytes();
    let (up, down) = connection.carried.unwrap_or_default();
    Packet {
        given: GivenConnection {
            state: connection.answered.then_some(GivenState::Established),
            mark: Some(connection.mark),
            bytes: Some(up.bytes + down.bytes),
            packets: Some(up.packets + down.packets),
            helper: None,
        },
        ..Packet::whole(blueprint.ethertype(), bytes)
    }
}

/// Returns the name of a protocol, as it is printed.
pub fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmp6".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain's routers and customers as network namespaces with veth devices between them, in the
//! lab's machine. Each has the name and the devices of the domain file.
//!
//! Routes are those of [`Domain::first_ports`]. A router only has the link-local addresses of its
//! ports, and all neighbours are set in advance, so that there is no traffic but the domain's own.
//! A line with a delay goes through a bridge in a namespace of its own. netem delays packets at the
//! ports of that bridge, because the ports of the routers belong to their policies. A device with
//! circuits leads nowhere.

use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use weirgate_console::exit::Failure;
use weirgate_domain::{Customer, Domain};
use weirgate_policy::Prefix;
use weirgate_units::Span;

/// The only device of a customer.
const ETH: &str = "eth0";

/// The namespace of the lines with a delay; no name in a domain contains a dot.
const WIRES: &str = "wires.";

/// The maximum number of packets in flight on one line.
const TRAVELLING: u32 = 100_000;

/// The first address for customers without one (RFC 2544 section C.2.2: for measurements).
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The settings that make a namespace a router.
const FORWARDING: [&str; 2] = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];

/// Names the machines of a domain like their namespaces, and gives an address to every customer
/// without one.
pub fn settle(domain: &mut Domain) -> anyhow::Result<()> {
    for name in domain.customers.keys() {
        if domain.routers.contains_key(name) {
            bail!("a router and a customer are both called `{name}`; rename one");
        }
    }
    for router in domain.routers.values_mut() {
        router.host = None;
    }
    let known: Vec<Prefix> = domain
        .customers
        .values()
        .flat_map(Customer::scope)
        .collect();
    let mut free = (FIRST.to_bits()..)
        .map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        .filter(|address| {
            !known
                .iter()
                .any(|one| one.contains(Prefix::single(*address)))
        });
    for (name, customer) in &mut domain.customers {
        customer.host = Some(name.clone());
        let own = customer.networks.first().copied().map(first_host);
        customer.address = customer.address.or(own).or_else(|| free.next());
    }
    Ok(())
}

/// Returns the first address of a network that a host may have.
fn first_host(network: Prefix) -> IpAddr {
    match network.address {
        IpAddr::V4(address) => {
            let next = u32::from(network.length < 31);
            Ipv4Addr::from_bits(address.to_bits() + next).into()
        }
        IpAddr::V6(address) => {
            let next = u128::from(network.length < 127);
            Ipv6Addr::from_bits(address.to_bits() + next).into()
        }
    }
}

/// Returns the addresses of a customer's machine: one in each of the customer's networks.
fn addresses(customer: &Customer) -> Vec<IpAddr> {
    let own = customer.address;
    let other = |network: &&Prefix| !own.is_some_and(|own| network.contains(Prefix::single(own)));
    let others = customer.networks.iter().filter(other).copied();
    own.into_iter().chain(others.map(first_host)).collect()
}

/// Builds the domain in the machine where this runs. Needs `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`, and
/// `ip`, `tc` and `sysctl`.
///
/// # Errors
/// [`Failure::Input`] if the machine has network devices and so is in use, [`Failure::Refused`] if
/// a step fails.
pub fn build(domain: &Domain) -> Result<(), Failure> {
    let devices = fs::read_to_string("/proc/self/net/dev")?;
    if others_than_loopback(&devices) {
        let why = "this is a part of `domain try`, for a machine without network devices";
        return Err(Failure::Input(format!("weirgate: {why}")));
    }
    built(domain).map_err(|error| Failure::Refused(format!("{error:#}")))
}

/// Returns whether a text such as `/proc/net/dev` names a device other than `lo`.
fn others_than_loopback(devices: &str) -> bool {
    let names = devices.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim()).any(|name| name != "lo")
}

fn built(domain: &Domain) -> anyhow::Result<()> {
    let mut batches = Batches::default();
    let customers = domain.customers.keys();
    for name in domain.routers.keys().chain(customers) {
        batches.space(name);
    }
    for (number, link) in domain.links.iter().enumerate() {
        let [one, other] = [0, 1].map(|end| End {
            space: &link.between[end],
            device: &link.devices[end],
            at: LineEnd::of(number, end),
        });
        batches.line(one, other, link.delay);
    }
    for (number, (name, customer)) in domain.customers.iter().enumerate() {
        let number = domain.links.len() + number;
        let port = End {
            space: &customer.router,
            device: &customer.device,
            at: LineEnd::of(number, 0),
        };
        let own = End {
            space: name,
            device: ETH,
            at: LineEnd::of(number, 1),
        };
        batches.line(port, own, customer.delay);
        let (out, there) = (port.at.link_local(), own.at.link_local());
        let mut versions = BTreeSet::new();
        for address in addresses(customer) {
            let Route { to, all, via } = &Route::to(Prefix::single(address));
            let sure = if address.is_ipv6() { " nodad" } else { "" };
            batches.say(name, &format!("address add {to} dev {ETH}{sure}"));
            if versions.insert(address.is_ipv6()) {
                batches.say(name, &format!("route add {all} {via} {out} dev {ETH}"));
            }
        }
        for network in customer.scope() {
            let Route { to, via, .. } = Route::to(network);
            let route = format!("route add {to} {via} {there} dev {}", port.device);
            batches.say(&customer.router, &route);
        }
    }
    routes(domain, &mut batches);
    for (name, router) in &domain.routers {
        let own = router.circuits.iter();
        for device in own.flat_map(|own| [&own.access, &own.core]).flatten() {
            let device = &device.value;
            batches.say(name, &format!("link add {device} type dummy"));
            batches.say(name, &format!("link set {device} up"));
        }
    }
    batches.run()?;
    for router in domain.routers.keys() {
        let words = ["netns", "exec", router, "sysctl", "-q", "-w"];
        run(Command::new("ip").args(words).args(FORWARDING), "")?;
    }
    Ok(())
}

/// Adds every router's routes to the customers of all other routers.
fn routes(domain: &Domain, batches: &mut Batches) {
    for router in domain.routers.keys() {
        let first = domain.first_ports(router);
        for customer in domain.customers.values() {
            let Some(port) = first.get(&customer.router) else {
                continue;
            };
            // Ports are numbered by link, two for each.
            let (number, end) = (port.0 / 2, port.0 % 2);
            let Some(link) = domain.links.get(number) else {
                continue;
            };
            let next = LineEnd::of(number, 1 - end).link_local();
            let device = &link.devices[end];
            for network in customer.scope() {
                let Route { to, via, .. } = Route::to(network);
                batches.say(router, &format!("route add {to} {via} {next} dev {device}"));
            }
        }
    }
}

/// The notation of a route to a network.
struct Route {
    /// The network.
    to: String,
    /// The prefix of all addresses of its version; `default` with an IPv6 next hop would mean
    /// IPv6's own.
    all: &'static str,
    /// The words before the next hop, which is always an IPv6 address.
    via: &'static str,
}

impl Route {
    fn to(network: Prefix) -> Self {
        match network.address {
            IpAddr::V4(_) => Self {
                to: network.to_string(),
                all: "0.0.0.0/0",
                via: "via inet6",
            },
            IpAddr::V6(_) => Self {
                to: network.to_string(),
                all: "::/0",
                via: "via",
            },
        }
    }
}

/// One end of a line.
#[derive(Clone, Copy)]
struct LineEnd {
    line: usize,
    end: usize,
}

impl LineEnd {
    fn of(line: usize, end: usize) -> Self {
        Self { line, end }
    }

    fn link_local(self) -> String {
        format!("fe80::{:x}:{}", self.line, self.end + 1)
    }

    /// Returns a locally administered hardware address (IEEE 802, section 8.4).
    fn hardware(self) -> String {
        let [high, low] = ((self.line & 0xffff) as u16).to_be_bytes();
        format!("02:00:00:{high:02x}:{low:02x}:{:02x}", self.end + 1)
    }
}

/// A device at the end of a line.
#[derive(Clone, Copy)]
struct End<'a> {
    space: &'a str,
    device: &'a str,
    at: LineEnd,
}

/// The input of `ip -batch`: first for namespaces and lines, then within each namespace.
#[derive(Default)]
struct Batches {
    whole: String,
    within: BTreeMap<String, String>,
    delays: String,
}

impl Batches {
    fn space(&mut self, name: &str) {
        let _ = writeln!(self.whole, "netns add {name}");
        self.say(name, "link set lo up");
    }

    fn say(&mut self, space: &str, what: &str) {
        let lines = self.within.entry(space.to_owned()).or_default();
        let _ = writeln!(lines, "{what}");
    }

    fn line(&mut self, one: End<'_>, other: End<'_>, delay: Span) {
        if delay == Span::ZERO {
            self.pair(one, (other.device, other.space, Some(other.at)));
        } else {
            self.delayed(one, other, delay);
        }
        for (here, there) in [(one, other), (other, one)] {
            let device = here.device;
            // An automatic link-local address would be announced.
            self.say(here.space, &format!("link set {device} addrgenmode none"));
            self.say(here.space, &format!("link set {device} up"));
            let own = here.at.link_local();
            self.say(
                here.space,
                &format!("address add {own}/64 dev {device} nodad"),
            );
            let (next, hardware) = (there.at.link_local(), there.at.hardware());
            let known = format!("neighbour add {next} lladdr {hardware} dev {device}");
            self.say(here.space, &format!("{known} nud permanent"));
        }
    }

    fn pair(&mut self, one: End<'_>, (device, space, at): (&str, &str, Option<LineEnd>)) {
        let address = at.map_or_else(String::new, |at| format!("address {}", at.hardware()));
        let _ = writeln!(
            self.whole,
            "link add {} netns {} address {} type veth peer name {device} netns {space} {address}",
            one.device,
            one.space,
            one.at.hardware()
        );
    }

    fn delayed(&mut self, one: End<'_>, other: End<'_>, delay: Span) {
        if self.delays.is_empty() {
            self.space(WIRES);
        }
        let line = one.at.line;
        let bridge = format!("wire{line}");
        let made = format!("link add {bridge} type bridge mcast_snooping 0");
        self.say(WIRES, &made);
        for (end, port) in [(one, format!("a{line}")), (other, format!("b{line}"))] {
            self.pair(end, (&port, WIRES, None));
            for device in [&port, &bridge] {
                self.say(WIRES, &format!("link set {device} addrgenmode none"));
            }
            self.say(WIRES, &format!("link set {port} master {bridge}"));
            self.say(WIRES, &format!("link set {port} up"));
            let _ = writeln!(
                self.delays,
                "qdisc add dev {port} root netem delay {}us limit {TRAVELLING}",
                delay.as_nanos() as f64 / 1000.0
            );
        }
        self.say(WIRES, &format!("link set {bridge} up"));
    }

    fn run(&self) -> anyhow::Result<()> {
        run(Command::new("ip").args(["-batch", "-"]), &self.whole)?;
        for (space, lines) in &self.within {
            run(Command::new("ip").args(["-n", space, "-batch", "-"]), lines)?;
        }
        if !self.delays.is_empty() {
            let mut tc = Command::new("tc");
            run(tc.args(["-n", WIRES, "-batch", "-"]), &self.delays)?;
        }
        Ok(())
    }
}

/// Runs a program to its end, with this input.
fn run(command: &mut Command, input: &str) -> anyhow::Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // Ignore errors: a program that ends early reports the reason itself.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}", message.trim());
    }
    Ok(())
}

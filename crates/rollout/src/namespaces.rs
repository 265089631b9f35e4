// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain's routers and customers as network namespaces with veth devices
//! between them, in the lab's machine: each named as in the domain file, with
//! the devices that stand there.
//!
//! Routes are those that [`Domain::first_ports`] gives. No router has an
//! address but the link-local ones of its ports, and all neighbours are set in
//! advance, so that nothing but the domain's own traffic is under way. A line
//! that takes time goes through a bridge in a namespace of its own, at whose
//! ports netem delays: the ports of the routers are their policies'. A device that
//! has circuits leads nowhere.

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

/// The namespace of the lines that take time; no name of a domain has a dot.
const WIRES: &str = "wires.";

/// Packets that may be under way in one line.
const TRAVELLING: u32 = 100_000;

/// Customers without an address get one from here on (RFC 2544 section C.2.2:
/// for measurements).
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// What makes a router of a namespace.
const FORWARDING: [&str; 2] = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];

/// Names the machines of a domain as their namespaces are called, and gives an
/// address to every customer that has none.
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

/// The first address of a network that a host may have.
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

/// The addresses of a customer's machine: one in each of his networks.
fn addresses(customer: &Customer) -> Vec<IpAddr> {
    let own = customer.address;
    let other = |network: &&Prefix| !own.is_some_and(|own| network.contains(Prefix::single(own)));
    let others = customer.networks.iter().filter(other).copied();
    own.into_iter().chain(others.map(first_host)).collect()
}

/// Builds it in the machine that this runs in. Needs `CAP_NET_ADMIN` and
/// `CAP_SYS_ADMIN`, and `ip`, `tc` and `sysctl`.
///
/// # Errors
/// [`Failure::Input`] where it runs on a machine in use, [`Failure::Refused`]
/// where one of them fails.
pub fn build(domain: &Domain) -> Result<(), Failure> {
    let devices = fs::read_to_string("/proc/self/net/dev")?;
    if others_than_loopback(&devices) {
        let why = "this is a part of `domain try`, for a machine without network devices";
        return Err(Failure::Input(format!("weirgate: {why}")));
    }
    built(domain).map_err(|error| Failure::Refused(format!("{error:#}")))
}

/// Whether a text such as `/proc/net/dev` names another device than `lo`.
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
            let way = format!("route add {to} {via} {there} dev {}", port.device);
            batches.say(&customer.router, &way);
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

/// Every router's way to the customers of all others.
fn routes(domain: &Domain, batches: &mut Batches) {
    for router in domain.routers.keys() {
        let first = domain.first_ports(router);
        for customer in domain.customers.values() {
            let Some(port) = first.get(&customer.router) else {
                continue;
            };
            // Both ports of each link, in the links' order.
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

/// How a route to a network is written.
struct Route {
    /// The network.
    to: String,
    /// The prefix of all addresses of its version; `default` before a neighbour
    /// of IPv6 is taken for IPv6's own.
    all: &'static str,
    /// What stands before the neighbour, which is of IPv6 always.
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

/// One end of a line, by the line's number.
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

    /// A hardware address of local administration (IEEE 802, section 8.4).
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

/// The input of `ip -batch`: of namespaces and lines, then in each namespace.
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
            // The one of its own making would be announced.
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

/// Runs a program to its end that reads this.
fn run(command: &mut Command, input: &str) -> anyhow::Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // One that ends early says why itself.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}", message.trim());
    }
    Ok(())
}

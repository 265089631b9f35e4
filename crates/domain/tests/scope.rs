// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scope of promises: conditioners by receiver and by packet contents, the limits on their
//! number, and files that leave it open.

use proptest::prelude::*;
use std::fmt::Write;
use std::net::IpAddr;
use weirgate_domain::{Domain, PortId, check, conditioners, contracts, parse, policy_text};
use weirgate_policy::{Conditioner, Policy, Ports, Prefix, Protocol};
use weirgate_state::ColourAction;

const SCOPE: &str = include_str!("domains/scope.toml");

fn domain(text: &str) -> Domain {
    let (domain, problems) = parse(text);
    domain.unwrap_or_else(|| panic!("{problems:#?}"))
}

/// Returns the problems of a text, with their lines.
fn problems(text: &str) -> Vec<String> {
    let (_, problems) = parse(text);
    let line = |at: usize| 1 + text[..at].matches('\n').count();
    let each = problems.iter().map(|one| {
        let at = line(one.span.start);
        format!("{at}: {} {}; {}", one.code, one.message, one.hint)
    });
    each.collect()
}

/// Returns the policy of a customer's port.
fn port_policy(domain: &Domain, customer: &str) -> (String, Policy) {
    let check = check(domain);
    let at = check.ports.iter().position(|port| port.towards == customer);
    let at = PortId(at.expect("a port"));
    let own = conditioners(domain, &check, at);
    let text = policy_text(domain, &check.ports[at.0], &[].into()) + &own;
    let (policy, problems) = weirgate_policy::parse(&text);
    assert!(problems.is_empty(), "{text}\n{problems:#?}");
    (own, policy.expect("no problems"))
}

/// A packet sent by a customer.
#[derive(Debug, Clone, Copy)]
struct Packet {
    to: IpAddr,
    code: u8,
    protocol: u8,
    /// The source and the destination port.
    ports: Option<[u16; 2]>,
}

/// Returns the conditioner that the program applies, as `docs/conditioners.md` says. Where packets
/// enter the link's own device, the inside host is the receiver.
fn found<'p>(policy: &'p Policy, packet: &Packet) -> &'p Conditioner {
    let port = |ports: &[weirgate_document::Value<Ports>], own: Option<u16>| {
        ports.is_empty()
            || own.is_some_and(|own| {
                let within = |one: &Ports| one.from <= own && own <= one.to;
                ports.iter().any(|one| within(&one.value))
            })
    };
    let to = Prefix::single(packet.to);
    let mut all = policy.conditioners.iter().filter(|one| one.enters);
    let first = all.find(|one| {
        let carried = &one.carried;
        let protocols = carried.protocols.iter();
        let local = one.local.iter();
        (one.dscp.is_empty() || one.dscp.iter().any(|own| own.value.value() == packet.code))
            && (one.local.is_empty() || local.clone().any(|net| net.value.contains(to)))
            && one.remote.is_empty()
            && (carried.protocols.is_empty()
                || protocols.clone().any(|own| own.value.0 == packet.protocol))
            && port(&carried.remote_ports, packet.ports.map(|own| own[0]))
            && port(&carried.local_ports, packet.ports.map(|own| own[1]))
    });
    first.expect("the last takes everything")
}

#[test]
fn conditioners_tell_receivers_and_ports_apart() {
    let domain = domain(SCOPE);
    let check = check(&domain);
    assert_eq!(check.findings, []);
    assert_eq!(check.notes, Vec::<String>::new());
    let (text, policy) = port_policy(&domain, "alfa");
    let to = |to: &str, code: u8, protocol: u8, port: u16| {
        let packet = Packet {
            to: to.parse().expect("an address"),
            code,
            protocol,
            ports: Some([20_001, port]),
        };
        found(&policy, &packet).name.value.as_str()
    };
    for beta in ["10.2.0.7", "2001:db8:2:3::4"] {
        assert_eq!(to(beta, 46, 17, 9), "in-ef-beta");
        assert_eq!(to(beta, 10, 17, 9), "in-af1-beta");
        assert_eq!(to(beta, 40, 17, 9), "in-rest");
        assert_eq!(to(beta, 0, 17, 5_061), "in-ef-calls");
        assert_eq!(to(beta, 10, 17, 16_384), "in-ef-calls");
        assert_eq!(to(beta, 0, 6, 5_061), "in-free");
        assert_eq!(to(beta, 0, 6, 443), "in-af1-web");
    }
    for gamma in ["10.3.0.7", "2001:db8:3::"] {
        assert_eq!(to(gamma, 46, 17, 9), "in-rest");
        assert_eq!(to(gamma, 40, 17, 9), "in-cs5-gamma");
        assert_eq!(to(gamma, 0, 17, 5_061), "in-free");
        assert_eq!(to(gamma, 46, 17, 5_061), "in-rest");
    }
    snapshot("conditioners_tell_receivers_and_ports_apart", &text);
}

/// Without networks, a promise applies to its class as before, and a note says so.
#[test]
fn what_is_left_open_is_reported() {
    let left = |line: &&str| !line.starts_with("networks") && !line.starts_with("address");
    let open: Vec<&str> = SCOPE.lines().filter(left).collect();
    let open = open.join("\n").replacen("packet = \"200B\"\n", "", 1);
    let own = domain(&open);
    let notes = check(&own).notes;
    assert_eq!(
        notes,
        [
            "No `networks` are set for `beta`, `gamma`: packets count against promises to them \
             wherever they are sent.",
            "No smallest `packet` is set for `telephone`: the sums below assume the stated \
             sizes, or 1500 B without one, and smaller packets take more of each line."
        ]
    );
    let (_, policy) = port_policy(&own, "alfa");
    let names: Vec<&str> = policy
        .conditioners
        .iter()
        .map(|one| one.name.value.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "in-ef-calls",
            "in-af1-web",
            "in-ef",
            "in-cs5",
            "in-af1",
            "in-free",
            "in-rest",
            "bound"
        ]
    );
    assert!(policy.conditioners.iter().all(|one| one.local.is_empty()));
    assert_eq!(policy.conditioners[2].smallest, None);
    assert!(policy.conditioners[3].smallest.is_some());
    // An address alone is a network of one host.
    let single = domain(&SCOPE.replace("networks", "#"));
    let notes = check(&single).notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].ends_with("promises to them hold only for their `address`."),
        "{notes:?}"
    );
    let (text, _) = port_policy(&single, "alfa");
    assert!(text.contains("local-address = [\"10.2.0.1/32\"]"), "{text}");
}

/// The minimum size of a small packet is the least of the services metered together, and the
/// overhead on the wire is computed with it.
#[test]
fn small_packets_are_reckoned_where_they_are_measured() {
    let more = "\n[[service]]\nname = \"more\"\nfrom = \"alfa\"\nto = \"beta\"\nclass = \"voice\"\n\
                rate = \"100kbit\"\npacket = \"100B\"\nburst = \"1000B\"\n";
    let domain = domain(&format!("{SCOPE}{more}"));
    let sizes: Vec<u64> = domain
        .services
        .iter()
        .map(|one| one.smallest.map_or(0, weirgate_units::Size::as_bytes))
        .collect();
    assert_eq!(sizes, [100, 200, 200, 200, 500, 100]);
    // 138 bytes of Ethernet for each 100: 500 kbit/s of both services, and 200 kbit/s of calls,
    // whose 200 bytes take 238.
    let check = check(&domain);
    let load = check.loads.iter().find(|load| load.class == "voice");
    let promised = load.expect("a load").promised.as_bits_per_second();
    assert_eq!(promised, 500_000 / 100 * 138 + 200_000 / 200 * 238);
    let (text, _) = port_policy(&domain, "alfa");
    assert!(
        text.contains(
            "# telephone, more.\n[[conditioner]]\nname = \"in-ef-beta\"\nat = \"enter\"\n\
             local-address = [\"10.2.0.0/24\", \"2001:db8:2::/48\"]\ndscp = [\"EF\"]\n\
             meter = \"bucket\"\nrate = \"500kbit\"\nburst = 3000\nmpu = 100\n"
        ),
        "{text}"
    );
}

#[test]
fn what_cannot_be_told_apart_is_refused() {
    let with = |from: &str, to: &str| problems(&SCOPE.replacen(from, to, 1));
    assert_eq!(
        with("\"10.3.0.0/24\", \"2001:db8:3::/48\"", "\"10.0.0.0/8\""),
        [
            "48: N110 10.0.0.0/8 and 10.1.0.0/24 of `alfa` overlap; what is sent there is measured \
             by whose address it is; write each customer's own networks"
        ]
    );
    assert_eq!(
        with("\"10.3.0.0/24\", ", ""),
        [
            "47: N110 `address` 10.3.0.1 is in none of `networks`; write an address that is, or add \
          its network"
        ]
    );
    assert_eq!(
        with("\"10.3.0.0/24\"", "\"10.3.0.1/24\""),
        [
            "48: N110 `10.3.0.1/24` has bits set beyond its first 24; write `10.3.0.0/24` for the \
             network, or the address without a length"
        ]
    );
    let nine: Vec<String> = (0..9)
        .map(|number| format!("\"10.4.{number}.0/24\""))
        .collect();
    assert_eq!(
        with(
            "\"10.3.0.0/24\"",
            &format!("\"10.3.0.0/24\", {}", nine[..7].join(", "))
        ),
        [
            "48: N105 `networks` lists 9 elements; write at most 8: a conditioner tells no more apart"
        ]
    );
    assert_eq!(
        with(
            "protocol = \"tcp\"\nports = [\"443\"]\nfrom-ports = [\"20000-20010\"]",
            "ports = 5061"
        ),
        [
            "97: N111 packets that `web` selects may belong to `calls` on line 85 as well; give them \
             ports of their own, or `networks` to their receivers"
        ]
    );
    assert_eq!(
        with("protocol = \"tcp\"", "protocol = \"esp\""),
        [
            "102: N111 a service's packets are not selected by esp; write `tcp` or `udp`; other \
             packets are marked where they are sent"
        ]
    );
    assert_eq!(
        with("ports = [\"443\"]", "ports = [\"0\", \"9-8\"]"),
        [
            "103: N111 no packet has port 0; write ports from 1 to 65535",
            "103: N111 `9-8` runs backwards; write `8-9`"
        ]
    );
    assert_eq!(
        with("device = \"gamma0\"", "device = \"east0\"").len(),
        1,
        "a customer at a link's device"
    );
}

/// Services to so many receivers that a port has no room for their conditioners.
#[test]
fn more_promises_than_conditioners_are_named() {
    let many = |count: usize| {
        let mut text = SCOPE.replace("4mbit", "100mbit");
        for number in 0..count {
            let _ = write!(
                text,
                "\n[customer.c{number}]\nrouter = \"east\"\ndevice = \"c{number}\"\n\
                 rate = \"10mbit\"\nnetworks = [\"10.9.{number}.0/24\"]\n\
                 [[service]]\nname = \"s{number}\"\nfrom = \"alfa\"\nto = \"c{number}\"\n\
                 class = \"voice\"\nrate = \"8kbit\"\npacket = \"200B\"\nburst = \"400B\"\n"
            );
        }
        domain(&text)
    };
    // Five promises of the file take five conditioners, and all other traffic takes two.
    assert_eq!(check(&many(25)).findings, []);
    port_policy(&many(25), "alfa");
    let findings = check(&many(27)).findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].line, 35);
    assert_eq!(
        findings[0].what,
        "alfa0 of west has to tell 32 promises of `alfa` apart, by class and receiver (30) or by \
         what is selected (2), and has room for 30"
    );
    assert_eq!(findings[0].changes[0], "promise 2 less");
}

/// Names that are too long for a conditioner, or collide, are numbered.
#[test]
fn every_conditioner_has_a_name_of_its_own() {
    let long = "a-customer-with-quite-a-long-nam";
    let text = SCOPE
        .replace("\"beta\"\nclass", &format!("\"{long}\"\nclass"))
        .replace("customer.beta", &format!("customer.{long}"));
    let own = domain(&text);
    let names: Vec<String> = contracts(&own, "alfa")
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(
        names,
        [
            "in-ef-calls",
            "in-af1-web",
            "in-ef-2",
            "in-cs5-gamma",
            "in-af1-4"
        ]
    );
    port_policy(&own, "alfa");
    let same = domain(&SCOPE.replace("name = \"calls\"", "name = \"beta\""));
    let names: Vec<String> = contracts(&same, "alfa")
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(
        names,
        [
            "in-ef-beta",
            "in-af1-web",
            "in-ef-2",
            "in-cs5-gamma",
            "in-af1-beta"
        ]
    );
    port_policy(&same, "alfa");
}

/// The customer (one of four), the class, and TCP (or UDP) with a port.
type Promise = (usize, usize, Option<(bool, u16)>);

fn promises() -> impl Strategy<Value = Vec<Promise>> {
    let select = prop::option::of((any::<bool>(), 1_u16..12));
    prop::collection::vec((0_usize..4, 0_usize..3, select), 1..14)
}

const CLASSES: [(&str, u8); 3] = [("voice", 46), ("signal", 40), ("gold", 10)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// For any promises, packets of a service are metered by its contract and leave with its code
    /// point. Packets without a promise leave with none.
    #[test]
    fn each_packet_is_measured_by_its_promise(list in promises()) {
        let mut text: String = SCOPE.split("[[service]]").next().expect("a head").to_owned();
        for (number, port) in (0..4).zip(30_u8..) {
            // The last customer has no known network.
            let networks = if number == 3 { String::new() } else {
                format!("networks = [\"10.{port}.0.0/16\", \"2001:db8:{port}::/48\"]\n")
            };
            let _ = write!(text, "\n[customer.to-{number}]\nrouter = \"east\"\ndevice = \"d{number}\"\n\
                                  rate = \"10mbit\"\n{networks}");
        }
        for (at, (to, class, select)) in list.iter().enumerate() {
            let class = CLASSES[*class].0;
            let select = select.map_or(String::new(), |(tcp, port)| {
                let protocol = if tcp { "tcp" } else { "udp" };
                format!("protocol = \"{protocol}\"\nports = {port}\n")
            });
            let _ = write!(text, "\n[[service]]\nname = \"s{at}\"\nfrom = \"alfa\"\nto = \"to-{to}\"\n\
                                  class = \"{class}\"\nrate = \"8kbit\"\n{select}");
        }
        let (domain, _) = parse(&text);
        // Services with the same selection are refused.
        let Some(domain) = domain else { return Ok(()) };
        let (_, policy) = port_policy(&domain, "alfa");
        let contracts = contracts(&domain, "alfa");
        for (at, (to, class, select)) in list.iter().enumerate() {
            let own = contracts.iter().find(|one| one.services.contains(&at)).expect("a contract");
            let code = CLASSES[*class].1;
            for address in [format!("10.{}.7.1", 30 + to), format!("2001:db8:{}::7", 30 + to)] {
                let (brings, protocol, port) = match select {
                    Some((tcp, port)) => (0, if *tcp { Protocol::TCP.0 } else { Protocol::UDP.0 }, *port),
                    None => (code, Protocol::UDP.0, 99),
                };
                let to = address.parse().expect("an address");
                let packet = Packet { to, code: brings, protocol, ports: Some([1000, port]) };
                let one = found(&policy, &packet);
                prop_assert_eq!(&one.name.value, &own.name);
                let leaves = match one.actions[0] {
                    ColourAction::Pass => packet.code,
                    ColourAction::Mark(code) => code.value(),
                    ColourAction::Drop => panic!("green is dropped"),
                };
                prop_assert_eq!(leaves, code);
                // A later fragment belongs to no service with ports. It loses its code point unless
                // its class was promised by the code point.
                let later = Packet { ports: None, code, ..packet };
                let one = found(&policy, &later);
                let promised = contracts.iter().find(|own| own.name == one.name.value);
                prop_assert!(promised.is_none_or(|own| own.select.is_empty()));
            }
        }
        // To another receiver, unless the class was promised to one whose networks are unknown.
        for (class, code) in CLASSES {
            let to: IpAddr = "192.0.2.1".parse().expect("an address");
            let packet = Packet { to, code, protocol: 17, ports: Some([1000, 99]) };
            let open = domain.services.iter().any(|one| {
                one.class == class && one.to == "to-3" && one.select.is_empty()
            });
            let rest = found(&policy, &packet).name.value == "in-rest";
            prop_assert_eq!(rest, !open);
        }
    }
}

fn snapshot(name: &str, text: &str) {
    weirgate_testing::golden(format!("crates/domain/tests/snapshots/{name}.txt"), text);
}

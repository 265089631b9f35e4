// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares generated policies with golden texts in `tests/init`, and checks that any observations
//! and answers give a valid policy.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use proptest::prelude::*;
use std::net::IpAddr;
use weirgate_init::{Answers, Asked, Dial, Found, LINES, Lack, MOST_LINES, PURPOSES, policy};
use weirgate_policy::Inbound;
use weirgate_state::{
    Ability, Capabilities, DefaultRoute, DeviceName, Interface, Machine, Network, Presence,
};
use weirgate_units::Rate;

const ETHERNET: u16 = 1;
const PPP: u16 = 512;
const NONE: u16 = 65_534;

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

/// A machine and its network, which a test configures step by step.
#[derive(Debug, Clone, Default)]
struct SampleMachine {
    machine: Machine,
    network: Network,
}

impl SampleMachine {
    /// Returns a router that forwards, with a default route through this device.
    fn behind(device: &str) -> Self {
        let mut sample = Self::default();
        sample.machine.forwarding_v4 = Some(true);
        sample.network.translates = Some(true);
        sample.network.defaults.push(DefaultRoute {
            device: name(device),
            gateway: Some(IpAddr::from([192, 0, 2, 1])),
            metric: 0,
            port: None,
        });
        sample
    }

    fn device(mut self, device: &str, link_type: u16, kind: Option<&str>) -> Self {
        let interface = Interface {
            link_type,
            kind: kind.map(str::to_owned),
            up: true,
            carrier: true,
            mtu: if link_type == PPP { 1492 } else { 1500 },
            ..Interface::default()
        };
        self.machine.devices.insert(name(device), interface);
        self
    }

    fn port(mut self, device: &str, bridge: &str) -> Self {
        self = self.device(device, ETHERNET, None);
        self.machine.devices.get_mut(&name(device)).unwrap().master = Some(name(bridge));
        self
    }

    fn address(mut self, device: &str, address: [u8; 4]) -> Self {
        let all = self.network.addresses.entry(name(device)).or_default();
        all.insert(address.into());
        self
    }

    fn below(mut self, device: &str, lower: &str) -> Self {
        self.network.below.insert(name(device), name(lower));
        self
    }

    fn lacks(mut self, ability: Ability) -> Self {
        self.machine.abilities.insert(ability, Presence::Absent);
        self
    }

    fn found(&self) -> Result<Found, Lack> {
        Found::of(&self.machine, &self.network, &Asked::default())
    }
}

fn plain() -> SampleMachine {
    SampleMachine::behind("wan")
        .device("wan", ETHERNET, None)
        .device("lan", ETHERNET, None)
        .address("wan", [192, 0, 2, 2])
        .address("lan", [192, 168, 1, 1])
}

fn vlan() -> SampleMachine {
    SampleMachine::behind("eth0.7")
        .device("eth0", ETHERNET, None)
        .device("eth0.7", ETHERNET, Some("vlan"))
        .device("eth0.1", ETHERNET, Some("vlan"))
        .below("eth0.7", "eth0")
        .below("eth0.1", "eth0")
        .address("eth0.1", [10, 0, 0, 1])
}

fn pppoe() -> SampleMachine {
    let mut sample = SampleMachine::behind("ppp0")
        .device("eth0", ETHERNET, None)
        .device("eth0.7", ETHERNET, Some("vlan"))
        .below("eth0.7", "eth0")
        .device("ppp0", PPP, Some("ppp"))
        .device("br-lan", ETHERNET, Some("bridge"))
        .port("eth1", "br-lan")
        .port("wlan0", "br-lan")
        .address("eth0.7", [192, 168, 100, 2])
        .address("br-lan", [192, 168, 1, 1])
        .device("docker0", ETHERNET, Some("bridge"))
        .address("docker0", [172, 17, 0, 1]);
    sample.network.sessions.insert(name("eth0.7"));
    sample.network.wireless.insert(name("wlan0"));
    sample
}

/// Returns a transparent bridge; the next hop is behind one of its ports.
fn bridge() -> SampleMachine {
    let mut sample = SampleMachine::behind("br0")
        .device("br0", ETHERNET, Some("bridge"))
        .port("eth0", "br0")
        .port("eth1", "br0")
        .address("br0", [192, 168, 1, 2]);
    sample.network.defaults[0].port = Some(name("eth1"));
    sample
}

fn virtual_machine() -> SampleMachine {
    let mut sample = SampleMachine::behind("ens3")
        .device("ens3", ETHERNET, None)
        .device("ens4", ETHERNET, None)
        .device("ens5", ETHERNET, None)
        .device("wg0", NONE, Some("wireguard"))
        .address("ens4", [10, 1, 0, 1])
        .address("ens5", [10, 2, 0, 1]);
    for device in ["ens3", "ens4", "ens5"] {
        let driver = "virtio_net".to_owned();
        sample.network.drivers.insert(name(device), driver);
    }
    sample
}

/// Returns a machine that does not forward, at a modem that passes bare IP.
fn host() -> SampleMachine {
    let mut sample = SampleMachine::behind("wwan0").device("wwan0", NONE, None);
    sample.machine.forwarding_v4 = Some(false);
    sample
}

fn samples() -> [(&'static str, SampleMachine); 6] {
    [
        ("plain", plain()),
        ("vlan", vlan()),
        ("pppoe", pppoe()),
        ("bridge", bridge()),
        ("virtual-machine", virtual_machine()),
        ("host", host()),
    ]
}

fn answers(line: usize, purpose: usize, up: u64, down: u64) -> Answers {
    let purpose = &PURPOSES[purpose];
    Answers {
        line: &LINES[line],
        up: Rate::kbit(up),
        down: Rate::kbit(down),
        measured: None,
        purpose,
        ports: if purpose.serves {
            vec![22, 443]
        } else {
            Vec::new()
        },
    }
}

/// Asserts that a kernel with all features accepts a policy, and returns the warnings.
#[track_caller]
fn warnings(text: &str) -> Vec<&'static str> {
    accepted(text, &Capabilities::all())
}

/// Asserts that a kernel with these features accepts a policy, and returns the warnings.
#[track_caller]
fn accepted(text: &str, kernel: &Capabilities) -> Vec<&'static str> {
    assert!(text.lines().count() <= MOST_LINES, "{text}");
    let (policy, problems) = weirgate_policy::parse(text);
    let Some(policy) = policy else {
        panic!("{problems:?}\n{text}");
    };
    let mut codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
    let (state, problems) = weirgate_compile::compile(&policy, kernel);
    assert!(state.is_some(), "{problems:?}\n{text}");
    codes.extend(problems.iter().map(|problem| problem.code));
    codes
}

#[test]
fn every_kind_of_line_has_its_policy() {
    let found = plain().found().unwrap();
    for (number, line) in LINES.iter().enumerate() {
        let (up, down) = match line.key {
            "adsl" => (1_000, 8_000),
            "cable" => (20_000, 250_000),
            _ => (40_000, 100_000),
        };
        let text = policy(&found, &answers(number, 0, up, down));
        assert_eq!(warnings(&text), Vec::<&str>::new(), "{text}");
        weirgate_testing::golden(format!("tests/init/line-{}.toml", line.key), &text);
    }
}

/// The policies of `weirgate try` are those that this crate generates for the lines.
#[test]
fn the_policies_of_lines_to_try_are_made_here() {
    let found = plain().found().unwrap();
    for (name, key, up, down) in [
        ("fibre", "fibre", 50_000, 100_000),
        ("cable", "cable", 10_000, 100_000),
        ("lte", "mobile", 10_000, 30_000),
    ] {
        let number = LINES.iter().position(|line| line.key == key).unwrap();
        let text = policy(&found, &answers(number, 0, up, down));
        assert_eq!(warnings(&text), Vec::<&str>::new(), "{text}");
        weirgate_testing::golden(
            format!("experiments/try/policies/try-{name}.toml"),
            &format!("# SPDX-License-Identifier: Apache-2.0 OR MIT\n{text}"),
        );
    }
}

#[test]
fn every_purpose_has_its_policy() {
    let found = plain().found().unwrap();
    for (number, purpose) in PURPOSES.iter().enumerate() {
        let text = policy(&found, &answers(0, number, 40_000, 100_000));
        assert_eq!(warnings(&text), Vec::<&str>::new(), "{text}");
        weirgate_testing::golden(format!("tests/init/for-{}.toml", purpose.key), &text);
    }
}

#[test]
fn every_topology_has_its_policy_and_its_words() {
    for (title, sample) in samples() {
        let found = sample.found().unwrap();
        let lines = found.lines().into_iter();
        let lines: Vec<String> = lines
            .map(|(title, text)| format!("# {title}: {text}"))
            .collect();
        let words = lines.join("\n");
        let guess = LINES.iter().position(|line| line == found.guess()).unwrap();
        let text = policy(&found, &answers(guess, 0, 40_000, 100_000));
        warnings(&text);
        weirgate_testing::golden(
            format!("tests/init/at-{title}.toml"),
            &format!("{words}\n{text}"),
        );
    }
}

#[test]
fn what_cannot_be_chosen_is_said_with_what_to_write() {
    let mut nowhere = plain();
    nowhere.network.defaults.clear();
    let lack = nowhere.found().unwrap_err().to_string();
    assert!(
        lack.contains("`--device DEVICE`, one of lan, wan"),
        "{lack}"
    );

    nowhere.machine.devices.clear();
    assert_eq!(nowhere.found().unwrap_err(), Lack::NoDevices);

    let mut unclear = bridge();
    unclear.network.defaults[0].port = None;
    let lack = unclear.found().unwrap_err().to_string();
    assert!(
        lack.contains("`--device PORT --lan PORT`, of eth0, eth1"),
        "{lack}"
    );
    let asked = |device: &str, lan: &[&str]| Asked {
        device: Some(name(device)),
        lan: lan.iter().map(|lan| name(lan)).collect(),
    };
    let of =
        |sample: &SampleMachine, asked: &Asked| Found::of(&sample.machine, &sample.network, asked);
    let found = of(&unclear, &asked("eth0", &[])).unwrap();
    assert_eq!(
        (found.device, found.lan),
        (name("eth0"), vec![name("eth1")])
    );

    let lack = of(&plain(), &asked("eth9", &[])).unwrap_err().to_string();
    assert_eq!(lack, "there is no device eth9; there are lan, wan");
    let found = of(&vlan(), &asked("eth0.1", &["eth0.7"])).unwrap();
    assert_eq!(
        (found.device, found.lan),
        (name("eth0.1"), vec![name("eth0.7")])
    );
}

#[test]
fn a_bridge_of_one_port_is_a_device_like_others() {
    let sample = SampleMachine::behind("br-wan")
        .device("br-wan", ETHERNET, Some("bridge"))
        .port("eth0", "br-wan")
        .device("lan", ETHERNET, None)
        .address("lan", [10, 0, 0, 1]);
    let found = sample.found().unwrap();
    assert_eq!((found.device, found.bridge), (name("br-wan"), None));
    assert_eq!(found.lan, [name("lan")]);
}

/// IPv4 goes through a tunnel (DS-Lite), IPv6 through the link below it.
#[test]
fn the_link_is_not_a_tunnel_that_uses_it() {
    let mut sample = plain().device("ds-wan", NONE, Some("ip6tnl"));
    let mut tunnel = sample.network.defaults[0].clone();
    tunnel.device = name("ds-wan");
    sample.network.defaults.insert(0, tunnel);
    let found = sample.found().unwrap();
    assert_eq!(found.device, name("wan"));
    assert_eq!(found.others, []);
    // A machine with nothing but a tunnel has this one.
    sample.network.defaults.truncate(1);
    assert_eq!(sample.found().unwrap().device, name("ds-wan"));
}

#[test]
fn bridges_of_containers_are_not_of_the_site() {
    let sample = plain()
        .device("br-1a2b3c4d5e6f", ETHERNET, Some("bridge"))
        .address("br-1a2b3c4d5e6f", [172, 18, 0, 1])
        .device("br-guests", ETHERNET, Some("bridge"))
        .address("br-guests", [192, 168, 2, 1]);
    let found = sample.found().unwrap();
    assert_eq!(found.lan, [name("br-guests"), name("lan")]);
}

/// The modem's own network is on the device below the VLAN that carries the session.
#[test]
fn what_carries_a_session_leads_to_no_hosts() {
    let sample = pppoe().address("eth0", [192, 168, 1, 2]);
    assert_eq!(sample.found().unwrap().lan, [name("br-lan")]);
}

/// Linux does not show which session is the link's.
#[test]
fn of_two_sessions_the_larger_overhead_is_assumed() {
    let mut sample = pppoe();
    assert_eq!(sample.found().unwrap().below, Some(name("eth0.7")));
    sample.network.sessions.insert(name("eth0"));
    let found = sample.found().unwrap();
    assert_eq!((found.dial, found.below), (Dial::PppoeVlan, None));
}

#[test]
fn a_router_without_inside_addresses_is_asked_for_its_devices() {
    let mut sample = plain();
    sample.network.addresses.clear();
    let hosts = |sample: &SampleMachine| sample.found().unwrap().lines()[1].1.clone();
    assert!(
        hosts(&sample).contains("`--lan DEVICE`"),
        "{}",
        hosts(&sample)
    );
    sample.machine.forwarding_v4 = None;
    assert!(
        hosts(&sample).contains("forwards nothing"),
        "{}",
        hosts(&sample)
    );
}

/// The abilities that a policy can do without.
const LACKED: [Ability; 7] = [
    Ability::Cake,
    Ability::FqCodel,
    Ability::Sfq,
    Ability::Ifb,
    Ability::NftForward,
    Ability::ClsBpf,
    Ability::Btf,
];

/// Returns a kernel without these abilities.
fn without(lacks: &[Ability]) -> Capabilities {
    let mut kernel = Capabilities::all();
    for (ability, kind) in [
        (Ability::Cake, "cake"),
        (Ability::FqCodel, "fq_codel"),
        (Ability::Sfq, "sfq"),
    ] {
        if lacks.contains(&ability) {
            kernel.qdiscs.remove(kind);
        }
    }
    if lacks.contains(&Ability::Ifb) {
        kernel.ifb = false;
    }
    if lacks.contains(&Ability::NftForward) {
        kernel.nft_ingress_forward = false;
    }
    if lacks.contains(&Ability::ClsBpf) {
        kernel.payload = false;
    }
    kernel
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_is_found_and_answered_gives_a_policy_that_is_accepted(
        sample in 0..6_usize,
        line in 0..LINES.len(),
        purpose in 0..PURPOSES.len(),
        // Two rates from 128 kbit/s to 10 Gbit/s, uniformly distributed by their logarithm.
        up in 7.0..23.2_f64,
        down in 7.0..23.2_f64,
        measured in any::<bool>(),
        lacks in proptest::sample::subsequence(LACKED.to_vec(), 0..=LACKED.len()),
        mtu in prop_oneof![Just(1500_u32), 576..=9000_u32],
        ports in proptest::collection::vec(1..=u16::MAX, 1..=8),
    ) {
        let mut sample = samples()[sample].1.clone();
        for ability in &lacks {
            sample = sample.lacks(*ability);
        }
        for device in sample.machine.devices.values_mut() {
            device.mtu = mtu;
        }
        let found = sample.found().unwrap();
        let rate = |power: f64| Rate::kbit(power.exp2() as u64);
        let answers = Answers {
            line: &LINES[line],
            up: rate(up),
            down: rate(down),
            measured: measured.then(|| "192.0.2.1".to_owned()),
            purpose: &PURPOSES[purpose],
            ports: if PURPOSES[purpose].serves { ports } else { Vec::new() },
        };
        accepted(&policy(&found, &answers), &without(&lacks));
    }
}

/// Small packets require more acknowledgements than a tenth of the upstream can carry; the reserve
/// must still fit the upstream.
#[test]
fn acknowledgements_of_small_packets_fit_the_upstream() {
    let mut sample = plain();
    for device in sample.machine.devices.values_mut() {
        device.mtu = 576;
    }
    let found = sample.found().unwrap();
    for line in 0..LINES.len() {
        let text = policy(&found, &answers(line, 1, 334, 5_000));
        accepted(&text, &Capabilities::all());
    }
}

/// An eighth of a slow line is too little for a class with a small share.
#[test]
fn slow_lines_that_vary_have_a_floor_that_every_class_can_use() {
    let found = plain().found().unwrap();
    for (line, purpose) in (0..LINES.len()).flat_map(|line| (0..3).map(move |one| (line, one))) {
        for down in [64, 128, 200, 256, 300] {
            let text = policy(&found, &answers(line, purpose, 10_000, down));
            accepted(&text, &Capabilities::all());
        }
    }
}

/// By default, downloads are queued where the purpose's conditions can be matched. Packets from
/// tunnels, or for a local server, are shaped as they arrive.
#[test]
fn downloads_are_shaped_where_the_purpose_needs_it() {
    let tunnel = || plain().device("wg0", NONE, Some("wireguard"));
    for (sample, purpose, written, shaped) in [
        (plain(), 0, false, Inbound::Lan),
        (plain(), 1, false, Inbound::Ifb),
        (plain(), 2, false, Inbound::Ifb),
        (tunnel(), 0, true, Inbound::Ifb),
        (tunnel(), 1, false, Inbound::Ifb),
        (plain().lacks(Ability::Ifb), 0, true, Inbound::Lan),
    ] {
        let found = sample.found().unwrap();
        let text = policy(&found, &answers(0, purpose, 40_000, 100_000));
        assert_eq!(text.contains("inbound ="), written, "{text}");
        let read = weirgate_policy::parse(&text).0.unwrap();
        assert_eq!(read.link.inbound.value, shaped, "{text}");
    }
}

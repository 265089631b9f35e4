// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the text of every finding, and properties for any observation.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use weirgate_doctor::{Finding, Question, Severity, examine};
use weirgate_policy::Policy;
use weirgate_state::{
    Ability, Capabilities, Conntrack, DeviceName, Flowtable, Interface, Machine, Presence,
    Privileges, Remain, Setting, Timers,
};

const POLICY: &str = r#"
version = 1
[link]
device = "wan"
lan = "lan"
up = "512kbit"
down = "2mbit"
layer = "adsl:pppoe-llc"
mtu = 1492
inbound = "ifb"
[[class]]
name = "all"
share = "80%"
queue = "fq_codel"
default = true
[[class]]
name = "bulk"
share = "20%"
[[rule]]
class = "bulk"
connection.bytes-over = "1MB"
local-address = ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]
during = "week"
[schedule.week]
days = ["mon", "tue"]
"#;

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

fn policy(mtu: u32) -> Policy {
    let text = POLICY.replace("1492", &mtu.to_string());
    let (policy, problems) = weirgate_policy::parse(&text);
    policy.unwrap_or_else(|| panic!("{problems:#?}"))
}

fn quiet_device() -> Interface {
    Interface {
        link_type: 1,
        up: true,
        carrier: true,
        mtu: 1_492,
        tx_queues: 1,
        ..Interface::default()
    }
}

/// Returns a machine without any disturbance.
fn quiet() -> Machine {
    let all = Ability::ALL.map(|ability| (ability, Presence::Here));
    Machine {
        privileges: Privileges {
            net_admin: true,
            ..Privileges::default()
        },
        abilities: BTreeMap::from(all),
        devices: [(name("wan"), quiet_device()), (name("lan"), quiet_device())].into(),
        flowtables: Some(Vec::new()),
        conntrack: Some(Conntrack {
            accounting: true,
            count: 3,
            max: 1 << 20,
        }),
        timers: Timers {
            resolution_ns: 1,
            clocksource: Some("tsc".to_owned()),
        },
        htb_hysteresis: Some(false),
        forwarding_v4: Some(true),
        forwarding_v6: Some(true),
        ..Machine::default()
    }
}

/// Returns a machine on which everything possible is wrong.
fn worst() -> Machine {
    let mut machine = quiet();
    machine.privileges.net_admin = false;
    for ability in [Ability::FqCodel, Ability::NftForward] {
        machine.abilities.insert(ability, Presence::Absent);
    }
    let on = [
        "tx-tcp-segmentation",
        "tx-generic-segmentation",
        "rx-gro",
        "rx-lro",
        "hw-tc-offload",
    ];
    let wan = Interface {
        link_type: 512,
        carrier: false,
        mtu: 1_600,
        tx_queues: 8,
        features: on.map(str::to_owned).into(),
        fixed: ["rx-lro".to_owned()].into(),
        radio: true,
        tx_ring: Some(256),
        speed_mbit: None,
        bql: Some(false),
        root: Some(("fq".to_owned(), "8001:".to_owned())),
        clsact: Some("ingress".to_owned()),
        filters: 1,
        xdp: Some(7),
        ..quiet_device()
    };
    machine.devices.insert(name("wan"), wan);
    machine.devices.remove(&name("lan"));
    machine.flowtables = Some(
        [false, true]
            .map(|hardware| Flowtable {
                family: "inet".to_owned(),
                table: "fw4".to_owned(),
                name: format!("ft{}", u8::from(hardware)),
                devices: vec!["lan".to_owned(), "wan".to_owned()],
                hardware,
            })
            .into(),
    );
    machine.conntrack = Some(Conntrack {
        accounting: false,
        count: 60_000,
        max: 65_536,
    });
    machine.timers = Timers {
        resolution_ns: 4_000_000,
        clocksource: Some("refined-jiffies".to_owned()),
    };
    machine.htb_hysteresis = Some(true);
    machine.minutes_west = -60;
    machine.forwarding_v4 = Some(false);
    machine.forwarding_v6 = Some(false);
    machine.managers = ["NetworkManager", "netifd", "lqosd"]
        .map(str::to_owned)
        .into();
    machine.settings = vec![Setting {
        manager: "NetworkManager".to_owned(),
        file: "/etc/NetworkManager/system-connections/line".to_owned(),
        line: 9,
        text: "qdisc.root=fq_codel".to_owned(),
        devices: vec!["wan".to_owned()],
    }];
    machine.remains = vec![Remain {
        tool: "sqm".to_owned(),
        trace: "/etc/config/sqm has `option enabled '1'`".to_owned(),
        remedy: "`/etc/init.d/sqm disable`".to_owned(),
    }];
    machine
}

fn judged(machine: &Machine, differences: &[String]) -> Vec<Finding> {
    judged_for(1_492, machine, differences)
}

fn judged_for(mtu: u32, machine: &Machine, differences: &[String]) -> Vec<Finding> {
    let policy = policy(mtu);
    examined(&policy, machine, differences, false)
}

fn examined(
    policy: &Policy,
    machine: &Machine,
    differences: &[String],
    windows_refused: bool,
) -> Vec<Finding> {
    let most = Capabilities::all();
    let here = Capabilities {
        windows_refused,
        ..weirgate_doctor::offered(machine, &most)
    };
    let compiled = |found| weirgate_compile::compile(policy, found).0;
    let (desired, possible) = (compiled(&most), compiled(&here));
    examine(&Question {
        machine,
        policy: Some(policy),
        desired: desired.as_ref(),
        possible: possible.as_ref(),
        windows_refused,
        applied: None,
        differences,
        devices: &BTreeSet::new(),
    })
}

#[test]
fn nothing_is_found_where_nothing_disturbs() {
    assert_eq!(judged(&quiet(), &[]), []);
}

/// Compares the text of every finding. After an intended change, run with `WEIRGATE_ACCEPT=1`.
#[test]
fn everything_that_can_be_wrong() {
    let mut text = String::new();
    let mut machine = worst();
    let mut other = quiet();
    // The problems that cannot occur together with those of the first machine.
    let wan = other.devices.get_mut(&name("wan")).unwrap();
    wan.up = false;
    wan.mtu = 1_400;
    wan.tx_ring = Some(1_024);
    wan.speed_mbit = Some(1_000);
    wan.features.insert("rx-gro-hw".to_owned());
    wan.clsact = Some("clsact".to_owned());
    other.conntrack = Some(Conntrack {
        accounting: false,
        count: 10,
        max: 65_536,
    });
    other.timers.clocksource = Some("hpet".to_owned());
    for machine in [&mut machine, &mut other] {
        let differences = ["wan: no qdisc at its root".to_owned()];
        for one in judged_for(1_500, machine, &differences) {
            writeln!(
                text,
                "{} {} {}\n  {}\n  {}\n  {}",
                one.severity, one.code, one.subject, one.fact, one.why, one.remedy
            )
            .unwrap();
        }
        text.push('\n');
    }
    weirgate_testing::golden("crates/doctor/tests/findings.txt", &text);
    // The page that explains them names each code.
    let page = include_str!("../../../docs/doctor.md");
    for one in judged(&machine, &[]).iter().chain(&judged(&other, &[])) {
        assert!(
            page.contains(&format!("| `{}` |", one.code)),
            "{}",
            one.code
        );
    }
}

/// A part whose place another one takes is a note, as `plan` has it. A part without which nothing
/// works is a fault.
#[test]
fn what_the_policy_can_do_without_is_no_fault() {
    let home = include_str!("../../../policies/home.toml");
    let explicit = home.replace("lan = \"lan\"", "lan = \"lan\"\ninbound = \"ifb\"");
    let judge = |text: &str, absent: &[Ability], refused| -> Vec<(Severity, &'static str)> {
        let (policy, problems) = weirgate_policy::parse(text);
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
        let mut machine = quiet();
        for ability in absent {
            machine.abilities.insert(*ability, Presence::Absent);
        }
        let found = examined(&policy, &machine, &[], refused);
        let missing = |one: &&Finding| ["missing-module", "windows-refused"].contains(&one.code);
        let found = found.iter().filter(missing);
        found.map(|one| (one.severity, one.code)).collect()
    };
    let note = (Severity::Note, "missing-module");
    let fault = (Severity::Fault, "missing-module");
    assert_eq!(judge(home, &[], false), []);
    for ability in [Ability::Cake, Ability::ClsBpf, Ability::FqCodel] {
        assert_eq!(judge(home, &[ability], false), [note], "{ability}");
    }
    assert_eq!(judge(home, &[Ability::Htb], false), [fault]);
    // Where packets are shaped on arrival, kept decisions need act_ctinfo.
    assert_eq!(judge(&explicit, &[Ability::Ctinfo], false), [note]);
    // Windows and conditioners are programs, as the filter is.
    let windows = "[receive]\nrate = \"90%\"\n";
    let receive = home.replace("lan = \"lan\"", "lan = \"lan\"\ninbound = \"none\"") + windows;
    let conditioner = "[[conditioner]]\nname = \"gold\"\nmeter = \"bucket\"\nrate = \"1mbit\"\n";
    for text in [receive, explicit.clone() + conditioner] {
        let found = judge(&text, &[Ability::ClsBpf], false);
        assert_eq!(found, [fault], "{text}");
    }
    let refused = (Severity::Note, "windows-refused");
    assert_eq!(judge(home, &[], true), [refused]);
    assert_eq!(judge(&explicit, &[], true), []);
}

#[test]
fn tunnels_pass_a_gate_on_the_lan_device() {
    let tunnel = |kind: &str, link_type, up| Interface {
        link_type,
        up,
        kind: Some(kind.to_owned()),
        ..quiet_device()
    };
    let mut machine = quiet();
    machine.devices.extend([
        (name("wg0"), tunnel("wireguard", 65_534, true)),
        (name("tun0"), tunnel("tun", 65_534, true)),
        (name("tap0"), tunnel("tun", 1, true)),
        (name("sit0"), tunnel("sit", 776, false)),
    ]);
    assert_eq!(judged(&machine, &[]), [], "shaped as it arrives");
    let text = POLICY.replace("\"ifb\"", "\"lan\"");
    let (policy, problems) = weirgate_policy::parse(&text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    let found = examine(&Question {
        machine: &machine,
        policy: Some(&policy),
        desired: None,
        possible: None,
        windows_refused: false,
        applied: None,
        differences: &[],
        devices: &BTreeSet::new(),
    });
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.severity, one.code, one.subject.as_str()))
        .collect();
    let warned = |device| (Severity::Warning, "tunnel", device);
    assert_eq!(found, [warned("tun0"), warned("wg0")]);
}

fn device() -> impl Strategy<Value = Interface> {
    let features = proptest::sample::subsequence(
        vec![
            "tx-tcp-segmentation",
            "tx-generic-segmentation",
            "rx-gro",
            "rx-gro-hw",
            "rx-lro",
        ],
        0..=5,
    );
    (
        any::<(u16, bool, bool, u32, u32)>(),
        features,
        any::<(Option<u32>, Option<u32>, Option<bool>, usize, Option<u32>)>(),
    )
        .prop_map(
            |((link_type, up, carrier, mtu, tx_queues), features, rest)| Interface {
                link_type,
                up,
                carrier,
                mtu,
                tx_queues,
                features: features.into_iter().map(str::to_owned).collect(),
                tx_ring: rest.0,
                speed_mbit: rest.1,
                bql: rest.2,
                filters: rest.3,
                xdp: rest.4,
                ..Interface::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For any observation: there is no panic, each finding is complete, all but notes have a
    /// figure, the most severe comes first, and none occurs twice.
    #[test]
    fn whatever_is_observed_is_told_in_full(
        wan in device(),
        lan in device(),
        conntrack in any::<(bool, u32, u32)>(),
        resolution_ns in any::<u64>(),
    ) {
        let mut machine = worst();
        machine.devices = [(name("wan"), wan), (name("lan"), lan)].into();
        machine.conntrack = Some(Conntrack {
            accounting: conntrack.0,
            count: conntrack.1,
            max: conntrack.2,
        });
        machine.timers.resolution_ns = resolution_ns;
        let found = judged(&machine, &[]);
        for one in &found {
            prop_assert!(!one.fact.is_empty() && !one.remedy.is_empty());
            let figure = one.why.contains(|c: char| c.is_ascii_digit());
            prop_assert!(figure || one.severity == Severity::Note, "{}", one.why);
        }
        prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// One problem is one finding, and does not change any other.
    #[test]
    fn a_disturbance_adds_its_finding_alone(which in 0..7_usize) {
        let mut machine = quiet();
        let wan = machine.devices.get_mut(&name("wan")).unwrap();
        let code = match which {
            0 => { wan.features.insert("tx-tcp-segmentation".to_owned()); "segmentation-offload" }
            1 => { wan.features.insert("rx-gro".to_owned()); "receive-offload" }
            2 => { wan.xdp = Some(1); "xdp" }
            3 => { machine.htb_hysteresis = Some(true); "htb-hysteresis" }
            5 => { machine.minutes_west = 300; "kernel-timezone" }
            4 => { machine.forwarding_v4 = Some(false); "forwarding-off" }
            _ => { wan.carrier = false; "device-down" }
        };
        let found = judged(&machine, &[]);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].code, code);
        prop_assert_eq!(found[0].severity, Severity::Warning);
    }
}

/// A veth towards the hosts, or a port of the bridge that leads to them, brings merged packets.
/// The policy says whether they are cut.
#[test]
fn devices_that_bring_merged_packets_are_named() {
    let mut machine = quiet();
    let said = |machine: &Machine, policy: &str| {
        let (policy, problems) = weirgate_policy::parse(policy);
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
        let found = examined(&policy, machine, &[], false);
        let found = found.iter().filter(|one| one.code == "merged");
        found
            .map(|one| format!("{} {} {}", one.severity, one.subject, one.fact))
            .collect::<Vec<_>>()
    };
    let cut = POLICY.replace("mtu =", "merged = \"cut\"\nmtu =");
    let at_lan = cut.replace("\"ifb\"", "\"lan\"");
    let port = Interface {
        master: Some(name("lan")),
        kind: Some("tun".to_owned()),
        ..quiet_device()
    };
    machine.devices.insert(name("tap0"), port);
    let tap = "packets can come merged by tap0 (tun)";
    assert_eq!(
        said(&machine, POLICY),
        [format!("warning lan {tap}, and nothing cuts them")]
    );
    assert_eq!(
        said(&machine, &cut),
        [format!("note lan {tap}; cut-lan cuts them")]
    );
    machine.devices.remove(&name("tap0"));
    machine.devices.get_mut(&name("wan")).unwrap().kind = Some("veth".to_owned());
    let veth = "packets can come merged by wan (veth)";
    assert_eq!(
        said(&machine, &cut),
        [format!("warning wan {veth}, and nothing cuts them")]
    );
    assert_eq!(
        said(&machine, &at_lan),
        [format!("note wan {veth}; cut-wan cuts them")]
    );
    let filtered = POLICY.replace("\"ifb\"", "\"filter\"");
    assert_eq!(said(&machine, &filtered), [""; 0]);
}

/// A policy has no larger MTU, so it cannot be the remedy.
#[test]
fn jumbo_frames_are_not_for_a_policy() {
    let mut machine = quiet();
    for (mtu, remedy) in [
        (2_048, "write `mtu = 2048`"),
        (9_001, "`ip link set dev wan mtu 1492`"),
    ] {
        for device in machine.devices.values_mut() {
            device.mtu = mtu;
        }
        let found = judged_for(1_492, &machine, &[]);
        let found = found.iter().find(|one| one.code == "mtu").unwrap();
        assert!(found.remedy.starts_with(remedy), "{}", found.remedy);
    }
}

/// Without a session on the device, another router may have it.
#[test]
fn long_packets_towards_the_session_of_another_router_are_a_note() {
    let mut machine = quiet();
    let severity = |machine: &Machine| {
        let found = judged_for(1_500, machine, &[]);
        found
            .iter()
            .find(|one| one.code == "pppoe-mtu")
            .map(|one| one.severity)
    };
    for device in machine.devices.values_mut() {
        device.mtu = 1_500;
    }
    assert_eq!(severity(&machine), Some(Severity::Note));
    machine
        .devices
        .get_mut(&DeviceName::new("wan").unwrap())
        .unwrap()
        .link_type = 512;
    assert_eq!(severity(&machine), Some(Severity::Warning));
}

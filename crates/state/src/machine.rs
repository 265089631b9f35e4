// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The surroundings of shaping on one machine, as plain values: crate kernel reads them, crate
//! doctor judges them. Nothing here is ever desired or changed.

use crate::DeviceName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The observations on one machine, from one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release (`uname -r`).
    pub release: String,
    /// The privileges of this process.
    pub privileges: Privileges,
    /// Parts of the kernel that weirgate can use.
    pub abilities: BTreeMap<Ability, Presence>,
    /// The namespace's devices.
    pub devices: BTreeMap<DeviceName, Interface>,
    /// Flow tables of nf_tables; `None` if they could not be listed.
    pub flowtables: Option<Vec<Flowtable>>,
    /// Connection tracking; `None` if the kernel does not have it.
    pub conntrack: Option<Conntrack>,
    /// The resolution of the kernel's timers.
    pub timers: Timers,
    /// `htb_hysteresis` of `sch_htb`; `None` if that is not loaded.
    pub htb_hysteresis: Option<bool>,
    /// The minutes by which the kernel's own time zone is west of UTC (`sys_tz`); the kernel
    /// determines the day of the week by it.
    #[serde(default)]
    pub minutes_west: i32,
    /// Whether IPv4 packets are forwarded; `None` if that could not be read.
    pub forwarding_v4: Option<bool>,
    /// Whether IPv6 packets are forwarded; `None` also without IPv6.
    pub forwarding_v6: Option<bool>,
    /// Running programs that manage devices or shaping, by process name.
    pub managers: BTreeSet<String>,
    /// Files by which another program configures queues or offloads.
    pub settings: Vec<Setting>,
    /// Remains of other shapers.
    pub remains: Vec<Remain>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// The privileges of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Privileges {
    /// The effective user id.
    pub user: u32,
    /// CAP_NET_ADMIN: permits changing the network.
    pub net_admin: bool,
    /// CAP_BPF, or CAP_SYS_ADMIN, which implies it: permits loading programs.
    pub bpf: bool,
    /// CAP_SYS_MODULE; with CAP_NET_ADMIN the kernel loads network modules by itself.
    pub modules: bool,
    /// Whether this is the initial network namespace.
    pub first_namespace: bool,
}

/// A part of the kernel that weirgate can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// Hierarchical token bucket.
    Htb,
    /// `fq_codel`.
    FqCodel,
    /// Stochastic fairness queueing.
    Sfq,
    /// Random early detection.
    Red,
    /// cake.
    Cake,
    /// fq, which honours departure times.
    Fq,
    /// IFB devices.
    Ifb,
    /// nf_tables itself.
    NfTables,
    /// `fwd to` in nf_tables.
    NftForward,
    /// `limit` in nf_tables.
    NftLimit,
    /// `ct count` in nf_tables.
    NftConnections,
    /// `ct` in nf_tables, and connection tracking.
    NftConntrack,
    /// The FTP helper of connection tracking.
    FtpHelper,
    /// `act_ctinfo`: restores a connection's mark before conntrack.
    Ctinfo,
    /// BPF programs on a device (`cls_bpf`).
    ClsBpf,
    /// The kernel's type information.
    Btf,
    /// Queueing disciplines in BPF (`CONFIG_NET_SCH_BPF`).
    BpfQdisc,
}

impl Ability {
    /// All abilities.
    pub const ALL: [Self; 17] = [
        Self::Htb,
        Self::FqCodel,
        Self::Sfq,
        Self::Red,
        Self::Cake,
        Self::Fq,
        Self::Ifb,
        Self::NfTables,
        Self::NftForward,
        Self::NftLimit,
        Self::NftConnections,
        Self::NftConntrack,
        Self::FtpHelper,
        Self::Ctinfo,
        Self::ClsBpf,
        Self::Btf,
        Self::BpfQdisc,
    ];

    /// Returns its name as users know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Htb => "HTB",
            Self::FqCodel => "fq_codel",
            Self::Sfq => "SFQ",
            Self::Red => "RED",
            Self::Cake => "cake",
            Self::Fq => "fq",
            Self::Ifb => "IFB devices",
            Self::NfTables => "nf_tables",
            Self::NftForward => "nf_tables `fwd to`",
            Self::NftLimit => "nf_tables `limit`",
            Self::NftConnections => "nf_tables `ct count`",
            Self::NftConntrack => "connection tracking",
            Self::FtpHelper => "the FTP helper",
            Self::Ctinfo => "act_ctinfo",
            Self::ClsBpf => "cls_bpf",
            Self::Btf => "BTF",
            Self::BpfQdisc => "BPF qdiscs",
        }
    }

    /// Returns the module that contains it, unless it is built in; `None` if it cannot be a module.
    #[must_use]
    pub const fn module(self) -> Option<&'static str> {
        Some(match self {
            Self::Htb => "sch_htb",
            Self::FqCodel => "sch_fq_codel",
            Self::Sfq => "sch_sfq",
            Self::Red => "sch_red",
            Self::Cake => "sch_cake",
            Self::Fq => "sch_fq",
            Self::Ifb => "ifb",
            Self::NfTables => "nf_tables",
            Self::NftForward => "nft_fwd_netdev",
            Self::NftLimit => "nft_limit",
            Self::NftConnections => "nft_connlimit",
            Self::NftConntrack => "nft_ct",
            Self::FtpHelper => "nf_conntrack_ftp",
            Self::Ctinfo => "act_ctinfo",
            Self::ClsBpf => "cls_bpf",
            Self::Btf | Self::BpfQdisc => return None,
        })
    }

    /// Returns the option of the kernel's configuration that enables it.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Htb => "CONFIG_NET_SCH_HTB",
            Self::FqCodel => "CONFIG_NET_SCH_FQ_CODEL",
            Self::Sfq => "CONFIG_NET_SCH_SFQ",
            Self::Red => "CONFIG_NET_SCH_RED",
            Self::Cake => "CONFIG_NET_SCH_CAKE",
            Self::Fq => "CONFIG_NET_SCH_FQ",
            Self::Ifb => "CONFIG_IFB",
            Self::NfTables => "CONFIG_NF_TABLES",
            Self::NftForward => "CONFIG_NFT_FWD_NETDEV",
            Self::NftLimit => "CONFIG_NFT_LIMIT",
            Self::NftConnections => "CONFIG_NFT_CONNLIMIT",
            Self::NftConntrack => "CONFIG_NFT_CT",
            Self::FtpHelper => "CONFIG_NF_CONNTRACK_FTP",
            Self::Ctinfo => "CONFIG_NET_ACT_CTINFO",
            Self::ClsBpf => "CONFIG_NET_CLS_BPF",
            Self::Btf => "CONFIG_DEBUG_INFO_BTF",
            Self::BpfQdisc => "CONFIG_NET_SCH_BPF",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a kernel has an ability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// Built in, or loaded.
    Here,
    /// A module that the kernel loads on demand.
    Loadable,
    /// Neither in this kernel nor among its modules.
    Absent,
    /// It could not be determined.
    Unknown,
}

/// One device, with the properties that can interfere with shaping.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Interface {
    /// Its interface index.
    pub index: u32,
    /// The type of its link layer (`ARPHRD_*`, linux/if_arp.h).
    pub link_type: u16,
    /// Its kind (`IFLA_INFO_KIND`), if it is a virtual device.
    pub kind: Option<String>,
    /// Whether it is an IFB device that weirgate created.
    pub owned_ifb: bool,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// The bridge or bond of which it is a port.
    pub master: Option<DeviceName>,
    /// Whether it is a radio (802.11).
    #[serde(default)]
    pub radio: bool,
    /// The number of transmit queues.
    pub tx_queues: u32,
    /// Relevant features that are on, by their names in ethtool.
    pub features: BTreeSet<String>,
    /// The `features` that cannot be switched off.
    pub fixed: BTreeSet<String>,
    /// The size of its transmit ring, in packets.
    pub tx_ring: Option<u32>,
    /// Its speed in Mbit/s, if its driver reports one.
    pub speed_mbit: Option<u32>,
    /// Whether its driver reports to the kernel what it has sent (BQL). `None` if that is not
    /// known, such as before its first packet.
    pub bql: Option<bool>,
    /// The kind and handle of its root qdisc as in tc, unless it is the kernel's default.
    pub root: Option<(String, String)>,
    /// Its `clsact` or `ingress` qdisc.
    pub clsact: Option<String>,
    /// The number of filters at that qdisc.
    pub filters: usize,
    /// The id of its XDP program.
    pub xdp: Option<u32>,
}

/// Kinds of devices (`IFLA_INFO_KIND`) that are the end of a tunnel.
const TUNNELS: [&str; 15] = [
    "wireguard",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "ipip",
    "ip6tnl",
    "sit",
    "vti",
    "vti6",
    "xfrm",
    "vxlan",
    "geneve",
    "amneziawg",
    "ovpn",
];
/// The link type of a TUN device, which carries bare IP (`ARPHRD_NONE`, linux/if_arp.h). A TAP
/// device has the same kind, but the link type of Ethernet.
const BARE: u16 = 65_534;

impl Interface {
    /// Returns whether the device is the end of a tunnel, whose packets leave again through another
    /// device.
    #[must_use]
    pub fn is_tunnel(&self) -> bool {
        let kind = self.kind.as_deref().unwrap_or_default();
        TUNNELS.contains(&kind) || (kind == "tun" && self.link_type == BARE)
    }
}

/// A flow table of nf_tables, whose flows bypass the chains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flowtable {
    /// The family's name in nft, or its number.
    pub family: String,
    /// The table that contains it.
    pub table: String,
    /// Its name.
    pub name: String,
    /// The devices from which it takes packets.
    pub devices: Vec<String>,
    /// Whether the network card forwards the flows.
    pub hardware: bool,
}

/// Connection tracking's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conntrack {
    /// Whether bytes and packets of connections are counted.
    pub accounting: bool,
    /// The present number of connections.
    pub count: u32,
    /// The maximum number of connections.
    pub max: u32,
}

/// The resolution of the kernel's timers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timers {
    /// Nanoseconds between the times at which a timer can expire; 1 with high-resolution timers.
    pub resolution_ns: u64,
    /// The clock source, such as `tsc`.
    pub clocksource: Option<String>,
}

/// A file by which another program configures what weirgate configures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// The program: `systemd-networkd`, `NetworkManager`, `udev`.
    pub manager: String,
    /// Its path.
    pub file: String,
    /// The line number, from 1.
    pub line: u32,
    /// The line or heading that configures it.
    pub text: String,
    /// Patterns of the device names to which it applies; empty means any device.
    pub devices: Vec<String>,
}

/// A remains of another shaper.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Remain {
    /// The tool.
    pub tool: String,
    /// The evidence.
    pub trace: String,
    /// How to switch it off.
    pub remedy: String,
}

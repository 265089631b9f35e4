// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What surrounds shaping on one machine, as plain values: crate kernel reads
//! them, crate doctor judges them. Nothing here is ever desired or changed.

use crate::DeviceName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was found on one machine, seen from one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release (`uname -r`).
    pub release: String,
    /// What this process may do.
    pub privileges: Privileges,
    /// Parts of the kernel that weirgate can use.
    pub abilities: BTreeMap<Ability, Presence>,
    /// The namespace's devices.
    pub devices: BTreeMap<DeviceName, Interface>,
    /// Flow tables of nf_tables; `None` where they could not be listed.
    pub flowtables: Option<Vec<Flowtable>>,
    /// Connection tracking; `None` where it is not there.
    pub conntrack: Option<Conntrack>,
    /// How finely the kernel keeps time.
    pub timers: Timers,
    /// `htb_hysteresis` of `sch_htb`; `None` where that is not loaded.
    pub htb_hysteresis: Option<bool>,
    /// By how many minutes the kernel's own clock is west of UTC (`sys_tz`),
    /// which it counts days of the week by.
    #[serde(default)]
    pub minutes_west: i32,
    /// Whether packets are forwarded; `None` where that could not be read.
    pub forwarding_v4: Option<bool>,
    /// The same for IPv6; `None` also where there is none.
    pub forwarding_v6: Option<bool>,
    /// Programs that manage devices or shaping and run now, by process name.
    pub managers: BTreeSet<String>,
    /// Files by which another program sets queues or offloads.
    pub settings: Vec<Setting>,
    /// What other shapers have left behind.
    pub remains: Vec<Remain>,
    /// What could not be looked at, and why.
    pub unread: Vec<String>,
}

/// What a process may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Privileges {
    /// The effective user.
    pub user: u32,
    /// CAP_NET_ADMIN: change the network.
    pub net_admin: bool,
    /// CAP_BPF, or CAP_SYS_ADMIN that implies it: load programs.
    pub bpf: bool,
    /// CAP_SYS_MODULE; the kernel loads modules for CAP_NET_ADMIN by itself.
    pub modules: bool,
    /// Whether this is the namespace that the machine starts with.
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
    /// The helper of FTP.
    FtpHelper,
    /// `act_ctinfo`: a connection's mark before conntrack.
    Ctinfo,
    /// BPF programs on a device (`cls_bpf`).
    ClsBpf,
    /// Type information of the kernel.
    Btf,
    /// Queueing disciplines in BPF (`CONFIG_NET_SCH_BPF`).
    BpfQdisc,
}

impl Ability {
    /// All of them.
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

    /// Its name as users know it.
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

    /// The module that holds it where it is not built in; `None` for what is
    /// no module.
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

    /// The option of the kernel's configuration that builds it.
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

/// Whether a kernel has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// Built in, or loaded.
    Here,
    /// A module that the kernel loads when it is asked for.
    Loadable,
    /// Not in this kernel, nor among its modules.
    Absent,
    /// It could not be found out.
    Unknown,
}

/// One device, as far as it can disturb.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Interface {
    /// The kernel's number for it.
    pub index: u32,
    /// The type of its link layer (`ARPHRD_*`, linux/if_arp.h).
    pub link_type: u16,
    /// Its kind (`IFLA_INFO_KIND`), where it is a virtual one.
    pub kind: Option<String>,
    /// Whether it is an IFB device of weirgate's.
    pub owned_ifb: bool,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// The bridge or bond that it is a port of.
    pub master: Option<DeviceName>,
    /// Whether it is of a radio (802.11).
    #[serde(default)]
    pub radio: bool,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Features that are on and matter: names as ethtool has them.
    pub features: BTreeSet<String>,
    /// Those of `features` that cannot be switched off.
    pub fixed: BTreeSet<String>,
    /// Packets that its transmit ring holds.
    pub tx_ring: Option<u32>,
    /// Its speed in Mbit/s, where its driver says one.
    pub speed_mbit: Option<u32>,
    /// Whether its driver tells the kernel what it has sent (BQL); `None`
    /// where that is not known, such as before its first packet.
    pub bql: Option<bool>,
    /// Its root qdisc, where it is not the kernel's default one: kind and
    /// handle as tc writes them.
    pub root: Option<(String, String)>,
    /// Its `clsact` or `ingress` qdisc.
    pub clsact: Option<String>,
    /// Filters at that qdisc.
    pub filters: usize,
    /// The number of its XDP program.
    pub xdp: Option<u32>,
}

/// A flow table of nf_tables: its flows pass around the chains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flowtable {
    /// The family as nft writes it, or its number.
    pub family: String,
    /// The table it is in.
    pub table: String,
    /// Its name.
    pub name: String,
    /// The devices it takes packets from.
    pub devices: Vec<String>,
    /// Whether the card forwards the flows.
    pub hardware: bool,
}

/// Connection tracking's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conntrack {
    /// Whether connections' bytes and packets are counted.
    pub accounting: bool,
    /// Connections now.
    pub count: u32,
    /// The most that there can be.
    pub max: u32,
}

/// How finely the kernel keeps time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timers {
    /// Nanoseconds between the moments a timer can fire at; 1 with
    /// high-resolution timers.
    pub resolution_ns: u64,
    /// Where the time comes from, such as `tsc`.
    pub clocksource: Option<String>,
}

/// A file by which another program sets what weirgate sets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// Whose file: `systemd-networkd`, `NetworkManager`, `udev`.
    pub manager: String,
    /// Its path.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The line or heading that says so.
    pub text: String,
    /// Patterns of device names that it is for; empty is any device.
    pub devices: Vec<String>,
}

/// Something that another shaper left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Remain {
    /// The tool.
    pub tool: String,
    /// What shows it.
    pub trace: String,
    /// How it is switched off.
    pub remedy: String,
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic control over rtnetlink: messages out, trees and counters in.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod filters;
pub(crate) mod stats;
mod xstats;

pub use xstats::{Inside, Tin};

/// Message types (linux/rtnetlink.h).
pub(crate) const RTM_NEWQDISC: u16 = 36;
pub(crate) const RTM_DELQDISC: u16 = 37;
pub(crate) const RTM_GETQDISC: u16 = 38;
pub(crate) const RTM_NEWTCLASS: u16 = 40;
pub(crate) const RTM_DELTCLASS: u16 = 41;
pub(crate) const RTM_GETTCLASS: u16 = 42;
pub(crate) const RTM_GETTFILTER: u16 = 46;

/// Attributes of a traffic-control message (linux/rtnetlink.h).
pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;
pub(crate) const TCA_STATS2: u16 = 7;
pub(crate) const TCA_STAB: u16 = 8;
pub(crate) const TCA_STAB_BASE: u16 = 1;
pub(crate) const TCA_STAB_DATA: u16 = 2;

/// The parent that means the device itself (linux/pkt_sched.h).
pub(crate) const TC_H_ROOT: u32 = 0xffff_ffff;

/// `sizeof(struct tcmsg)`.
pub(crate) const TCMSG: usize = 20;

/// `struct tc_htb_opt` and `tc_htb_glob` (linux/pkt_sched.h).
pub(crate) const TCA_HTB_PARMS: u16 = 1;
pub(crate) const TCA_HTB_INIT: u16 = 2;
pub(crate) const TCA_HTB_DIRECT_QLEN: u16 = 5;
pub(crate) const TCA_HTB_RATE64: u16 = 6;
pub(crate) const TCA_HTB_CEIL64: u16 = 7;
/// `HTB_VER >> 16` of sch_htb.c; another major version is refused.
pub(crate) const HTB_VERSION: u32 = 3;
/// `TC_LINKLAYER_ETHERNET`: the kernel then wants no rate table, whose only
/// use left is to guess the link layer (`htb_change_class`).
pub(crate) const LINKLAYER_ETHERNET: u8 = 1;
pub(crate) const LINKLAYER_ATM: u8 = 2;

pub(crate) const TCA_FQ_CODEL_TARGET: u16 = 1;
pub(crate) const TCA_FQ_PLIMIT: u16 = 1;
pub(crate) const TCA_FQ_FLOW_PLIMIT: u16 = 2;
pub(crate) const TCA_FQ_RATE_ENABLE: u16 = 5;
pub(crate) const TCA_FQ_CODEL_LIMIT: u16 = 2;
pub(crate) const TCA_FQ_CODEL_INTERVAL: u16 = 3;
pub(crate) const TCA_FQ_CODEL_ECN: u16 = 4;
pub(crate) const TCA_FQ_CODEL_FLOWS: u16 = 5;
pub(crate) const TCA_FQ_CODEL_QUANTUM: u16 = 6;
pub(crate) const TCA_FQ_CODEL_CE_THRESHOLD: u16 = 7;
pub(crate) const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;

pub(crate) const TCA_RED_PARMS: u16 = 1;
pub(crate) const TCA_RED_STAB: u16 = 2;
pub(crate) const TCA_RED_MAX_P: u16 = 3;
pub(crate) const RED_ECN: u8 = 1;
pub(crate) const RED_ADAPTIVE: u8 = 4;

pub(crate) const TCA_CAKE_BASE_RATE64: u16 = 2;
pub(crate) const TCA_CAKE_DIFFSERV_MODE: u16 = 3;
pub(crate) const TCA_CAKE_ATM: u16 = 4;
pub(crate) const TCA_CAKE_FLOW_MODE: u16 = 5;
pub(crate) const TCA_CAKE_OVERHEAD: u16 = 6;
pub(crate) const TCA_CAKE_RTT: u16 = 7;
pub(crate) const TCA_CAKE_TARGET: u16 = 8;
pub(crate) const TCA_CAKE_MEMORY: u16 = 10;
pub(crate) const TCA_CAKE_NAT: u16 = 11;
pub(crate) const TCA_CAKE_RAW: u16 = 12;
pub(crate) const TCA_CAKE_MPU: u16 = 14;
pub(crate) const TCA_CAKE_INGRESS: u16 = 15;
pub(crate) const TCA_CAKE_ACK_FILTER: u16 = 16;
pub(crate) const TCA_CAKE_SPLIT_GSO: u16 = 17;
/// `CAKE_DIFFSERV_*` (linux/pkt_sched.h).
pub(crate) const CAKE_DIFFSERV4: u32 = 1;
pub(crate) const CAKE_BESTEFFORT: u32 = 3;

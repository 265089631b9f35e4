// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic control over rtnetlink: encodes requests, and reads trees and counters.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod filters;
pub(crate) mod listed;
mod raw;
pub(crate) mod stats;
mod xstats;

pub use xstats::{Inside, Tin};

/// The parent that means the device itself.
pub(crate) use nlink::netlink::types::tc::tc_handle::ROOT as TC_H_ROOT;

/// The parts of a size table (linux/pkt_sched.h).
pub(crate) const TCA_STAB_BASE: u16 = 1;
pub(crate) const TCA_STAB_DATA: u16 = 2;

/// The attributes of a qdisc whose filters are shared with other devices (linux/rtnetlink.h).
pub(crate) const TCA_INGRESS_BLOCK: u16 = 13;
pub(crate) const TCA_EGRESS_BLOCK: u16 = 14;

/// `sizeof(struct tcmsg)`.
pub(crate) const TCMSG: usize = 20;

/// `HTB_VER >> 16` of sch_htb.c; the kernel refuses another major version.
pub(crate) const HTB_VERSION: u32 = 3;
/// `TC_LINKLAYER_ETHERNET`: with this the kernel requires no rate table, whose only remaining use
/// is to guess the link layer (`htb_change_class`).
pub(crate) const LINKLAYER_ETHERNET: u8 = 1;
pub(crate) const LINKLAYER_ATM: u8 = 2;

/// `TC_RED_ECN` and `TC_RED_ADAPTATIVE` (linux/pkt_sched.h).
pub(crate) const RED_ECN: u8 = 1;
pub(crate) const RED_ADAPTIVE: u8 = 4;

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

/// The parts of a size table (linux/pkt_sched.h).
pub(crate) const TCA_STAB_BASE: u16 = 1;
pub(crate) const TCA_STAB_DATA: u16 = 2;

/// The parent that means the device itself (linux/pkt_sched.h).
pub(crate) const TC_H_ROOT: u32 = 0xffff_ffff;

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

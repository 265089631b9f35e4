// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree of qdiscs that the state has no words for, as the kernel lists it.

use serde::{Deserialize, Serialize};

/// A root qdisc that somebody else made, with everything below: the listing of the kernel
/// in the form of requests that make the same again. Observed and put back, never
/// changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The root's discipline (`TCA_KIND`).
    pub name: String,
    /// What is asked for, in this order; the root first.
    pub objects: Vec<ListedObject>,
}

/// One request: `struct tcmsg` (rtnetlink(7)) without the device, and its attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedObject {
    /// What it makes.
    pub what: ListedKind,
    /// `tcm_handle`.
    pub handle: u32,
    /// `tcm_parent`.
    pub parent: u32,
    /// `tcm_info`: a filter's preference and protocol.
    pub info: u32,
    /// The attributes as netlink(7) writes them, in this machine's byte order.
    pub attributes: Vec<u8>,
}

/// What a request of a [`Listed`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListedKind {
    /// A qdisc.
    Qdisc,
    /// A class.
    Class,
    /// A chain of filters.
    Chain,
    /// A filter, or a table of filters.
    Filter,
}

impl Listed {
    /// The handles of all its qdiscs, the root's first.
    pub fn handles(&self) -> impl Iterator<Item = u32> {
        let qdiscs = self.objects.iter();
        qdiscs
            .filter(|object| object.what == ListedKind::Qdisc)
            .map(|object| object.handle)
    }
}

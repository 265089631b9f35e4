// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A qdisc tree that the types of the state cannot describe, as the kernel lists it.

use serde::{Deserialize, Serialize};

/// A root qdisc that another program created, with everything below it. The kernel's listing has
/// the form of requests that create the same tree again. It is observed and restored, but never
/// changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The root's discipline (`TCA_KIND`).
    pub name: String,
    /// The requests, in this order; the root comes first.
    pub objects: Vec<ListedObject>,
}

/// One request: `struct tcmsg` (rtnetlink(7)) without the device, and its attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedObject {
    /// What it creates.
    pub what: ListedKind,
    /// `tcm_handle`.
    pub handle: u32,
    /// `tcm_parent`.
    pub parent: u32,
    /// `tcm_info`: a filter's preference and protocol.
    pub info: u32,
    /// The attributes in netlink(7) format, in this machine's byte order.
    pub attributes: Vec<u8>,
}

/// What a request of a [`Listed`] creates.
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
    /// Returns the handles of all its qdiscs, the root's first.
    pub fn handles(&self) -> impl Iterator<Item = u32> {
        let qdiscs = self.objects.iter();
        qdiscs
            .filter(|object| object.what == ListedKind::Qdisc)
            .map(|object| object.handle)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is attached at a device's ingress and egress hooks, before any table.

use crate::{
    Attached, Conditioning, Datagrams, Origin, Program, ProgramChange, VirtualQueueFilter, Windows,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A device's ingress and egress hooks: the `clsact` qdisc
/// (net/sched/sch_ingress.c), and which of its filters are weirgate's.
///
/// The kernel runs them before a `netdev` ingress chain (`sch_handle_ingress`
/// before `nf_ingress`, net/core/dev.c), so what they write into a packet's
/// mark is there for the rules of an IFB. They pass every packet on to the
/// filters of others, but for those that [`VirtualQueueFilter`], [`Datagrams`] and
/// [`Conditioning`] drop, so that
/// the place can be shared. It is the place for packets that leave, too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HookPrograms {
    /// The bits of the connection's mark that are written into the packet's
    /// (`act_ctinfo`, which finds the connection of a packet that conntrack has
    /// not seen, also behind address translation); all other bits of the
    /// packet's mark become 0. A packet without a connection keeps its mark.
    pub restore: Option<u32>,
    /// The classifier of payloads, which runs after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// The filter that polices what arrives by a virtual queue. It runs after all
    /// those that drop nothing. Stored states call it `hold`.
    #[serde(default, rename = "hold", skip_serializing_if = "Option::is_none")]
    pub virtual_queue: Option<VirtualQueueFilter>,
    /// What chooses receive windows: a program for what arrives, before the
    /// filter that may drop it, and one for what leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Box<Windows>>,
    /// The filter of datagrams, which runs last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Box<Datagrams>>,
    /// What conditions packets that enter the device, after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entering: Option<Box<Conditioning>>,
    /// What conditions packets that leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Box<Conditioning>>,
    /// What keeps connections in order that change their class: a program for the
    /// data that leaves, one for the acknowledgements that arrive, both last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Programs that are another version's, miss a filter or cannot be read: observed
    /// only, never desired, so that a plan exchanges them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stale: BTreeSet<Program>,
    /// Whether others have filters there: observed only, never desired. Their
    /// place stays when weirgate's filters go.
    #[serde(default)]
    pub others: bool,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// A filter that looks for signatures in the first packets of a flow
/// (`bpf/payload`), and writes what it found into the mark of every packet of
/// the flow from then on, also where the packet's mark was restored before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// The lowest of the mark's bits that it writes, at most 29; other bits
    /// stay.
    pub lowest: u8,
}

/// Two programs by which a TCP connection that changes its class has no segment
/// overtaken (`bpf/order`). The one for what leaves keeps its data in the old class
/// until all of it there has been acknowledged. The one for what arrives closes the
/// sender's window meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Order {}

impl Payload {
    /// The lowest bit that the classifier writes whose filter has this name; `None`
    /// where it is none of weirgate's.
    #[must_use]
    pub fn of_name(name: &str) -> Option<u8> {
        let label = Program::Payload.row().filters.first()?.label;
        let lowest = name.strip_prefix(label)?.split('-').next()?;
        let lowest = lowest.parse().ok()?;
        (u32::from(lowest) <= 32 - weirgate_signatures::BITS).then_some(lowest)
    }

    /// The bits of the mark that it writes.
    #[must_use]
    pub const fn mask(self) -> u32 {
        ((1 << weirgate_signatures::BITS) - 1) << self.lowest
    }
}

impl HookPrograms {
    /// A program; `None` where it is not attached.
    #[must_use]
    pub fn program(&self, program: Program) -> Option<Attached<'_>> {
        match program {
            Program::Payload => self.payload.map(Attached::Payload),
            Program::VirtualQueue => self.virtual_queue.as_ref().map(Attached::VirtualQueue),
            Program::Windows => self.windows.as_deref().map(Attached::Windows),
            Program::Datagrams => self.datagrams.as_deref().map(Attached::Datagrams),
            Program::IngressConditioners => self.entering.as_deref().map(Attached::Conditioners),
            Program::EgressConditioners => self.leaving.as_deref().map(Attached::Conditioners),
            Program::Order => self.order.map(Attached::Order),
        }
    }

    /// Whether nothing of weirgate's is there.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        let mut programs = Program::ALL.into_iter();
        self.restore.is_none() && programs.all(|one| self.program(one).is_none())
    }

    /// Whether a device's hooks have what is wanted of weirgate's; a device without
    /// `clsact` has nothing.
    #[must_use]
    pub fn same(wanted: Option<&Self>, seen: Option<&Self>) -> bool {
        let restore = |hooks: Option<&Self>| hooks.and_then(|hooks| hooks.restore);
        let keeps = |program: Program| program.change(seen, wanted) == ProgramChange::Keep;
        restore(wanted) == restore(seen) && Program::ALL.into_iter().all(keeps)
    }
}

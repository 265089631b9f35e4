// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What packets get where they arrive, before any table sees them.

use crate::{Conditioning, Datagrams, Hold, Origin, Windows};
use serde::{Deserialize, Serialize};

/// A device's place for arriving packets: the `clsact` qdisc (net/sched/
/// sch_ingress.c), and which of its filters are weirgate's.
///
/// The kernel runs them before a `netdev` ingress chain (`sch_handle_ingress`
/// before `nf_ingress`, net/core/dev.c), so what they write into a packet's
/// mark is there for the rules of an IFB. They pass every packet on to the
/// filters of others, but for those that [`Hold`], [`Datagrams`] and
/// [`Conditioning`] drop, so that
/// the place can be shared. It is the place for packets that leave, too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arriving {
    /// The bits of the connection's mark that are written into the packet's
    /// (`act_ctinfo`, which finds the connection of a packet that conntrack has
    /// not seen, also behind address translation); all other bits of the
    /// packet's mark become 0. A packet without a connection keeps its mark.
    pub restore: Option<u32>,
    /// The classifier of payloads, which runs after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// The filter that holds what arrives to a rate, which runs after all those
    /// that drop nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
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
    /// Whether its program is another than this weirgate's: observed only,
    /// never desired, so that a plan exchanges it.
    #[serde(default)]
    pub stale: bool,
}

/// Two programs by which a TCP connection that changes its class has no segment
/// overtaken (`bpf/order`): the one for what leaves keeps its data in the old
/// class until all of it there has been acknowledged, the one for what arrives
/// closes the sender's window meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Order {
    /// Whether they are others than this weirgate's, or one is missing: observed
    /// only, never desired, so that a plan exchanges them.
    #[serde(default)]
    pub stale: bool,
}

impl Order {
    /// Whether what is there will do for what is wanted. This weirgate's will
    /// where others were: those cannot be made again.
    #[must_use]
    pub fn same(wanted: Option<Self>, seen: Option<Self>) -> bool {
        match (wanted, seen) {
            (Some(wanted), Some(seen)) => wanted.stale || !seen.stale,
            (wanted, seen) => wanted.is_none() && seen.is_none(),
        }
    }
}

impl Payload {
    /// The bits of the mark that it writes.
    #[must_use]
    pub const fn mask(self) -> u32 {
        ((1 << weirgate_signatures::BITS) - 1) << self.lowest
    }
}

impl Arriving {
    /// Whether nothing of weirgate's is there.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.restore.is_none()
            && self.payload.is_none()
            && self.hold.is_none()
            && self.windows.is_none()
            && self.datagrams.is_none()
            && self.entering.is_none()
            && self.leaving.is_none()
            && self.order.is_none()
    }

    /// Whether a place holds what is wanted of weirgate's; one that does not
    /// exist holds nothing. This weirgate's classifier will do where another's
    /// was: that one cannot be made again.
    #[must_use]
    pub fn same(wanted: Option<&Self>, seen: Option<&Self>) -> bool {
        let restore = |place: Option<&Self>| place.and_then(|place| place.restore);
        let payload = |place: Option<&Self>| place.and_then(|place| place.payload);
        let looks = match (payload(wanted), payload(seen)) {
            (Some(wanted), Some(seen)) => {
                wanted.lowest == seen.lowest && (wanted.stale || !seen.stale)
            }
            (wanted, seen) => wanted.is_none() && seen.is_none(),
        };
        let same = Hold::same(
            wanted.and_then(|place| place.hold.as_ref()),
            seen.and_then(|place| place.hold.as_ref()),
        ) && Windows::same(
            wanted.and_then(|place| place.windows.as_deref()),
            seen.and_then(|place| place.windows.as_deref()),
        ) && Datagrams::same(
            wanted.and_then(|place| place.datagrams.as_deref()),
            seen.and_then(|place| place.datagrams.as_deref()),
        ) && Conditioning::same(
            wanted.and_then(|place| place.entering.as_deref()),
            seen.and_then(|place| place.entering.as_deref()),
        ) && Conditioning::same(
            wanted.and_then(|place| place.leaving.as_deref()),
            seen.and_then(|place| place.leaving.as_deref()),
        ) && Order::same(
            wanted.and_then(|place| place.order),
            seen.and_then(|place| place.order),
        );
        restore(wanted) == restore(seen) && looks && same
    }
}

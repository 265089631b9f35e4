// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the downstream is shaped.

use crate::found::Found;
use crate::purpose::{Purpose, TRACKED};
use weirgate_state::Ability;

/// A way to shape the downstream, by the field `inbound` of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// As weirgate chooses, which a policy says by saying nothing.
    Auto,
    /// Where packets leave by the one device of the hosts.
    Lan,
    /// On an IFB device, as packets arrive.
    Ifb,
    /// By dropping as packets arrive, without a queue.
    Filter,
    /// Not at all.
    None,
}

impl Inbound {
    /// The value of the field; `None` where it is not written.
    pub(crate) const fn value(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Lan => Some("lan"),
            Self::Ifb => Some("ifb"),
            Self::Filter => Some("filter"),
            Self::None => Some("none"),
        }
    }

    /// It in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Auto => "as weirgate chooses",
            Self::Lan => "this kernel has no IFB devices: shaped towards the hosts",
            Self::Ifb => "downloads are shaped on arrival, this machine's too",
            Self::Filter => "this kernel has no IFB devices: downloads are thinned out",
            Self::None => "this kernel cannot shape downloads here",
        }
    }

    /// Whether what arrives is queued.
    pub(crate) const fn queues(self) -> bool {
        matches!(self, Self::Auto | Self::Lan | Self::Ifb)
    }

    /// The first that serves: what weirgate chooses; else an IFB, where it would choose
    /// the LAN and what a tunnel brings has to be shaped too; else what the kernel has.
    pub(crate) fn of(found: &Found, purpose: &Purpose) -> Self {
        let has = |ability| !found.lacks.contains(&ability);
        let ifb = has(Ability::Ifb) && has(Ability::NftForward);
        let one = found.lan.len() == 1;
        // Weirgate chooses the LAN, where it is one device, for rules that ask
        // connection tracking. What a tunnel brings does not leave by it.
        let inside = purpose.services.contains(&TRACKED);
        match (one, ifb) {
            _ if found.bridge.is_some() => Self::Auto,
            (true, true) if inside && !found.tunnels.is_empty() => Self::Ifb,
            (_, true) => Self::Auto,
            (true, false) => Self::Lan,
            _ if has(Ability::ClsBpf) => Self::Filter,
            _ => Self::None,
        }
    }
}

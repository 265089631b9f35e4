// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses where the downstream is shaped.

use crate::found::Found;
use crate::purpose::{Purpose, TRACKED};
use weirgate_state::Ability;

/// A way to shape the downstream, by the field `inbound` of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// weirgate's choice, if the policy omits the field.
    Auto,
    /// On the only device of the hosts, as packets leave.
    Lan,
    /// On an IFB device, as packets arrive.
    Ifb,
    /// By dropping as packets arrive, without a queue.
    Filter,
    /// Not at all.
    None,
}

impl Inbound {
    /// Returns the value of the field; `None` if it is omitted.
    pub(crate) const fn value(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Lan => Some("lan"),
            Self::Ifb => Some("ifb"),
            Self::Filter => Some("filter"),
            Self::None => Some("none"),
        }
    }

    /// Returns a description.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Auto => "as weirgate chooses",
            Self::Lan => "this kernel has no IFB devices: shaped towards the hosts",
            Self::Ifb => "downloads are shaped on arrival, this machine's too",
            Self::Filter => "this kernel has no IFB devices: downloads are thinned out",
            Self::None => "this kernel cannot shape downloads here",
        }
    }

    /// Returns whether arriving packets are queued.
    pub(crate) const fn queues(self) -> bool {
        matches!(self, Self::Auto | Self::Lan | Self::Ifb)
    }

    /// Returns the first suitable choice. That is weirgate's own choice; or an IFB, if weirgate
    /// would choose the LAN but packets from tunnels must be shaped too; or whatever the kernel
    /// supports.
    pub(crate) fn of(found: &Found, purpose: &Purpose) -> Self {
        let has = |ability| !found.lacks.contains(&ability);
        let ifb = has(Ability::Ifb) && has(Ability::NftForward);
        let one = found.lan.len() == 1;
        // If the LAN is one device, weirgate chooses it for rules that use connection tracking.
        // Packets from tunnels do not leave through it.
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

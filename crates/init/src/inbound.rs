// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the downstream is shaped.

use crate::found::Found;
use crate::purpose::Purpose;
use weirgate_state::Ability;

/// A way to shape the downstream, by the field `inbound` of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inbound {
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
    /// The value of the field.
    pub(crate) const fn value(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Ifb => "ifb",
            Self::Filter => "filter",
            Self::None => "none",
        }
    }

    /// It in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Lan => "downloads are shaped where they leave for the hosts",
            Self::Ifb => "downloads are shaped as they arrive, this machine's too",
            Self::Filter => "this kernel has no IFB devices: downloads are thinned out",
            Self::None => "this kernel cannot shape downloads here",
        }
    }

    /// The first that serves: on the LAN where one device carries all that has
    /// to be shaped, else an IFB, else what the kernel has.
    pub(crate) fn of(found: &Found, purpose: &Purpose) -> Self {
        let has = |ability| !found.lacks.contains(&ability);
        let ifb = has(Ability::Ifb) && has(Ability::NftForward);
        let one = found.lan.len() == 1;
        // What a server here receives, and what a tunnel brings, does not leave
        // by the LAN.
        let whole = !purpose.serves && found.tunnels.is_empty();
        match (one, ifb) {
            _ if found.bridge.is_some() => Self::Lan,
            (true, _) if whole => Self::Lan,
            (_, true) => Self::Ifb,
            (true, false) => Self::Lan,
            _ if has(Ability::ClsBpf) => Self::Filter,
            _ => Self::None,
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Linux counts as the length of a packet, by kind of device.
//!
//! A qdisc sees `skb->len` as it is when the packet reaches the device's root (`__dev_queue_xmit`,
//! net/core/dev.c): the IP packet plus any header that the device's `header_ops` have already
//! prepended. It excludes what the driver adds later: padding to 60 bytes and the FCS.

/// A kind of network device, by the length that Linux counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// Ethernet-like: cards, veth, bridge, bond, TAP, Wi-Fi, and an IFB that is
    /// fed from the ingress of one (act_mirred puts the header back).
    Ethernet,
    /// An 802.1Q device, `eth0.7`: the tag travels beside the packet and is
    /// inserted after the qdisc, here and on the device below.
    Vlan,
    /// An 802.1Q device with `reorder_hdr off`: the tag is in the packet. If the
    /// device below inserts tags itself (`tx-vlan-hw-insert`), kernel 7.3 moves
    /// the tag beside the packet, and that device is [`DeviceKind::Ethernet`];
    /// else it is of this kind too.
    VlanInline,
    /// The Ethernet device that carries a PPPoE session: header, 6 bytes of
    /// PPPoE and 2 of PPP are in front of the IP packet.
    PppoeLower,
    /// The `ppp0` of a PPPoE session: `ppp_start_xmit` adds its headers after
    /// the qdisc.
    PppoeInterface,
    /// Any other `ppp0` (PPPoA, L2TP, serial): the headers are added after the qdisc as well.
    Ppp,
    /// Bare IP: TUN, WireGuard, a mobile modem in raw-IP mode, a tunnel, and an
    /// IFB that is fed from the ingress of one.
    Tun,
}

/// `ifi_type` values, linux/if_arp.h.
mod arphrd {
    pub(super) const ETHER: u16 = 1;
    pub(super) const PPP: u16 = 512;
    pub(super) const RAWIP: u16 = 519;
    pub(super) const TUNNEL: u16 = 768;
    pub(super) const TUNNEL6: u16 = 769;
    pub(super) const LOOPBACK: u16 = 772;
    pub(super) const SIT: u16 = 776;
    pub(super) const NONE: u16 = 0xfffe;
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Ethernet,
        Self::Vlan,
        Self::VlanInline,
        Self::PppoeLower,
        Self::PppoeInterface,
        Self::Ppp,
        Self::Tun,
    ];

    /// Returns the bytes in front of the IP packet that Linux counts.
    #[must_use]
    pub const fn counted(self) -> u32 {
        match self {
            Self::Ethernet | Self::Vlan => 14,
            Self::VlanInline => 18,
            Self::PppoeLower => 22,
            Self::PppoeInterface | Self::Ppp | Self::Tun => 0,
        }
    }

    /// Returns the kind's name in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Vlan => "vlan",
            Self::VlanInline => "vlan-inline",
            Self::PppoeLower => "pppoe-lower",
            Self::PppoeInterface => "pppoe",
            Self::Ppp => "ppp",
            Self::Tun => "tun",
        }
    }

    /// Returns the kind with this [`DeviceKind::name`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind for rtnetlink's `ifi_type` and `IFLA_INFO_KIND`, or `None` if this crate
    /// does not know it.
    ///
    /// These two values lack three facts that the caller must find out: a VLAN device's
    /// `reorder_hdr` flag ([`DeviceKind::VlanInline`] where it is off), whether packets of a PPPoE
    /// session are shaped on the Ethernet device below it ([`DeviceKind::PppoeLower`]), and what
    /// feeds an IFB.
    #[must_use]
    pub fn from_link(ifi_type: u16, info_kind: Option<&str>) -> Option<Self> {
        match ifi_type {
            arphrd::ETHER if info_kind == Some("vlan") => Some(Self::Vlan),
            arphrd::ETHER | arphrd::LOOPBACK => Some(Self::Ethernet),
            arphrd::PPP => Some(Self::Ppp),
            arphrd::NONE | arphrd::RAWIP | arphrd::TUNNEL | arphrd::TUNNEL6 | arphrd::SIT => {
                Some(Self::Tun)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for kind in DeviceKind::ALL {
            assert_eq!(DeviceKind::named(kind.name()), Some(kind));
        }
        assert_eq!(DeviceKind::named("token-ring"), None);
    }

    #[test]
    fn links_as_rtnetlink_shows_them() {
        assert_eq!(DeviceKind::from_link(1, None), Some(DeviceKind::Ethernet));
        assert_eq!(
            DeviceKind::from_link(1, Some("veth")),
            Some(DeviceKind::Ethernet)
        );
        assert_eq!(
            DeviceKind::from_link(1, Some("vlan")),
            Some(DeviceKind::Vlan)
        );
        assert_eq!(
            DeviceKind::from_link(512, Some("ppp")),
            Some(DeviceKind::Ppp)
        );
        assert_eq!(
            DeviceKind::from_link(65_534, Some("wireguard")),
            Some(DeviceKind::Tun)
        );
        assert_eq!(
            DeviceKind::from_link(32, None),
            None,
            "InfiniBand counts differently"
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the observations.

use crate::found::{Found, listed};
use crate::line::Dial;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use weirgate_state::Ability;
use weirgate_units::Inserted as _;

/// Drivers of devices of hypervisors, with the hypervisor's name.
const HYPERVISORS: [(&str, &str); 5] = [
    ("virtio_net", "KVM"),
    ("vmxnet3", "VMware"),
    ("hv_netvsc", "Hyper-V"),
    ("vif", "Xen"),
    ("xen_netfront", "Xen"),
];

/// The short names of features in ethtool.
const OFFLOADS: [(&str, &str); 5] = [
    ("tx-tcp-segmentation", "tso"),
    ("tx-tcp6-segmentation", "tso"),
    ("tx-generic-segmentation", "gso"),
    ("rx-gro", "gro"),
    ("rx-lro", "lro"),
];

impl Found {
    /// Returns the observations, each as a title and a line of text.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("link", self.link())];
        if !self.others.is_empty() {
            let others = listed(&self.others);
            lines.push((
                "other links",
                format!("{others}, each with a policy of its own: `--device`"),
            ));
        }
        lines.push(("hosts", self.hosts()));
        lines.push((
            "NAT",
            match self.translates {
                Some(true) => "addresses of leaving packets are translated",
                Some(false) => "none",
                None => "not seen (it needs CAP_NET_ADMIN)",
            }
            .to_owned(),
        ));
        lines.push((
            "offloads",
            if self.offloads.is_empty() {
                "none is on".to_owned()
            } else {
                format!(
                    "{}; `apply` switches packet merging off",
                    self.merging().join(", ")
                )
            },
        ));
        if !self.shapers.is_empty() {
            let roots: Vec<String> = self
                .shapers
                .iter()
                .map(|(device, root)| format!("{root} on {device}"))
                .collect();
            lines.push(("shapers", roots.join(", ")));
        }
        if self.has_no_queue_for_flows() {
            let text = "it has none of cake, fq_codel and sfq, so a class has one queue for all";
            lines.push(("kernel", text.to_owned()));
        } else if self.lacks.contains(&Ability::Cake) {
            let text = "it has no cake, so connections share equally, not hosts";
            lines.push(("kernel", text.to_owned()));
        }
        lines
    }

    /// Returns whether the kernel lacks every qdisc that separates flows.
    pub(crate) fn has_no_queue_for_flows(&self) -> bool {
        let kinds = [Ability::FqCodel, Ability::Sfq, Ability::Cake];
        kinds.iter().all(|kind| self.lacks.contains(kind))
    }

    /// Returns the enabled offloads by the words for ethtool.
    fn merging(&self) -> Vec<&str> {
        let on = self.offloads.iter().map(|feature| {
            let known = OFFLOADS.iter().find(|(name, _)| feature == name);
            known.map_or(feature.as_str(), |(_, word)| *word)
        });
        on.inserted::<BTreeSet<&str>>().into_iter().collect()
    }

    fn link(&self) -> String {
        let device = &self.device;
        let mut text = match (&self.bridge, self.dial) {
            (Some(bridge), _) => format!("{device}, the port of {bridge} towards the line"),
            (None, Dial::Plain) if self.wireless.contains(device) => format!("{device}, Wi-Fi"),
            (None, Dial::Plain) => format!("{device}, {}", self.kind.name()),
            (None, Dial::Vlan) => format!("{device}, a VLAN"),
            (None, Dial::Pppoe | Dial::PppoeVlan) => format!("{device}, a PPPoE session"),
            (None, Dial::Ppp) => format!("{device}, a PPP session"),
        };
        if let Some(below) = &self.below {
            let _ = write!(text, " on {below}");
        }
        if let Some(gateway) = self.gateway {
            let _ = write!(text, ", default route by {gateway}");
        }
        let driver = self.driver.as_deref();
        let hypervisor = HYPERVISORS.iter().find(|(name, _)| driver == Some(*name));
        if let Some((_, name)) = hypervisor {
            let _ = write!(text, ", in a virtual machine ({name})");
        }
        text
    }

    fn hosts(&self) -> String {
        if self.lan.is_empty() && self.forwards {
            let text = "not found: no device has an address of a site; `--lan DEVICE` names one";
            return text.to_owned();
        }
        if self.lan.is_empty() {
            return "none: this machine forwards nothing, and its own traffic is shaped".to_owned();
        }
        let mut text = format!("behind {}", listed(&self.lan));
        if !self.ports.is_empty() {
            let _ = write!(text, ", a bridge of {}", listed(&self.ports));
        }
        let concerned = self.lan.iter().chain(&self.ports);
        let radios: Vec<_> = concerned
            .filter(|one| self.wireless.contains(*one))
            .collect();
        if !radios.is_empty() {
            let _ = write!(text, "; Wi-Fi is {}", listed(radios));
        }
        text
    }
}

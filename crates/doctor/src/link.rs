// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about the link: which device carries which direction at which rate, and whether the
//! devices match the policy.

use crate::finding::{Finding, Question, Severity};
use std::collections::BTreeSet;
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};
use weirgate_policy::{Direction, Inbound, MTU_MOST, Policy};
use weirgate_state::{DeviceName, Interface};
use weirgate_units::{Rate, Size, Span};

/// The most bytes that an offload merges into one packet (`GSO_LEGACY_MAX_SIZE`,
/// linux/netdevice.h).
const MERGED: u32 = 65_536;
/// IP and TCP headers with time stamps, in bytes.
const HEADERS: u32 = 52;

/// A device, and the directions that its merged packets would delay.
pub(crate) struct Carrier {
    pub(crate) device: DeviceName,
    /// Whether it is a `lan` device of the policy.
    pub(crate) is_lan: bool,
    /// The direction that is shaped here as packets leave, if any.
    pub(crate) leaving: Option<Flow>,
    /// The direction that is shaped elsewhere and arrives here, if any.
    pub(crate) arriving: Option<Flow>,
}

/// A direction with its rate.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    pub(crate) rate: Rate,
    layer: LinkLayer,
    mtu: u32,
    /// Whether the rate is an example, without a policy.
    pub(crate) example: bool,
}

impl Flow {
    fn of(policy: &Policy, direction: Direction) -> Option<Self> {
        Some(Self {
            name: direction.stream(),
            rate: policy.line_rate(direction)?,
            layer: policy.link.layer.value,
            mtu: policy.link.mtu.value,
            example: false,
        })
    }

    /// Returns the time of `count` full packets on the line.
    pub(crate) fn packets(&self, count: u32) -> Span {
        let bytes = u64::from(self.layer.wire_bytes(self.mtu)) * u64::from(count);
        let time = self.rate.time_for(Size::bytes(bytes));
        time.unwrap_or(Span::from_nanos(u64::MAX))
    }

    /// Returns the time of one merged packet of 64 KB on the line.
    pub(crate) fn merged(&self) -> Span {
        let data = self.mtu.saturating_sub(HEADERS).max(1);
        self.packets(MERGED.div_ceil(data))
    }

    /// Returns the rate in words that say its origin.
    pub(crate) fn at(&self) -> String {
        if self.example {
            format!("a link of {}", self.rate)
        } else {
            format!("the {} of {}", self.name, self.rate)
        }
    }
}

/// Returns the devices to examine. Without a policy, they are judged for a line of 10 Mbit/s.
pub(crate) fn carriers(question: &Question<'_>) -> Vec<Carrier> {
    let mut carriers = Vec::new();
    let mut done = BTreeSet::new();
    if let Some(policy) = question.policy {
        let up = Flow::of(policy, Direction::Up);
        let down = Flow::of(policy, Direction::Down);
        let at_lan = policy.link.inbound.value == Inbound::Lan;
        carriers.push(Carrier {
            device: policy.link.device.value.clone(),
            is_lan: false,
            leaving: up,
            arriving: down,
        });
        for lan in &policy.link.lan {
            carriers.push(Carrier {
                device: lan.value.clone(),
                is_lan: true,
                leaving: down.filter(|_| at_lan),
                arriving: up,
            });
        }
        done.extend(carriers.iter().map(|line| line.device.clone()));
    }
    let Ok(layer) = LinkLayer::custom(14, 0, Framing::None) else {
        return carriers;
    };
    let example = Flow {
        name: "upstream",
        rate: Rate::kbit(10_000),
        layer,
        mtu: 1_500,
        example: true,
    };
    for device in question.devices.difference(&done) {
        carriers.push(Carrier {
            device: device.clone(),
            is_lan: false,
            leaving: Some(example),
            arriving: Some(example),
        });
    }
    carriers
}

/// Formats a time for readers.
pub(crate) fn in_words(span: Span) -> String {
    let millis = span.as_millis_f64();
    match millis {
        millis if millis >= 1_000.0 => format!("{:.1} s", millis / 1_000.0),
        millis if millis >= 10.0 => format!("{millis:.0} ms"),
        millis if millis >= 0.1 => format!("{millis:.1} ms"),
        millis => format!("{:.1} us", millis * 1_000.0),
    }
}

/// Reports devices that do not match the policy.
pub(crate) fn examine(question: &Question<'_>, findings: &mut Vec<Finding>) {
    let Some(policy) = question.policy else {
        return;
    };
    let wan = &policy.link.device.value;
    let Some(device) = question.machine.devices.get(wan) else {
        return;
    };
    mtu(policy, wan, device, findings);
    kind(policy, wan, device, findings);
    tunnels(policy, question, findings);
}

/// Reports tunnels that end here while the downstream is shaped on the LAN device. Their packets
/// are forwarded from the tunnel's device, not from the link's.
fn tunnels(policy: &Policy, question: &Question<'_>, findings: &mut Vec<Finding>) {
    let link = &policy.link;
    let Some(rate) = policy.line_rate(Direction::Down) else {
        return;
    };
    if link.inbound.value != Inbound::Lan || link.bridge {
        return;
    }
    for (name, device) in &question.machine.devices {
        let configured =
            *name == link.device.value || link.lan.iter().any(|lan| lan.value == *name);
        if !device.is_tunnel() || !device.up || configured {
            continue;
        }
        let kind = device.kind.as_deref().unwrap_or_default();
        findings.push(Finding {
            severity: Severity::Warning,
            code: "tunnel",
            subject: name.to_string(),
            fact: format!("a tunnel ends here ({kind}), and the downstream is shaped on the LAN"),
            why: format!(
                "packets of the tunnel arrive through {} unshaped: together with the {} of the \
                 shaper they fill the provider's queue",
                link.device.value,
                weirgate_policy::in_kbit(policy.gate(Direction::Down).unwrap_or(rate))
            ),
            remedy: format!(
                "write `inbound = \"ifb\"` in [link] (line {}), which shapes everything on \
                 arrival; nothing if the tunnel carries little",
                link.inbound.line
            ),
        });
    }
}

fn mtu(policy: &Policy, wan: &DeviceName, device: &Interface, findings: &mut Vec<Finding>) {
    let (configured, line) = (policy.link.mtu.value, policy.link.mtu.line);
    let layer = policy.link.layer.value;
    let time = |mtu| layer.serialisation(policy.link.up.value, mtu).map(in_words);
    let Some((real, assumed)) = time(device.mtu).zip(time(configured)) else {
        return;
    };
    if device.mtu > configured {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "mtu",
            subject: wan.to_string(),
            fact: format!("its MTU is {}, the policy's {configured}", device.mtu),
            why: format!(
                "a packet of {} bytes holds the line for {real}; every bound that `check` states \
                 is for {assumed}",
                device.mtu
            ),
            remedy: if i64::from(device.mtu) <= MTU_MOST {
                format!(
                    "write `mtu = {}` in [link] (line {line}), or `ip link set dev {wan} mtu \
                     {configured}`",
                    device.mtu
                )
            } else {
                format!(
                    "`ip link set dev {wan} mtu {configured}`; a policy's `mtu` is at most {MTU_MOST}"
                )
            },
        });
    } else if device.mtu < configured {
        findings.push(Finding {
            severity: Severity::Note,
            code: "mtu",
            subject: wan.to_string(),
            fact: format!("its MTU is {}, the policy's {configured}", device.mtu),
            why: format!(
                "`check` states its bounds for packets that take {assumed}; the longest takes \
                 {real}"
            ),
            remedy: format!("write `mtu = {}` in [link]", device.mtu),
        });
    }
    // Eight bytes of PPPoE and PPP and a packet of 1492 bytes fit into an Ethernet frame; larger
    // frames must be negotiated (RFC 4638).
    let largest = device.mtu.min(configured);
    if layer.name().contains("pppoe") && largest > 1_492 {
        // Without a session here, another router may have it, and handle long packets.
        let configured = policy.link.device_kind.value;
        let found = DeviceKind::from_link(device.link_type, device.kind.as_deref());
        let ends_here = found == Some(DeviceKind::Ppp)
            || matches!(
                configured,
                DeviceKind::Ppp | DeviceKind::PppoeInterface | DeviceKind::PppoeLower
            );
        findings.push(Finding {
            severity: if ends_here {
                Severity::Warning
            } else {
                Severity::Note
            },
            code: "pppoe-mtu",
            subject: wan.to_string(),
            fact: format!(
                "packets of {largest} bytes go onto a PPPoE line, which carries 1492 unless its \
                 provider agreed to more (RFC 4638)"
            ),
            why: format!(
                "full packets are {} bytes too long: each packet of {largest} bytes is dropped, \
                 or fragmented into two",
                largest - 1_492
            ),
            remedy: format!(
                "`ip link set dev {wan} mtu 1492` and `mtu = 1492` in [link]; only the latter if \
                 it is the Ethernet device below ppp0"
            ),
        });
    }
}

fn kind(policy: &Policy, wan: &DeviceName, device: &Interface, findings: &mut Vec<Finding>) {
    let configured = policy.link.device_kind.value;
    let found = DeviceKind::from_link(device.link_type, device.kind.as_deref());
    let Some(found) = found.filter(|found| found.counted() != configured.counted()) else {
        return;
    };
    // Netlink does not show tags within packets, or a session that the device carries.
    let unseen = [DeviceKind::VlanInline, DeviceKind::PppoeLower];
    if unseen.contains(&configured) && found.counted() == 14 {
        return;
    }
    let wrong = found.counted().abs_diff(configured.counted());
    let real = policy.link.layer.value.wire_bytes(40).max(1);
    findings.push(Finding {
        severity: Severity::Warning,
        code: "device-kind",
        subject: wan.to_string(),
        fact: format!(
            "Linux counts {} bytes in front of each IP packet there; the policy says {} ({})",
            found.counted(),
            configured.counted(),
            configured.name()
        ),
        why: format!(
            "every packet is counted {wrong} bytes wrong: an acknowledgement takes {real} bytes \
             of the line, so up to {} % of the rate is wrong, and the queue forms in the modem or \
             the line stays idle",
            wrong * 100 / real
        ),
        remedy: format!("write `device-kind = \"{}\"` in [link]", found.name()),
    });
}

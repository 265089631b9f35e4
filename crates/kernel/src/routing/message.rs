// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes and decodes rules and routes (linux/fib_rules.h, linux/rtnetlink.h).

use crate::netlink::wire::{self, Attrs};
use libc::{
    AF_INET, AF_INET6, RT_SCOPE_LINK, RT_SCOPE_UNIVERSE, RT_TABLE_UNSPEC, RTA_GATEWAY, RTA_OIF,
    RTA_TABLE, RTM_DELROUTE, RTM_DELRULE, RTM_NEWROUTE, RTM_NEWRULE, RTN_UNICAST,
};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST};
use nlink::netlink::types::rule::{FibRuleAction, FraAttr};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weirgate_state::{
    DeviceName, END_PRIORITY, FIRST_PRIORITY, FIRST_TABLE, IpVersion, LinkRoute, MOST_LINKS,
    PROTOCOL, RoutingRule,
};

/// The size of `struct rtmsg` and of `struct fib_rule_hdr`.
const HEADER: usize = 12;
const TO_TABLE: u8 = FibRuleAction::ToTbl as u8;
const FRA_PRIORITY: u16 = FraAttr::Priority as u16;
const FRA_FWMARK: u16 = FraAttr::Fwmark as u16;
const FRA_SUPPRESS_PREFIXLEN: u16 = FraAttr::SuppressPrefixlen as u16;
const FRA_TABLE: u16 = FraAttr::Table as u16;
const FRA_FWMASK: u16 = FraAttr::Fwmask as u16;
const FRA_OIFNAME: u16 = FraAttr::Oifname as u16;
const FRA_PROTOCOL: u16 = FraAttr::Protocol as u16;
/// `RTNH_F_ONLINK`: the next hop counts as reachable on the device, whatever the device's addresses
/// are.
const ONLINK: u32 = 4;

/// Devices by index.
pub(super) type Names = BTreeMap<u32, DeviceName>;

fn family(version: IpVersion) -> i32 {
    match version {
        IpVersion::V4 => AF_INET,
        IpVersion::V6 => AF_INET6,
    }
}

fn version(payload: &[u8]) -> Option<IpVersion> {
    match i32::from(wire::u8_at(payload, 0)?) {
        AF_INET => Some(IpVersion::V4),
        AF_INET6 => Some(IpVersion::V6),
        _ => None,
    }
}

/// Returns a request for everything of an address family.
pub(super) fn asking(kind: u16, family: i32) -> MessageBuilder {
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST);
    let mut header = [0; HEADER];
    header[0] = family as u8;
    message.append_bytes(&header);
    message
}

/// Reads a rule of weirgate's; `None` for any other.
pub(super) fn rule(payload: &[u8]) -> Option<RoutingRule> {
    let attrs = Attrs::after(payload, HEADER);
    let priority = attrs.u32(FRA_PRIORITY)?;
    let own = attrs.bytes(FRA_PROTOCOL)? == [PROTOCOL]
        && (FIRST_PRIORITY..END_PRIORITY).contains(&priority);
    if !own {
        return None;
    }
    let value = attrs.u32(FRA_FWMARK).unwrap_or(0);
    Some(RoutingRule {
        priority,
        version: version(payload)?,
        mark: attrs.u32(FRA_FWMASK).map(|mask| (value, mask)),
        bound_to: attrs.text(FRA_OIFNAME).and_then(DeviceName::new),
        table: attrs.u32(FRA_TABLE)?,
        no_default: attrs.u32(FRA_SUPPRESS_PREFIXLEN) == Some(0),
    })
}

/// Returns the request that creates or deletes a rule.
pub(super) fn change_rule(rule: &RoutingRule, make: bool) -> MessageBuilder {
    let (kind, flags) = if make {
        (RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL)
    } else {
        (RTM_DELRULE, 0)
    };
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    let mut header = [0; HEADER];
    header[0] = family(rule.version) as u8;
    header[4] = RT_TABLE_UNSPEC;
    header[7] = TO_TABLE;
    message.append_bytes(&header);
    message.append_attr_u32(FRA_PRIORITY, rule.priority);
    message.append_attr_u32(FRA_TABLE, rule.table);
    message.append_attr(FRA_PROTOCOL, &[PROTOCOL]);
    if let Some((value, mask)) = rule.mark {
        message.append_attr_u32(FRA_FWMARK, value);
        message.append_attr_u32(FRA_FWMASK, mask);
    }
    if let Some(device) = &rule.bound_to {
        message.append_attr_str(FRA_OIFNAME, device.as_str());
    }
    if rule.no_default {
        message.append_attr_u32(FRA_SUPPRESS_PREFIXLEN, 0);
    }
    message
}

/// Reads a default route of weirgate's; `None` for any other.
pub(super) fn route(payload: &[u8], names: &Names) -> Option<LinkRoute> {
    let attrs = Attrs::after(payload, HEADER);
    let table = attrs.u32(RTA_TABLE)?;
    let tables = FIRST_TABLE..FIRST_TABLE + MOST_LINKS as u32;
    let own = wire::u8_at(payload, 5)? == PROTOCOL
        && wire::u8_at(payload, 1)? == 0
        && tables.contains(&table);
    if !own {
        return None;
    }
    Some(LinkRoute {
        table,
        version: version(payload)?,
        device: names.get(&attrs.u32(RTA_OIF)?)?.clone(),
        gateway: attrs.bytes(RTA_GATEWAY).and_then(wire::address),
    })
}

/// Returns the request that creates or replaces a route, or deletes it.
pub(super) fn change_route(route: &LinkRoute, index: u32, make: bool) -> MessageBuilder {
    let (kind, flags) = if make {
        (RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE)
    } else {
        (RTM_DELROUTE, 0)
    };
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    let scope = if route.gateway.is_some() {
        RT_SCOPE_UNIVERSE
    } else {
        RT_SCOPE_LINK
    };
    let onlink = if route.gateway.is_some() && make {
        ONLINK
    } else {
        0
    };
    let family = family(route.version) as u8;
    message.append_bytes(&[
        family,
        0,
        0,
        0,
        RT_TABLE_UNSPEC,
        PROTOCOL,
        scope,
        RTN_UNICAST,
    ]);
    message.append_bytes(&onlink.to_ne_bytes());
    message.append_attr_u32(RTA_TABLE, route.table);
    message.append_attr_u32(RTA_OIF, index);
    match route.gateway {
        Some(IpAddr::V4(gateway)) => message.append_attr(RTA_GATEWAY, &gateway.octets()),
        Some(IpAddr::V6(gateway)) => message.append_attr(RTA_GATEWAY, &gateway.octets()),
        None => {}
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the payload of a request in the form of the kernel's listing.
    fn payload(message: MessageBuilder) -> Vec<u8> {
        message.finish()[16..].to_vec()
    }

    #[test]
    fn what_is_written_is_read_and_others_are_left_alone() {
        let one = RoutingRule {
            priority: FIRST_PRIORITY + 20,
            version: IpVersion::V6,
            mark: Some((0x100, 0xf00)),
            bound_to: DeviceName::new("wan0"),
            table: 7_701,
            no_default: false,
        };
        let bytes = payload(change_rule(&one, true));
        assert_eq!(rule(&bytes), Some(one.clone()));
        for end in 0..bytes.len() {
            let _ = rule(&bytes[..end]);
        }
        let other = RoutingRule {
            priority: END_PRIORITY,
            ..one
        };
        assert_eq!(rule(&payload(change_rule(&other, true))), None);
        let names = Names::from([(7, DeviceName::new("wan0").unwrap())]);
        let wanted = LinkRoute {
            table: FIRST_TABLE,
            version: IpVersion::V4,
            device: names[&7].clone(),
            gateway: Some(IpAddr::from([192, 0, 2, 1])),
        };
        let bytes = payload(change_route(&wanted, 7, true));
        assert_eq!(route(&bytes, &names), Some(wanted.clone()));
        for end in 0..bytes.len() {
            let _ = route(&bytes[..end], &names);
        }
        let elsewhere = LinkRoute {
            table: 254,
            ..wanted
        };
        assert_eq!(
            route(&payload(change_route(&elsewhere, 7, true)), &names),
            None
        );
    }
}

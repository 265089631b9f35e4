// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads how a machine is connected: default routes, addresses, the structure of devices, and
//! address translation. It changes nothing, and asks only the kernel.

use super::files;
use crate::Kernel;
use crate::error::KernelError;
use crate::link::{self, IFINFOMSG};
use crate::netlink::wire::{self, Attrs};
use crate::nft::{self, HOOK_POSTROUTING, NFGENMSG};
use libc::{
    AF_BRIDGE, AF_INET, AF_INET6, AF_UNSPEC, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINK,
    IFLA_LINK_NETNSID, IFLA_LINKINFO, NDA_DST, NDA_LLADDR, RT_TABLE_MAIN, RTA_GATEWAY,
    RTA_MULTIPATH, RTA_OIF, RTA_PRIORITY, RTA_TABLE, RTM_GETNEIGH, RTM_GETROUTE, RTN_UNICAST,
};
use nlink::netlink::message::NLM_F_REQUEST;
use nlink::netlink::nftables::{
    NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFTA_CHAIN_HOOK, NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE,
    NFTA_EXPR_DATA, NFTA_EXPR_NAME, NFTA_HOOK_HOOKNUM, NFTA_LIST_ELEM, NFTA_RULE_EXPRESSIONS,
    NFTA_RULE_TABLE,
};
use nlink::netlink::{AttrIter, MessageBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_state::{DefaultRoute, DeviceName, Network};
use weirgate_units::{Arrange as _, Inserted as _};

/// `sizeof(struct rtmsg)`, `struct rtnexthop` and `struct ndmsg`
/// (linux/rtnetlink.h, linux/neighbour.h).
const RTMSG: usize = 12;
const RTNEXTHOP: usize = 8;
const NDMSG: usize = 12;
/// `NFTA_TARGET_NAME` of an xtables target (linux/netfilter/nf_tables_compat.h).
const NFTA_TARGET_NAME: u16 = 1;

/// Devices by index.
type Names = BTreeMap<u32, DeviceName>;
/// A link-layer address.
type Mac = [u8; 6];

impl Kernel {
    /// Reads how the machine is connected, as seen from this network namespace. Needs no privilege,
    /// except that address translation is only visible with CAP_NET_ADMIN. Files are read in the
    /// calling thread's namespaces.
    ///
    /// # Errors
    /// If the kernel does not list devices, addresses or routes.
    pub async fn network(&self) -> Result<Network, KernelError> {
        let mut network = Network {
            sessions: files::sessions(),
            translates: self.translates().await,
            ..Network::default()
        };
        let what = "listing network devices";
        let links = self.route.get(&link::list(), what, false).await?;
        let names: Names = links.iter().filter_map(|link| named(link)).inserted();
        for link in &links {
            let Some((index, name)) = named(link) else {
                continue;
            };
            let below = below(link).and_then(|index| names.get(&index));
            network
                .below
                .extend(below.map(|one| (name.clone(), one.clone())));
            let (radio, driver) = files::hardware(&name, index);
            network
                .drivers
                .extend(driver.map(|one| (name.clone(), one)));
            network.wireless.extend(radio.then_some(name));
        }
        for subnet in self.subnets().await? {
            if let Some(device) = DeviceName::new(&subnet.device) {
                network
                    .addresses
                    .entry(device)
                    .or_default()
                    .insert(subnet.own);
            }
        }
        for family in [AF_INET, AF_INET6] {
            let ask = asking(RTM_GETROUTE, family, RTMSG);
            let found = self.route.get(&ask, "listing routes", false).await?;
            let mut routes: Vec<DefaultRoute> = found
                .iter()
                .flat_map(|payload| default_routes(payload, &names))
                .collect();
            routes.arrange_by_key(|route| route.metric);
            network.defaults.extend(routes);
        }
        self.ports(&mut network, &names).await?;
        Ok(network)
    }

    /// Finds the bridge ports behind which next hops are.
    async fn ports(&self, network: &mut Network, names: &Names) -> Result<(), KernelError> {
        if network.defaults.iter().all(|route| route.gateway.is_none()) {
            return Ok(());
        }
        let what = "listing neighbours";
        let ask = asking(RTM_GETNEIGH, AF_UNSPEC, NDMSG);
        let neighbours = self.route.get(&ask, what, false).await?;
        let macs: BTreeMap<IpAddr, Mac> = neighbours
            .iter()
            .filter_map(|payload| {
                let attrs = Attrs::after(payload, NDMSG);
                Some((address(attrs.bytes(NDA_DST)?)?, mac(&attrs)?))
            })
            .inserted();
        let ask = asking(RTM_GETNEIGH, AF_BRIDGE, NDMSG);
        let learnt = self.route.get(&ask, what, false).await?;
        let learnt: BTreeMap<Mac, &DeviceName> = learnt
            .iter()
            .filter_map(|payload| {
                let port = names.get(&wire::u32_at(payload, 4)?)?;
                Some((mac(&Attrs::after(payload, NDMSG))?, port))
            })
            .inserted();
        for route in &mut network.defaults {
            let mac = route.gateway.and_then(|gateway| macs.get(&gateway));
            let port = mac.and_then(|mac| learnt.get(mac));
            route.port = port
                .filter(|port| ***port != route.device)
                .map(|port| (*port).clone());
        }
        Ok(())
    }

    /// Returns whether any rule translates source addresses of departing packets; `None` if that is
    /// unknown.
    async fn translates(&self) -> Option<bool> {
        let older = files::older_nat();
        if older == Some(true) {
            return older;
        }
        let ask = nft::message(NFT_MSG_GETCHAIN, 0, AF_UNSPEC as u8);
        let chains = self.nft.get(&ask, "listing chains", false).await.ok()?;
        let tables: BTreeSet<(u8, String)> = chains
            .iter()
            .filter_map(|payload| translating(payload))
            .inserted();
        for (family, table) in tables {
            let mut ask = nft::message(NFT_MSG_GETRULE, 0, family);
            ask.append_attr_str(NFTA_RULE_TABLE, &table);
            let rules = self.nft.get(&ask, "listing rules", false).await.ok()?;
            if rules.iter().any(|rule| is_translation(rule)) {
                return Some(true);
            }
        }
        older
    }
}

/// Returns a request whose header only has the address family.
fn asking(kind: u16, family: i32, header: usize) -> MessageBuilder {
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST);
    let mut bytes = vec![0; header];
    bytes[0] = family as u8;
    message.append_bytes(&bytes);
    message
}

fn named(payload: &[u8]) -> Option<(u32, DeviceName)> {
    let name = Attrs::after(payload, IFINFOMSG).text(IFLA_IFNAME)?;
    Some((wire::u32_at(payload, 4)?, DeviceName::new(&name)?))
}

/// Returns the index of the device below an 802.1Q device, if it is in the same namespace.
fn below(payload: &[u8]) -> Option<u32> {
    let attrs = Attrs::after(payload, IFINFOMSG);
    let kind = attrs.nest(IFLA_LINKINFO).text(IFLA_INFO_KIND)?;
    let here = !attrs.has(IFLA_LINK_NETNSID);
    attrs.u32(IFLA_LINK).filter(|_| here && kind == "vlan")
}

/// Reads a default route of the main table, once for each next hop. Returns nothing for any other
/// route.
pub(crate) fn default_routes(payload: &[u8], names: &Names) -> Vec<DefaultRoute> {
    let attrs = Attrs::after(payload, RTMSG);
    if !is_default(payload, &attrs) {
        return Vec::new();
    }
    let mut hops = Vec::new();
    match attrs.bytes(RTA_MULTIPATH) {
        Some(mut rest) => {
            while let Some(hop) = wire::u16_at(rest, 0).and_then(|size| rest.get(..size.into()))
                && let Some(index) = wire::u32_at(hop, 4)
            {
                hops.push((index, Attrs::after(hop, RTNEXTHOP).bytes(RTA_GATEWAY)));
                rest = rest
                    .get(hop.len().next_multiple_of(4)..)
                    .unwrap_or_default();
            }
        }
        None => hops.extend(
            attrs
                .u32(RTA_OIF)
                .map(|index| (index, attrs.bytes(RTA_GATEWAY))),
        ),
    }
    let metric = attrs.u32(RTA_PRIORITY).unwrap_or(0);
    let routes = hops.into_iter().filter_map(|(index, gateway)| {
        Some(DefaultRoute {
            device: names.get(&index)?.clone(),
            gateway: gateway.and_then(address),
            metric,
            port: None,
        })
    });
    routes.collect()
}

/// Returns whether a route of the main table is for all destinations, and sends packets somewhere.
fn is_default(payload: &[u8], attrs: &Attrs<'_>) -> bool {
    let length = wire::u8_at(payload, 1);
    let table = attrs.u32(RTA_TABLE);
    let table = table.or_else(|| wire::u8_at(payload, 4).map(u32::from));
    let kind = wire::u8_at(payload, 7);
    length == Some(0) && table == Some(RT_TABLE_MAIN.into()) && kind == Some(RTN_UNICAST)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn mac(attrs: &Attrs<'_>) -> Option<Mac> {
    attrs.bytes(NDA_LLADDR)?.try_into().ok()
}

/// Returns family and table of a chain of type `nat` at postrouting.
fn translating(payload: &[u8]) -> Option<(u8, String)> {
    let attrs = Attrs::after(payload, NFGENMSG);
    let hook = attrs.nest(NFTA_CHAIN_HOOK).u32_be(NFTA_HOOK_HOOKNUM)?;
    let nat = attrs.text(NFTA_CHAIN_TYPE).as_deref() == Some("nat");
    let table = attrs.text(NFTA_CHAIN_TABLE)?;
    (nat && hook == HOOK_POSTROUTING).then_some((wire::u8_at(payload, 0)?, table))
}

/// Returns whether a rule translates the source, by an expression of nf_tables or by a target of
/// iptables.
fn is_translation(payload: &[u8]) -> bool {
    let rule = Attrs::after(payload, NFGENMSG);
    let expressions = rule.bytes(NFTA_RULE_EXPRESSIONS).unwrap_or_default();
    AttrIter::new(expressions)
        .filter(|(kind, _)| *kind == NFTA_LIST_ELEM)
        .any(|(_, expression)| {
            let expression = Attrs::of(expression);
            match expression.text(NFTA_EXPR_NAME).as_deref() {
                Some("masq" | "nat") => true,
                Some("target") => {
                    let target = expression.nest(NFTA_EXPR_DATA).text(NFTA_TARGET_NAME);
                    matches!(target.as_deref(), Some("MASQUERADE" | "SNAT"))
                }
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::machine::tests::attribute;

    fn route(length: u8, table: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        let mut payload = vec![2, length, 0, 0, table, 0, 0, RTN_UNICAST, 0, 0, 0, 0];
        payload.extend(parts.concat());
        payload
    }

    #[test]
    fn default_routes_are_read_and_damage_is_harmless() {
        let wan = DeviceName::new("wan").unwrap();
        let lte = DeviceName::new("lte").unwrap();
        let names = Names::from([(7, wan.clone()), (8, lte.clone())]);
        let out = attribute(RTA_OIF, &7_u32.to_ne_bytes());
        let gateway = attribute(RTA_GATEWAY, &[192, 0, 2, 1]);
        let metric = attribute(RTA_PRIORITY, &100_u32.to_ne_bytes());
        let single = route(0, 254, &[out.clone(), gateway.clone(), metric]);
        let hop = |index: u32| {
            let size = (RTNEXTHOP as u16 + 8).to_ne_bytes();
            [&size[..], &[0, 0], &index.to_ne_bytes(), &gateway].concat()
        };
        let hops = [hop(7), hop(8)].concat();
        let several = route(0, 254, &[attribute(RTA_MULTIPATH, &hops)]);
        let read = |payload: &[u8]| -> Vec<(DeviceName, u32)> {
            let found = default_routes(payload, &names);
            let next = Some(IpAddr::from([192, 0, 2, 1]));
            assert!(found.iter().all(|route| route.gateway == next));
            found
                .into_iter()
                .map(|route| (route.device, route.metric))
                .collect()
        };
        assert_eq!(read(&single), [(wan.clone(), 100)]);
        assert_eq!(read(&several), [(wan, 0), (lte, 0)]);
        for payload in [&single, &several] {
            for end in 0..payload.len() {
                let _ = default_routes(&payload[..end], &names);
            }
        }
        assert_eq!(read(&route(24, 254, std::slice::from_ref(&out))), []);
        assert_eq!(read(&route(0, 255, &[out])), []);
    }

    #[test]
    fn translation_is_known_in_both_tongues() {
        let rule = |expression: Vec<u8>| {
            let list = attribute(NFTA_LIST_ELEM, &expression);
            [vec![0; NFGENMSG], attribute(NFTA_RULE_EXPRESSIONS, &list)].concat()
        };
        let named = |name: &str| attribute(NFTA_EXPR_NAME, name.as_bytes());
        let target = |name: &str| {
            let data = attribute(NFTA_TARGET_NAME, name.as_bytes());
            [named("target\0"), attribute(NFTA_EXPR_DATA, &data)].concat()
        };
        assert!(is_translation(&rule(named("masq\0"))));
        assert!(is_translation(&rule(target("MASQUERADE\0"))));
        assert!(!is_translation(&rule(target("DSCP\0"))));
        assert!(!is_translation(&rule(named("counter\0"))));
        assert!(!is_translation(&[]));
    }
}

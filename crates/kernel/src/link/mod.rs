// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network devices: which there are, and IFB devices of weirgate's.
//!
//! An IFB is weirgate's if it carries [`MARK`] as its alias. Nothing else about
//! a device is changed here but how many segments TCP may hand it as one packet.

pub(crate) mod address;
mod offload;

use crate::netlink::wire::{self, Attrs};
use libc::{
    IFLA_EXT_MASK, IFLA_GSO_MAX_SEGS, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO,
    IFLA_MTU, RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK,
};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST};
use weirgate_state::DeviceName;

/// The flag of `struct ifinfomsg` of a device that is up (linux/if.h).
pub(crate) const IFF_UP: u32 = libc::IFF_UP as u32;
/// `sizeof(struct ifinfomsg)` (linux/rtnetlink.h).
pub(crate) const IFINFOMSG: usize = 16;

/// The alias that marks an IFB as weirgate's.
pub(crate) const MARK: &str = "weirgate";

/// A device of the namespace.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: DeviceName,
    /// An IFB device that weirgate made.
    pub(crate) owned_ifb: bool,
    /// Segments that TCP here may hand it as one packet.
    pub(crate) segments: Option<u32>,
}

fn request(kind: u16, flags: u16, index: u32, up: u32, change: u32) -> MessageBuilder {
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    let mut header = vec![0_u8; 4];
    header.extend((index as i32).to_ne_bytes());
    header.extend(up.to_ne_bytes());
    header.extend(change.to_ne_bytes());
    message.append_bytes(&header);
    message
}

/// Asks for all devices, without their counters.
pub(crate) fn list() -> MessageBuilder {
    let mut message = request(RTM_GETLINK, 0, 0, 0, 0);
    message.append_attr_u32(IFLA_EXT_MASK, libc::RTEXT_FILTER_SKIP_STATS as u32);
    message
}

/// Asks for all devices with their counters.
pub(crate) fn list_counters() -> MessageBuilder {
    request(RTM_GETLINK, 0, 0, 0, 0)
}

/// Asks for one device by its number, with its counters.
pub(crate) fn counters(index: u32) -> MessageBuilder {
    request(RTM_GETLINK, 0, index, 0, 0)
}

/// Asks for one device by name.
pub(crate) fn find(name: &DeviceName) -> MessageBuilder {
    let mut message = request(RTM_GETLINK, 0, 0, 0, 0);
    message.append_attr_str(IFLA_IFNAME, name.as_str());
    message
}

/// Reads one device; `None` for bytes that are none.
pub(crate) fn read(payload: &[u8]) -> Option<Link> {
    let attrs = Attrs::after(payload, IFINFOMSG);
    let kind = attrs.nest(IFLA_LINKINFO).text(IFLA_INFO_KIND);
    let alias = attrs.text(IFLA_IFALIAS);
    Some(Link {
        index: wire::u32_at(payload, 4)?,
        name: DeviceName::new(attrs.text(IFLA_IFNAME)?)?,
        owned_ifb: kind.as_deref() == Some("ifb") && alias.as_deref() == Some(MARK),
        segments: attrs
            .bytes(IFLA_GSO_MAX_SEGS)
            .and_then(|bytes| wire::u32_at(bytes, 0)),
    })
}

/// Creates an IFB device, marks it and sets it up: three requests, because the
/// kernel takes no alias with a creation.
pub(crate) fn create_ifb(name: &DeviceName) -> [MessageBuilder; 3] {
    let mut create = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0, 0, 0);
    create.append_attr_str(IFLA_IFNAME, name.as_str());
    kind(&mut create, "ifb");
    let mut mark = request(RTM_NEWLINK, 0, 0, 0, 0);
    mark.append_attr_str(IFLA_IFNAME, name.as_str());
    mark.append_attr(IFLA_IFALIAS, MARK.as_bytes());
    let mut up = request(RTM_NEWLINK, 0, 0, IFF_UP, IFF_UP);
    up.append_attr_str(IFLA_IFNAME, name.as_str());
    [create, mark, up]
}

/// Sets how many segments TCP here may hand a device as one packet.
pub(crate) fn set_segments(name: &DeviceName, most: u32) -> MessageBuilder {
    let mut message = request(RTM_NEWLINK, 0, 0, 0, 0);
    message.append_attr_str(IFLA_IFNAME, name.as_str());
    message.append_attr_u32(IFLA_GSO_MAX_SEGS, most);
    message
}

/// Removes a device.
pub(crate) fn delete(index: u32) -> MessageBuilder {
    request(RTM_DELLINK, 0, index, 0, 0)
}

/// A creation that always fails, by an MTU that no device has: with EINVAL
/// where the kernel knows IFB devices, with EOPNOTSUPP where it does not.
pub(crate) fn probe_ifb() -> MessageBuilder {
    let mut message = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0, 0, 0);
    message.append_attr_str(IFLA_IFNAME, "weirgate-probe");
    message.append_attr_u32(IFLA_MTU, u32::MAX);
    kind(&mut message, "ifb");
    message
}

fn kind(message: &mut MessageBuilder, kind: &str) {
    let nest = message.nest_start(IFLA_LINKINFO);
    message.append_attr_str(IFLA_INFO_KIND, kind);
    message.nest_end(nest);
}

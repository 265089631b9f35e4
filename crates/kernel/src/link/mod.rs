// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network devices of a namespace, and weirgate's IFB devices.
//!
//! An IFB is weirgate's if its alias is [`MARK`]. The only other thing that is changed here is how
//! many segments TCP may pass a device as one packet.

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
    /// Whether it is an IFB device that weirgate created.
    pub(crate) owned_ifb: bool,
    /// The most segments that this machine's TCP may pass it as one packet.
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

/// Requests all devices, without their counters.
pub(crate) fn list() -> MessageBuilder {
    let mut message = request(RTM_GETLINK, 0, 0, 0, 0);
    message.append_attr_u32(IFLA_EXT_MASK, libc::RTEXT_FILTER_SKIP_STATS as u32);
    message
}

/// Requests all devices with their counters.
pub(crate) fn list_counters() -> MessageBuilder {
    request(RTM_GETLINK, 0, 0, 0, 0)
}

/// Requests one device by its index, with its counters.
pub(crate) fn counters(index: u32) -> MessageBuilder {
    request(RTM_GETLINK, 0, index, 0, 0)
}

/// Requests one device by name.
pub(crate) fn find(name: &DeviceName) -> MessageBuilder {
    let mut message = request(RTM_GETLINK, 0, 0, 0, 0);
    message.append_attr_str(IFLA_IFNAME, name.as_str());
    message
}

/// Reads one device; `None` if the message is not one.
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

/// Creates an IFB device, sets its alias, and brings it up. These are three requests, because the
/// kernel accepts no alias at creation.
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

/// Sets how many segments this machine's TCP may pass a device as one packet.
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

/// Returns a creation request that always fails, because no device may have its MTU. It fails with
/// EINVAL if the kernel knows IFB devices, and with EOPNOTSUPP if not.
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

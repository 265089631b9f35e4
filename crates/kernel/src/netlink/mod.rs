// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netlink itself: sockets, requests and their answers, notifications, and the bytes of messages.
//! The meaning of messages is in `link`, `tc`, `nft` and `conntrack`.

#[cfg(feature = "played")]
pub(crate) mod altered;
pub(crate) mod channel;
pub(crate) mod events;
pub(crate) mod fault;
#[cfg(feature = "played")]
pub(crate) mod played;
pub(crate) mod socket;
pub(crate) mod wire;

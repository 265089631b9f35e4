// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's notifications about devices and their queues, each with its time.

#![allow(unsafe_code, reason = "an address that is made of zeros")]

use crate::wire::{bind, socket};
use std::io::Read as _;
use std::mem::zeroed;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// The subject of a notification about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A new or changed device: its name, and whether it is up.
    Device(String, bool),
    /// A root qdisc that some process set.
    Root,
    /// Another qdisc or a class.
    Part,
    /// A filter with a program.
    Program,
    /// A deleted device.
    Gone,
}

/// A notification: its time, the number of its device, and its subject.
pub type Word = (Instant, u32, What);

/// Starts to record notifications about devices and their queues.
pub fn monitor() -> Arc<Mutex<Vec<Word>>> {
    let mut socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
    // SAFETY: every pattern of bits is a valid address.
    let mut address: libc::sockaddr_nl = unsafe { zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    // RTMGRP_LINK and RTMGRP_TC (linux/rtnetlink.h).
    address.nl_groups = 1 | 8;
    bind(&socket, &address);
    let words = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&words);
    thread::spawn(move || {
        let mut space = vec![0; 1 << 16];
        while let Ok(length) = socket.read(&mut space) {
            let now = Instant::now();
            let mut rest = &space[..length];
            while rest.len() >= 36 {
                let size = four(rest, 0) as usize;
                if let Some((index, what)) = word(&rest[..size]) {
                    shared.lock().unwrap().push((now, index, what));
                }
                rest = &rest[size.next_multiple_of(4).min(rest.len())..];
            }
        }
    });
    words
}

fn four(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Parses a message of rtnetlink, with its header of 16 bytes.
fn word(message: &[u8]) -> Option<(u32, What)> {
    // The device's number is 4 bytes into `struct ifinfomsg` and into `struct tcmsg`.
    let (kind, index) = (
        u16::from_ne_bytes([message[4], message[5]]),
        four(message, 20),
    );
    let what = match kind {
        libc::RTM_NEWLINK => What::Device(name(&message[32..])?, four(message, 24) & 1 != 0),
        libc::RTM_DELLINK => What::Gone,
        // `tcm_parent` is TC_H_ROOT, and `tcm_handle` is set.
        libc::RTM_NEWQDISC if four(message, 28) == u32::MAX && four(message, 24) != 0 => What::Root,
        // The qdisc that holds programs, at TC_H_CLSACT, is not part of the tree.
        libc::RTM_NEWQDISC if four(message, 28) == 0xffff_fff1 => return None,
        libc::RTM_NEWQDISC | libc::RTM_NEWTCLASS => What::Part,
        libc::RTM_NEWTFILTER => What::Program,
        _ => return None,
    };
    Some((index, what))
}

/// Returns the attribute IFLA_IFNAME.
fn name(mut attributes: &[u8]) -> Option<String> {
    while attributes.len() >= 4 {
        let size = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        if u16::from_ne_bytes([attributes[2], attributes[3]]) == libc::IFLA_IFNAME {
            let text = String::from_utf8_lossy(&attributes[4..size]);
            return Some(text.trim_end_matches('\0').to_owned());
        }
        attributes = &attributes[size.next_multiple_of(4).min(attributes.len())..];
    }
    None
}

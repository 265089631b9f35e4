// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel settings of every namespace, set before it has a device.
//!
//! All are written, although some are defaults, so that a run does not depend on the settings of
//! the machine's own network.

use std::io;

/// Files below /proc/sys/net, and their values.
const SETTINGS: [(&str, &str); 18] = [
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_timestamps", "1"),
    ("ipv4/tcp_sack", "1"),
    // The hash of a socket's flow stays with a packet through every veth, so the gateway's
    // queues use it. After each timeout it would change (`sk_rethink_txhash`, net/core/sock.c),
    // and retransmissions would overtake waiting packets. A packet that came over a real wire
    // has no such hash.
    ("core/txrehash", "0"),
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/forwarding", "1"),
    // Addresses can be used at once.
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    // No messages to neighbours: no link-local address, and group membership reports only while
    // the device is being switched on.
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/default/mldv1_unsolicited_report_interval", "1"),
    ("ipv6/conf/default/mldv2_unsolicited_report_interval", "1"),
];

/// Writes the settings in this thread's namespace.
pub fn apply() -> io::Result<()> {
    for (file, value) in SETTINGS {
        let path = format!("/proc/sys/net/{file}");
        std::fs::write(&path, value).map_err(|error| {
            io::Error::new(error.kind(), format!("write {value} to {path}: {error}"))
        })?;
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel settings of every namespace, set before it has a device.
//!
//! They are written out although some are defaults: a run is not to depend on
//! what the machine's own network has.

use std::io;

/// Files under /proc/sys/net, and values.
const SETTINGS: [(&str, &str); 18] = [
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_timestamps", "1"),
    ("ipv4/tcp_sack", "1"),
    // A socket's hash of its flow stays with a packet through every veth, so the
    // gateway's queues share by it, and after each timeout it is another one
    // (`sk_rethink_txhash`, net/core/sock.c): what is sent again would overtake
    // what waits. A packet that came by a wire has no such hash.
    ("core/txrehash", "0"),
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/forwarding", "1"),
    // Addresses are usable at once.
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    // Nothing is asked of or sent to neighbours: no link-local address, and
    // reports of group membership only while the device is switched on.
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/default/mldv1_unsolicited_report_interval", "1"),
    ("ipv6/conf/default/mldv2_unsolicited_report_interval", "1"),
];

/// Writes them in the namespace that this thread is in.
pub fn apply() -> io::Result<()> {
    for (file, value) in SETTINGS {
        let path = format!("/proc/sys/net/{file}");
        std::fs::write(&path, value).map_err(|error| {
            io::Error::new(error.kind(), format!("write {value} to {path}: {error}"))
        })?;
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The soak's network: a router between the namespace of a user, `home`, and that of the provider,
//! `isp`, to which it has two links.

use super::commands::asked;
use anyhow::Result;
use std::fs;

/// The folder of weirgate's states: a separate file system, which can be filled.
pub const STATES: &str = "/var/lib/weirgate";
const ROOM: &str = "size=64m,mode=0755";

/// Makes namespaces and devices, and the file system for states.
pub fn prepare() -> Result<()> {
    fs::create_dir_all(STATES)?;
    asked(&format!("mount -t tmpfs -o {ROOM} tmpfs {STATES}"))?;
    for line in [
        "ip link set lo up",
        "ip netns add isp",
        "ip netns add home",
        "ip link add wan type veth peer name far netns isp",
        "ip link set wan up",
        "ip addr add 192.0.2.1/24 dev wan",
        "ip link add spare type veth peer name farther netns isp",
        "ip link set spare up",
        "ip addr add 10.9.0.1/24 dev spare",
        "ip -n isp link set lo up",
        "ip -n isp link set far up",
        "ip -n isp addr add 192.0.2.2/24 dev far",
        "ip -n isp link set farther up",
        "ip -n isp addr add 10.9.0.2/24 dev farther",
        "ip -n isp route add default via 192.0.2.1",
        "ip -n home link set lo up",
        // The module creates two IFB devices when it is loaded; this loads it.
        "ip link add first type ifb",
        "ip link del first",
        "ip link add access type dummy",
        "ip link set access up",
    ] {
        asked(line)?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    lan()
}

/// Makes the device of the users, which is removed and made again.
pub fn lan() -> Result<()> {
    for line in [
        "ip link add lan type veth peer name user netns home",
        "ip link set lan up",
        "ip addr add 198.51.100.1/24 dev lan",
        "ip -n home link set user up",
        "ip -n home addr add 198.51.100.2/24 dev user",
        "ip -n home route add default via 198.51.100.1",
    ] {
        asked(line)?;
    }
    Ok(())
}

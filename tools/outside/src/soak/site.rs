// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of the dormitory's site in the guest.

/// In the guest: two policies with different rates and one whose rate is followed, a list of
/// circuits, and links.
pub const POLICIES: [&str; 3] = ["/soak/one.toml", "/soak/other.toml", "/soak/followed.toml"];
pub const CIRCUITS: [&str; 2] = ["/soak/devices.csv", "/soak/network.json"];
pub const LINKS: &str = "/soak/links.toml";

const DEVICES: &str = "Circuit ID,IPv4,Parent Node,Download Max Mbps,Upload Max Mbps\n\
                       1,203.0.113.1,mast,10,2\n2,203.0.113.2,mast,20,4\n";
const NETWORK: &str = r#"{"mast": {"downloadBandwidthMbps": 100, "uploadBandwidthMbps": 20}}"#;
const LINES: &str = r#"version = 1

[[link]]
name = "first"
device = "wan"
gateway = "192.0.2.2"
probe = "192.0.2.2"

[[link]]
name = "second"
device = "spare"
gateway = "10.9.0.2"
probe = "10.9.0.2"
"#;

/// Returns the site's files, apart from the policies.
pub fn files() -> [(&'static str, &'static [u8]); 3] {
    [
        (CIRCUITS[0], DEVICES.as_bytes()),
        (CIRCUITS[1], NETWORK.as_bytes()),
        (LINKS, LINES.as_bytes()),
    ]
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that the soak's commands read in the guest.

use anyhow::{Result, ensure};

/// Two policies with different rates and one whose rate is followed, a list of circuits, and links.
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

/// Returns the paths and texts of all files.
///
/// # Errors
///
/// Fails if the dormitory's policy no longer has the lines that are replaced.
pub fn all(dormitory: &str) -> Result<Vec<(&'static str, String)>> {
    let mut all = vec![
        (CIRCUITS[0], DEVICES.to_owned()),
        (CIRCUITS[1], NETWORK.to_owned()),
        (LINKS, LINES.to_owned()),
    ];
    all.extend(POLICIES.into_iter().zip(policies(dormitory)?));
    Ok(all)
}

/// Returns the policies: the dormitory's with two rates, and with the first of them as a rate that
/// is followed. The rates are so low that a machine which is slower than its clock keeps up.
fn policies(dormitory: &str) -> Result<[String; 3]> {
    let bulk = "\n[[rule]]\nname = \"soak\"\nclass = \"bulk\"\nprotocol = [\"tcp\", \"udp\"]\n\
                remote-port = 8001\n";
    let session = "[receive.announced]\nmss = 536\n\n";
    let follow = "[track]\nreflectors = [\"192.0.2.2\"]\nup-floor = \"1mbit\"\n\
                  down-floor = \"2mbit\"\n\n";
    let first = "[[class]]\nname = \"urgent\"\n";
    for part in ["\"100mbit\"", "\"200mbit\"", first] {
        ensure!(dormitory.contains(part), "the policy has no {part}");
    }
    let slow = dormitory
        .replace("\"100mbit\"", "\"2mbit\"")
        .replace("\"200mbit\"", "\"4mbit\"")
        + bulk;
    let with = |tables: &str| slow.replacen(first, &format!("{tables}{first}"), 1);
    let one = with(session);
    let other = one.replace("\"2mbit\"", "\"3mbit\"");
    let followed = with(&format!("{follow}{session}"));
    Ok([one, other, followed])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_differ_in_rates_and_in_what_follows_them() {
        let dormitory = include_str!("../../../../policies/dormitory.toml");
        let [one, other, followed] = policies(dormitory).unwrap();
        assert!(one.contains("up = \"2mbit\"") && one.contains("down = \"4mbit\""));
        assert!(other.contains("up = \"3mbit\"") && !other.contains("[track]"));
        assert!(followed.contains("[track]") && followed.contains("up = \"2mbit\""));
        assert!(policies("").is_err());
    }
}

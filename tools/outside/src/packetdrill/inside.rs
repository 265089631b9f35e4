// SPDX-License-Identifier: Apache-2.0 OR MIT
//! packetdrill's scripts in the guest: each without weirgate, then with a policy over the
//! device that packetdrill makes.

use crate::process::{direct, in_folder, within};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Where the guest has the scripts, and their namespace.
pub const FOLDER: &str = "/suite";
const NAMESPACE: &str = "drill";

/// The policy: everything that touches packets on their way, at a rate that no script
/// reaches.
pub const POLICY: &str = r#"version = 1

[link]
device = "tun0"
lan = "lan0"
up = "1gbit"
down = "1gbit"
layer = "raw"
inbound = "filter"
ack-filter = "on"

[receive]
rate = "90%"

[ack]
reserve = true

[[class]]
name = "first"
share = "40%"
priority = 0

[[class]]
name = "rest"
share = "60%"
default = true

[[rule]]
class = "first"
dscp = "EF"
"#;

/// A script, and what it said without and with weirgate: nothing where it passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub name: String,
    pub without: Option<String>,
    /// Not run where the script does not pass without.
    pub with: Option<String>,
}

/// Runs the scripts that the guest has, and prints a line of JSON for each.
pub fn run() -> Result<()> {
    // A folder of its own for each way: scripts begin with `./defaults.sh`.
    let defaults = fs::read_to_string(format!("{FOLDER}/defaults.sh"))?;
    let apply = "weirgate apply --adopt /tmp/policy.toml >/tmp/applied 2>&1 || exit 1\n";
    fs::write("/tmp/policy.toml", POLICY)?;
    let link = "ip link add lan0 type dummy\nip link set lan0 up\n";
    fs::write("/tmp/plain.sh", &defaults)?;
    fs::write("/tmp/shaped.sh", format!("{defaults}\n{link}{apply}"))?;
    let mut names: Vec<String> = fs::read_dir(FOLDER)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|kind| kind == "pkt")
        })
        .collect();
    names.sort();
    for name in names {
        let text = fs::read_to_string(format!("{FOLDER}/{name}")).context(name.clone())?;
        let without = once(&name, &text, "/tmp/plain.sh")?;
        let with = match without {
            None => once(&name, &text, "/tmp/shaped.sh")?,
            Some(_) => None,
        };
        let told = Told {
            name,
            without,
            with,
        };
        println!("{}", serde_json::to_string(&told)?);
    }
    Ok(())
}

/// What a script says where it does not pass.
fn once(name: &str, text: &str, defaults: &str) -> Result<Option<String>> {
    let start = format!("{FOLDER}/defaults.sh");
    fs::copy(defaults, &start).context(start)?;
    let _ = fs::remove_file("/tmp/applied");
    let made = direct(&["ip", "netns", "add", NAMESPACE])?;
    anyhow::ensure!(made.status == Some(0), "{}", made.said());
    let words = [
        &["timeout", "300", "packetdrill"],
        &arguments(text)[..],
        &[name],
    ]
    .concat();
    let done = within(NAMESPACE, || in_folder(FOLDER, &words));
    direct(&["ip", "netns", "del", NAMESPACE])?;
    let done = done?;
    if done.status == Some(0) {
        return Ok(None);
    }
    let applied = fs::read_to_string("/tmp/applied").unwrap_or_default();
    let refused = applied.lines().find(|line| line.starts_with("weirgate: K"));
    Ok(Some(refused.map_or_else(|| done.said(), str::to_owned)))
}

/// The arguments of `ksft_runner.sh`, for the first IP version that a script is for.
fn arguments(script: &str) -> Vec<&'static str> {
    let named = script
        .lines()
        .find_map(|line| line.strip_prefix("--ip_version="));
    if named.is_some_and(|version| version.trim() == "ipv6") {
        return vec![
            "--ip_version=ipv6",
            "--mtu=1520",
            "--local_ip=fd3d:0a0b:17d6::1",
            "--gateway_ip=fd3d:0a0b:17d6:8888::1",
            "--remote_ip=fd3d:fa7b:d17d::1",
            "-D",
            "TFO_COOKIE=c1d1e9742a47a9bc",
            "-D",
            "TFO_COOKIE_ZERO=82af1a8f9a205c34",
            "-D",
            "CMSG_LEVEL_IP=SOL_IPV6",
            "-D",
            "CMSG_TYPE_RECVERR=IPV6_RECVERR",
        ];
    }
    vec![
        "--ip_version=ipv4",
        "--local_ip=192.168.0.1",
        "--gateway_ip=192.168.0.1",
        "--netmask_ip=255.255.0.0",
        "--remote_ip=192.0.2.1",
        "-D",
        "TFO_COOKIE=3021b9d889017eeb",
        "-D",
        "TFO_COOKIE_ZERO=b7c12350a90dc8f5",
        "-D",
        "CMSG_LEVEL_IP=SOL_IP",
        "-D",
        "CMSG_TYPE_RECVERR=IP_RECVERR",
    ]
}

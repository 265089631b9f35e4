// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs packetdrill's scripts in the guest: each without weirgate, then with a policy on
//! packetdrill's device.

use crate::process::{direct, in_folder, within};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The folder of the scripts in the guest, and the name of their namespace.
pub const FOLDER: &str = "/suite";
const NAMESPACE: &str = "drill";

/// The initial script of each variant: the suite's own; with weirgate; with weirgate but with the
/// device's offloads enabled again; and without weirgate, but with its limit of one segment and its
/// disabled offloads.
const PLAIN: &str = "/tmp/plain.sh";
const SHAPED: &str = "/tmp/shaped.sh";
const GIVEN_BACK: &str = "/tmp/given-back.sh";
const SEGMENTED: &str = "/tmp/segmented.sh";

/// The tolerated delay of a packet or call, the value of `ksft_runner.sh` for a slow machine. In
/// the laboratory, an instruction takes a nanosecond.
const TOLERANCE: &str = "--tolerance_usecs=14000";

/// The unlimited number of segments in one packet (`GSO_MAX_SEGS`).
const SEGMENTS: u32 = 65_535;

/// The policy: every part that processes packets, at a rate that no script reaches.
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

/// The result of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptResult {
    pub name: String,
    pub version: Version,
    /// Its message without weirgate; `None` if it passed.
    pub without: Option<String>,
    /// Its message with weirgate. A script that fails without weirgate is not run.
    pub with: Option<String>,
    /// Its message when the device's offloads are enabled again after the policy was applied. All
    /// programs are active, and packets are merged as the suite expects.
    pub given_back: Option<String>,
    /// If it fails with weirgate: its message without weirgate, but with segmentation left to TCP,
    /// as under weirgate.
    pub segmented: Option<String>,
}

impl ScriptResult {
    /// Returns the script's name and its IP version.
    pub fn title(&self) -> String {
        format!("`{}` ({})", self.name, self.version.name())
    }
}

/// The IP version of a run. `ksft_runner.sh` runs a script that names none with each. At the device
/// the runs differ only by the IP header, so one is enough here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    Ipv4,
    Ipv6,
}

impl Version {
    /// Returns packetdrill's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// Returns the version that a script names, otherwise IPv4.
    fn of(script: &str) -> Self {
        let named = script
            .lines()
            .find_map(|line| line.strip_prefix("--ip_version="));
        match named {
            Some(named) if named.trim() == Self::Ipv6.name() => Self::Ipv6,
            _ => Self::Ipv4,
        }
    }

    /// Returns the arguments of `ksft_runner.sh` for packetdrill.
    fn arguments(self) -> Vec<String> {
        let addresses: &[&str] = match self {
            Self::Ipv6 => &[
                "--mtu=1520",
                "--local_ip=fd3d:0a0b:17d6::1",
                "--gateway_ip=fd3d:0a0b:17d6:8888::1",
                "--remote_ip=fd3d:fa7b:d17d::1",
            ],
            Self::Ipv4 => &[
                "--local_ip=192.168.0.1",
                "--gateway_ip=192.168.0.1",
                "--netmask_ip=255.255.0.0",
                "--remote_ip=192.0.2.1",
            ],
        };
        let (cookie, zero) = match self {
            Self::Ipv6 => ("c1d1e9742a47a9bc", "82af1a8f9a205c34"),
            Self::Ipv4 => ("3021b9d889017eeb", "b7c12350a90dc8f5"),
        };
        let socket = match self {
            Self::Ipv4 => "IP",
            Self::Ipv6 => "IPV6",
        };
        let definitions = [
            format!("TFO_COOKIE={cookie}"),
            format!("TFO_COOKIE_ZERO={zero}"),
            format!("CMSG_LEVEL_IP=SOL_{socket}"),
            format!("CMSG_TYPE_RECVERR={socket}_RECVERR"),
        ];
        let definitions = definitions
            .into_iter()
            .flat_map(|one| ["-D".to_owned(), one]);
        [format!("--ip_version={}", self.name())]
            .into_iter()
            .chain(addresses.iter().map(|one| (*one).to_owned()))
            .chain(definitions)
            .collect()
    }
}

/// Runs the guest's scripts, and prints a line of JSON for each.
pub fn run() -> Result<()> {
    // Each variant needs its own file, because scripts begin with `./defaults.sh`.
    let defaults = fs::read_to_string(format!("{FOLDER}/defaults.sh"))?;
    let apply = "weirgate apply --adopt /tmp/policy.toml >/tmp/applied 2>&1 || exit 1\n";
    fs::write("/tmp/policy.toml", POLICY)?;
    let link = "ip link add lan0 type dummy\nip link set lan0 up\n";
    fs::write(PLAIN, &defaults)?;
    fs::write(SHAPED, format!("{defaults}\n{link}{apply}"))?;
    let settings = format!("{FOLDER}/set_sysctls.py");
    let offloads = |word: &str, segments: u32| {
        format!(
            "ethtool -K tun0 tso {word} gso {word} gro {word} || exit 1\n\
             ip link set tun0 gso_max_segs {segments} || exit 1\n"
        )
    };
    let given_back = offloads("on", SEGMENTS);
    fs::write(GIVEN_BACK, format!("{defaults}\n{link}{apply}{given_back}"))?;
    fs::write(SEGMENTED, format!("{defaults}\n{}", offloads("off", 1)))?;
    for program in [PLAIN, SHAPED, GIVEN_BACK, SEGMENTED, &settings] {
        fs::set_permissions(program, Permissions::from_mode(0o755)).context(program.to_owned())?;
    }
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
        let result = script(name, Version::of(&text))?;
        println!("{}", serde_json::to_string(&result)?);
    }
    Ok(())
}

/// Runs a script in each variant that is still needed.
fn script(name: String, version: Version) -> Result<ScriptResult> {
    let without = once(&name, version, PLAIN)?;
    let (with, given_back) = match without {
        None => (
            once(&name, version, SHAPED)?,
            once(&name, version, GIVEN_BACK)?,
        ),
        Some(_) => (None, None),
    };
    let segmented = match with {
        Some(_) => once(&name, version, SEGMENTED)?,
        None => None,
    };
    Ok(ScriptResult {
        name,
        version,
        without,
        with,
        given_back,
        segmented,
    })
}

/// Returns a script's message if it fails.
fn once(name: &str, version: Version, defaults: &str) -> Result<Option<String>> {
    let start = format!("{FOLDER}/defaults.sh");
    fs::copy(defaults, &start).context(start)?;
    let _ = fs::remove_file("/tmp/applied");
    let made = direct(&["ip", "netns", "add", NAMESPACE])?;
    anyhow::ensure!(made.status == Some(0), "{}", made.message());
    let arguments = version.arguments();
    let words: Vec<&str> = ["timeout", "300", "packetdrill", TOLERANCE]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .chain([name])
        .collect();
    let done = within(NAMESPACE, || in_folder(FOLDER, &words));
    direct(&["ip", "netns", "del", NAMESPACE])?;
    let done = done?;
    if done.status == Some(0) {
        return Ok(None);
    }
    let applied = fs::read_to_string("/tmp/applied").unwrap_or_default();
    let refused = applied.lines().find(|line| line.starts_with("weirgate: K"));
    Ok(Some(refused.map_or_else(|| done.message(), str::to_owned)))
}

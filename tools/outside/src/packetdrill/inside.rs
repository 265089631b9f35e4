// SPDX-License-Identifier: Apache-2.0 OR MIT
//! packetdrill's scripts in the guest: each without weirgate, then with a policy over the
//! device that packetdrill makes.

use crate::process::{direct, in_folder, within};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Where the guest has the scripts, and their namespace.
pub const FOLDER: &str = "/suite";
const NAMESPACE: &str = "drill";

/// What scripts run first, for each way: as the suite has it; with weirgate; with weirgate
/// on a device that has its offloads again; and with nothing but the limit of one segment
/// and the offloads off, as weirgate has them.
const PLAIN: &str = "/tmp/plain.sh";
const SHAPED: &str = "/tmp/shaped.sh";
const GIVEN_BACK: &str = "/tmp/given-back.sh";
const SEGMENTED: &str = "/tmp/segmented.sh";

/// How late a packet or call may be. It is what `ksft_runner.sh` allows a slow machine: in
/// the laboratory's an instruction takes a nanosecond.
const TOLERANCE: &str = "--tolerance_usecs=14000";

/// The segments that one packet may have where nothing limits them (`GSO_MAX_SEGS`).
const SEGMENTS: u32 = 65_535;

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

/// What came of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptResult {
    pub name: String,
    pub version: Version,
    /// Its message without weirgate; nothing where it passed.
    pub without: Option<String>,
    /// The same with weirgate. A script that does not pass without is not run.
    pub with: Option<String>,
    /// The same where the policy is applied and the device's offloads are then given back:
    /// all programs are on the way, and packets are joined as the suite expects.
    pub given_back: Option<String>,
    /// Where it does not pass with weirgate: the same without it, on a device that leaves
    /// segmentation to TCP, as weirgate has it.
    pub segmented: Option<String>,
}

impl ScriptResult {
    /// The script, and the version of IP.
    pub fn title(&self) -> String {
        format!("`{}` ({})", self.name, self.version.name())
    }
}

/// The version of IP that a script is run with. `ksft_runner.sh` runs one that names none
/// with each; what reaches the device differs by the IP header alone, so one is enough here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    Ipv4,
    Ipv6,
}

impl Version {
    /// As packetdrill calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// The one that a script names, or IPv4.
    fn of(script: &str) -> Self {
        let named = script
            .lines()
            .find_map(|line| line.strip_prefix("--ip_version="));
        match named {
            Some(named) if named.trim() == Self::Ipv6.name() => Self::Ipv6,
            _ => Self::Ipv4,
        }
    }

    /// The arguments that `ksft_runner.sh` gives to packetdrill.
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

/// Runs the scripts that the guest has, and prints a line of JSON for each.
pub fn run() -> Result<()> {
    // A folder of its own for each way: scripts begin with `./defaults.sh`.
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

/// Runs a script in each way that is left to ask about.
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

/// What a script says where it does not pass.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the configuration files of other programs that would set a queue or an offload.
//!
//! All of them have sections in brackets and lines `key = value`, or are OpenWrt's UCI. Files that
//! cannot be read are named in [`Machine::unread`].

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weirgate_state::{Machine, Remain, Setting};
use weirgate_units::Arrange as _;

/// Sections of systemd.network(5) that set a queueing discipline.
const QUEUES: [&str; 22] = [
    "QDisc",
    "NetworkEmulator",
    "TokenBucketFilter",
    "PIE",
    "FlowQueuePIE",
    "StochasticFairBlue",
    "StochasticFairnessQueueing",
    "BFIFO",
    "PFIFO",
    "PFIFOHeadDrop",
    "PFIFOFast",
    "CAKE",
    "ControlledDelay",
    "DeficitRoundRobinScheduler",
    "EnhancedTransmissionSelection",
    "GenericRandomEarlyDetection",
    "FairQueueingControlledDelay",
    "FairQueueing",
    "TrivialLinkEqualizer",
    "HierarchyTokenBucket",
    "HeavyHitterFilter",
    "QuickFairQueueing",
];
/// Keys of systemd.link(5) that switch offloads on.
const OFFLOADS: [&str; 6] = [
    "TCPSegmentationOffload",
    "TCP6SegmentationOffload",
    "GenericSegmentationOffload",
    "GenericReceiveOffload",
    "GenericReceiveOffloadHardware",
    "LargeReceiveOffload",
];
/// Keys of NetworkManager's `[ethtool]` that switch offloads on.
const FEATURES: [&str; 4] = ["feature-tso", "feature-gso", "feature-gro", "feature-lro"];

/// A line `key = value` below a heading.
struct KeyValue<'a> {
    number: u32,
    section: &'a str,
    key: &'a str,
    value: &'a str,
}

/// Adds the settings of programs that manage devices, and the remains of other shapers.
pub(crate) fn read(machine: &mut Machine) {
    for folder in ["/etc/systemd/network", "/run/systemd/network"] {
        for file in files(Path::new(folder), &mut machine.unread) {
            let ending = file.extension().unwrap_or_default().to_string_lossy();
            let own = text(&file, &mut machine.unread);
            let found = match &*ending {
                "network" => networkd(&file, &own),
                "link" => udev(&file, &own),
                _ => continue,
            };
            machine.settings.extend(found);
        }
    }
    for root in ["/etc", "/run"] {
        let folder = Path::new(root).join("NetworkManager/system-connections");
        for file in files(&folder, &mut machine.unread) {
            let own = text(&file, &mut machine.unread);
            machine.settings.extend(network_manager(&file, &own));
        }
    }
    machine.settings.arrange();
    remains(machine);
}

fn files(folder: &Path, unread: &mut Vec<String>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                unread.push(format!("{}: {error}", folder.display()));
            }
            Vec::new()
        }
    };
    found.retain(|path| path.is_file());
    found.arrange();
    found
}

fn text(file: &Path, unread: &mut Vec<String>) -> String {
    match fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            unread.push(format!("{}: {error}", file.display()));
            String::new()
        }
    }
}

/// Returns the headings with their line numbers, and every `key = value`.
fn lines(text: &str) -> (Vec<(u32, &str)>, Vec<KeyValue<'_>>) {
    let (mut headings, mut found) = (Vec::new(), Vec::new());
    let mut section = "";
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = name;
            headings.push((number, name));
        } else if let Some((key, value)) = line.split_once('=')
            && !line.starts_with(['#', ';'])
        {
            found.push(KeyValue {
                number,
                section,
                key: key.trim(),
                value: value.trim(),
            });
        }
    }
    (headings, found)
}

fn words(lines: &[KeyValue<'_>], section: &str, key: &str) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line.section == section && line.key == key)
        .flat_map(|line| line.value.split_whitespace())
        .map(str::to_owned)
        .collect()
}

fn networkd(file: &Path, text: &str) -> Vec<Setting> {
    let (headings, lines) = lines(text);
    let devices = words(&lines, "Match", "Name");
    let queue = |name: &str| QUEUES.contains(&name) || name.ends_with("Class");
    headings
        .into_iter()
        .filter(|(_, name)| queue(name))
        .map(|(line, name)| Setting {
            manager: "systemd-networkd".to_owned(),
            file: file.display().to_string(),
            line,
            text: format!("[{name}]"),
            devices: devices.clone(),
        })
        .collect()
}

fn switched_on(value: &str) -> bool {
    ["yes", "true", "on", "1"].contains(&value.to_ascii_lowercase().as_str())
}

fn udev(file: &Path, text: &str) -> Vec<Setting> {
    let (_, lines) = lines(text);
    let mut devices = words(&lines, "Match", "OriginalName");
    devices.extend(words(&lines, "Link", "Name"));
    keys(file, "udev", &devices, &lines, |line| {
        OFFLOADS.contains(&line.key) && switched_on(line.value)
    })
}

fn network_manager(file: &Path, text: &str) -> Vec<Setting> {
    let (_, lines) = lines(text);
    let devices = words(&lines, "connection", "interface-name");
    keys(file, "NetworkManager", &devices, &lines, |line| {
        line.section == "tc"
            || (line.section == "ethtool"
                && FEATURES.contains(&line.key)
                && switched_on(line.value))
    })
}

fn keys(
    file: &Path,
    manager: &str,
    devices: &[String],
    lines: &[KeyValue<'_>],
    wanted: impl Fn(&KeyValue<'_>) -> bool,
) -> Vec<Setting> {
    lines
        .iter()
        .filter(|line| wanted(line))
        .map(|line| Setting {
            manager: manager.to_owned(),
            file: file.display().to_string(),
            line: line.number,
            text: format!("{}={}", line.key, line.value),
            devices: devices.to_vec(),
        })
        .collect()
}

/// Returns whether a UCI file has a section that is switched on.
fn enabled(text: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        let option = words.next() == Some("option") && words.next() == Some("enabled");
        option
            && words
                .next()
                .is_some_and(|value| value.trim_matches(['\'', '"']) == "1")
    })
}

fn remains(machine: &mut Machine) {
    let mut found = Vec::new();
    for (tool, file, remedy) in [
        (
            "sqm",
            "/etc/config/sqm",
            "`/etc/init.d/sqm stop && /etc/init.d/sqm disable`",
        ),
        (
            "qosmate",
            "/etc/config/qosmate",
            "`/etc/init.d/qosmate stop && /etc/init.d/qosmate disable`",
        ),
    ] {
        if fs::read_to_string(file).is_ok_and(|text| enabled(&text)) {
            found.push(Remain {
                tool: tool.to_owned(),
                trace: format!("{file} has `option enabled '1'`"),
                remedy: remedy.to_owned(),
            });
        }
    }
    for folder in ["/run/sqm", "/var/run/sqm"] {
        for file in files(Path::new(folder), &mut machine.unread) {
            let device = file.file_stem().unwrap_or_default().to_string_lossy();
            if file.extension().is_some_and(|ending| ending == "state") {
                found.push(Remain {
                    tool: "sqm".to_owned(),
                    trace: format!("{} says that it shapes", file.display()),
                    remedy: format!(
                        "`systemctl disable --now sqm@{device}`, or `sqm stop {device}`"
                    ),
                });
            }
        }
        // The second name is usually a symbolic link to the first.
        if !found.is_empty() {
            break;
        }
    }
    for (name, device) in &machine.devices {
        let fed = name.as_str().strip_prefix("ifb4");
        if let Some(fed) =
            fed.filter(|_| device.kind.as_deref() == Some("ifb") && !device.owned_ifb)
        {
            found.push(Remain {
                tool: "sqm".to_owned(),
                trace: format!("the device {name}, which it makes for what arrives at {fed}"),
                remedy: format!(
                    "`sqm stop {fed}`, or `tc qdisc del dev {fed} ingress` and `ip link del {name}`"
                ),
            });
        }
    }
    for folder in ["/root/cake-autorate", "/etc/cake-autorate"] {
        let runs = machine
            .managers
            .iter()
            .any(|name| name.starts_with("cake-autorate"));
        if Path::new(folder).is_dir() && !runs {
            found.push(Remain {
                tool: "cake-autorate".to_owned(),
                trace: format!("its folder {folder}"),
                remedy: "`service cake-autorate disable`, where it is still started".to_owned(),
            });
        }
    }
    machine.remains = found;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sets_a_queue_is_found_with_its_line() {
        let file = Path::new("a.network");
        let text = "# x\n[Match]\nName=wan eth*\n\n[Network]\nDHCP=yes\n[CAKE]\nBandwidth=1M\n";
        let found = networkd(file, text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].text.as_str()), (7, "[CAKE]"));
        assert_eq!(found[0].devices, ["wan", "eth*"]);
        assert!(networkd(file, "[Match]\nName=wan\n[Network]\n").is_empty());
    }

    #[test]
    fn only_what_is_switched_on_counts() {
        let file = Path::new("a.link");
        let on = "[Match]\nOriginalName=wan\n[Link]\nTCPSegmentationOffload=yes\n";
        assert_eq!(udev(file, on)[0].line, 4);
        assert!(udev(file, &on.replace("=yes", "=no")).is_empty());
        let nm = "[connection]\ninterface-name=wan\n[tc]\nqdisc.root=fq_codel\n[ethtool]\n\
                  feature-tso=false\n";
        let found = network_manager(file, nm);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "qdisc.root=fq_codel");
        assert!(enabled("config queue\n\toption enabled '1'\n"));
        assert!(!enabled(
            "config queue\n\toption enabled '0'\n\toption x 'enabled 1'\n"
        ));
    }
}

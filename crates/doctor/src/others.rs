// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about other software: flow offload, device managers, other shapers.

use crate::finding::{Finding, Question, Severity};
use crate::link::Carrier;
use weirgate_state::{DeviceName, Flowtable};

/// Programs that manage devices: the process name (at most 15 bytes) and the title.
const MANAGERS: [(&str, &str); 4] = [
    ("NetworkManager", "NetworkManager"),
    ("systemd-network", "systemd-networkd"),
    ("connmand", "ConnMan"),
    ("netifd", "OpenWrt's netifd"),
];
/// Other shapers.
const SHAPERS: [(&str, &str, &str); 4] = [
    ("lqosd", "LibreQoS", "systemctl disable --now lqosd"),
    ("qosify", "qosify", "/etc/init.d/qosify disable, then stop"),
    (
        "cake-autorate.s",
        "cake-autorate",
        "service cake-autorate stop, then disable",
    ),
    (
        "cake-autorate",
        "cake-autorate",
        "service cake-autorate stop, then disable",
    ),
];

pub(crate) fn examine(question: &Question<'_>, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    for table in question.machine.flowtables.iter().flatten() {
        flowtable(table, carriers, findings);
    }
    for carrier in carriers {
        card(question, &carrier.device, findings);
        managers(question, &carrier.device, findings);
    }
    for (process, name, stop) in SHAPERS {
        if question.machine.managers.contains(process) {
            findings.push(Finding {
                severity: Severity::Warning,
                code: "other-shaper",
                subject: "kernel".to_owned(),
                fact: format!("{name} is running"),
                why: "2 programs set the rate of one link: the last one wins, and weirgate finds \
                      its state changed"
                    .to_owned(),
                remedy: format!("`{stop}`"),
            });
        }
    }
    for remain in &question.machine.remains {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "other-shaper",
            subject: "kernel".to_owned(),
            fact: format!("{} is there: {}", remain.tool, remain.trace),
            why: "it sets its own queue each time its device appears, in place of the policy's, \
                  for 100 % of its packets"
                .to_owned(),
            remedy: remain.remedy.clone(),
        });
    }
    for difference in question.differences {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "differs",
            subject: "kernel".to_owned(),
            fact: format!("something else changed what weirgate applied: {difference}"),
            why: "the bounds that `check` states hold for the applied state only".to_owned(),
            remedy: "`weirgate apply POLICY` repairs it; `weirgate keep` does so automatically"
                .to_owned(),
        });
    }
}

fn flowtable(table: &Flowtable, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    let concerned: Vec<&str> = carriers
        .iter()
        .map(|carrier| carrier.device.as_str())
        .filter(|name| table.devices.iter().any(|device| device == name))
        .collect();
    if concerned.is_empty() {
        return;
    }
    let Flowtable {
        family,
        table: parent,
        name,
        ..
    } = table;
    findings.push(Finding {
        severity: if table.hardware {
            Severity::Fault
        } else {
            Severity::Warning
        },
        code: "flow-offload",
        subject: concerned.join(", "),
        fact: format!(
            "the flow table {name} of table {family} {parent} forwards connections around the \
             rules{}",
            if table.hardware {
                ", in the card itself"
            } else {
                ""
            }
        ),
        why: if table.hardware {
            "the kernel sees only a connection's first packets: 100 % of the rest passes \
             unshaped"
                .to_owned()
        } else {
            "rules see only a connection's first packets: 100 % of the rest goes into the \
             default class"
                .to_owned()
        },
        remedy: format!(
            "remove `flow add @{name}` from the firewall's rules (OpenWrt: `option \
             flow_offloading 0`), then `nft delete flowtable {family} {parent} {name}`"
        ),
    });
}

fn card(question: &Question<'_>, name: &DeviceName, findings: &mut Vec<Finding>) {
    let device = question.machine.devices.get(name);
    if device.is_none_or(|device| !device.features.contains("hw-tc-offload")) {
        return;
    }
    findings.push(Finding {
        severity: Severity::Warning,
        code: "hardware-offload",
        subject: name.to_string(),
        fact: "its card may execute tc filters and flow tables itself (hw-tc-offload is on)"
            .to_owned(),
        why: "a flow forwarded by the card reaches no queue: 100 % of it passes unshaped"
            .to_owned(),
        remedy: format!("`ethtool -K {name} hw-tc-offload off`"),
    });
}

fn managers(question: &Question<'_>, name: &DeviceName, findings: &mut Vec<Finding>) {
    let machine = question.machine;
    let fits = |patterns: &[String]| {
        patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, name.as_str()))
    };
    let settings: Vec<_> = machine
        .settings
        .iter()
        .filter(|setting| fits(&setting.devices))
        .collect();
    for setting in &settings {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "manager",
            subject: name.to_string(),
            fact: format!(
                "{} is configured to set its queue or offloads: {}:{}: {}",
                setting.manager, setting.file, setting.line, setting.text
            ),
            why: "whenever it configures the device, it undoes weirgate's settings, and 100 % of \
                  the packets pass unshaped"
                .to_owned(),
            remedy: format!("remove this from {}", setting.file),
        });
    }
    for (process, title) in MANAGERS {
        let silent = settings.iter().all(|setting| setting.manager != title);
        if machine.managers.contains(process) && silent {
            findings.push(Finding {
                severity: Severity::Note,
                code: "manager",
                subject: name.to_string(),
                fact: format!(
                    "{title} is running; none of its settings concerns this device's \
                               queue"
                ),
                why: "it may recreate the device, without what was applied to it".to_owned(),
                remedy: "run `weirgate keep`: it restores its state within a second".to_owned(),
            });
        }
    }
}

/// Returns whether a name matches a pattern with `*` and `?`, as in fnmatch(3).
fn glob(pattern: &str, name: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('*') => {
            let tail = rest.as_str();
            let mut places = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            places.any(|at| glob(tail, &name[at..]))
        }
        Some(c) => {
            let mut letters = name.chars();
            letters.next().is_some_and(|letter| c == '?' || c == letter)
                && glob(rest.as_str(), letters.as_str())
        }
    }
}

/// Returns the finding of a damaged file. `is_grave` is whether the file contains the last
/// confirmed state.
#[must_use]
pub fn damaged(fact: String, is_grave: bool) -> Finding {
    let (severity, why, remedy) = if is_grave {
        (
            Severity::Warning,
            "the promises of the last applied policy are not kept in full",
            "`weirgate apply POLICY`; then check the disk, and remove the file",
        )
    } else {
        (
            Severity::Note,
            "nothing else changes a written file, so the disk or the memory is faulty",
            "check the disk, and remove the file",
        )
    };
    Finding {
        severity,
        code: "damaged",
        subject: "state".to_owned(),
        fact,
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_are_those_of_fnmatch() {
        for (pattern, name, fits) in [
            ("eth*", "eth0", true),
            ("*", "wan", true),
            ("en?0", "enp0", true),
            ("en?0", "en0", false),
            ("wan", "wan2", false),
            ("*.7", "eth0.7", true),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }
}

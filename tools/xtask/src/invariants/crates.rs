// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the dependencies of crates: levels, purity, kernel interfaces.

use anyhow::Result;
use std::fs;
use std::path::Path;

/// Crates by level: a crate may depend only on crates of a lower level, or on those listed before
/// it in its own level.
pub(super) const LEVELS: [&[&str]; 7] = [
    &[
        "units",
        "signatures",
        "document",
        "state",
        "linklayer",
        "aqm",
        "history",
        "track",
        "schedule",
        "behaviour",
    ],
    &[
        "policy",
        "links",
        "plan",
        "experiment",
        "measure",
        "ledger",
        "uci",
        "circuits",
        "pods",
        "init",
        "doctor",
        "explain",
        "advise",
    ],
    &["compile", "import", "bpf", "kernel", "report"],
    &["domain", "lab", "keep", "guest", "probe", "watch"],
    &["console", "rollout", "workshop", "campaign"],
    &["cli", "lab-cli"],
    // For tests only: no other crate depends on it except for its own tests.
    &["testing"],
];

/// Crates without access to clock, sockets, files, environment and threads.
pub const PURE: [&str; 26] = [
    "advise",
    "behaviour",
    "domain",
    "links",
    "signatures",
    "history",
    "track",
    "schedule",
    "units",
    "document",
    "state",
    "linklayer",
    "policy",
    "plan",
    "compile",
    "experiment",
    "measure",
    "ledger",
    "report",
    "uci",
    "import",
    "circuits",
    "pods",
    "init",
    "doctor",
    "explain",
];

/// Crates of programs and their parts, which may use anyhow, print, and set exit codes.
pub(super) const BINARIES: [&str; 7] = [
    "campaign", "cli", "console", "guest", "lab-cli", "rollout", "workshop",
];

/// Libraries that change a kernel through its own interfaces, with the crates that may depend on
/// each. Only kernel does so on a user's machine. guest builds its own namespaces to emulate a
/// network, and bpf loads programs.
const INTERFACES: [(&str, &[&str]); 7] = [
    ("nlink", &["kernel", "guest"]),
    ("rtnetlink", &[]),
    ("neli", &[]),
    ("netlink-", &[]),
    ("nftables", &[]),
    ("libbpf-", &["bpf"]),
    ("aya", &["bpf"]),
];

fn position(name: &str) -> Option<(usize, usize)> {
    LEVELS.iter().enumerate().find_map(|(level, crates)| {
        crates
            .iter()
            .position(|other| *other == name)
            .map(|place| (level, place))
    })
}

pub(super) fn check_dependencies(
    name: &str,
    path: &Path,
    findings: &mut Vec<String>,
) -> Result<()> {
    let manifest = fs::read_to_string(path.join("Cargo.toml"))?;
    findings.extend(dependency_findings(name, &manifest));
    Ok(())
}

fn dependency_findings(name: &str, manifest: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(own) = position(name) else {
        findings.push(format!(
            "crates/{name}: has no level in tools/xtask/src/invariants/crates.rs"
        ));
        return findings;
    };
    let normal = manifest
        .split("[dev-dependencies]")
        .next()
        .unwrap_or_default();
    for line in normal.lines() {
        if let Some(rest) = line.strip_prefix("weirgate-") {
            let other = rest.split(['.', ' ', '=']).next().unwrap_or_default();
            if position(other).is_none_or(|place| place >= own) {
                findings.push(format!("crates/{name}: must not depend on {other}"));
            }
        }
        for (interface, users) in INTERFACES {
            if line.starts_with(interface) && !users.contains(&name) {
                findings.push(format!(
                    "crates/{name}: only kernel changes a kernel, not `{line}`"
                ));
            }
        }
        if line.starts_with("anyhow") && !BINARIES.contains(&name) {
            findings.push(format!("crates/{name}: anyhow belongs in binaries"));
        }
        let impure = ["tokio", "nlink", "rustix", "libc"];
        if PURE.contains(&name) && impure.iter().any(|bad| line.starts_with(bad)) {
            findings.push(format!("crates/{name}: a pure crate depends on `{line}`"));
        }
    }
    if name == "compile" && normal.contains("weirgate-plan") {
        findings.push("crates/compile: must not see the plan".to_owned());
    }
    if name == "plan" && normal.contains("weirgate-policy") {
        findings.push("crates/plan: must not see the policy".to_owned());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_to_a_kernel_are_no_dependencies_of_others() {
        let with = |name, line: &str| {
            dependency_findings(
                name,
                &format!("[dependencies]\n{line}\n[dev-dependencies]\n"),
            )
            .len()
        };
        assert_eq!(with("cli", "nlink.workspace = true"), 1);
        assert_eq!(with("kernel", "nlink.workspace = true"), 0);
        assert_eq!(with("lab", "rtnetlink = \"1\""), 1);
        assert_eq!(with("cli", "weirgate-kernel.workspace = true"), 0);
        // A pure crate violates two rules.
        assert_eq!(with("plan", "nlink.workspace = true"), 2);
    }
}

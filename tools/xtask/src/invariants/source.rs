// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks names that a crate's source must not use.

use super::crates::PURE;
use super::paths::impure;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Crates whose source may contain `unsafe`.
pub const UNSAFE: [&str; 4] = ["aqm", "bpf", "kernel", "guest"];

/// The file that builds the network of `domain try`, which runs only in the lab's machine.
const TRIED: &[&str] = &["crates/rollout/src/namespaces.rs"];

/// Names that a crate's source must not use outside tests, each with the files that may. They
/// change a kernel's network without a listed dependency, or exceed guest's permitted use of its
/// dependency.
const CHANGES: [(&str, &[&str]); 11] = [
    ("Command::new(\"tc\")", TRIED),
    ("Command::new(\"nft\")", &[]),
    ("Command::new(\"ip\")", TRIED),
    ("Command::new(\"ethtool\")", &[]),
    ("Command::new(\"iptables\")", &[]),
    ("Command::new(\"sysctl\")", &[]),
    ("AF_NETLINK", &["crates/kernel/"]),
    ("AddressFamily::NETLINK", &["crates/kernel/"]),
    ("/proc/sys/net", &["crates/guest/", "crates/kernel/"]),
    // The independent check of the line's emulator is the kernel's netem.
    (
        "nlink::netlink::tc",
        &["crates/kernel/", "crates/guest/src/agent/topology/netem.rs"],
    ),
    ("nlink::netlink::nftables", &["crates/kernel/"]),
];

pub(super) fn check_source(
    root: &Path,
    name: &str,
    file: &Path,
    findings: &mut Vec<String>,
) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let place = file.strip_prefix(root).unwrap_or(file);
    let place = place.to_string_lossy();
    findings.extend(source_findings(name, &place, &text));
    if PURE.contains(&name) && !of_tests(&place) {
        let found = impure(&text).with_context(|| place.clone().into_owned())?;
        let offence = |bad| format!("{place}: a pure crate uses {bad}");
        findings.extend(found.into_iter().map(offence));
    }
    Ok(())
}

/// Returns whether a file has only tests.
fn of_tests(place: &str) -> bool {
    place.contains("/tests/") || place.ends_with("/tests.rs")
}

/// Returns the lines without comments outside items with `#[cfg(test)]`, and their numbers. It
/// relies on rustfmt's indentation.
fn untested(text: &str) -> Vec<(usize, &str)> {
    let code = |line| str::split(line, "//").next().unwrap_or_default().trim_end();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut lines = (1..).zip(text.lines().map(code));
    let mut own = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.trim_start() == "#[cfg(test)]" {
            let own = depth(line);
            lines.find(|(_, line)| depth(line) == own && line.ends_with([';', ',', '}']));
        } else {
            own.push((number, line));
        }
    }
    own
}

fn source_findings(name: &str, place: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("// SPDX-License-Identifier: Apache-2.0 OR MIT\n") {
        findings.push(format!("{place}:1: the SPDX line is missing"));
    }
    if of_tests(place) {
        return findings;
    }
    for (number, code) in untested(text) {
        for (change, places) in CHANGES {
            let may = places.iter().any(|allowed| place.starts_with(allowed));
            if code.contains(change) && !may {
                findings.push(format!(
                    "{place}:{number}: only kernel changes a kernel, not {change}"
                ));
            }
        }
        if !UNSAFE.contains(&name) && code.contains("unsafe ") {
            findings.push(format!(
                "{place}:{number}: unsafe outside {}",
                UNSAFE.join(", ")
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "// SPDX-License-Identifier: Apache-2.0 OR MIT\n";

    fn found(name: &str, place: &str, line: &str) -> usize {
        source_findings(name, place, &format!("{HEAD}{line}\n")).len()
    }

    #[test]
    fn what_changes_a_kernel_is_found_outside_kernel() {
        for line in [
            "let tc = Command::new(\"tc\").args(words);",
            "Command::new(\"nft\")",
            "socket(AddressFamily::NETLINK, kind)",
            "fs::write(\"/proc/sys/net/core/default_qdisc\", \"pfifo\")",
        ] {
            assert_eq!(
                found("cli", "crates/cli/src/policy/apply.rs", line),
                1,
                "{line}"
            );
            assert_eq!(found("cli", "crates/cli/tests/cli/kernel.rs", line), 0);
        }
        let socket = "socket(AddressFamily::NETLINK, kind)";
        assert_eq!(
            found("kernel", "crates/kernel/src/netlink/channel.rs", socket),
            0
        );
        let netem = "use nlink::netlink::tc::NetemConfig;";
        let topology = "crates/guest/src/agent/topology";
        assert_eq!(found("guest", &format!("{topology}/netem.rs"), netem), 0);
        assert_eq!(found("guest", &format!("{topology}/ends.rs"), netem), 1);
        assert_eq!(
            found(
                "cli",
                "crates/cli/src/policy/apply.rs",
                "// Command::new(\"tc\")"
            ),
            0
        );
    }

    #[test]
    fn only_the_item_of_tests_is_left_out() {
        let unsafe_line = "unsafe { f() }";
        for item in [
            "#[cfg(test)]\nuse a::{\n    b,\n};",
            "#[cfg(test)]\nmod tests {\n    fn f() {\n        unsafe { g() }\n    }\n}",
            "#[cfg(test)]\nmod tests;",
            "#[cfg(test)]\n#[must_use]\nfn f(\n    a: u8,\n) -> u8 {\n    unsafe { g() }\n}",
        ] {
            let place = "crates/cli/src/policy/apply.rs";
            assert_eq!(found("cli", place, item), 0, "{item}");
            let after = format!("{item}\n{unsafe_line}");
            assert_eq!(found("cli", place, &after), 1, "{item}");
        }
    }

    #[test]
    fn a_file_without_a_licence_is_found() {
        let place = "crates/cli/src/policy/apply.rs";
        assert_eq!(source_findings("cli", place, "fn main() {}\n").len(), 1);
    }
}

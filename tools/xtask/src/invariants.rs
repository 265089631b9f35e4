// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ARCHITECTURE.md says is deliberately absent, checked.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates in order of purity: a crate may depend only on crates of a lower
/// level, or on those of its own level listed before it.
const LEVELS: [&[&str]; 6] = [
    &[
        "signatures",
        "units",
        "document",
        "state",
        "linklayer",
        "aqm",
        "history",
        "track",
    ],
    &[
        "policy",
        "plan",
        "experiment",
        "measure",
        "import",
        "doctor",
        "explain",
        "advise",
    ],
    &["compile", "bpf", "kernel", "report"],
    &["domain", "lab", "keep", "guest", "probe", "watch"],
    &["cli"],
    &[],
];

/// Crates that see neither clock nor socket, file, environment or thread.
const PURE: [&str; 18] = [
    "advise",
    "domain",
    "signatures",
    "history",
    "track",
    "units",
    "document",
    "state",
    "linklayer",
    "policy",
    "plan",
    "compile",
    "experiment",
    "measure",
    "report",
    "import",
    "doctor",
    "explain",
];

/// What a pure crate's source must not name.
const IMPURE: [&str; 12] = [
    "std::fs",
    "std::env",
    "std::thread",
    "std::process",
    "std::time::Instant",
    "std::time::SystemTime",
    "TcpStream",
    "UdpSocket",
    "UnixStream",
    "RandomState",
    "tokio::",
    "rand::",
];

/// Crates whose source may hold `unsafe`.
const UNSAFE: [&str; 4] = ["aqm", "bpf", "kernel", "guest"];

/// Crates that are binaries: anyhow, printing and exit codes belong there.
const BINARIES: [&str; 2] = ["cli", "guest"];

/// Ways to change a kernel by its own interfaces, and the crates that may have
/// them as dependencies: kernel, which alone does it on a user's machine; guest,
/// which builds namespaces of its own to emulate a network in; bpf, which loads
/// programs.
const INTERFACES: [(&str, &[&str]); 7] = [
    ("nlink", &["kernel", "guest"]),
    ("rtnetlink", &[]),
    ("neli", &[]),
    ("netlink-", &[]),
    ("nftables", &[]),
    ("libbpf-", &["bpf"]),
    ("aya", &["bpf"]),
];

/// What the source of a crate must not name, beside tests, and the places that
/// may: how a kernel's network is changed without such a dependency, and what
/// guest may not use of the one it has.
const CHANGES: [(&str, &[&str]); 11] = [
    ("Command::new(\"tc\")", &[]),
    ("Command::new(\"nft\")", &[]),
    ("Command::new(\"ip\")", &[]),
    ("Command::new(\"ethtool\")", &[]),
    ("Command::new(\"iptables\")", &[]),
    ("Command::new(\"sysctl\")", &[]),
    ("AF_NETLINK", &["crates/kernel/"]),
    ("AddressFamily::NETLINK", &["crates/kernel/"]),
    ("/proc/sys/net", &["crates/guest/", "crates/kernel/"]),
    // The second opinion on the line's emulator is the kernel's netem.
    (
        "nlink::netlink::tc",
        &["crates/kernel/", "crates/guest/src/agent/topology/netem.rs"],
    ),
    ("nlink::netlink::nftables", &["crates/kernel/"]),
];

/// Headers that C below aqm/ may include: the kit's own.
const AQM_HEADERS: [&str; 20] = [
    "aqm.h",
    "ared.h",
    "codel.h",
    "conditioner.h",
    "fixed.h",
    "flows.h",
    "gate.h",
    "host.h",
    "meter.h",
    "native.h",
    "native_shaper.h",
    "queue.h",
    "record.h",
    "red.h",
    "shaper.h",
    "udp.h",
    "virtual.h",
    "window.h",
    "meredt.c",
    "../../droptail.c",
];

/// What a discipline must not hold. Loops go by AQM_LOOP, whose bound shows.
const AQM_FORBIDDEN: [(&str, &str); 7] = [
    ("float", "a floating-point number"),
    ("double", "a floating-point number"),
    ("while", "a loop whose bound does not show: use AQM_LOOP"),
    ("for", "a loop whose bound does not show: use AQM_LOOP"),
    ("do", "a loop whose bound does not show: use AQM_LOOP"),
    ("extern", "something outside of the discipline"),
    ("volatile", "something outside of the discipline"),
];

/// Lines above which a source file has outgrown its room: the aim is 500, and
/// the longest file there is, the model in crates/measure/tests, has 620.
const LONGEST: usize = 700;

/// Checks every crate and reports all findings at once.
#[allow(clippy::print_stdout, reason = "the findings are this task's result")]
pub fn run(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("crates/")? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        check_dependencies(&name, &path, &mut findings)?;
        for file in rust_files(&path.join("src"))? {
            check_source(root, &name, &file, &mut findings)?;
        }
        for file in rust_files(&path.join("tests"))? {
            check_source(root, &name, &file, &mut findings)?;
        }
    }
    for file in files_ending(&root.join("aqm"), &["c", "h"])? {
        check_algorithm(&file, &mut findings)?;
    }
    findings.sort();
    for finding in &findings {
        println!("{}", finding.replace(&format!("{}/", root.display()), ""));
    }
    if !findings.is_empty() {
        bail!("{} findings against ARCHITECTURE.md", findings.len());
    }
    Ok(())
}

fn position(name: &str) -> Option<(usize, usize)> {
    LEVELS.iter().enumerate().find_map(|(level, crates)| {
        crates
            .iter()
            .position(|other| *other == name)
            .map(|place| (level, place))
    })
}

fn check_dependencies(name: &str, path: &Path, findings: &mut Vec<String>) -> Result<()> {
    let manifest = fs::read_to_string(path.join("Cargo.toml"))?;
    findings.extend(dependency_findings(name, &manifest));
    Ok(())
}

fn dependency_findings(name: &str, manifest: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(own) = position(name) else {
        findings.push(format!(
            "crates/{name}: has no level in tools/xtask/src/invariants.rs"
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

fn check_source(root: &Path, name: &str, file: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let place = file.strip_prefix(root).unwrap_or(file);
    findings.extend(source_findings(name, &place.to_string_lossy(), &text));
    Ok(())
}

fn source_findings(name: &str, place: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("// SPDX-License-Identifier: Apache-2.0 OR MIT\n") {
        findings.push(format!("{place}:1: the SPDX line is missing"));
    }
    let lines = text.lines().count();
    if lines > LONGEST {
        findings.push(format!("{place}: {lines} lines; split it (aim under 500)"));
    }
    if place.contains("/tests/") || place.ends_with("/tests.rs") {
        return findings;
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if code.contains("#[cfg(test)]") {
            break;
        }
        let number = number + 1;
        if PURE.contains(&name) {
            for bad in IMPURE.iter().filter(|bad| code.contains(**bad)) {
                findings.push(format!("{place}:{number}: a pure crate uses {bad}"));
            }
        }
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

/// Rule 4: freestanding C, without floats, globals or loops without a bound.
fn check_algorithm(file: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let place = file.display();
    if !text
        .lines()
        .next()
        .unwrap_or_default()
        .contains("SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause")
    {
        findings.push(format!("{place}:1: the SPDX line is missing"));
    }
    let native = file.components().any(|part| part.as_os_str() == "native");
    for (index, line) in without_comments(&text).lines().enumerate() {
        let number = index + 1;
        if let Some(header) = line.trim().strip_prefix("#include") {
            let header = header.trim().trim_matches('"');
            let of_build = native && header == "AQM_FILE";
            if !of_build && !AQM_HEADERS.contains(&header) {
                findings.push(format!("{place}:{number}: includes {header}"));
            }
        }
        // The native host is C for this machine: it defines the loop, and its
        // tables are constants that the library finds by name.
        if native {
            continue;
        }
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if let Some((_, what)) = AQM_FORBIDDEN.iter().find(|(bad, _)| *bad == word) {
                findings.push(format!("{place}:{number}: `{word}`: {what}"));
            }
        }
        // Everything at the outermost level is a type, a constant, a macro or a
        // function; an object would end in `;` or `=` there.
        let outermost = line.starts_with(|c: char| c.is_alphabetic());
        let object = line.starts_with("static ") && !line.contains('(');
        if outermost && object {
            findings.push(format!("{place}:{number}: an object outside of functions"));
        }
    }
    Ok(())
}

/// The last line.
fn line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or_default()
}

/// The text with comments and string literals blanked, line by line.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' && !line(&out).starts_with("#include") {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        rest = &rest[skipped..];
    }
    out
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files_ending(folder, &["rs"])
}

fn files_ending(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // A crate may have no tests beside its sources.
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| endings.iter().any(|ending| extension == *ending))
            {
                files.push(path);
            }
        }
    }
    Ok(files)
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
            assert_eq!(found("cli", "crates/cli/src/shape.rs", line), 1, "{line}");
            assert_eq!(found("cli", "crates/cli/tests/cli/kernel.rs", line), 0);
        }
        let socket = "socket(AddressFamily::NETLINK, kind)";
        assert_eq!(found("kernel", "crates/kernel/src/channel.rs", socket), 0);
        let netem = "use nlink::netlink::tc::NetemConfig;";
        let topology = "crates/guest/src/agent/topology";
        assert_eq!(found("guest", &format!("{topology}/netem.rs"), netem), 0);
        assert_eq!(found("guest", &format!("{topology}/ends.rs"), netem), 1);
        assert_eq!(
            found("cli", "crates/cli/src/shape.rs", "// Command::new(\"tc\")"),
            0
        );
    }

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
        // A pure crate has two reasons.
        assert_eq!(with("plan", "nlink.workspace = true"), 2);
    }

    #[test]
    fn long_files_and_those_without_a_licence_are_found() {
        let place = "crates/cli/src/shape.rs";
        assert_eq!(source_findings("cli", place, "fn main() {}\n").len(), 1);
        let long = HEAD.to_owned() + &"\n".repeat(LONGEST);
        assert_eq!(source_findings("cli", place, &long).len(), 1);
    }
}

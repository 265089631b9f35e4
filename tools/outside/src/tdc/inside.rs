// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs files of cases in the guest. Each case makes its state in a separate namespace; weirgate
//! applies a policy over it and removes it; then the state is compared with the original.

use super::case::{Case, Command, DEVICES, cases, replaced};
use crate::process::{direct, within};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use weirgate_kernel::{Kernel, Scope};

/// The folder of the suite's files in the guest, and the namespace of each case.
pub const FOLDER: &str = "/suite";
const NAMESPACE: &str = "tcut";

/// The end of the veth pair that stays outside.
const OUTSIDE: &str = "v0p0";

/// The time limit of a command (`TIMEOUT` of `tdc_config.py`).
const PATIENCE: &str = "24";

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Its state could not be made, for this reason.
    Cannot(String),
    /// Applied and removed; the state is unchanged.
    Restored,
    /// weirgate refused with this message; the state is unchanged.
    Refused(String),
    /// Applied and removed, and these lines differ. The flag is whether weirgate announced before
    /// any change that it could not restore this.
    Lost(bool, Vec<String>),
    /// A command of weirgate failed for another reason.
    Failed(String),
}

/// A case with its outcome under one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The index of the file in the guest.
    pub file: usize,
    pub id: String,
    pub name: String,
    pub outcome: Outcome,
}

/// Runs every case of the files, and prints a line of JSON for each.
pub fn run() -> Result<()> {
    for file in 0.. {
        let path = format!("{FOLDER}/{file}.json");
        let Ok(text) = fs::read_to_string(&path) else {
            break;
        };
        for case in cases(&text).context(path)? {
            let outcome = match case.lacks() {
                Some(what) => Outcome::Cannot(format!("it needs {what}")),
                None => one(&case)?,
            };
            let result = CaseResult {
                file,
                id: case.id,
                name: case.name,
                outcome,
            };
            println!("{}", serde_json::to_string(&result)?);
        }
    }
    Ok(())
}

fn one(case: &Case) -> Result<Outcome> {
    let outcome = match namespace()? {
        None => within(NAMESPACE, || in_namespace(case)),
        Some(why) => Ok(Outcome::Failed(format!("no namespace: {why}"))),
    };
    // Ignore the statuses: some of these may not exist.
    direct(&["ip", "netns", "del", NAMESPACE])?;
    direct(&["ip", "link", "del", OUTSIDE])?;
    direct(&["rm", "-rf", "/tmp/batch"])?;
    direct(&["mkdir", "/tmp/batch"])?;
    outcome
}

fn in_namespace(case: &Case) -> Result<Outcome> {
    for command in case.setup.iter().chain([&case.under_test]) {
        if let Some(why) = unlike(command)? {
            return Ok(Outcome::Cannot(why));
        }
    }
    let device = case.device();
    if direct(&["ip", "link", "show", "dev", device])?.status != Some(0) {
        return Ok(Outcome::Cannot("it leaves no device".to_owned()));
    }
    let before = dump()?;
    let mut outcome = under(&tree(device), &before)?;
    let arrives = before.lines().any(|line| {
        let mut words = line.split(' ');
        words.next() == Some("qdisc") && matches!(words.next(), Some("ingress" | "clsact"))
    });
    if arrives && outcome == Outcome::Restored {
        outcome = under(&hooks(device), &before)?;
    }
    Ok(outcome)
}

/// Returns how a command deviated from the suite's expectation.
fn unlike(command: &Command) -> Result<Option<String>> {
    let text = replaced(&command.text);
    // Run simple commands directly, because starting a shell takes as long as tc.
    let plain = |c: char| c.is_ascii_alphanumeric() || " /.:_-,+@%".contains(c);
    let known = text.starts_with("tc ") || text.starts_with("ip ");
    let done = if known && text.chars().all(plain) {
        direct(&text.split_whitespace().collect::<Vec<_>>())?
    } else {
        // In a namespace with its own /sys.
        let prefix = ["ip", "netns", "exec", NAMESPACE, "timeout", PATIENCE];
        direct(&[&prefix[..], &["bash", "-c", &text]].concat())?
    };
    if done
        .status
        .is_some_and(|status| command.statuses.contains(&status))
    {
        return Ok(None);
    }
    Ok(Some(match done.status {
        Some(124) => format!("`{text}` does not end"),
        _ => done.message(),
    }))
}

/// Applies a policy and removes it.
fn under(policy: &str, before: &str) -> Result<Outcome> {
    let file = "/tmp/policy.toml";
    fs::write(file, policy).context(file)?;
    let applied = direct(&["weirgate", "apply", "--adopt", file])?;
    let message = applied.error.clone();
    if applied.status != Some(0) {
        let after = dump()?;
        return Ok(match differing(before, &after) {
            lines if lines.is_empty() => Outcome::Refused(message),
            lines => Outcome::Failed(format!("{message}\n{}", lines.join("\n"))),
        });
    }
    // The message must report completed steps.
    if !message.contains(" steps done and read back") {
        return Ok(Outcome::Failed(format!("nothing was applied: {message}")));
    }
    let removed = direct(&["weirgate", "remove"])?;
    if removed.status != Some(0) {
        return Ok(Outcome::Failed(removed.error));
    }
    let lines = differing(before, &dump()?);
    if lines.is_empty() {
        return Ok(Outcome::Restored);
    }
    // Include messages about roots that could not be restored.
    let said_then = removed.error.lines().map(|line| format!("remove: {line}"));
    let announced = message.contains("K305");
    Ok(Outcome::Lost(
        announced,
        lines.into_iter().chain(said_then).collect(),
    ))
}

/// The applied policy: both directions with two classes, which replaces the device's root.
/// `DEVICE`, `INBOUND` and `MORE` are substituted.
pub const POLICIES: &str = r#"version = 1

[link]
device = "DEVICE"
lan = "lan0"
up = "10mbit"
down = "20mbit"
layer = "raw"
inbound = "INBOUND"

MORE
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

/// Returns the policy with the device's downstream on an IFB.
fn tree(device: &str) -> String {
    policy(device, "ifb", "")
}

/// Returns the policy with programs at both hooks of the device.
fn hooks(device: &str) -> String {
    policy(device, "filter", "[receive]\nrate = \"90%\"\n\n[ack]\n")
}

fn policy(device: &str, inbound: &str, more: &str) -> String {
    let filled = POLICIES.replace("DEVICE", device);
    filled.replace("INBOUND", inbound).replace("MORE", more)
}

/// Returns the lines that only one of two texts has, in order.
pub fn differing(before: &str, after: &str) -> Vec<String> {
    let only = |sign: &str, these: &str, those: &str| {
        let mut left: Vec<&str> = those.lines().collect();
        let mut lines = Vec::new();
        for line in these.lines() {
            match left.iter().position(|other| *other == line) {
                Some(at) => drop(left.remove(at)),
                None => lines.push(format!("{sign} {line}")),
            }
        }
        lines
    };
    [only("-", before, after), only("+", after, before)].concat()
}

/// Returns everything that tc, ip and nft show of the namespace, without counters, and the state as
/// weirgate reads it.
pub fn dump() -> Result<String> {
    let links = direct(&["ip", "-o", "-d", "link", "show"])?.output;
    let qdiscs = uncounted(&direct(&["tc", "-d", "qdisc", "show"])?.output);
    let batch = "/tmp/show";
    fs::write(batch, questions(&links, &qdiscs)).context(batch)?;
    let rest = settled(&direct(&["tc", "-d", "-force", "-batch", batch])?.output);
    let tables = direct(&["nft", "list", "ruleset"])?.output;
    let own = observed()?;
    Ok(format!("{links}{qdiscs}{rest}{tables}{own}"))
}

/// The counter among tc's settings of htb: packets that bypassed its classes.
const COUNTER: &str = " direct_packets_stat ";

/// Returns tc's output without that counter.
fn uncounted(shown: &str) -> String {
    let mut out = String::new();
    for (at, part) in shown.split(COUNTER).enumerate() {
        let counted = |one: char| one.is_ascii_digit();
        out += if at == 0 {
            part
        } else {
            part.trim_start_matches(counted)
        };
    }
    out
}

/// Disciplines that list each backlogged flow as a class.
const FLOWS: [&str; 3] = ["class cake ", "class fq_codel ", "class sfq "];

/// Returns tc's output without these flows, which are not settings.
fn settled(shown: &str) -> String {
    let flow = |line: &&str| FLOWS.iter().any(|begin| line.starts_with(begin));
    let lines = shown.split_inclusive('\n').filter(|line| !flow(line));
    lines.collect()
}

/// Returns further commands for tc: the classes of every device, and the filters and chains of
/// every qdisc, hook and block.
fn questions(links: &str, qdiscs: &str) -> String {
    let mut asked = String::new();
    for line in links.lines() {
        let name = line.split(": ").nth(1).unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        let _ = writeln!(asked, "class show dev {name}");
    }
    let mut blocks = BTreeSet::new();
    for line in qdiscs.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, kind, handle, "dev", device, ..] = words[..] else {
            continue;
        };
        let places: &[&str] = match kind {
            "noqueue" => continue,
            "ingress" => &["ingress"],
            "clsact" => &["ingress", "egress"],
            // tc has no name for the filters of a qdisc without a handle.
            _ if handle == "0:" => continue,
            _ => &[handle],
        };
        for place in places {
            let parent = if place.contains(':') { "parent " } else { "" };
            for what in ["filter", "chain"] {
                let _ = writeln!(asked, "{what} show dev {device} {parent}{place}");
            }
        }
        for pair in words.windows(2) {
            if pair[0].ends_with("_block") {
                blocks.insert(pair[1]);
            }
        }
    }
    for block in blocks {
        let _ = writeln!(asked, "filter show block {block}");
    }
    asked
}

/// Returns the state of all devices as weirgate reads it.
fn observed() -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let state = runtime.block_on(async {
        let kernel = Kernel::open()?;
        let devices = kernel.devices().await?.into_keys().collect();
        let scope = Scope {
            devices,
            ..Scope::default()
        };
        kernel.observe(&scope).await
    })?;
    Ok(serde_json::to_string_pretty(&state)?)
}

/// Makes devices as `plugin-lib/nsPlugin.py` does, and one on the users' side. Returns the reason
/// if they cannot be made.
fn namespace() -> Result<Option<String>> {
    let [dummy, veth, ifb] = DEVICES;
    let mut lines = vec![
        format!("ip netns add {NAMESPACE}"),
        format!("ip link add {veth} netns {NAMESPACE} type veth peer name {OUTSIDE}"),
    ];
    for (device, kind) in [(dummy, "dummy"), (ifb, "ifb"), ("lan0", "dummy")] {
        lines.push(format!("ip -n {NAMESPACE} link add {device} type {kind}"));
    }
    for device in [veth, dummy, ifb, "lan0"] {
        lines.push(format!("ip -n {NAMESPACE} link set {device} up"));
    }
    lines.push(format!("ip link set {OUTSIDE} up"));
    for line in lines {
        let done = direct(&line.split(' ').collect::<Vec<_>>())?;
        if done.status != Some(0) {
            return Ok(Some(done.message()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_no_setting() {
        let shown = "qdisc htb 1: root r2q 10 direct_packets_stat 17 ver 3.17\nqdisc x 2:\n";
        assert_eq!(
            uncounted(shown),
            "qdisc htb 1: root r2q 10 ver 3.17\nqdisc x 2:\n"
        );
    }

    #[test]
    fn a_flow_is_no_setting() {
        let shown = "class htb 1:1 root\nclass fq_codel 80ec:3ba parent 80ec: \nfilter x\n";
        assert_eq!(settled(shown), "class htb 1:1 root\nfilter x\n");
    }

    #[test]
    fn lines_are_compared_as_often_as_they_stand() {
        assert_eq!(differing("a\nb\na\n", "b\na\nc\n"), ["- a", "+ c"]);
        assert!(differing("a\nb\n", "b\na\n").is_empty());
    }
}

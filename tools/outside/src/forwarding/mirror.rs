// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mirror: a namespace in which the kernel's tc makes the suite's configuration on a device
//! without traffic. tc parses the words, and the kernel stores the tree, so that the shim needs no
//! parser and no state.

use crate::process::{Done, direct};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::fs;

/// The name of its namespace.
pub const MIRROR: &str = "mirror";

/// The path of the kernel's tc.
pub const TC: &str = "/usr/sbin/tc";

/// A qdisc in tc's list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listed {
    pub kind: String,
    pub handle: String,
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub root: bool,
    #[serde(default)]
    pub options: Value,
}

/// Runs tc in the mirror.
///
/// # Errors
///
/// Fails if there is no mirror.
pub fn asked(device: &str, words: &[String]) -> Result<Done> {
    stand(device)?;
    let words: Vec<&str> = [TC, "-n", MIRROR]
        .into_iter()
        .chain(words.iter().map(String::as_str))
        .collect();
    direct(&words)
}

/// Returns the qdiscs of a device in the mirror.
///
/// # Errors
///
/// Fails if tc does not list them.
pub fn qdiscs(device: &str) -> Result<Vec<Listed>> {
    let words = [TC, "-n", MIRROR, "-j", "-d", "qdisc", "show", "dev", device];
    let shown = output(&[&words[..], &["invisible"]].concat())?;
    serde_json::from_str(&shown).with_context(|| shown.clone())
}

/// Returns the filters of a qdisc in the mirror, as text.
///
/// # Errors
///
/// Fails if tc does not list them.
pub fn filters(device: &str, handle: &str) -> Result<String> {
    let words = [TC, "-n", MIRROR, "filter", "show", "dev", device];
    output(&[&words[..], &["parent", handle]].concat())
}

fn output(words: &[&str]) -> Result<String> {
    let done = direct(words)?;
    ensure!(
        done.status == Some(0),
        "{}: {}",
        words.join(" "),
        done.message()
    );
    Ok(done.output)
}

/// Makes a device of this name in the mirror, with the MTU of the real one.
fn stand(device: &str) -> Result<()> {
    let mirror = ["ip", "-n", MIRROR, "link"];
    let there = direct(&[&mirror[..], &["show", "dev", device]].concat())?;
    if there.status == Some(0) {
        return Ok(());
    }
    output(&[&mirror[..], &["add", device, "type", "dummy"]].concat())?;
    let place = format!("/sys/class/net/{device}/mtu");
    let mtu = fs::read_to_string(&place).context(place)?;
    let words = ["set", device, "up", "txqueuelen", "1000", "mtu", mtu.trim()];
    output(&[&mirror[..], &words].concat())?;
    Ok(())
}

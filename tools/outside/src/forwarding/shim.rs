// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shim named `tc`. Commands about the qdiscs under test run in the mirror, and weirgate
//! installs the resulting configuration on the device. All other commands go to the kernel's tc.

use super::mirror::{self, TC};
use super::translate::{Engine, Placed, placed};
use crate::process::direct;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

pub use super::mirror::MIRROR;

/// Variables with the device under test, and with its replacement.
pub const DEVICE: &str = "OUTSIDE_DEVICE";
pub const ENGINE: &str = "OUTSIDE_ENGINE";

/// The file with reasons why a configuration could not be applied, one a line.
pub const REFUSED: &str = "/tmp/refused";

/// The log of the shim's commands.
pub const LOG: &str = "/tmp/shim";

/// The policy in force. The LAN device in it plays no part in the tests.
const POLICY: &str = "/tmp/policy.toml";

/// Returns whether this program was started as the shim.
pub fn called() -> bool {
    let own = env::args_os().next();
    own.is_some_and(|own| Path::new(&own).file_name().is_some_and(|name| name == "tc"))
}

/// Runs the command for tc.
pub fn run() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let device = env::var(DEVICE).unwrap_or_default();
    if !is_under_test(&words, &device) {
        let failed = Command::new(TC).args(&words).exec();
        eprintln!("{TC}: {failed}");
        return ExitCode::FAILURE;
    }
    match done(&words, &device) {
        Ok(status) => status,
        Err(error) => {
            let line = format!("{error:#}").replace('\n', " ");
            eprintln!("{line}");
            let _ = noted(REFUSED, &line);
            ExitCode::FAILURE
        }
    }
}

/// Returns whether a command is about the egress qdiscs of the device.
fn is_under_test(words: &[String], device: &str) -> bool {
    let mut plain = words.iter().filter(|word| !word.starts_with('-'));
    let object = plain.next().map_or("", String::as_str);
    let verb = plain.next().map_or("", String::as_str);
    let has = |word: &str| words.iter().any(|one| one == word);
    let named = words
        .windows(2)
        .any(|pair| pair[0] == "dev" && pair[1] == device);
    named
        && match object {
            "qdisc" => verb == "show" || has("root") || has("parent"),
            "class" => true,
            "filter" => has("parent"),
            _ => false,
        }
}

fn done(words: &[String], device: &str) -> Result<ExitCode> {
    noted(LOG, &words.join(" "))?;
    let there = mirror::asked(device, words)?;
    eprint!("{}", there.error);
    if there.status != Some(0) {
        return Ok(ExitCode::from(1));
    }
    let engine = match env::var(ENGINE).as_deref() {
        Ok("kit") => Engine::Kit,
        _ => Engine::Tree,
    };
    let listed = mirror::qdiscs(device)?;
    let filters = listed
        .iter()
        .map(|one| Ok(mirror::filters(device, &one.handle).unwrap_or_default()))
        .collect::<Result<String>>()?;
    let placed = placed(&listed, &filters, device, engine);
    if words.iter().any(|word| word == "show") {
        println!(
            "{}",
            counted(
                &there.output,
                device,
                placed.map_err(anyhow::Error::msg)?.as_ref()
            )?
        );
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", there.output);
    match placed {
        Ok(Some(placed)) => applied(&placed)?,
        Ok(None) => removed()?,
        Err(why) => bail!(why),
    }
    Ok(ExitCode::SUCCESS)
}

fn applied(placed: &Placed) -> Result<()> {
    if fs::read_to_string(POLICY).is_ok_and(|there| there == placed.policy) {
        return Ok(());
    }
    fs::write(POLICY, &placed.policy).context(POLICY)?;
    weirgate(&["apply", "--adopt", POLICY])?;
    Ok(())
}

fn removed() -> Result<()> {
    if Path::new(POLICY).exists() {
        weirgate(&["remove"])?;
        fs::remove_file(POLICY).context(POLICY)?;
    }
    Ok(())
}

fn weirgate(words: &[&str]) -> Result<String> {
    let done = direct(&[&["weirgate"], words].concat())?;
    noted(
        LOG,
        &format!("weirgate {}: {}", words.join(" "), done.error),
    )?;
    ensure!(
        done.status == Some(0),
        "weirgate {}: {}",
        words[0],
        done.message()
    );
    Ok(done.output)
}

/// The counters of a class: tc's names, and those of `metrics`.
const COUNTERS: [(&str, &str); 6] = [
    ("bytes", "sent_bytes_total"),
    ("packets", "sent_packets_total"),
    ("drops", "drops_total"),
    ("marked", "marks_total"),
    ("backlog", "backlog_bytes"),
    ("qlen", "backlog_packets"),
];

/// Returns tc's list of qdiscs, with the counters of the classes that replace each.
fn counted(shown: &str, device: &str, placed: Option<&Placed>) -> Result<String> {
    let mut list: Vec<Value> = serde_json::from_str(shown).with_context(|| shown.to_owned())?;
    let Some(placed) = placed else {
        return Ok(shown.to_owned());
    };
    let metrics = weirgate(&["metrics"])?;
    let series = series(&metrics, device);
    for one in &mut list {
        let place = one["parent"].as_str().unwrap_or("root").to_owned();
        let Some(classes) = placed.classes.get(&place) else {
            bail!("nothing stands for the qdisc at {place}");
        };
        for (name, counter) in COUNTERS {
            let counts = classes
                .iter()
                .filter_map(|class| series.get(&(class.clone(), counter.to_owned())));
            one[name] = Value::from(counts.sum::<u64>());
        }
    }
    Ok(serde_json::to_string(&list)?)
}

/// Returns the counters of the device's classes, by class and name.
fn series(metrics: &str, device: &str) -> BTreeMap<(String, String), u64> {
    let mut found = BTreeMap::new();
    for line in metrics.lines() {
        let read = || {
            let (name, rest) = line.strip_prefix("weirgate_class_")?.split_once('{')?;
            let (labels, value) = rest.split_once("} ")?;
            let label = |key: &str| {
                let (_, rest) = labels.split_once(&format!("{key}=\""))?;
                rest.split('"').next()
            };
            (label("device")? == device).then_some(())?;
            let value: f64 = value.split(' ').next()?.parse().ok()?;
            Some((label("class")?.to_owned(), name.to_owned(), value as u64))
        };
        if let Some((class, name, value)) = read() {
            found.insert((class, name), value);
        }
    }
    found
}

fn noted(place: &str, line: &str) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(place)?;
    writeln!(file, "{line}").context(place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_under_test_is_told_from_the_rest() {
        let ours = |line: &str| is_under_test(&words(line), "veth2");
        assert!(ours(
            "qdisc replace dev veth2 root handle 1: tbf rate 1Mbit"
        ));
        assert!(ours("-j -s qdisc show dev veth2 invisible"));
        assert!(ours("class change dev veth2 classid 10:2 ets quantum 8000"));
        assert!(ours("filter add dev veth2 parent 10: basic"));
        assert!(!ours("qdisc add dev veth2 clsact"));
        assert!(!ours("filter add dev veth2 ingress matchall"));
        assert!(!ours("qdisc replace dev veth0 root tbf"));
        assert!(!ours("filter add block 10 matchall"));
        assert!(!ours("-j"));
    }

    #[test]
    fn counters_are_read_by_class() {
        let metrics = "weirgate_class_marks_total{device=\"v\",direction=\"up\",class=\"all\"} 7\n\
            weirgate_class_marks_total{device=\"w\",direction=\"up\",class=\"all\"} 8\n\
            weirgate_rule_bytes_total{table=\"x\"} 9\n";
        let read = series(metrics, "v");
        assert_eq!(read.len(), 1);
        assert_eq!(read[&("all".to_owned(), "marks_total".to_owned())], 7);
    }
}

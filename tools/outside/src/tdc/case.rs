// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cases of tc-testing: a JSON file for each discipline, classifier or action.
//!
//! The suite's `creating-testcases/AddingTestCases.txt` defines the fields.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The names in commands, with their values (`tdc_config.py`).
const NAMES: [(&str, &str); 12] = [
    ("TC", "tc"),
    ("IP", "ip"),
    ("ETHTOOL", "ethtool"),
    ("DEV0", "v0p0"),
    ("DEV1", "v0p1"),
    ("DUMMY", "dummy1"),
    ("IFB", "ifbtdc0"),
    ("ETH", "eth0"),
    ("NS", "tcut"),
    ("BATCH_FILE", "/tmp/batch.txt"),
    ("BATCH_DIR", "/tmp/batch"),
    ("EBPFDIR", "/suite"),
];

/// Devices of the namespace for each case (`plugin-lib/nsPlugin.py`). A case's commands are
/// searched for them in this order.
pub const DEVICES: [&str; 3] = ["dummy1", "v0p1", "ifbtdc0"];

/// The simulated network card that some cases add.
const CARD: &str = "eth0";

/// A command, and its permitted exit statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The text, for a shell.
    pub text: String,
    pub statuses: Vec<i32>,
}

/// A case: the commands that make a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub id: String,
    pub name: String,
    pub setup: Vec<Command>,
    pub under_test: Command,
    /// Whether the suite itself skips it.
    pub skipped: bool,
}

impl Case {
    /// Returns what it needs that the laboratory lacks, if anything.
    pub fn lacks(&self) -> Option<&'static str> {
        let needs = |what: &str| {
            let commands = self.setup.iter().chain([&self.under_test]);
            commands.into_iter().any(|one| one.text.contains(what))
        };
        if self.skipped {
            Some("the suite leaves it out")
        } else if needs("$DEV2") {
            Some("a network card")
        } else if needs(".py") {
            Some("Python")
        } else if needs("$EBPFDIR") {
            Some("the suite's own program, which clang makes")
        } else {
            None
        }
    }

    /// Returns the device that its commands name most often.
    pub fn device(&self) -> &'static str {
        let commands = self.setup.iter().chain([&self.under_test]);
        let text: String = commands.map(|one| replaced(&one.text) + "\n").collect();
        let often = |device: &&str| {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric());
            words.filter(|word| word == device).count()
        };
        let mut best = DEVICES[0];
        for device in DEVICES.into_iter().chain([CARD]) {
            if often(&device) > often(&best) {
                best = device;
            }
        }
        best
    }
}

/// Returns a command's text with its names replaced. A simulated network card is replaced by a
/// dummy device with as many queues, because Debian's kernels for virtual machines have no
/// netdevsim.
pub fn replaced(text: &str) -> String {
    if text.contains("netdevsim/new_device") {
        let asked = text.split(['"', '\'']).nth(1).unwrap_or_default();
        let queues = asked.split(' ').nth(2).unwrap_or("1");
        return format!("ip link add eth0 numtxqueues {queues} numrxqueues {queues} type dummy");
    }
    // Replace the longest names first: some names are prefixes of others.
    let mut names = NAMES;
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut text = text.to_owned();
    for (name, value) in names {
        text = text.replace(&format!("${name}"), value);
    }
    text
}

/// Parses the cases of one file.
///
/// # Errors
///
/// Fails if the text does not have the format of the suite's files.
pub fn cases(text: &str) -> Result<Vec<Case>> {
    let list: Vec<Value> = serde_json::from_str(text).context("not a list of cases")?;
    list.iter().map(case).collect()
}

fn case(value: &Value) -> Result<Case> {
    let text = |field: &str| value[field].as_str().map(str::to_owned);
    let id = text("id").context("a case without `id`")?;
    let read = || -> Result<Case> {
        let setup = value["setup"].as_array().context("no `setup`")?;
        let expected: i32 = text("expExitCode")
            .context("no `expExitCode`")?
            .parse()
            .context("`expExitCode` is no number")?;
        Ok(Case {
            id: id.clone(),
            name: text("name").context("no `name`")?,
            setup: setup.iter().map(command).collect::<Result<_>>()?,
            under_test: Command {
                text: text("cmdUnderTest").context("no `cmdUnderTest`")?,
                statuses: vec![expected],
            },
            skipped: text("skip").as_deref() == Some("yes"),
        })
    };
    read().with_context(|| format!("case {id}"))
}

/// Parses a command. A single text must exit with 0; in a list, the statuses follow it.
fn command(value: &Value) -> Result<Command> {
    let (text, statuses) = match value {
        Value::String(text) => (text.clone(), vec![0]),
        Value::Array(parts) => {
            let text = parts.first().and_then(Value::as_str);
            let rest = parts.iter().skip(1);
            let statuses = rest.filter_map(|one| one.as_i64().map(|status| status as i32));
            (
                text.context("a list without a command")?.to_owned(),
                statuses.collect(),
            )
        }
        _ => bail!("a command that is neither text nor list"),
    };
    Ok(Command { text, statuses })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"[{
        "id": "8b6e", "name": "red", "category": ["qdisc"],
        "plugins": {"requires": ["nsPlugin"]},
        "setup": ["$IP link set dev $DEV1 up", ["$TC qdisc del dev $DEV1 root", 0, 2]],
        "cmdUnderTest": "$TC qdisc add dev $DEV1 root red",
        "expExitCode": "0", "verifyCmd": "", "matchPattern": "", "matchCount": "0",
        "teardown": []
    }]"#;

    #[test]
    fn a_case_as_the_suite_writes_it() {
        let found = &cases(TEXT).unwrap()[0];
        assert_eq!(found.setup[1].statuses, [0, 2]);
        assert_eq!(found.device(), "v0p1");
        assert_eq!(found.lacks(), None);
        let card = "echo \"1 1 8\" > /sys/bus/netdevsim/new_device";
        let dummy = "ip link add eth0 numtxqueues 8 numrxqueues 8 type dummy";
        assert_eq!(replaced(card), dummy);
        assert_eq!(
            replaced(&found.under_test.text),
            "tc qdisc add dev v0p1 root red"
        );
        assert_eq!(
            replaced("$DUMMY $DEV1:$BATCH_DIR/x"),
            "dummy1 v0p1:/tmp/batch/x"
        );
    }

    #[test]
    fn what_is_no_case_is_named() {
        let error = cases(&TEXT.replace("expExitCode", "other")).unwrap_err();
        assert_eq!(format!("{error:#}"), "case 8b6e: no `expExitCode`");
    }
}

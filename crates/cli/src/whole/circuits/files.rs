// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a list, and the device for it.

use super::live::{device, refused};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use weirgate_bpf::MOST_QUEUES;
use weirgate_circuits::Direction;
use weirgate_circuits::kept::{Kept, Ports};
use weirgate_circuits::{File, KeyKind, List, read as read_list};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::json::Document;
use weirgate_console::{output, source};
use weirgate_keep::Circuits;
use weirgate_state::DeviceName;
use weirgate_units::{Inserted as _, Rate};

/// A list for a device.
#[derive(Args)]
pub struct Listed {
    /// The device; `-` reads devices and their lists from standard input, as `domain`
    /// sends them.
    device: String,
    /// The files of the list.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The device sends packets from subscribers; a packet's source identifies the
    /// circuit.
    #[arg(long)]
    up: bool,
    /// The rate that all circuits share, such as 9gbit; without it, the device's rate.
    #[arg(long, value_name = "RATE", value_parser = weirgate_circuits::rate_of_device)]
    rate: Option<Rate>,
    /// The most transmit queues of the device that share the rate, each with sites of its
    /// own; without it, one for each 2 Gbit/s.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_QUEUES)))]
    queues: Option<u32>,
}

/// Lists for devices, and whether all other devices lose their lists.
pub(super) type Lists = (Vec<(DeviceName, Kept)>, bool);

/// Returns the devices that have circuits now and lose them with these lists.
pub(super) async fn gone(
    circuits: &Circuits<'_>,
    (lists, only): &Lists,
) -> Result<Vec<DeviceName>, Failure> {
    if !only {
        return Ok(Vec::new());
    }
    let named: Vec<&DeviceName> = lists.iter().map(|(name, _)| name).collect();
    circuits.beside(&named).await.map_err(refused)
}

impl Listed {
    /// Reads the lists with their devices, and whether all other devices lose theirs.
    pub(super) fn read(&self) -> Result<Lists, Failure> {
        if self.device != "-" {
            return Ok((vec![self.read_one()?], false));
        }
        if !self.files.is_empty() || self.up || self.rate.is_some() || self.queues.is_some() {
            return Err(wrong(
                "`-` excludes other arguments: standard input states all",
            ));
        }
        let text = source::read_stdin_up_to(source::LARGEST_LIST)?;
        let sent = Ports::read(&text).map_err(|why| wrong(format!("standard input: {why}")))?;
        let named = sent.lists.into_iter();
        let named = named.map(|(name, kept)| Ok((device(&name)?, kept)));
        Ok((named.collect::<Result<_, Failure>>()?, sent.only))
    }

    /// Reads the list of the one named device.
    pub(super) fn read_one(&self) -> Result<(DeviceName, Kept), Failure> {
        if self.device == "-" {
            return Err(wrong("lists from standard input need --confirm"));
        }
        if self.files.is_empty() {
            return Err(wrong("name the files of the list"));
        }
        let kept = Kept {
            direction: if self.up {
                Direction::Up
            } else {
                Direction::Down
            },
            link: self.rate,
            queues: self.queues,
            list: list(&self.files)?,
        };
        Ok((device(&self.device)?, kept))
    }
}

/// Reads a list. Prints warnings. Errors become one failure that shows all of them.
pub(super) fn list(files: &[PathBuf]) -> Result<List, Failure> {
    let mut texts = Vec::new();
    for path in files {
        texts.push((
            path.display().to_string(),
            source::read_up_to(path, source::LARGEST_LIST)?,
        ));
    }
    let files: Vec<File<'_>> = texts
        .iter()
        .map(|(name, text)| File { name, text })
        .collect();
    let reading = read_list(&files);
    let problems = reading.problems.iter();
    let problems = problems.map(|one| (one.problem.severity, one.to_string()));
    source::judge_list(problems, reading.list)
}

/// `weirgate circuits check`.
pub(super) fn check(files: &[PathBuf], document: &Document) -> Outcome {
    let list = list(files)?;
    if document.is_wanted() {
        document.put("list", counts(&list));
    } else {
        output::lines(&format!("{}\n", summary(&list)))?;
    }
    Ok(Status::Done)
}

/// Returns the numbers of a list as JSON.
pub(super) fn counts(list: &List) -> Value {
    let keys = list.keys().into_iter().zip(KeyKind::ALL);
    let keys = keys.map(|(count, kind)| (field(kind), Value::from(count)));
    json!({
        "circuits": list.circuits.len(),
        "sites": list.sites.len(),
        "plans": list.plans.len(),
        "keys": Value::Object(keys.inserted()),
    })
}

/// Returns the name of the JSON field for keys of a kind.
pub(super) fn field(kind: KeyKind) -> String {
    kind.name().to_lowercase().replace(' ', "_")
}

/// Returns the number of circuits, keys and sites of a list as text.
pub(super) fn summary(list: &List) -> String {
    let counts = list.keys().into_iter().zip(KeyKind::ALL.map(KeyKind::name));
    let of: Vec<String> = counts
        .filter(|(count, name)| *count > 0 || *name == KeyKind::Address.name())
        .map(|(count, name)| {
            let one = name.strip_suffix("es").or(name.strip_suffix('s'));
            format!("{count} {}", one.filter(|_| count == 1).unwrap_or(name))
        })
        .collect();
    format!(
        "{} with {}, below {}",
        output::count(list.circuits.len(), "circuit"),
        of.join(", "),
        output::count(list.sites.len(), "site")
    )
}

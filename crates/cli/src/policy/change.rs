// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate confirm`, `rollback`, `history`, `boot`, and the guard process: what follows a change.

use crate::policy::apply::{Printed, make, refused, site, take_away, unread};
use serde_json::{Value, json};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_console::time::calendar;
use weirgate_keep::{Entry, Head, KeepError, Meters, Request, Site, serve_guard};
use weirgate_state::DeviceName;

/// `weirgate confirm`.
pub fn confirm(state: &Path, document: &Document) -> Outcome {
    in_runtime(async {
        let number = site(state)?.confirm().await.map_err(refused)?;
        document.put("state", number.into());
        document.note(&format!("state {number} is confirmed"));
        Ok(Status::Done)
    })
}

/// `weirgate rollback --waiting`: undoes the change that waits for confirmation, and nothing else.
pub fn take_back(state: &Path, document: &Document) -> Outcome {
    in_runtime(async {
        let taken = site(state)?.take_back().await.map_err(refused)?;
        document.put("taken_back", taken.into());
        match taken {
            Some(taken) => document.note(&format!("state {taken} is taken back")),
            None => document.note("nothing waits for confirmation"),
        }
        Ok(Status::Done)
    })
}

/// `weirgate rollback`: undoes the change that waits for confirmation. Otherwise returns to the
/// state with this number, or to the previous one.
pub fn rollback(
    state: &Path,
    number: Option<u64>,
    confirm: Option<Duration>,
    document: &Document,
) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let taken = site.take_back().await.map_err(refused)?;
        document.put("taken_back", taken.into());
        if let Some(taken) = taken {
            document.note(&format!("state {taken} is taken back"));
            if number.is_none() {
                return Ok(Status::Done);
            }
        }
        let _later = output::later();
        let lock = site.lock().await.map_err(refused)?;
        let head = site.head().map_err(refused)?;
        let earlier = match number {
            Some(number) => Some(number),
            None => site.history.earlier(&head).map_err(refused)?,
        };
        let Some(number) = earlier else {
            let text = "there is no earlier state; `weirgate history` lists the stored ones";
            return Err(refused(KeepError::Nothing(text.to_owned())));
        };
        let entry = site.history.entry(number).map_err(refused)?;
        if entry.is_removal() && confirm.is_some() {
            let text = format!(
                "state {number} is a removal, which needs no confirmation: leave out `--confirm`"
            );
            return Err(refused(KeepError::Nothing(text)));
        }
        let links = site.plan_links_of(&entry).await.map_err(refused)?;
        if entry.is_removal() {
            return take_away(&site, &lock, links, document).await;
        }
        let planned = site.plan(&entry.desired, false).await.map_err(refused)?;
        let request = Request {
            sources: entry.sources,
            from: Some(number),
            confirm,
            links,
        };
        make(&site, &lock, planned, request, Printed::of(document)).await
    })
}

/// `weirgate history`.
pub fn history(state: &Path, json: bool) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let head = site.head().map_err(unread)?;
        let numbers = site.history.numbers().map_err(unread)?;
        let mut entries = Vec::new();
        let mut status = damages(&site).map_err(unread)?;
        for number in numbers {
            match site.history.entry(number) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    output::note(&format!("weirgate: {error}"));
                    status = Status::Differs;
                }
            }
        }
        if json {
            let all: Vec<Value> = entries.iter().map(|entry| document(entry, &head)).collect();
            output::data(&format!("{:#}", Value::from(all)))?;
        } else if entries.is_empty() && status == Status::Done {
            output::data("nothing was applied")?;
        } else {
            for entry in &entries {
                output::data(&line(entry, &head))?;
            }
        }
        Ok(status)
    })
}

/// Returns the outcome of an entry as text.
fn fate(entry: &Entry, head: &Head) -> String {
    use weirgate_keep::Outcome as Ended;
    let pending = head.pending.as_ref().map(|pending| pending.number);
    match head.outcomes.get(&entry.number) {
        _ if head.confirmed == Some(entry.number) => "in force".to_owned(),
        _ if pending == Some(entry.number) => "not confirmed".to_owned(),
        Some(Ended::Confirmed) if entry.is_removal() => "everything was removed".to_owned(),
        Some(Ended::Confirmed) => "was in force".to_owned(),
        Some(Ended::Returned) => "returned by itself".to_owned(),
        Some(Ended::TakenBack) => "taken back".to_owned(),
        Some(Ended::Failed(why)) => format!("failed: {}", first(why)),
        Some(Ended::Lost(why)) => format!("failed, and the previous state is lost: {}", first(why)),
        None => "never finished".to_owned(),
    }
}

/// Returns the path of the policy file, or nothing for an entry without a policy.
fn source(entry: &Entry) -> &str {
    let own = entry.sources.first();
    own.map_or("", |source| source.path.as_str())
}

/// Returns the path of the file of links, if there is one.
fn links(entry: &Entry) -> Option<&str> {
    entry.links.as_ref().map(|source| source.path.as_str())
}

fn document(entry: &Entry, head: &Head) -> Value {
    json!({
        "state": entry.number,
        "time_unix_s": entry.time,
        "policy": source(entry),
        "links": links(entry),
        "from": entry.from,
        "outcome": fate(entry, head),
    })
}

fn line(entry: &Entry, head: &Head) -> String {
    let from = entry.from.map(|from| format!(" (state {from} again)"));
    let files: Vec<&str> = [
        Some(source(entry)).filter(|path| !path.is_empty()),
        links(entry),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!(
        "{:>4}  {}  {}{}  {}",
        entry.number,
        calendar(entry.time),
        files.join(", "),
        from.unwrap_or_default(),
        fate(entry, head)
    )
}

fn first(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The message for a namespace that cannot be identified after a restart.
const NAMELESS: &str = "this network namespace has no name (`ip netns`): its applied state is \
                        not found after a restart";

/// Warns of damaged files and names their replacements.
pub fn damages(site: &Site) -> Result<Status, KeepError> {
    let mut status = Status::Done;
    for damage in site.history.damages()? {
        output::note(&format!("weirgate: warning: {damage}"));
        if damage.is_grave() {
            status = Status::Differs;
        }
    }
    Ok(status)
}

/// Warns that the stored list of a device was damaged.
pub fn say_mended(device: &DeviceName) {
    output::note(&format!(
        "weirgate: warning: {device}: its stored list of circuits was damaged: what is sound of \
         it and of its copy replaces it, and the damaged file is set aside"
    ));
}

/// `weirgate boot`: applies the confirmed state to the devices that exist.
pub fn boot(state: &Path) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let _later = output::later();
        let lock = site.lock().await.map_err(refused)?;
        let steps = site.restore(&lock).await.map_err(refused)?;
        let what = match site.confirmed().map_err(refused)? {
            Some(entry) => format!("state {} is in force: {steps} steps", entry.number),
            None => "no policy is applied".to_owned(),
        };
        output::note(&what);
        if !site.folders.outlive_the_kernel() {
            output::note(NAMELESS);
        }
        let mut status = damages(&site).map_err(refused)?;
        for held in site
            .hold_circuits(&mut Meters::default(), None)
            .await
            .map_err(refused)?
        {
            let device = held.device;
            match held.outcome {
                Ok(done) => {
                    if done.mended {
                        say_mended(&device);
                    }
                    output::note(&format!(
                        "{device}: its circuits are in force: {} added",
                        output::count(done.change.added, "node")
                    ));
                }
                Err(error) => {
                    output::note(&format!("weirgate: {device}: {error}"));
                    status = Status::Differs;
                }
            }
        }
        Ok(status)
    })
}

/// Runs the guard process. Its standard input is the socket to its parent.
pub fn guard() -> Outcome {
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    in_runtime(async {
        serve_guard(input).await.map_err(refused)?;
        Ok(Status::Done)
    })
}

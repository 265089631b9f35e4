// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain plan` and `apply`: each router's policy and circuits, on all of them or
//! on none.
//!
//! Each part gets what it is to have under a guard of its own: it returns by itself
//! unless it is confirmed, and it is confirmed only when all have theirs. A router
//! that is cut off by the change thus returns without being reached. Where one
//! refuses, or one of the confirmations fails, all others are ordered to return.

use crate::part::{Part, Parts, routers};
use crate::ssh::{Answer, PATIENCE, Ssh};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_domain::Domain;
use weirgate_units::{Inserted as _, PeerText};

/// Says what would change on each router.
pub fn plan(domain: &Domain, parts: &Parts, ssh: &Ssh) -> Outcome {
    let answers = ssh.ask_all(domain, &["plan", "-"], parts, PATIENCE);
    let mut status = Status::Done;
    let mut wrong = Vec::new();
    for (part, answer) in &answers {
        output::data(&format!("router {part}"))?;
        match answer.status {
            Some(0) if !part.is_circuits => output::data("  nothing to change")?,
            Some(0 | 1) if !answer.out.is_blank() => {
                if answer.status == Some(1) {
                    status = Status::Differs;
                }
                let steps = answer.steps().map(|step| format!("  {step}"));
                output::data(&steps.collect::<Vec<_>>().join("\n"))?;
            }
            _ => wrong.push(format!("weirgate: {part}: {}", answer.why())),
        }
    }
    if wrong.is_empty() {
        Ok(status)
    } else {
        Err(Failure::Other(anyhow::Error::msg(
            wrong.join("\n").trim_start_matches("weirgate: ").to_owned(),
        )))
    }
}

/// Writes what each router is to have into a folder, for other means of carrying it
/// there. What is left there of a router that the domain no longer has is named,
/// not deleted.
pub fn write(parts: &Parts, folder: &Path) -> Outcome {
    fs::create_dir_all(folder)?;
    let mut written = Vec::new();
    for (part, text) in parts {
        let end = if part.is_circuits { CIRCUITS } else { POLICY };
        let path = folder.join(format!("{}.{end}", part.router));
        fs::write(&path, text)?;
        written.push(path);
    }
    let lists = parts.keys().filter(|part| part.is_circuits).count();
    if lists < parts.len() {
        output::text(&format!(
            "{} policies in {}; each is for `weirgate apply` on its router",
            parts.len() - lists,
            folder.display()
        ))?;
    }
    if lists > 0 {
        output::text(&format!(
            "{lists} lists in {}; each is what `weirgate circuits apply - --confirm 60s` reads on \
             its router",
            folder.display()
        ))?;
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_ours = path
            .extension()
            .is_some_and(|end| end == POLICY || end == CIRCUITS);
        let name = path.file_stem().map(|name| name.to_string_lossy());
        if let Some(name) = name.filter(|_| is_ours && !written.contains(&path)) {
            output::note(&format!(
                "{}: the domain has no router `{name}` with that",
                path.display()
            ));
        }
    }
    Ok(Status::Done)
}

/// How names of files end that [`write`] makes.
const POLICY: &str = "toml";
const CIRCUITS: &str = "circuits";

/// Applies everything; all routers return where one fails.
pub fn apply(domain: &Domain, parts: &Parts, ssh: &Ssh, confirm: Duration, adopt: bool) -> Outcome {
    let guard = format!("{}s", confirm.as_secs().max(1));
    let mut words = vec!["apply", "-", "--confirm", &guard];
    if adopt {
        words.push("--adopt");
    }
    // Whoever has its policy returns after `confirm`: half of that for each step
    // leaves time to tell it what became of the others.
    let patience = confirm / 2;
    let answers = ssh.ask_all(domain, &words, parts, patience);
    let (done, failed): (BTreeMap<_, _>, BTreeMap<_, _>) =
        answers.into_iter().partition(|(_, answer)| answer.done());
    if !failed.is_empty() {
        report(&failed, "not applied");
        let done: Vec<Part> = done.into_keys().collect();
        let others = Others {
            waiting: &done,
            unsure: &[],
        };
        let ended = returned(domain, ssh, &[], &others, routers(failed.keys()), confirm);
        // One of them says that it lost the state before.
        let lost = failed.values().any(|answer| answer.status == Some(4));
        return Err(match ended {
            Failure::Refused(text) if lost => Failure::Broken(text),
            other => other,
        });
    }
    for (part, answer) in &done {
        let told =
            |line: &PeerText| line.contains("steps done") || line.contains("entries written");
        let mut lines: Vec<PeerText> = answer.err.lines().filter(told).collect();
        if lines.is_empty() {
            lines.push(PeerText::new("applied"));
        }
        for line in lines {
            output::note(&format!("{part}: {line}"));
        }
    }
    let done: Vec<Part> = done.into_keys().collect();
    let answers = ssh.ask_all(domain, &["confirm"], &empty(&done), patience);
    let (kept, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
        answers.into_iter().partition(|(_, answer)| answer.done());
    if !lost.is_empty() {
        report(&lost, "not confirmed");
        let kept: Vec<Part> = kept.into_keys().collect();
        let failed = routers(lost.keys());
        let (reached, unsure): (BTreeMap<_, _>, BTreeMap<_, _>) = lost
            .into_iter()
            .partition(|(_, answer)| answer.status.is_some());
        let reached: Vec<Part> = reached.into_keys().collect();
        let unsure: Vec<Part> = unsure.into_keys().collect();
        let others = Others {
            waiting: &reached,
            unsure: &unsure,
        };
        return Err(returned(domain, ssh, &kept, &others, failed, confirm));
    }
    for (is_circuits, what) in [
        (false, "policies, read back and confirmed"),
        (true, "circuits, kept and confirmed"),
    ] {
        let count = kept.keys().filter(|part| part.is_circuits == is_circuits);
        let count = count.count();
        if count > 0 {
            output::note(&format!("{count} routers have their {what}"));
        }
    }
    Ok(Status::Done)
}

/// Nothing to read for each.
fn empty(parts: &[Part]) -> Parts {
    let parts = parts.iter().map(|part| (part.clone(), String::new()));
    parts.inserted()
}

fn report(answers: &BTreeMap<Part, Answer>, what: &str) {
    for (part, answer) in answers {
        output::note(&format!("weirgate: {part}: {what}: {}", answer.why()));
    }
}

/// Parts that have not reported that they confirmed.
struct Others<'a> {
    /// Those that wait for it, or have returned.
    waiting: &'a [Part],
    /// Those of which it is not known whether a confirmation came through.
    unsure: &'a [Part],
}

/// Makes routers return, and says how that ended: those that have confirmed to
/// the state before, all others from what waits for confirmation there, if it
/// still does.
fn returned(
    domain: &Domain,
    ssh: &Ssh,
    confirmed: &[Part],
    others: &Others<'_>,
    failed: usize,
    confirm: Duration,
) -> Failure {
    let mut stuck = Vec::new();
    for (part, answer) in ssh.ask_all(domain, &["rollback"], &empty(confirmed), PATIENCE) {
        // A first state has none before it: it is taken away.
        let first = !answer.done() && answer.err.contains("no earlier state");
        let host = crate::ssh::host(domain, &part.router);
        let back = answer.done() || (first && ssh.ask(host, &["remove"], "", PATIENCE).done());
        if !back {
            stuck.push(format!(
                "{part}: what it has is new, and confirmed: {}",
                answer.why()
            ));
        }
    }
    let all: Vec<Part> = others
        .waiting
        .iter()
        .chain(others.unsure)
        .cloned()
        .collect();
    for (part, answer) in ssh.ask_all(domain, &["rollback", "--waiting"], &empty(&all), PATIENCE) {
        let unsure = others.unsure.contains(&part) && !answer.err.contains("is taken back");
        if !answer.done() || unsure {
            stuck.push(format!(
                "{part}: it returns by itself within {} s, unless the confirmation came through, \
                 which `{}` there tells: {}",
                confirm.as_secs(),
                part.told_by(),
                answer.why()
            ));
        }
    }
    let failed = match failed {
        1 => "1 router failed".to_owned(),
        many => format!("{many} routers failed"),
    };
    if stuck.is_empty() {
        return Failure::Refused(format!(
            "{failed}; all others are as they were before: {} returned",
            routers(confirmed.iter().chain(&all))
        ));
    }
    Failure::Broken(format!(
        "{failed}; these could not be told to return:\nweirgate: {}",
        stuck.join("\nweirgate: ")
    ))
}

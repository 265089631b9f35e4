// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain plan` and `apply`: each router's policy, on all of them or
//! on none.
//!
//! Each router gets its policy under a guard of its own: it returns by itself
//! unless it is confirmed, and it is confirmed only when all have it. A router
//! that is cut off by the change thus returns without being reached. Where one
//! refuses, or one of the confirmations fails, all others are ordered to return.

use crate::ssh::{Answer, PATIENCE, Ssh};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_domain::Domain;
use weirgate_units::{Inserted as _, PeerText};

/// Texts by the names of routers.
pub type Texts = BTreeMap<String, String>;

/// Says what would change on each router.
pub fn plan(domain: &Domain, texts: &Texts, ssh: &Ssh) -> Outcome {
    let answers = ssh.ask_all(domain, &["plan", "-"], texts, PATIENCE);
    let mut status = Status::Done;
    let mut wrong = Vec::new();
    for (name, answer) in &answers {
        output::data(&format!("router {name}"))?;
        match answer.status {
            Some(0) => output::data("  nothing to change")?,
            Some(1) if !answer.out.is_blank() => {
                status = Status::Differs;
                let steps = answer.steps().map(|step| format!("  {step}"));
                output::data(&steps.collect::<Vec<_>>().join("\n"))?;
            }
            _ => wrong.push(format!("weirgate: {name}: {}", answer.why())),
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

/// Writes each router's policy into a folder, for other means of carrying it
/// there. What is left there of a router that the domain no longer has is named,
/// not deleted.
pub fn write(texts: &Texts, folder: &Path) -> Outcome {
    fs::create_dir_all(folder)?;
    for (name, text) in texts {
        fs::write(folder.join(format!("{name}.toml")), text)?;
    }
    output::text(&format!(
        "{} policies in {}; each is for `weirgate apply` on its router",
        texts.len(),
        folder.display()
    ))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let policy = path.extension().is_some_and(|end| end == "toml");
        let name = path.file_stem().map(|name| name.to_string_lossy());
        if let Some(name) = name.filter(|name| policy && !texts.contains_key(&**name)) {
            output::note(&format!(
                "{}: the domain has no router `{name}`",
                path.display()
            ));
        }
    }
    Ok(Status::Done)
}

/// Applies every router's policy; all of them return where one fails.
pub fn apply(domain: &Domain, texts: &Texts, ssh: &Ssh, confirm: Duration, adopt: bool) -> Outcome {
    let guard = format!("{}s", confirm.as_secs().max(1));
    let mut words = vec!["apply", "-", "--confirm", &guard];
    if adopt {
        words.push("--adopt");
    }
    // Whoever has its policy returns after `confirm`: half of that for each step
    // leaves time to tell it what became of the others.
    let patience = confirm / 2;
    let answers = ssh.ask_all(domain, &words, texts, patience);
    let (done, failed): (BTreeMap<_, _>, BTreeMap<_, _>) =
        answers.into_iter().partition(|(_, answer)| answer.done());
    if !failed.is_empty() {
        report(&failed, "not applied");
        let done: Vec<String> = done.into_keys().collect();
        let others = Others {
            waiting: &done,
            unsure: &[],
        };
        let ended = returned(domain, ssh, &[], &others, failed.len(), confirm);
        // One of them says that it lost the state before.
        let lost = failed.values().any(|answer| answer.status == Some(4));
        return Err(match ended {
            Failure::Refused(text) if lost => Failure::Broken(text),
            other => other,
        });
    }
    for (name, answer) in &done {
        let steps = answer.err.lines().find(|line| line.contains("steps done"));
        let steps = steps.unwrap_or_else(|| PeerText::new("applied"));
        output::note(&format!("{name}: {steps}"));
    }
    let empty = |names: &mut dyn Iterator<Item = String>| -> Texts {
        names.map(|name| (name, String::new())).inserted()
    };
    let all = empty(&mut done.into_keys());
    let answers = ssh.ask_all(domain, &["confirm"], &all, patience);
    let (kept, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
        answers.into_iter().partition(|(_, answer)| answer.done());
    if !lost.is_empty() {
        report(&lost, "not confirmed");
        let kept: Vec<String> = kept.into_keys().collect();
        let failed = lost.len();
        let (reached, unsure): (BTreeMap<_, _>, BTreeMap<_, _>) = lost
            .into_iter()
            .partition(|(_, answer)| answer.status.is_some());
        let reached: Vec<String> = reached.into_keys().collect();
        let unsure: Vec<String> = unsure.into_keys().collect();
        let others = Others {
            waiting: &reached,
            unsure: &unsure,
        };
        return Err(returned(domain, ssh, &kept, &others, failed, confirm));
    }
    output::note(&format!(
        "{} routers have their policies, read back and confirmed",
        kept.len()
    ));
    Ok(Status::Done)
}

fn report(answers: &BTreeMap<String, Answer>, what: &str) {
    for (name, answer) in answers {
        output::note(&format!("weirgate: {name}: {what}: {}", answer.why()));
    }
}

/// Routers that have not reported that they confirmed.
struct Others<'a> {
    /// Those that wait for it, or have returned.
    waiting: &'a [String],
    /// Those of which it is not known whether a confirmation came through.
    unsure: &'a [String],
}

/// Makes routers return, and says how that ended: those that have confirmed to
/// the state before, all others from what waits for confirmation there, if it
/// still does.
fn returned(
    domain: &Domain,
    ssh: &Ssh,
    confirmed: &[String],
    others: &Others<'_>,
    failed: usize,
    confirm: Duration,
) -> Failure {
    let empty = |names: &[String]| -> Texts {
        let names = names.iter().map(|name| (name.clone(), String::new()));
        names.inserted()
    };
    let mut stuck = Vec::new();
    for (name, answer) in ssh.ask_all(domain, &["rollback"], &empty(confirmed), PATIENCE) {
        // A first state has none before it: it is taken away.
        let first = !answer.done() && answer.err.contains("no earlier state");
        let host = crate::ssh::host(domain, &name);
        let back = answer.done() || (first && ssh.ask(host, &["remove"], "", PATIENCE).done());
        if !back {
            stuck.push(format!(
                "{name}: it has its new policy, confirmed: {}",
                answer.why()
            ));
        }
    }
    let all: Vec<String> = others
        .waiting
        .iter()
        .chain(others.unsure)
        .cloned()
        .collect();
    for (name, answer) in ssh.ask_all(domain, &["rollback", "--waiting"], &empty(&all), PATIENCE) {
        let unsure = others.unsure.contains(&name) && !answer.err.contains("is taken back");
        if !answer.done() || unsure {
            stuck.push(format!(
                "{name}: it returns by itself within {} s, unless the confirmation came through, \
                 which `weirgate history` there tells: {}",
                confirm.as_secs(),
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
            confirmed.len() + all.len()
        ));
    }
    Failure::Broken(format!(
        "{failed}; these could not be told to return:\nweirgate: {}",
        stuck.join("\nweirgate: ")
    ))
}

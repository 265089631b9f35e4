// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain plan` and `apply`: each router's policy and circuits, on all routers or on
//! none.
//!
//! Each part is applied under a guard of its own, which undoes it unless it is confirmed. It is
//! confirmed only when all parts are applied. So a router that the change cuts off returns to its
//! former state without being reached. If a router refuses, or a confirmation fails, all others are
//! told to roll back.

use crate::json::add;
use crate::part::{Part, Parts, has_none, routers};
use crate::ssh::{Answer, PATIENCE, Ssh};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use weirgate_circuits::kept::Ports;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_domain::Domain;
use weirgate_units::{Inserted as _, PeerText};

/// Prints what would change on each router.
pub fn plan(domain: &Domain, parts: &Parts, ssh: &Ssh, document: &Document) -> Outcome {
    let say = |text: &str| {
        if document.is_wanted() {
            return Ok(());
        }
        output::data(text)
    };
    document.put("steps", Vec::<Value>::new().into());
    let answers = ssh.ask_all(domain, &["plan", "-"], parts, PATIENCE);
    let mut status = Status::Done;
    let mut wrong = Vec::new();
    for (part, answer) in &answers {
        if parts.get(part).is_some_and(|text| has_none(text, answer)) {
            continue;
        }
        say(&format!("router {part}"))?;
        match answer.status {
            Some(0) if !part.is_circuits => say("  nothing to change")?,
            Some(0 | 1) if !answer.out.is_blank() => {
                let differs = answer.status == Some(1);
                if differs {
                    status = Status::Differs;
                }
                for step in answer.steps() {
                    if differs {
                        add(document, "steps", part, "text", step.to_string().into());
                    }
                    say(&format!("  {step}"))?;
                }
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

/// Writes the file for each router into a folder, to be copied by other means. Files there of
/// routers that the domain no longer has are named, and not deleted.
pub fn write(parts: &Parts, folder: &Path, document: &Document) -> Outcome {
    fs::create_dir_all(folder)?;
    let mut written = Vec::new();
    let (none, files): (Vec<_>, Vec<_>) = parts.iter().partition(|(_, text)| *text == Ports::NONE);
    for (part, text) in &files {
        let end = if part.is_circuits { CIRCUITS } else { POLICY };
        let path = folder.join(format!("{}.{end}", part.router));
        fs::write(&path, text)?;
        let name = path.display().to_string();
        add(document, "files", part, "file", name.into());
        written.push(path);
    }
    let lists = files.iter().filter(|(part, _)| part.is_circuits).count();
    let is_text = !document.is_wanted();
    if is_text && lists < files.len() {
        output::text(&format!(
            "{} in {}; each is for `weirgate apply` on its router",
            match files.len() - lists {
                1 => "1 policy".to_owned(),
                several => format!("{several} policies"),
            },
            folder.display()
        ))?;
    }
    if is_text && lists > 0 {
        output::text(&format!(
            "{} in {}; each is what `weirgate circuits apply - --confirm 60s` reads on \
             its router",
            output::count(lists, "list"),
            folder.display()
        ))?;
    }
    let none: Vec<&str> = none.iter().map(|(part, _)| &*part.router).collect();
    if lists > 0 && !none.is_empty() {
        output::note(&format!(
            "these should have no circuits, and get no file: {}; `weirgate circuits status` there \
             says whether they have some",
            none.join(", ")
        ));
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

/// The suffixes of the files that [`write`] creates.
const POLICY: &str = "toml";
const CIRCUITS: &str = "circuits";

/// Applies everything; if one router fails, all roll back.
pub fn apply(
    domain: &Domain,
    parts: &Parts,
    ssh: &Ssh,
    (confirm, adopt): (Duration, bool),
    document: &Document,
) -> Outcome {
    let guard = format!("{}s", confirm.as_secs().max(1));
    let mut words = vec!["apply", "-", "--confirm", &guard];
    if adopt {
        words.push("--adopt");
    }
    // A router that has applied returns after `confirm`. Half of that time for each step leaves
    // time to tell it the result of the others.
    let patience = confirm / 2;
    let parts = &to_be_done(domain, parts, ssh, patience, document)?;
    let answers = ssh.ask_all(domain, &words, parts, patience);
    let (done, failed): (BTreeMap<_, _>, BTreeMap<_, _>) =
        answers.into_iter().partition(|(_, answer)| answer.done());
    if !failed.is_empty() {
        report(&failed, "not applied", document);
        let done: Vec<Part> = done.into_keys().collect();
        let others = Others {
            waiting: &done,
            unsure: &[],
        };
        let ended = returned(domain, ssh, &[], &others, routers(failed.keys()), confirm);
        // A router reports that it lost its former state.
        let lost = failed.values().any(|answer| answer.status == Some(4));
        return Err(match ended {
            Failure::Refused(text) if lost => Failure::Broken(text),
            other => other,
        });
    }
    for (part, answer) in &done {
        let told = |line: &PeerText| TOLD.iter().any(|what| line.contains(what));
        let mut lines: Vec<PeerText> = answer.err.lines().filter(told).collect();
        if lines.is_empty() {
            lines.push(PeerText::new("applied"));
        }
        let told = lines.iter().map(ToString::to_string);
        add(document, "applied", part, "told", told.collect());
        for line in lines {
            document.note(&format!("{part}: {line}"));
        }
    }
    let done: Vec<Part> = done.into_keys().collect();
    let answers = ssh.ask_all(domain, &["confirm"], &empty(&done), patience);
    let (kept, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
        answers.into_iter().partition(|(_, answer)| answer.done());
    if !lost.is_empty() {
        report(&lost, "not confirmed", document);
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
    let is_none = |part: &Part| parts.get(part).is_some_and(|text| text == Ports::NONE);
    for (is_circuits, none, what) in [
        (false, false, "their policies, read back and confirmed"),
        (true, false, "their circuits, kept and confirmed"),
        (true, true, "no circuits any more, confirmed"),
    ] {
        let own = |part: &&Part| part.is_circuits == is_circuits && is_none(part) == none;
        let count = kept.keys().filter(own).count();
        if count > 0 {
            let have = if count == 1 {
                "router has"
            } else {
                "routers have"
            };
            document.note(&format!("{count} {have} {what}"));
        }
    }
    Ok(Status::Done)
}

/// The parts of a router's messages that are shown on success.
const TOLD: [&str; 3] = ["steps done", "entries written", "is taken away"];

/// Returns all parts, except those of routers that should have no circuits and have none.
fn to_be_done(
    domain: &Domain,
    parts: &Parts,
    ssh: &Ssh,
    patience: Duration,
    document: &Document,
) -> Result<Parts, Failure> {
    let (mut left, mut asked) = (Parts::new(), Parts::new());
    for (part, text) in parts {
        let is_none = text == Ports::NONE;
        let to = if is_none { &mut asked } else { &mut left };
        to.insert(part.clone(), text.clone());
    }
    let mut answers = ssh.ask_all(domain, &["plan", "-"], &asked, patience);
    answers.retain(|part, answer| {
        let differs = answer.status == Some(1) && !answer.out.is_blank();
        if differs {
            left.insert(part.clone(), Ports::NONE.to_owned());
        }
        !differs && !has_none(Ports::NONE, answer)
    });
    if answers.is_empty() {
        return Ok(left);
    }
    report(&answers, "whether it has circuits is not known", document);
    let failed = output::count(routers(answers.keys()), "router");
    Err(Failure::Refused(format!(
        "{failed} failed; nothing was changed on any"
    )))
}

/// Returns an empty input for each part.
fn empty(parts: &[Part]) -> Parts {
    let parts = parts.iter().map(|part| (part.clone(), String::new()));
    parts.inserted()
}

fn report(answers: &BTreeMap<Part, Answer>, what: &str, document: &Document) {
    for (part, answer) in answers {
        let why = format!("{what}: {}", answer.why());
        add(document, "failed", part, "why", why.into());
        document.note(&format!("weirgate: {part}: {what}: {}", answer.why()));
    }
}

/// Parts that have not reported a confirmation.
struct Others<'a> {
    /// Parts that wait for confirmation, or have returned.
    waiting: &'a [Part],
    /// Parts that may have received the confirmation.
    unsure: &'a [Part],
}

/// Rolls routers back, and returns the error that describes the result. Confirmed routers return to
/// their former state; all others undo the change that waits for confirmation, if it still does.
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
        // A first state has no former one, so it is removed.
        let first = !answer.done() && answer.err.contains("no earlier state");
        let host = crate::ssh::host(domain, &part.router);
        let back = answer.done() || (first && ssh.ask(host, &["remove"], "", PATIENCE).done());
        if !back {
            stuck.push(format!(
                "{part}: the new state stays in force, and is confirmed: {}",
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
                "{part}: it returns by itself within {} s, unless the confirmation arrived; run \
                 `{}` there to see: {}",
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
        "{failed}; rolling back failed on these:\nweirgate: {}",
        stuck.join("\nweirgate: ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = r#"
version = 1
[class.rest]
behaviour = "DF"
share = "25%"
[router.small]
role = "boundary"
[router.free]
role = "boundary"
[router.former]
role = "boundary"
[customer.alfa]
router = "small"
device = "alfa"
rate = "10mbit"
"#;

    /// Returns what is left to do on these three, of which the last one gives this answer.
    fn left(former: &str) -> Result<Vec<String>, Failure> {
        let (domain, problems) = weirgate_domain::parse(DOMAIN);
        assert!(problems.is_empty(), "{problems:?}");
        let script = format!(
            r#"cat >/dev/null; case "$0" in
                small) echo "error: unrecognized subcommand 'circuits'" >&2; exit 2 ;;
                free) exit 0 ;;
                former) {former} ;;
            esac"#
        );
        let part = |router: &str, is_circuits| Part {
            router: router.to_owned(),
            is_circuits,
        };
        let mut parts = Parts::from([(part("small", false), "a policy".to_owned())]);
        for router in ["small", "free", "former"] {
            parts.insert(part(router, true), Ports::NONE.to_owned());
        }
        let ssh = Ssh::script(&script);
        let none = Document::none();
        let left = to_be_done(&domain.unwrap(), &parts, &ssh, PATIENCE, &none)?;
        Ok(left.keys().map(ToString::to_string).collect())
    }

    #[test]
    fn routers_without_circuits_have_nothing_to_lose() {
        let has = "echo 'access0: its list is taken away'; exit 1";
        assert_eq!(left(has).ok().unwrap(), ["former (circuits)", "small"]);
        assert_eq!(left("exit 0").ok().unwrap(), ["small"]);
        // An unknown part must not count as one without circuits.
        for unknown in ["exit 255", "echo 'no list' >&2; exit 2", "exit 1"] {
            let Err(Failure::Refused(why)) = left(unknown) else {
                panic!("{unknown}");
            };
            assert_eq!(why, "1 router failed; nothing was changed on any");
        }
    }
}

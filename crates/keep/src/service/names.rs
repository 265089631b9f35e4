// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DNS names of groups. The system's resolver looks them up, a file stores them across restarts,
//! and sets of the applied tables get their addresses. `followed` fills the sets of objects that
//! the kernel numbers itself.
//!
//! getaddrinfo(3) is asked, so that names mean here what they mean to every
//! other program of the machine (nsswitch.conf, hosts, a resolver's cache). It
//! tells no time to live; how often it is asked is the policy's `refresh`.
//! What cannot be looked up keeps the addresses that were found last.

use crate::clock::{self, Timer};
use crate::error::KeepError;
use crate::service::followed;
use crate::store::folder::{Folders, Lock};
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use weirgate_state::{Content, IpVersion, Key, Set, State};
use weirgate_units::Inserted as _;

const SECOND: u64 = 1_000_000_000;
/// So long after a failure it is tried again; the least that `refresh` may be.
const AGAIN: u64 = 30;
/// The longest that the service waits for all answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// Names that are asked for at once: each needs a thread.
const AT_ONCE: usize = 16;

/// What was found of each name, or why nothing.
pub(crate) type Answers = BTreeMap<String, Result<BTreeSet<IpAddr>, String>>;

/// The addresses that were found last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names(BTreeMap<String, BTreeSet<IpAddr>>);

impl Names {
    fn file(folders: &Folders) -> PathBuf {
        folders.state.join("names.json")
    }

    /// What is remembered. A damaged file is as none: all of it can be found
    /// again.
    pub(crate) fn read(folders: &Folders) -> Self {
        let read = sealed::read(&Self::file(folders), "it is written again");
        read.ok().flatten().unwrap_or_default()
    }

    /// Takes the answers, forgets names that nobody asked for, and writes what
    /// has changed.
    pub(crate) fn learn(
        &mut self,
        folders: &Folders,
        _lock: &Lock,
        answers: &Answers,
    ) -> Result<(), KeepError> {
        let before = self.clone();
        self.0.retain(|name, _| answers.contains_key(name));
        for (name, answer) in answers {
            if let Ok(found) = answer {
                self.0.insert(name.clone(), found.clone());
            }
        }
        if *self == before {
            return Ok(());
        }
        crate::store::folder::folder(&folders.state)?;
        sealed::write(&Self::file(folders), self)
    }

    /// The state with the known addresses in its sets.
    pub(crate) fn fill(&self, state: &State) -> State {
        let mut state = state.clone();
        // Lists without names stay shared with whoever else has them.
        let named = |set: &Set| matches!(set.content, Content::Refreshed(_));
        let tables = state.tables.iter_mut();
        let tables = tables.filter(|table| table.sets.iter().any(named));
        for set in tables.flat_map(|table| &mut table.sets) {
            let found = self.of(set);
            if let Content::Refreshed(refreshed) = &mut set.content {
                refreshed.found = found.into_iter().inserted();
            }
        }
        state
    }

    /// What a set should have, in order.
    pub(crate) fn of(&self, set: &Set) -> BTreeSet<u128> {
        let Content::Refreshed(refreshed) = &set.content else {
            return BTreeSet::new();
        };
        if set.key.followed().is_some() {
            return followed::numbers(set.key, &refreshed.names);
        }
        let known = refreshed.names.iter().filter_map(|name| self.0.get(name));
        known
            .flatten()
            .filter_map(|address| match (address, set.key) {
                (IpAddr::V4(v4), Key::Address(IpVersion::V4)) => Some(u32::from(*v4).into()),
                (IpAddr::V6(v6), Key::Address(IpVersion::V6)) => Some(u128::from(*v6)),
                _ => None,
            })
            .inserted()
    }
}

/// The names of a state, and how often the most wanted is looked up, in
/// seconds.
pub(crate) fn wanted(state: &State) -> (BTreeSet<String>, u32) {
    let mut names = BTreeSet::new();
    let mut every = u32::MAX;
    for (_, set) in state
        .refreshed_sets()
        .filter(|(_, set)| set.key.followed().is_none())
    {
        if let Content::Refreshed(refreshed) = &set.content {
            names.extend(refreshed.names.iter().cloned());
            every = every.min(refreshed.every);
        }
    }
    (names, every)
}

/// Looks names up. What is not answered in time has failed; its thread ends
/// with the resolver's own patience (resolv.conf(5), `timeout`).
pub(crate) async fn look_up(names: BTreeSet<String>, patience: Duration) -> Answers {
    let late = || Err(format!("no answer within {} s", patience.as_secs()));
    let mut answers: Answers = names.iter().map(|name| (name.clone(), late())).inserted();
    let mut waiting: Vec<String> = names.into_iter().collect();
    let mut asked = JoinSet::new();
    let work = async {
        while !waiting.is_empty() || !asked.is_empty() {
            while asked.len() < AT_ONCE
                && let Some(name) = waiting.pop()
            {
                asked.spawn_blocking(move || {
                    let found = (name.as_str(), 0).to_socket_addrs();
                    let found = found.map(|all| all.map(|one| one.ip()).inserted());
                    (name, found.map_err(|error| error.to_string()))
                });
            }
            if let Some(Ok((name, found))) = asked.join_next().await {
                answers.insert(name, found);
            }
        }
    };
    // Its answers so far count, however it ends.
    let _ = tokio::time::timeout(patience, work).await;
    answers
}

/// The service's look-ups: one at a time, beside everything else.
pub(crate) struct Lookups {
    timer: Timer,
    task: Option<JoinHandle<Answers>>,
    names: BTreeSet<String>,
    every: u32,
}

impl Lookups {
    pub(crate) fn new() -> Result<Self, KeepError> {
        Ok(Self {
            timer: Timer::new()?,
            task: None,
            names: BTreeSet::new(),
            every: u32::MAX,
        })
    }

    /// What is to be looked up from now on: at once, where it is new.
    pub(crate) fn want(&mut self, state: Option<&State>) -> Result<(), KeepError> {
        let (names, every) = state.map(wanted).unwrap_or_default();
        if (&names, every) == (&self.names, self.every) {
            return Ok(());
        }
        (self.names, self.every) = (names, every);
        // Answers to what was asked before are of no use.
        self.task = None;
        if self.names.is_empty() {
            self.timer.stop()
        } else {
            self.timer.set(clock::now())
        }
    }

    /// The next answers; never where there is nothing to look up. May be
    /// dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Answers, KeepError> {
        loop {
            if let Some(task) = &mut self.task {
                let answers = task.await.unwrap_or_default();
                self.task = None;
                let failed = answers.is_empty() || answers.values().any(Result::is_err);
                let pause = u64::from(self.every).min(if failed { AGAIN } else { u64::MAX });
                self.timer.set(clock::now() + pause.max(AGAIN) * SECOND)?;
                return Ok(answers);
            }
            self.timer.over().await?;
            self.timer.stop()?;
            self.task = Some(tokio::spawn(look_up(self.names.clone(), PATIENCE)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Origin, Refreshed};

    fn set(version: IpVersion, names: &[&str]) -> Set {
        Set {
            name: "group_one".to_owned(),
            key: Key::Address(version),
            content: Content::Refreshed(Refreshed {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                every: 60,
                found: Vec::new(),
            }),
            origin: Origin::default(),
        }
    }

    fn folders(folder: &std::path::Path) -> Folders {
        Folders {
            run: folder.join("run"),
            state: folder.join("state"),
            boot: String::new(),
        }
    }

    #[test]
    fn what_fails_keeps_what_was_found_last() {
        let folder = tempfile::tempdir().unwrap();
        let folders = folders(folder.path());
        let found = |text: &str| Ok([text.parse().unwrap()].into());
        let mut names = Names::read(&folders);
        let both = [
            ("a.example".to_owned(), found("192.0.2.1")),
            ("b.example".to_owned(), found("2001:db8::1")),
        ];
        let lock = folders.lock().unwrap();
        names.learn(&folders, &lock, &both.into()).unwrap();
        let later = [
            ("a.example".to_owned(), Err("no".to_owned())),
            ("b.example".to_owned(), found("2001:db8::2")),
        ];
        let again = Names::read(&folders).learn(&folders, &lock, &later.into());
        again.unwrap();
        let names = Names::read(&folders);
        let v4 = names.of(&set(
            IpVersion::V4,
            &["a.example", "b.example", "c.example"],
        ));
        assert_eq!(v4, [0xc000_0201].into());
        let v6 = names.of(&set(IpVersion::V6, &["a.example", "b.example"]));
        assert_eq!(v6.len(), 1);
        assert_eq!(v6.first().map(|one| one & 0xff), Some(2));
        std::fs::write(Names::file(&folders), "no").unwrap();
        assert_eq!(Names::read(&folders), Names::default());
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DNS names of groups. The system's resolver looks them up, a file stores the addresses across
//! restarts, and sets of the applied tables get them. Sets of objects that the kernel numbers
//! itself are filled by `followed`.
//!
//! Look-ups use getaddrinfo(3), so that a name means the same as for every other program of the
//! machine (nsswitch.conf, hosts, a resolver's cache). It does not return a time to live, so the
//! policy's `refresh` sets the interval. A name that cannot be looked up keeps the addresses that
//! were found last.

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
/// Seconds until a failed look-up is retried; also the minimum of `refresh`.
const AGAIN: u64 = 30;
/// The longest time that the service waits for all answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many look-ups run at a time: each one occupies a thread.
const AT_ONCE: usize = 16;

/// The addresses of each name, or why it could not be looked up.
pub(crate) type Answers = BTreeMap<String, Result<BTreeSet<IpAddr>, String>>;

/// The addresses that were found last, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names(BTreeMap<String, BTreeSet<IpAddr>>);

impl Names {
    fn file(folders: &Folders) -> PathBuf {
        folders.state.join("names.json")
    }

    /// Reads the stored addresses. A damaged file counts as empty, because every name can be looked
    /// up again.
    pub(crate) fn read(folders: &Folders) -> Self {
        let read = sealed::read(&Self::file(folders), "it is written again");
        read.ok().flatten().unwrap_or_default()
    }

    /// Takes the answers, forgets names that were neither looked up nor are `needed`, and writes
    /// the file if anything has changed.
    pub(crate) fn learn(
        &mut self,
        folders: &Folders,
        _lock: &Lock,
        answers: &Answers,
        needed: impl Fn(&str) -> bool,
    ) -> Result<(), KeepError> {
        let before = self.clone();
        self.0
            .retain(|name, _| answers.contains_key(name) || needed(name));
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

    /// Returns the state with the known addresses in its sets.
    pub(crate) fn fill(&self, state: &State) -> State {
        let mut state = state.clone();
        // Tables without names are not touched, so that their lists stay shared.
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

    /// Returns the elements that a set should have, in order.
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

/// Returns the DNS names of a state and the shortest `refresh` among them, in seconds.
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

/// Looks names up. A name that is not answered within `patience` counts as failed; its thread ends
/// when the resolver's own timeout expires (resolv.conf(5), `timeout`).
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
    // Answers that arrived before the timeout count.
    let _ = tokio::time::timeout(patience, work).await;
    answers
}

/// The look-ups of the service: one batch at a time, in a task of its own.
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

    /// Sets the names to look up. If they differ from the former ones, the look-up begins at once.
    pub(crate) fn want(&mut self, state: Option<&State>) -> Result<(), KeepError> {
        let (names, every) = state.map(wanted).unwrap_or_default();
        if (&names, every) == (&self.names, self.every) {
            return Ok(());
        }
        (self.names, self.every) = (names, every);
        // Drop the running look-up: its answers are for the former names.
        self.task = None;
        if self.names.is_empty() {
            self.timer.stop()
        } else {
            self.timer.set(clock::now())
        }
    }

    /// Waits for the next answers. Never returns if there is nothing to look up. Cancel-safe: it
    /// may be dropped and called again.
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
        let none = |_: &str| false;
        names.learn(&folders, &lock, &both.into(), none).unwrap();
        let later = [
            ("a.example".to_owned(), Err("no".to_owned())),
            ("b.example".to_owned(), found("2001:db8::2")),
        ];
        let again = Names::read(&folders).learn(&folders, &lock, &later.into(), none);
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
        // Names of the state in force stay, whatever else is looked up.
        let other = [("d.example".to_owned(), found("192.0.2.4"))];
        let needed = |name: &str| name == "a.example";
        let mut names = Names::read(&folders);
        let learnt = names.learn(&folders, &lock, &other.into(), needed);
        learnt.unwrap();
        let names = Names::read(&folders);
        assert_eq!(
            names.0.into_keys().collect::<Vec<_>>(),
            ["a.example", "d.example"]
        );
        std::fs::write(Names::file(&folders), "no").unwrap();
        assert_eq!(Names::read(&folders), Names::default());
    }
}

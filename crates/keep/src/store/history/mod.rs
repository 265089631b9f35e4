// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last applied states, and which of them is in force, confirmed, or waiting for confirmation.
//! They are stored where they outlive the kernel.
//!
//! An entry never changes once it is written; `head` has its outcome.

use crate::error::KeepError;
use crate::store::damage::{self, Damage};
use crate::store::folder::{self, Folders, Lock};
use crate::store::head::{Head, MOST_ENTRIES, Outcome};
use crate::store::sealed::{self, Sum};
use crate::store::table_text::{Unread, Written};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use weirgate_state::State;
use weirgate_units::Arrange as _;

/// The file that says which entry is confirmed and which is pending, and its copy.
const HEAD: &str = "head";
const COPY: &str = "head.copy";
/// The advice for a damaged entry.
const HINT: &str = "delete it; the other states of `weirgate history` can still be used";

/// A file from which a state was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its path as the user gave it.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// One applied state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number; later ones are larger.
    pub number: u64,
    /// When it was made, in seconds of Unix time.
    pub time: u64,
    /// The version of weirgate that wrote it.
    pub version: String,
    /// The entry to which a rollback went back.
    pub from: Option<u64>,
    /// The policy's texts, the main file first.
    pub sources: Vec<Source>,
    /// The state that the kernel should have.
    pub desired: State,
    /// What the devices had before weirgate.
    pub former: State,
    /// The file of links.
    #[serde(default)]
    pub links: Option<Source>,
}

impl Entry {
    /// Returns whether this entry removed everything: its state is empty, and it has no links.
    pub fn is_removal(&self) -> bool {
        self.desired == State::default() && self.links.is_none()
    }
}

/// An [`Entry`] for writing, with the serialized text of its tables.
#[derive(Serialize)]
struct EntryWritten<'a> {
    number: u64,
    time: u64,
    version: &'a str,
    from: Option<u64>,
    sources: &'a [Source],
    desired: Written<'a>,
    former: &'a State,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<&'a Source>,
}

/// The part of an [`Entry`] that says which links it has.
#[derive(Deserialize)]
struct EntryLinks {
    #[serde(default)]
    links: Option<Source>,
}

/// The part of an [`Entry`] that is compared with another one.
#[derive(Deserialize)]
struct EntryUnread<'a> {
    sources: Vec<Source>,
    #[serde(borrow)]
    desired: Unread<'a>,
}

/// The history of one network namespace.
#[derive(Debug, Clone)]
pub struct History {
    folder: PathBuf,
}

impl History {
    /// Returns the history in these folders, without reading or writing anything.
    pub fn of(folders: &Folders) -> Self {
        Self {
            folder: folders.state.clone(),
        }
    }

    fn entry_file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.state"))
    }

    /// Returns which entry is confirmed and which is pending; the default if nothing was ever
    /// applied. If the file is damaged, its copy is used.
    pub fn head(&self) -> Result<Head, KeepError> {
        self.read_head().map(|(head, _)| head)
    }

    /// Reads the head, and returns whether it comes from the copy.
    fn read_head(&self) -> Result<(Head, bool), KeepError> {
        let hint = "delete it; the states of `weirgate history` stay, but none counts as confirmed";
        let read = |name| sealed::read::<Head>(&self.folder.join(name), hint);
        match read(HEAD) {
            Err(damage @ KeepError::Damaged { .. }) => match read(COPY) {
                Ok(Some(copy)) => Ok((copy, true)),
                _ => Err(damage),
            },
            // A missing head was deleted on purpose, so the copy does not count.
            other => Ok((other?.unwrap_or_default(), false)),
        }
    }

    /// Writes the head. Fails if a newer change was begun than this head knows: then the caller
    /// lost the lock without noticing.
    ///
    /// The copy is renamed into place first, so that it is never older than the head. A damaged
    /// head is set aside.
    pub(crate) fn set_head(&self, _lock: &Lock, head: &Head) -> Result<(), KeepError> {
        let path = self.folder.join(HEAD);
        // Replace a head that cannot be read.
        match self.read_head() {
            Ok((found, _)) if found.generation > head.generation => {
                return Err(KeepError::Fenced(found.generation));
            }
            Ok((_, false)) => {}
            // Link instead of rename, so that there is a head at any time.
            _ => damage::link_aside(&path)?,
        }
        folder::folder(&self.folder)?;
        let copy = self.folder.join(COPY);
        let body = sealed::json(&path, head)?;
        let asides = [
            sealed::write_aside(&copy, &body, Sum::Sha256)?.0,
            sealed::write_aside(&path, &body, Sum::Sha256)?.0,
        ];
        fs::rename(&asides[0], &copy).map_err(KeepError::file(&copy))?;
        sealed::publish(&asides[1], &path)
    }

    /// Replaces a damaged head by its copy.
    pub(crate) fn mend_head(&self, lock: &Lock) -> Result<(), KeepError> {
        match self.read_head()? {
            (head, true) => self.set_head(lock, &head),
            _ => Ok(()),
        }
    }

    /// Returns the newest entry before the confirmed one that was confirmed too and can be read.
    /// Returns `None` if that entry is a removal: what was in force before a removal is not
    /// restored without being asked for.
    pub(crate) fn fallback(&self, head: &Head) -> Option<Entry> {
        let mut number = head.confirmed?;
        loop {
            number = self.before(number, head).ok()??;
            match self.entry(number) {
                Ok(entry) => return Some(entry).filter(|entry| !entry.is_removal()),
                Err(error) if error.is_loss() => {}
                Err(_) => return None,
            }
        }
    }

    /// Makes `entry` the confirmed one in place of one whose file is damaged, and sets that file
    /// aside. Returns whether it is another entry.
    pub(crate) fn go_on_with(
        &self,
        lock: &Lock,
        head: &mut Head,
        entry: &Entry,
    ) -> Result<bool, KeepError> {
        let Some(lost) = head.confirmed else {
            return Ok(true);
        };
        let is_another = entry.number != lost;
        if is_another {
            head.confirmed = Some(entry.number);
            let why = "its file is damaged, or gone".to_owned();
            head.outcomes.insert(lost, Outcome::Failed(why));
            self.set_head(lock, head)?;
        }
        damage::set_aside(&self.entry_file(lost))?;
        Ok(is_another)
    }

    /// Returns the damaged files that were set aside.
    pub fn damages(&self) -> Result<Vec<Damage>, KeepError> {
        let head = self.head()?;
        let found = damage::found(&self.folder)?;
        Ok(found
            .into_iter()
            .map(|(path, number)| Damage::of(path, number, &head))
            .collect())
    }

    /// Returns the numbers of the entries, oldest first.
    pub fn numbers(&self) -> Result<Vec<u64>, KeepError> {
        let listing = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(KeepError::file(&self.folder))?,
        };
        let mut numbers = Vec::new();
        for file in listing {
            let file = file.map_err(KeepError::file(&self.folder))?.file_name();
            let number = file.to_str().and_then(|name| name.strip_suffix(".state"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.arrange();
        Ok(numbers)
    }

    /// Reads one entry.
    pub fn entry(&self, number: u64) -> Result<Entry, KeepError> {
        let path = self.entry_file(number);
        sealed::read(&path, HINT)?.ok_or_else(|| {
            KeepError::Nothing(format!("there is no state {number} in `weirgate history`"))
        })
    }

    /// Reads the file of links of one entry.
    pub(crate) fn links(&self, number: u64) -> Result<Option<Source>, KeepError> {
        let read = sealed::read::<EntryLinks>(&self.entry_file(number), HINT)?;
        Ok(read.and_then(|entry| entry.links))
    }

    /// Returns whether an entry has these texts and leads to this state, whose tables have the text
    /// `tables`.
    pub(crate) fn is(
        &self,
        number: u64,
        sources: &[Source],
        desired: &State,
        tables: &RawValue,
    ) -> bool {
        let path = self.entry_file(number);
        let same = sealed::read_with(&path, "", |body| {
            let entry: EntryUnread<'_> =
                serde_json::from_slice(body).map_err(|error| error.to_string())?;
            Ok(entry.sources == sources && entry.desired.is(desired, tables))
        });
        same.is_ok_and(|same| same == Some(true))
    }

    /// Writes an entry with the next number. Deletes the oldest entries beyond [`MOST_ENTRIES`],
    /// except the confirmed and the pending one. `tables` is the text of the tables to which it
    /// leads.
    pub(crate) fn add(
        &self,
        _lock: &Lock,
        mut entry: Entry,
        head: &Head,
        tables: &RawValue,
    ) -> Result<Entry, KeepError> {
        folder::folder(&self.folder)?;
        let numbers = self.numbers()?;
        entry.number = head.next(numbers.last().copied());
        let written = EntryWritten {
            number: entry.number,
            time: entry.time,
            version: &entry.version,
            from: entry.from,
            sources: &entry.sources,
            desired: Written::of(&entry.desired, tables),
            former: &entry.former,
            links: entry.links.as_ref(),
        };
        sealed::write(&self.entry_file(entry.number), &written)?;
        let needed = [head.confirmed, head.pending.as_ref().map(|one| one.number)];
        let spare = (numbers.len() + 1).saturating_sub(MOST_ENTRIES);
        let old = numbers
            .iter()
            .filter(|number| !needed.contains(&Some(**number)));
        for number in old.take(spare) {
            let path = self.entry_file(*number);
            fs::remove_file(&path).map_err(KeepError::file(&path))?;
        }
        Ok(entry)
    }

    /// Returns the entry to which `rollback` goes back: the one that was in force before the
    /// present one, or before everything was removed.
    pub fn earlier(&self, head: &Head) -> Result<Option<u64>, KeepError> {
        if let Some(current) = head.confirmed {
            return self.before(current, head);
        }
        match self.before(u64::MAX, head)? {
            Some(newest) if self.entry(newest)?.is_removal() => self.before(newest, head),
            newest => Ok(newest),
        }
    }

    /// Returns the newest confirmed entry before this one.
    pub fn before(&self, number: u64, head: &Head) -> Result<Option<u64>, KeepError> {
        let good =
            |other: &u64| *other < number && head.outcomes.get(other) == Some(&Outcome::Confirmed);
        Ok(self.numbers()?.into_iter().rev().find(good))
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Permanent changes of the kernel's state: what a change needs, the lock that permits it, and what
//! is in force.
//!
//! `plan` compares, `change` applies under guard, `settle` confirms or takes back, `restore` brings
//! the confirmed state into force, and `refill` updates sets in place.

mod capabilities;
mod change;
mod links;
mod plan;
mod refill;
mod restore;
mod settle;
mod tables_version;

pub use change::{Made, Request};
pub use links::PlannedLinks;
pub use plan::Planned;

use crate::clock;
use crate::error::KeepError;
use crate::guard::Left;
use crate::store::folder::{Folders, Lock, PATIENCE};
use crate::store::head::{Head, Outcome, Pending, Standing};
use crate::store::history::{Entry, History};
use crate::store::memory::Memory;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use weirgate_kernel::Kernel;
use weirgate_state::{Capabilities, State};

const SECOND: u64 = 1_000_000_000;

/// One network namespace, with the files that weirgate stores for it.
pub struct Site {
    /// Its folders.
    pub folders: Folders,
    /// The history of its applied states.
    pub history: History,
    /// Its netlink sockets.
    pub kernel: Kernel,
    /// The executable to run as a guard.
    program: PathBuf,
    /// Answers of the kernel that are not stored yet.
    found: Mutex<Option<Capabilities>>,
    /// The state that replaces an entry's state, because the line has another rate than its policy
    /// says, and the number of that entry.
    pub(crate) rates: Mutex<Option<(u64, State)>>,
    /// The guard of the last change, kept until the sockets above are closed. Fields are dropped in
    /// this order.
    left: Mutex<Option<Left>>,
}

impl Site {
    /// Opens the namespace of the calling thread. The guard is started as `program guard`. Needs a
    /// tokio runtime.
    pub fn open(state: &Path, program: PathBuf) -> Result<Self, KeepError> {
        let folders = Folders::here(state)?;
        Ok(Self {
            history: History::of(&folders),
            kernel: Kernel::open()?,
            folders,
            program,
            found: Mutex::default(),
            rates: Mutex::new(None),
            left: Mutex::new(None),
        })
    }

    /// Takes the lock that permits changing this kernel. Waits for another weirgate process, with a
    /// limit. First takes back a change that was not confirmed in time, or whose process died.
    pub async fn lock(&self) -> Result<Lock, KeepError> {
        Ok(self.lock_and_settle().await?.0)
    }

    /// Does so, and returns the number of the change that was taken back.
    pub(crate) async fn lock_and_settle(&self) -> Result<(Lock, Option<u64>), KeepError> {
        let lock = self.folders.soon(PATIENCE).await?;
        self.history.mend_head(&lock)?;
        let mut head = self.history.head()?;
        let number = head.pending.as_ref().map(|pending| pending.number);
        match head.standing(&self.folders.boot, clock::now()) {
            Standing::Settled | Standing::Waiting(_) => return Ok((lock, None)),
            Standing::Due => {
                if let Err(error) = self.restore(&lock).await {
                    if error.is_held() {
                        // It is due until somebody finds the lock on pins free.
                        return Err(error);
                    }
                    // Give the change up: another attempt would fail too, and would block every
                    // command.
                    let lost = Outcome::Lost(error.to_string());
                    head.settle(number.unwrap_or(head.generation), lost);
                    self.history.set_head(&lock, &head)?;
                    return Err(error);
                }
            }
            Standing::Restarted => {
                head.lapse();
                self.history.set_head(&lock, &head)?;
            }
        }
        Ok((lock, number))
    }

    /// Returns which entry is confirmed, and which is pending.
    pub fn head(&self) -> Result<Head, KeepError> {
        self.history.head()
    }

    /// Returns the state that should be in force: the confirmed entry. It never is a change that a
    /// crash or reboot left unconfirmed. If the entry is damaged, returns what replaces it.
    pub fn confirmed(&self) -> Result<Option<Entry>, KeepError> {
        Ok(self.confirmed_by(&self.history.head()?)?.0)
    }

    /// Returns the state that is in force now: the one that waits for confirmation, or else the
    /// confirmed one. A change that is still being made does not count.
    pub fn in_force(&self) -> Result<Option<Entry>, KeepError> {
        let waits = self.unconfirmed()?.map(|(pending, _)| pending);
        match waits.filter(|pending| pending.deadline.is_some()) {
            Some(pending) => self.history.entry(pending.number).map(Some),
            None => self.confirmed(),
        }
    }

    /// Returns the confirmed state by a given head. The flag says whether the entry is damaged.
    fn confirmed_by(&self, head: &Head) -> Result<(Option<Entry>, bool), KeepError> {
        let Some(number) = head.confirmed else {
            return Ok((None, false));
        };
        let damage = match self.history.entry(number) {
            Err(damage) if damage.is_loss() => damage,
            entry => return Ok((Some(entry?), false)),
        };
        let serves = self.instead(head, number).ok_or(damage)?;
        Ok((Some(serves), true))
    }

    /// Returns what replaces a damaged entry: the part that the running kernel was given, else an
    /// earlier entry.
    fn instead(&self, head: &Head, number: u64) -> Option<Entry> {
        let remembered = Memory::read(&self.folders).ok().flatten();
        // While a change is pending, the memory has that unconfirmed change.
        let remembered = remembered.filter(|_| head.pending.is_none());
        match remembered {
            Some(memory) => Some(Entry {
                number,
                time: 0,
                version: String::new(),
                from: None,
                sources: Vec::new(),
                desired: memory.applied,
                former: memory.former,
                links: None,
            }),
            None => self.history.fallback(head),
        }
    }

    /// Returns the change that waits for confirmation, with the seconds that are left; `None` if
    /// nothing waits. A change past its deadline is returned with 0 seconds until it is taken back.
    pub fn unconfirmed(&self) -> Result<Option<(Pending, u64)>, KeepError> {
        let head = self.history.head()?;
        let left = match head.standing(&self.folders.boot, clock::now()) {
            Standing::Settled | Standing::Restarted => return Ok(None),
            Standing::Due => 0,
            Standing::Waiting(left) => left,
        };
        Ok(head.pending.map(|it| (it, left.div_ceil(SECOND))))
    }

    /// Fails while a change waits for confirmation.
    pub fn nothing_waits(&self) -> Result<(), KeepError> {
        match self.unconfirmed()? {
            Some((pending, seconds)) => Err(KeepError::Unconfirmed {
                number: pending.number,
                seconds,
            }),
            None => Ok(()),
        }
    }
}

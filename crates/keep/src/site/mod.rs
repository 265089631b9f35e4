// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Permanent changes of the kernel's state: what a change needs, the permission to make one, and
//! what is in force.
//!
//! `plan` compares, `change` applies under guard, `settle` confirms or takes
//! back, `restore` brings the confirmed state into force, and `refill` updates
//! sets in place.

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

/// One network namespace with what is kept of it.
pub struct Site {
    /// Its folders.
    pub folders: Folders,
    /// Its applied states.
    pub history: History,
    /// Its kernel.
    pub kernel: Kernel,
    /// The program that can be run as a guard.
    program: PathBuf,
    /// What the kernel was found to offer and is not remembered yet.
    found: Mutex<Option<Capabilities>>,
    /// What is in force in place of an entry's state, since the line has
    /// another rate than its policy says; and which entry.
    pub(crate) rates: Mutex<Option<(u64, State)>>,
    /// The guard of the last change, until the sockets above are closed: fields
    /// go in this order.
    left: Mutex<Option<Left>>,
}

impl Site {
    /// The calling thread's namespace. `program` is run as `program guard`.
    /// Needs a tokio runtime.
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

    /// The right to change this kernel. Another weirgate that is at work is
    /// waited for, but not for ever. A change that was not confirmed in time, or
    /// whose maker died, is taken back first.
    pub async fn lock(&self) -> Result<Lock, KeepError> {
        Ok(self.lock_and_settle().await?.0)
    }

    /// The same; with the number of the change that was taken back.
    pub(crate) async fn lock_and_settle(&self) -> Result<(Lock, Option<u64>), KeepError> {
        let lock = self.folders.soon(PATIENCE).await?;
        self.history.mend_head(&lock)?;
        let mut head = self.history.head()?;
        let number = head.pending.as_ref().map(|pending| pending.number);
        match head.standing(&self.folders.boot, clock::now()) {
            Standing::Settled | Standing::Waiting(_) => return Ok((lock, None)),
            Standing::Due => {
                if let Err(error) = self.restore(&lock).await {
                    // Another try would fail as well, and keep every command
                    // from working.
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

    /// Which entry is what.
    pub fn head(&self) -> Result<Head, KeepError> {
        self.history.head()
    }

    /// The state that shall be in force: the confirmed entry. What a crash or
    /// a reboot left unconfirmed is not. Where the entry is damaged, this is what
    /// serves in its place.
    pub fn confirmed(&self) -> Result<Option<Entry>, KeepError> {
        Ok(self.confirmed_by(&self.history.head()?)?.0)
    }

    /// The same by a head; and whether the entry is damaged.
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

    /// What serves in the place of a damaged entry: as much of it as the running kernel was
    /// given, else an earlier one.
    fn instead(&self, head: &Head, number: u64) -> Option<Entry> {
        let remembered = Memory::read(&self.folders).ok().flatten();
        // What was given last is another change then, which nobody has confirmed.
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

    /// The change that waits for confirmation, with the seconds that are left;
    /// `None` where nothing waits. One whose time is over waits until it is
    /// taken back, with 0 seconds.
    pub fn unconfirmed(&self) -> Result<Option<(Pending, u64)>, KeepError> {
        let head = self.history.head()?;
        let left = match head.standing(&self.folders.boot, clock::now()) {
            Standing::Settled | Standing::Restarted => return Ok(None),
            Standing::Due => 0,
            Standing::Waiting(left) => left,
        };
        Ok(head.pending.map(|it| (it, left.div_ceil(SECOND))))
    }

    /// Refuses a change while another waits for confirmation.
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

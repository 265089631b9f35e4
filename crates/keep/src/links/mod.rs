// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs several links: probes the named hosts, follows the devices, and routes over the links that
//! are up.
//!
//! It sleeps until an answer comes, the kernel tells of a device or route, other links are
//! applied, or a time is over. What it put in force stays when it ends; a change to no links
//! takes all of it away, whoever made it, since it is known by its numbers.

mod held;

use crate::clock::{NEVER, Timer};
use crate::error::KeepError;
use crate::links::held::Held;
use crate::service::inotify::stored;
use crate::store::folder::Folders;
use crate::store::history::{History, Source};
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use weirgate_kernel::{Events, Kernel, LostNeighbours, Topic};
use weirgate_links::{Links, parse};
use weirgate_state::{DeviceName, LinkPath};

const MILLISECOND: u64 = 1_000_000;
/// The kernel is looked at once in so long, at most: routes may change by the
/// thousand. The first change after a quiet time is looked at at once.
const PAUSE: u64 = 100 * MILLISECOND;
/// After so long what failed is tried again.
const AGAIN: u64 = 1_000 * MILLISECOND;
/// What to do with a damaged file.
const HINT: &str = "remove it; `weirgate links run` writes it anew";

/// Events of links, for a log.
#[derive(Debug)]
pub enum LinkReport {
    /// The links of another file are held from now on.
    Others(String),
    /// A link is used from now on, or no longer.
    Changed(LinkNow),
    /// The routing was put right, in so many steps.
    Routed(usize),
    /// A host cannot be asked.
    NotAsked {
        /// The link's name.
        link: String,
        /// Why not.
        error: std::io::Error,
    },
    /// It could not be done, and is tried again.
    Failed(KeepError),
}

/// A link as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkNow {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Whether connections use it.
    pub up: bool,
    /// What speaks against it, as long as it is up and that is not settled.
    pub suspected: Option<String>,
    /// Since when, in seconds of Unix time.
    pub since: u64,
    /// Why.
    pub why: String,
    /// Its part of new connections, where they are balanced.
    pub weight: Option<u32>,
    /// What the file's rules say of it.
    pub rules: Vec<String>,
}

/// All links, as written below `/run` after every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksNow {
    /// The links in their order.
    pub links: Vec<LinkNow>,
}

impl LinksNow {
    fn file(folders: &Folders) -> PathBuf {
        folders.run.with_extension("links")
    }

    /// The report that was written last; `None` where no `links run` runs.
    pub fn read(folders: &Folders) -> Result<Option<Self>, KeepError> {
        sealed::read(&Self::file(folders), HINT)
    }
}

/// How the devices of the links lead to the internet now.
async fn paths(links: &Links, kernel: &Kernel) -> Result<Vec<LinkPath>, KeepError> {
    let devices: Vec<_> = links
        .links
        .iter()
        .map(|link| (&link.device, link.gateways.as_slice()))
        .collect();
    Ok(kernel.link_paths(&devices).await?)
}

/// Which links can be used as far as is known, and how their devices lead to the internet:
/// those that have a device and a carrier, and that no service found dead.
pub(crate) async fn usable(
    links: &Links,
    folders: &Folders,
    kernel: &Kernel,
) -> Result<(Vec<bool>, Vec<LinkPath>), KeepError> {
    let paths = paths(links, kernel).await?;
    // What cannot be read says nothing, nor what a service that was killed left.
    let is_held = matches!(folders.lock_held("links"), Err(KeepError::Held(_)));
    let known = LinksNow::read(folders).ok().flatten();
    let known = known.filter(|_| is_held);
    let known = known.map_or_else(Vec::new, |now| now.links);
    let is_dead = |device: &DeviceName| {
        let of_it = |link: &LinkNow| link.device == device.as_str() && !link.up;
        known.iter().any(of_it)
    };
    let up = links.links.iter().zip(&paths);
    let up = up.map(|(link, path)| path.up && !is_dead(&link.device));
    Ok((up.collect(), paths))
}

/// Reads the file of links of an entry, which was sound when it was applied.
pub(crate) fn read(source: &Source) -> Result<Links, KeepError> {
    let (links, problems) = parse(&source.text);
    links.ok_or_else(|| {
        let first = problems.first().map(|one| one.message.as_str());
        let why = first.unwrap_or_default();
        KeepError::Nothing(format!("{}: {why}", source.path))
    })
}

/// The links that are applied: those of the change that waits for confirmation, else those
/// that are confirmed.
#[derive(Debug, Default)]
pub struct AppliedLinks {
    /// The entry that they are of.
    number: Option<u64>,
    /// Their file.
    pub file: Option<Source>,
    /// Why it is not known which they are, where what says so is damaged.
    pub lost: Option<KeepError>,
}

impl AppliedLinks {
    /// Those that are applied now; none where what says so is damaged.
    pub fn read(folders: &Folders) -> Result<Self, KeepError> {
        let mut applied = Self::default();
        match applied.look(folders) {
            Err(error) if error.is_loss() => applied.lost = Some(error),
            looked => {
                looked?;
            }
        }
        Ok(applied)
    }

    /// Looks again, and answers whether it is another file. An error changes nothing.
    fn look(&mut self, folders: &Folders) -> Result<bool, KeepError> {
        let history = History::of(folders);
        let head = history.head()?;
        let pending = head.pending.filter(|one| one.boot == folders.boot);
        let number = pending.map(|one| one.number).or(head.confirmed);
        if number == self.number {
            return Ok(false);
        }
        let file = number.map(|number| history.links(number)).transpose()?;
        self.number = number;
        Ok(std::mem::replace(&mut self.file, file.flatten()) != self.file)
    }
}

/// Holds links until `stop` ends: those that it is `begun` with, as long as `first` is what is
/// applied, else those that are applied. `ready` is called once they are routed
/// for the first time.
///
/// # Errors
/// [`KeepError::Held`] where another holds links; what is not permitted.
pub async fn hold_links(
    (begun, first): (&Links, &AppliedLinks),
    folders: &Folders,
    kernel: &Kernel,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(),
    mut report: impl FnMut(LinkReport),
) -> Result<(), KeepError> {
    kernel.permitted().await?;
    let _lock = folders.lock_held_soon("links").await?;
    // Listening begins before looking, so that nothing is missed in between.
    let events = Events::open(Topic::Routes)?;
    let stored = stored(folders)?;
    let neighbours = LostNeighbours::open()?;
    let due = Timer::new()?;
    let mut stop = std::pin::pin!(stop);
    let mut ready = Some(ready);
    loop {
        // A change that is half made says nothing of which links were used.
        let lock = folders.lock_when_free().await?;
        let applied = AppliedLinks::read(folders)?;
        let other = match &applied.file {
            // Where it is not known which are applied, these are better than none.
            file if *file == first.file || applied.lost.is_some() => None,
            Some(file) => Some(read(file)?),
            // They were taken away: others may come.
            None => {
                let _ = fs::remove_file(LinksNow::file(folders));
                drop(lock);
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    () = stored.event() => continue,
                }
            }
        };
        if let Some(file) = &applied.file {
            report(LinkReport::Others(file.path.clone()));
        }
        let links = other.as_ref().unwrap_or(begun);
        let mut held = Held::begin(links, applied, folders, kernel).await?;
        drop(lock);
        held.settle(&mut report).await;
        if let Some(ready) = ready.take() {
            ready();
        }
        while !held.is_other() {
            due.set(held.next().unwrap_or(NEVER))?;
            tokio::select! {
                () = &mut stop => {
                    let _ = fs::remove_file(LinksNow::file(folders));
                    return Ok(());
                }
                () = events.next() => held.kernel_changed(),
                () = stored.event() => held.kernel_changed(),
                over = due.over() => {
                    over?;
                    held.time().await;
                }
                lost = neighbours.next() => held.neighbours_lost(&lost),
                number = held.answer() => held.heard(number),
            }
            held.settle(&mut report).await;
        }
    }
}

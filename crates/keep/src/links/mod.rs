// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs several links: probes the named hosts, watches the devices, and routes over the links that
//! are up.
//!
//! It sleeps until an answer arrives, the kernel reports a change of a device or route, other links
//! are applied, or a timer expires. The routing stays when the service ends. A change to no links
//! removes all of it, whichever process set it up, because weirgate's routes and rules have
//! reserved numbers.

mod watched;

use crate::clock::{NEVER, Timer};
use crate::error::KeepError;
use crate::links::watched::WatchedLinks;
use crate::pulse::{Heart, Pulse};
use crate::service::inotify::stored;
use crate::store::folder::Folders;
use crate::store::history::{History, Source};
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use weirgate_kernel::{Events, Kernel, LostNeighbours, Topic};
use weirgate_links::{Links, parse};
use weirgate_state::{DeviceName, LinkPath, Routing};

const MILLISECOND: u64 = 1_000_000;
/// The kernel's state is read at most once in this time, in nanoseconds, because routes may change
/// by the thousand.
const PAUSE: u64 = 100 * MILLISECOND;
/// The kernel's state is read this long after a change is reported. A DHCP client that renews an
/// address removes the default route and adds it again, and a link that has lost its route in
/// between is not used for the time of `returns`.
const WHOLE: u64 = 50 * MILLISECOND;
/// A failed attempt is retried after this time.
const AGAIN: u64 = 1_000 * MILLISECOND;
/// The advice for a damaged file.
const HINT: &str = "remove it; `weirgate links run` writes it anew";

/// Events of links, for a log.
#[derive(Debug)]
pub enum LinkReport {
    /// The links of another file are watched from now on.
    Others(String),
    /// A link is used from now on, or no longer.
    Changed(LinkNow),
    /// The routing was corrected, in this many steps.
    Routed(usize),
    /// A host cannot be probed.
    NotAsked {
        /// The link's name.
        link: String,
        /// The reason.
        error: std::io::Error,
    },
    /// An attempt failed, and is retried.
    Failed(KeepError),
}

/// The present state of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkNow {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Whether connections use it.
    pub up: bool,
    /// The reason why it is suspected while it is up; `None` if it is not.
    pub suspected: Option<String>,
    /// When `up` last changed, in seconds of Unix time.
    pub since: u64,
    /// Why `up` changed, or why hosts that cannot be probed do not change it.
    pub why: String,
    /// Its share of new connections, if links are balanced.
    pub weight: Option<u32>,
    /// The rules of the file that name it, in words.
    pub rules: Vec<String>,
}

/// All links, as written below `/run` after every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksNow {
    /// The links, in the order of the file.
    pub links: Vec<LinkNow>,
}

impl LinksNow {
    fn file(folders: &Folders) -> PathBuf {
        folders.run.with_extension("links")
    }

    /// Returns the last written report; `None` if `links run` does not run.
    pub fn read(folders: &Folders) -> Result<Option<Self>, KeepError> {
        sealed::read(&Self::file(folders), HINT)
    }
}

/// Returns how the devices of the links lead to the internet now.
async fn paths(links: &Links, kernel: &Kernel) -> Result<Vec<LinkPath>, KeepError> {
    let devices: Vec<_> = links
        .links
        .iter()
        .map(|link| (&link.device, link.gateways.as_slice()))
        .collect();
    Ok(kernel.link_paths(&devices).await?)
}

/// Returns which links can be used, and how their devices lead to the internet. A link can be used
/// if its device has a carrier, and no running service found it dead.
pub(crate) async fn usable(
    links: &Links,
    folders: &Folders,
    kernel: &Kernel,
) -> Result<(Vec<bool>, Vec<LinkPath>), KeepError> {
    let paths = paths(links, kernel).await?;
    // Ignore a report that cannot be read, and one that a killed service left.
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

/// Parses the file of links of an entry, which had no mistakes when it was applied.
pub(crate) fn read(source: &Source) -> Result<Links, KeepError> {
    let (links, problems) = parse(&source.text);
    links.ok_or_else(|| {
        let first = problems.first().map(|one| one.message.as_str());
        let why = first.unwrap_or_default();
        KeepError::Nothing(format!("{}: {why}", source.path))
    })
}

/// The applied links: those of the change that waits for confirmation, or the confirmed ones.
#[derive(Debug, Default)]
pub struct AppliedLinks {
    /// The number of the entry to which they belong.
    number: Option<u64>,
    /// Their file.
    pub file: Option<Source>,
    /// Why they are not known, if the entry or the head is damaged.
    pub lost: Option<KeepError>,
}

impl AppliedLinks {
    /// Reads the links that are applied now; none if the entry or the head is damaged.
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

    /// Reads them again. Returns whether the file has changed. An error changes nothing.
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

/// Runs links until `stop` completes: the links of `begun` as long as `first` is what is applied,
/// and after that the applied ones. Calls `ready` once they are routed for the first time, and
/// sends the beats of `pulse`.
///
/// # Errors
/// [`KeepError::Held`] if another process runs links; an error if this process lacks a permission.
pub async fn hold_links(
    (begun, first): (&Links, &AppliedLinks),
    folders: &Folders,
    kernel: &Kernel,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(),
    pulse: Option<Pulse>,
    mut report: impl FnMut(LinkReport),
) -> Result<(), KeepError> {
    kernel.permitted().await?;
    let _lock = folders.lock_held_soon("links").await?;
    // Subscribe before the first reading, so that no change is missed in between.
    let events = Events::open(Topic::Routes)?;
    let stored = stored(folders)?;
    let neighbours = LostNeighbours::open()?;
    let due = Timer::new()?;
    let heart = Heart::new(pulse)?;
    let mut stop = std::pin::pin!(stop);
    let mut ready = Some(ready);
    loop {
        // Take the lock: a half-made change would not show which links were in use.
        let lock = folders.lock_when_free().await?;
        let applied = AppliedLinks::read(folders)?;
        let other = match &applied.file {
            // If the applied links are not known, the given ones are better than none.
            file if *file == first.file || applied.lost.is_some() => None,
            Some(file) => Some(read(file)?),
            // The links were removed; wait for others.
            None => {
                let _ = fs::remove_file(LinksNow::file(folders));
                drop(lock);
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    () = stored.event() => continue,
                    beaten = heart.beat() => {
                        beaten?;
                        continue;
                    }
                }
            }
        };
        if let Some(file) = &applied.file {
            report(LinkReport::Others(file.path.clone()));
        }
        let links = other.as_ref().unwrap_or(begun);
        let mut watched = WatchedLinks::begin(links, applied, folders, kernel).await?;
        drop(lock);
        watched.settle(&mut report).await;
        if let Some(ready) = ready.take() {
            ready();
        }
        while !watched.is_other() {
            due.set(watched.next().unwrap_or(NEVER))?;
            tokio::select! {
                () = &mut stop => {
                    let _ = fs::remove_file(LinksNow::file(folders));
                    return Ok(());
                }
                () = events.next() => watched.kernel_changed(),
                () = stored.event() => watched.kernel_changed(),
                over = due.over() => {
                    over?;
                    watched.time().await;
                }
                lost = neighbours.next() => watched.neighbours_lost(&lost),
                number = watched.answer() => watched.heard(number),
                beaten = heart.beat() => beaten?,
            }
            watched.settle(&mut report).await;
        }
    }
}

/// Sets up the wanted routing for the devices that are present, and returns the number of steps. If
/// the mark value of a link is gone or belongs to another device, conntrack entries with it are
/// deleted, so that these connections choose a link again.
pub(crate) async fn reroute(kernel: &Kernel, wanted: &Routing) -> Result<usize, KeepError> {
    let (before, devices) = (kernel.routing().await?, kernel.devices().await?);
    let mut wanted = wanted.clone();
    let routes = &mut wanted.routes;
    routes.retain(|route| devices.contains_key(&route.device));
    let steps = kernel.set_routing(&wanted).await?;
    let (former, now) = (before.marks.unwrap_or_default(), wanted.marks);
    let now = now.unwrap_or_default();
    for (device, value) in &former.devices {
        if former.mask != now.mask || now.devices.get(device) != Some(value) {
            // Best effort: remaining connections time out, as after any failure of a link.
            let _ = kernel.drop_connections(former.mask, *value).await;
        }
    }
    Ok(steps)
}

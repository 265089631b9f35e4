// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds several links: asks the hosts that were named, hears of devices, and
//! routes by what is up.
//!
//! It sleeps until an answer comes, the kernel tells of a device or route, or a
//! time is over. What it put in force stays when it ends; [`remove_links`] takes
//! all of it away, whoever made it, since it is known by its numbers.

mod held;

use crate::clock::{NEVER, Timer};
use crate::error::KeepError;
use crate::links::held::Held;
use crate::store::folder::Folders;
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use weirgate_kernel::{Events, Kernel, Topic};
use weirgate_links::{Links, routing};
use weirgate_state::{LinkPath, Routing};

const MILLISECOND: u64 = 1_000_000;
/// The kernel is looked at once in so long, at most: routes may change by the
/// thousand. The first change after a quiet time is looked at at once.
const PAUSE: u64 = 100 * MILLISECOND;
/// After so long what failed is tried again.
const AGAIN: u64 = 1_000 * MILLISECOND;
/// What to do with a damaged file.
const HINT: &str = "remove it; `weirgate links run` writes it anew";

/// What became of links, for whoever keeps a log.
#[derive(Debug)]
pub enum LinkReport {
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
    /// Since when, in seconds of Unix time.
    pub since: u64,
    /// Why.
    pub why: String,
}

/// All links, as written below `/run` after every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksNow {
    /// The links in their order.
    pub links: Vec<LinkNow>,
}

impl LinksNow {
    fn file(folders: &Folders) -> PathBuf {
        folders.run.join("links.json")
    }

    /// What was written last; `None` where nobody holds links.
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

/// Routes over all links that have a device and a way, and answers the steps that
/// it took. Nobody is asked.
///
/// # Errors
/// [`KeepError::Held`] where a service holds links already; what the kernel
/// refuses, after which the former routing is back.
pub async fn apply_links(
    links: &Links,
    folders: &Folders,
    kernel: &Kernel,
) -> Result<usize, KeepError> {
    let _lock = folders.lock_held("links")?;
    let paths = paths(links, kernel).await?;
    let up: Vec<bool> = paths.iter().map(|path| path.up).collect();
    Ok(kernel.set_routing(&routing(links, &up, &paths)).await?)
}

/// Takes all routing of several links away, and answers the steps that it took.
///
/// # Errors
/// As [`apply_links`].
pub async fn remove_links(folders: &Folders, kernel: &Kernel) -> Result<usize, KeepError> {
    let _lock = folders.lock_held("links")?;
    let _ = fs::remove_file(LinksNow::file(folders));
    Ok(kernel.set_routing(&Routing::default()).await?)
}

/// Holds links until `stop` ends. `ready` is called once they are routed for the
/// first time.
///
/// # Errors
/// [`KeepError::Held`] where another holds links; what is not permitted.
pub async fn hold_links(
    links: &Links,
    folders: &Folders,
    kernel: &Kernel,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(),
    mut report: impl FnMut(LinkReport),
) -> Result<(), KeepError> {
    kernel.permitted().await?;
    let _lock = folders.lock_held("links")?;
    // Listening begins before looking, so that nothing is missed in between.
    let events = Events::open(Topic::Routes)?;
    let due = Timer::new()?;
    let mut held = Held::begin(links, folders, kernel).await?;
    held.settle(&mut report).await;
    ready();
    let mut stop = std::pin::pin!(stop);
    loop {
        due.set(held.next().unwrap_or(NEVER))?;
        tokio::select! {
            () = &mut stop => {
                let _ = fs::remove_file(LinksNow::file(folders));
                return Ok(());
            }
            () = events.next() => held.kernel_changed(),
            over = due.over() => {
                over?;
                held.time();
            }
            number = held.answer() => held.heard(number),
        }
        held.settle(&mut report).await;
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the queues of pods as a folder of files says: the file `veth7` is for the device `veth7`.
//! Only the kernel holds state; weirgate recognises its own queues by their handle.
//!
//! A change concerns one file or one device, and its cost does not depend on how many others there
//! are.

use crate::error::KeepError;
use crate::pulse::{Heart, Pulse};
use crate::service::inotify::Inotify;
use crate::store::folder::Folders;
use crate::store::trust::trusted;
use rustix::fs::inotify::WatchFlags;
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use weirgate_document::Problem;
use weirgate_kernel::{ApplyError, DeviceName, DeviceNews, Kernel, KernelError};
use weirgate_plan::{Options, plan_with};
use weirgate_pods::{Pod, device, is_own, parse};
use weirgate_state::{Device, State};

/// The most bytes that a file may have.
const LARGEST: u64 = 64 << 10;

/// The result for a file or a device.
#[derive(Debug)]
pub enum PodReport {
    /// A device now has what its file says.
    Set(DeviceName, Pod),
    /// A device has no file any more, and has the kernel's default queue again.
    Removed(DeviceName),
    /// A file has mistakes; its device stays as it is.
    Wrong {
        /// The file.
        path: PathBuf,
        /// The text of the file.
        text: String,
        /// Its mistakes.
        problems: Vec<Problem>,
    },
    /// A file cannot be read; its device stays as it is.
    Unread(PathBuf, io::Error),
    /// The name of a file cannot be the name of a device.
    NoName(PathBuf),
    /// A device could not be changed.
    Refused(DeviceName, String),
}

/// Sets up all devices as the folder says. Unless `once` is set, it then sets up each device that
/// appears and each whose file changes, until `stop` completes. Calls `ready` in between, and sends
/// the beats of `pulse`.
///
/// # Errors
/// [`KeepError::Held`] if another process does so in this network namespace. Each would remove the
/// queue of a device whose file is only in the other's folder. [`KeepError::Untrusted`] if other
/// users may change the folder.
pub async fn hold_pods(
    folders: &Folders,
    folder: &Path,
    once: bool,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(),
    pulse: Option<Pulse>,
    mut tell: impl FnMut(PodReport),
) -> Result<(), KeepError> {
    let _lock = folders.lock_held("pods")?;
    own(folder)?;
    let kernel = Kernel::open()?;
    // Subscribe before the first reading, so that no change is missed in between.
    let (files, news) = (watched(folder)?, DeviceNews::open()?);
    settle_all(&kernel, folder, &mut tell).await?;
    ready();
    if once {
        return Ok(());
    }
    tokio::pin!(stop);
    let heart = Heart::new(pulse)?;
    loop {
        let changed = tokio::select! {
            () = &mut stop => return Ok(()),
            beaten = heart.beat() => {
                beaten?;
                continue;
            }
            changed = files.names() => changed,
            came = news.next() => came.map(|names| names.iter().map(ToString::to_string).collect()),
        };
        match changed {
            // A mounted volume of Kubernetes replaces all files at once, by renaming a symbolic
            // link with this prefix.
            Some(names) if !names.iter().any(|name| name.starts_with("..")) => {
                for name in names {
                    settle(&kernel, folder, &name, &mut tell).await;
                }
            }
            _ => settle_all(&kernel, folder, &mut tell).await?,
        }
    }
}

/// Refuses a file or folder that other users may change. On a mount that is read-only, the mode has
/// no effect: Kubernetes mounts a ConfigMap so, with mode 0777.
fn own(path: &Path) -> Result<(), KeepError> {
    let read_only = |path| {
        let mount = statvfs(path).ok();
        mount.is_some_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
    };
    match trusted(path) {
        Err(KeepError::Untrusted { .. }) if read_only(path) => Ok(()),
        other => other,
    }
}

fn watched(folder: &Path) -> Result<Inotify, KeepError> {
    let files = Inotify::new().map_err(KeepError::file(folder))?;
    let events =
        WatchFlags::CLOSE_WRITE | WatchFlags::MOVE | WatchFlags::DELETE | WatchFlags::CREATE;
    files
        .add(folder, events | WatchFlags::ONLYDIR)
        .map_err(|errno| KeepError::file(folder)(errno.into()))?;
    Ok(files)
}

/// Sets up every file and every device. The latter includes devices whose file was removed while
/// nobody watched.
async fn settle_all(
    kernel: &Kernel,
    folder: &Path,
    tell: &mut impl FnMut(PodReport),
) -> Result<(), KeepError> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(KeepError::file(folder))? {
        let name = entry.map_err(KeepError::file(folder))?.file_name();
        names.insert(name.to_string_lossy().into_owned());
    }
    for name in kernel.devices().await?.keys() {
        names.insert(name.to_string());
    }
    for name in names {
        settle(kernel, folder, &name, tell).await;
    }
    Ok(())
}

/// Sets up a device as its file says.
async fn settle(kernel: &Kernel, folder: &Path, name: &str, tell: &mut impl FnMut(PodReport)) {
    // Skip temporary files, and the files that Kubernetes puts beside the others.
    if name.starts_with('.') {
        return;
    }
    let path = folder.join(name);
    let text = match text(&path).and_then(|text| {
        if text.is_some() {
            own(&path).map_err(io::Error::other)?;
        }
        Ok(text)
    }) {
        Ok(text) => text,
        Err(error) => return tell(PodReport::Unread(path, error)),
    };
    let Some(name) = DeviceName::new(name) else {
        if text.is_some() {
            tell(PodReport::NoName(path));
        }
        return;
    };
    let pod = match text.map(|text| (parse(&text), text)) {
        None => None,
        Some(((Some(pod), _), _)) => Some(pod),
        Some(((None, problems), text)) => {
            return tell(PodReport::Wrong {
                path,
                text,
                problems,
            });
        }
    };
    match change(kernel, &name, pod.as_ref()).await {
        Ok(false) => {}
        Ok(true) => tell(match pod {
            Some(pod) => PodReport::Set(name, pod),
            None => PodReport::Removed(name),
        }),
        Err(why) => tell(PodReport::Refused(name, why)),
    }
}

/// Reads a file; `None` if it does not exist.
fn text(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        // Reading from a pipe would block.
        Ok(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut text = String::new();
    let read = File::open(path)?
        .take(LARGEST + 1)
        .read_to_string(&mut text)?;
    if read as u64 > LARGEST {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            "it is larger than 64 KiB",
        ));
    }
    Ok(Some(text))
}

/// Sets up a device. Returns whether anything was changed, or why it could not be.
async fn change(kernel: &Kernel, name: &DeviceName, pod: Option<&Pod>) -> Result<bool, String> {
    let asked = |error: KernelError| error.to_string();
    // A file may exist before its device.
    let Some(found) = kernel.observe_one(name).await.map_err(asked)? else {
        return Ok(false);
    };
    let own = found.root.as_ref().is_some_and(is_own);
    let wanted = match pod {
        Some(pod) => device(pod),
        None if own => Device {
            root: None,
            ..found.clone()
        },
        None => return Ok(false),
    };
    let state = |device: Device| State::of_device(name.clone(), device);
    let before = state(found);
    let options = Options {
        previous: own.then_some(&before),
        replace_foreign: false,
    };
    let plan = plan_with(&before, &state(wanted), &options);
    let plan = plan.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("; ")
    })?;
    if plan.steps.is_empty() {
        return Ok(false);
    }
    let done = kernel.apply_to_one(name, &plan).await;
    done.map_err(|error: ApplyError| error.to_string())?;
    Ok(true)
}

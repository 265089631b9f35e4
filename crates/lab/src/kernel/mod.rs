// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the guest's kernel, checks it, and prepares it for booting. `fetch` downloads kernels;
//! `image` selects the modules for the guest.

mod boot_image;
mod choice;
pub(crate) mod compression;
mod declarations;
mod fetch;
mod source;

use crate::apt::CURRENT;
use crate::cache::{Cache, Key};
use crate::error::LabError;
use boot_image::BootImage;
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_experiment::KernelName;

pub use choice::KernelChoice;
pub use declarations::declarations;
pub use fetch::fetch;
pub use source::source;

/// A kernel with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The release, such as `6.12.9-cloud-amd64`.
    pub release: String,
    /// The file that qemu boots: the uncompressed kernel if it can be entered directly,
    /// otherwise the bzImage.
    pub boot: PathBuf,
    /// The directory that contains `kernel/` and `modules.builtin`.
    pub modules: PathBuf,
}

impl Kernel {
    /// Returns the kernel to use: `explicit` if given, or else the fetched cloud kernel, or else
    /// the newest readable one of this machine. `note` is called for damage that was repaired.
    pub fn find(
        explicit: Option<&KernelChoice>,
        cache: &Cache,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let name = match explicit {
            Some(KernelChoice::At(path)) if path.is_dir() => {
                return Self::open(&path.join("vmlinuz"), cache, note);
            }
            Some(KernelChoice::At(path)) => return Self::open(path, cache, note),
            Some(KernelChoice::Named(name)) => *name,
            None => KernelName::Cloud,
        };
        let fetched = cache.kernels().join(link(name)).join("vmlinuz");
        if fetched.exists() {
            return Self::open(&fetched, cache, note);
        }
        if explicit.is_some() {
            return Err(LabError::NotFetched { name });
        }
        let own = own_kernels(Path::new("/boot"), Path::new("/lib/modules"));
        match own.first() {
            Some(image) => Self::open(image, cache, note),
            None => Err(LabError::NoKernel {
                looked: vec![
                    fetched,
                    PathBuf::from("/boot/vmlinuz-*"),
                    PathBuf::from("/lib/modules/*/vmlinuz"),
                ],
            }),
        }
    }

    /// Checks a bzImage, unpacks it into the cache and finds its modules.
    pub fn open(image: &Path, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<Self, LabError> {
        // The fetched kernel is named by a link, which may change.
        let image = &fs::canonicalize(image).map_err(LabError::file("kernel", image))?;
        let bytes = fs::read(image).map_err(LabError::file("kernel", image))?;
        let bad = |reason| LabError::BadKernel {
            path: image.clone(),
            reason,
        };
        let parsed = BootImage::parse(&bytes).map_err(bad)?;
        let modules = modules_of(image, &parsed.release)?;
        let mut key = Key::default();
        key.add(&bytes);
        let name = key.name();
        // A kernel that cannot be entered directly is stored as an empty file, so that it is not
        // decompressed again each time.
        let unpacked = cache.keep("unpacked", &name, note, || {
            Ok(parsed.unpacked().map_err(bad)?.unwrap_or_default())
        })?;
        let unpacked = unpacked.into_path();
        let size = fs::metadata(&unpacked).map_err(LabError::file("kernel", &unpacked))?;
        Ok(Self {
            release: parsed.release,
            boot: if size.len() == 0 {
                image.clone()
            } else {
                unpacked
            },
            modules,
        })
    }
}

/// Returns the name of the link to a fetched kernel; that to the cloud kernel was introduced
/// before the others.
fn link(name: KernelName) -> &'static str {
    match name {
        KernelName::Cloud => CURRENT,
        other => other.word(),
    }
}

/// Returns the directory with a kernel's modules: beside it, in the tree into which it was
/// unpacked, or this machine's own.
fn modules_of(image: &Path, release: &str) -> Result<PathBuf, LabError> {
    let beside = image.parent().unwrap_or(Path::new("/"));
    let looked = vec![
        beside.to_owned(),
        beside.join("../lib/modules").join(release),
        beside.join("../usr/lib/modules").join(release),
        Path::new("/lib/modules").join(release),
    ];
    match looked.iter().find(|path| path.join("kernel").is_dir()) {
        Some(found) => Ok(found.clone()),
        None => Err(LabError::NoModules {
            version: release.to_owned(),
            looked,
        }),
    }
}

/// Returns the readable kernels of a machine that also have modules, newest first.
fn own_kernels(boot: &Path, modules: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for entry in fs::read_dir(modules).into_iter().flatten().flatten() {
        let release = entry.file_name().to_string_lossy().into_owned();
        let paths = [
            boot.join(format!("vmlinuz-{release}")),
            entry.path().join("vmlinuz"),
        ];
        let readable = paths
            .into_iter()
            .find(|image| fs::File::open(image).is_ok());
        if let Some(image) = readable
            && entry.path().join("kernel").is_dir()
        {
            found.push((release, image));
        }
    }
    found.sort_by(|(left, _), (right, _)| by_version(right, left));
    found.into_iter().map(|(_, image)| image).collect()
}

/// Compares release names, with runs of digits by value.
fn by_version(left: &str, right: &str) -> Ordering {
    parts(left).cmp(parts(right))
}

/// Splits a name into numbers and other text.
fn parts(release: &str) -> impl Iterator<Item = (u64, &str)> {
    release
        .split_inclusive(|c: char| !c.is_ascii_digit())
        .map(|part| {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            (digits.parse().unwrap_or(u64::MAX), &part[digits.len()..])
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_order_by_value_of_their_numbers() {
        assert_eq!(by_version("6.12.9", "6.12.10"), Ordering::Less);
        assert_eq!(
            by_version("6.12.9-amd64", "6.1.0-40-amd64"),
            Ordering::Greater
        );
        assert_eq!(by_version("6.1", "6.1"), Ordering::Equal);
    }

    #[test]
    fn own_kernels_need_their_modules() {
        let machine = tempfile::tempdir().unwrap();
        let (boot, modules) = (machine.path().join("boot"), machine.path().join("modules"));
        fs::create_dir_all(&boot).unwrap();
        for release in ["6.1.0-9", "6.1.0-10", "6.1.0-11"] {
            fs::write(boot.join(format!("vmlinuz-{release}")), "").unwrap();
            if release != "6.1.0-11" {
                fs::create_dir_all(modules.join(release).join("kernel")).unwrap();
            }
        }
        assert_eq!(
            own_kernels(&boot, &modules),
            [boot.join("vmlinuz-6.1.0-10"), boot.join("vmlinuz-6.1.0-9")]
        );
        assert!(own_kernels(&machine.path().join("none"), &modules).is_empty());
    }
}

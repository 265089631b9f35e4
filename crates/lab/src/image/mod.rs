// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's only file system: its binary, the programs that an experiment names, and kernel
//! modules. It is built once and cached; the job of each run is appended.

mod archive;
mod modules;
mod positions;
mod programs;

use crate::cache::{Cache, HeldFile, Key};
use crate::error::LabError;
use crate::kernel::Kernel;
use archive::Archive;
use programs::Packing;
use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use weirgate_experiment::Job;

/// The version of the format, which changes when images are built differently.
const FORMAT: u8 = 3;

/// The path of the guest's binary.
const GUEST: &str = "/init";

/// The path of the job in the guest.
const JOB: &str = "/job.json";

/// The parts of an image.
#[derive(Debug, Clone)]
pub(crate) struct Parts<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) guest: &'a Path,
    pub(crate) programs: &'a BTreeSet<String>,
}

impl Parts<'_> {
    /// Returns the image from the cache, or builds it; `note` is called for damage that was
    /// repaired.
    pub(crate) fn image(
        &self,
        cache: &Cache,
        note: &mut dyn FnMut(&str),
    ) -> Result<HeldFile, LabError> {
        let mut packing = Packing::of_guest(self.guest)?;
        for program in self.programs {
            packing.add(program)?;
        }
        let mut key = Key::default();
        key.add(&[FORMAT]);
        // The modules of a kernel never change within one release.
        key.add(self.kernel.release.as_bytes());
        key.add(self.kernel.modules.as_os_str().as_encoded_bytes());
        packing.stamp(&mut key)?;
        cache.keep("images", &format!("{}.cpio", key.name()), note, || {
            self.build(&packing)
        })
    }

    fn build(&self, packing: &Packing) -> Result<Vec<u8>, LabError> {
        let mut archive = Archive::default();
        for path in ["dev", "proc", "run", "sys", "tmp"] {
            archive.directory(path);
        }
        packing.pack(&mut archive)?;
        modules::add(&mut archive, &self.kernel.modules, &self.kernel.release)?;
        Ok(archive.into_bytes())
    }
}

/// Returns what of an image can change the result of a run: everything but the positions in
/// sources that the guest's binary has for its messages.
pub(crate) fn without_positions(mut image: Vec<u8>) -> Vec<u8> {
    if let Some(guest) = archive::content(&image, GUEST)
        && let Some(program) = image.get_mut(guest)
    {
        positions::clear(program);
    }
    image
}

/// Returns an archive of files for a program in the guest, which follows the image.
pub(crate) fn files_archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Archive::default();
    for (path, content) in files {
        archive.file(path, content.to_vec());
    }
    archive.into_bytes()
}

/// Returns an archive with one job, which follows the image.
pub(crate) fn job_archive(job: &Job) -> Result<Vec<u8>, LabError> {
    let mut archive = Archive::default();
    archive.file(JOB, serde_json::to_vec(job)?);
    Ok(archive.into_bytes())
}

/// Returns the guest's binary: the given one, or else the one beside the running program or one
/// directory up, where tests and examples are built.
pub(crate) fn guest_binary(explicit: Option<&Path>) -> Result<PathBuf, LabError> {
    let looked: Vec<PathBuf> = if let Some(path) = explicit {
        vec![path.to_owned()]
    } else {
        let own = env::current_exe().map_err(LabError::host("own program's path"))?;
        own.ancestors()
            .skip(1)
            .take(2)
            .map(|directory| directory.join("weirgate-guest"))
            .collect()
    };
    match looked.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(LabError::NoGuest { looked }),
    }
}

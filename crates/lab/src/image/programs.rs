// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packs a program of this machine for the guest, with its loader and its shared libraries, at
//! paths where the loader searches.

use super::GUEST;
use super::archive::Archive;
use crate::cache::Key;
use crate::error::LabError;
use crate::tool::{find_program, output};
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that a loader searches by default (`/lib` is a link to the first). The first one
/// gets libraries from other directories.
const SEARCHED: [&str; 2] = ["/usr/lib", "/usr/lib/x86_64-linux-gnu"];

/// The loader for all programs of this architecture.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The libraries of a Debian tree, below `usr`.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// Directories in which `tc` has the tables of netem's distributions.
const TABLES: [&str; 3] = [
    "/usr/lib/tc",
    "/usr/lib/x86_64-linux-gnu/tc",
    "/usr/share/tc",
];

/// Files of this machine and their paths in the guest.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    files: BTreeMap<String, PathBuf>,
    links: BTreeMap<String, String>,
}

impl Packing {
    /// Packs the guest's own binary, as its first process and as the kernel's module loader.
    pub(crate) fn of_guest(guest: &Path) -> Result<Self, LabError> {
        let mut packing = Self::default();
        for path in ["bin", "lib", "lib64", "sbin"] {
            packing
                .links
                .insert(format!("/{path}"), format!("usr/{path}"));
        }
        packing
            .links
            .insert("/usr/sbin/modprobe".into(), GUEST.into());
        packing.add_file(guest, GUEST)?;
        Ok(packing)
    }

    /// Adds a program by name or path.
    pub(crate) fn add(&mut self, name: &str) -> Result<(), LabError> {
        let path = find_program(name).ok_or_else(|| LabError::NoProgram { name: name.into() })?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        self.add_file(&path, &format!("/usr/sbin/{file}"))?;
        self.links
            .insert(format!("/usr/bin/{file}"), format!("/usr/sbin/{file}"));
        if file == "tc" {
            self.add_tables();
        }
        Ok(())
    }

    fn add_tables(&mut self) {
        for directory in TABLES {
            // Only one of them exists, depending on the distribution.
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|kind| kind == "dist") {
                    self.files.insert(path.to_string_lossy().into_owned(), path);
                }
            }
        }
    }

    fn add_file(&mut self, path: &Path, target: &str) -> Result<(), LabError> {
        let program = read(path)?;
        let bad = |reason: String| LabError::BadProgram {
            path: path.to_owned(),
            reason,
        };
        let loader =
            loader(&program).map_err(|error| bad(format!("not an x86-64 program: {error}")))?;
        self.files.insert(target.to_owned(), path.to_owned());
        // A library that programs load by name has no loader entry, but can need other
        // libraries.
        let of_library = || {
            let library = path.extension().is_some_and(|kind| kind == "so");
            library.then(|| PathBuf::from(LOADER))
        };
        let Some(loader) = loader.or_else(of_library) else {
            return Ok(());
        };
        // Only the loader's own answer is always right. Depending on its version, it reports or
        // fails if a library is missing.
        let list = |more: &[&OsStr]| {
            let listed = output(Command::new(&loader).args(more).arg("--list").arg(path));
            libraries(&listed.map_err(|error| error.to_string())?)
        };
        let found = list(&[]).or_else(|missing| {
            // A program that was unpacked without installation has its libraries beside it.
            // Those of a program in `/sbin` may be below `/usr`.
            let tree = path.ancestors().nth(2).ok_or(missing)?;
            let mut beside = tree.join(LIBRARIES).into_os_string();
            beside.push(":");
            beside.push(tree.join("usr").join(LIBRARIES));
            list(&[OsStr::new("--library-path"), &beside])
        });
        let found = found.map_err(bad)?;
        for library in found {
            self.files.insert(library_target(&library)?, library);
        }
        self.files.insert(resolved(&loader)?, loader);
        Ok(())
    }

    /// Adds the state of the packed files, which changes whenever one of them does.
    pub(crate) fn stamp(&self, key: &mut Key) -> Result<(), LabError> {
        for (target, source) in &self.files {
            let file = fs::metadata(source).map_err(LabError::file("cannot be read", source))?;
            let stamp = format!("{} {} {}", file.size(), file.mtime(), file.mtime_nsec());
            for part in [
                target.as_bytes(),
                source.as_os_str().as_bytes(),
                stamp.as_bytes(),
            ] {
                key.add(part);
            }
        }
        Ok(())
    }

    /// Adds the files to an image.
    pub(crate) fn pack(&self, archive: &mut Archive) -> Result<(), LabError> {
        for (path, target) in &self.links {
            archive.link(path, target);
        }
        for (target, source) in &self.files {
            archive.program(target, read(source)?);
        }
        Ok(())
    }
}

/// Returns the path at which the guest's loader will find a library: its own path if that is
/// searched.
fn library_target(library: &Path) -> Result<String, LabError> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let target = resolved(library)?;
    if SEARCHED
        .iter()
        .any(|directory| target == format!("{directory}/{name}"))
    {
        Ok(target)
    } else {
        Ok(format!("{}/{name}", SEARCHED[0]))
    }
}

/// Resolves links among a file's directories (`/lib` is one on most machines and in the guest),
/// but keeps its own name, by which programs load it.
fn resolved(path: &Path) -> Result<String, LabError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let directory =
        fs::canonicalize(directory).map_err(LabError::file("cannot be read", directory))?;
    let name = path.file_name().unwrap_or_default();
    Ok(directory.join(name).to_string_lossy().into_owned())
}

/// Returns the loader that a program names; `None` for a static one.
fn loader(program: &[u8]) -> object::read::Result<Option<PathBuf>> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, program)? {
        if segment.p_type(endian) == elf::PT_INTERP
            && let Some(path) = segment.interpreter(endian, program)?
        {
            return Ok(Some(PathBuf::from(
                String::from_utf8_lossy(path).into_owned(),
            )));
        }
    }
    Ok(None)
}

/// Returns the files in a loader's list: `NAME => FILE (ADDRESS)`.
fn libraries(listed: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for line in listed.lines() {
        let Some((name, found)) = line.trim().split_once(" => ") else {
            // The vDSO and the loader itself have no file in the list.
            continue;
        };
        let file = found.split(" (").next().unwrap_or_default();
        if !file.starts_with('/') {
            return Err(format!("its library {name} is {file}"));
        }
        files.push(PathBuf::from(file));
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    fs::read(path).map_err(LabError::file("cannot be read", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_lists() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                      \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(listed),
            Ok(vec![PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6")])
        );
        assert_eq!(
            libraries("\tlibgone.so.1 => not found\n"),
            Err("its library libgone.so.1 is not found".into())
        );
    }

    #[test]
    fn a_script_is_no_program() {
        assert!(loader(b"#!/bin/sh\n").is_err());
    }
}

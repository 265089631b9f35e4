// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines that are not part of this library. `weirgate aqm build` compiles each into a
//! shared object, with the functions for the native library and the program for the kernel.

use crate::discipline::Discipline;
use crate::ffi::RawDescriptor;
use crate::seal::{self, SealError};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};
use thiserror::Error;
use weirgate_units::fnv1a_64;

/// The contents of the object besides the descriptor. It is never closed, because its functions
/// stay in use.
pub(crate) struct Own {
    /// The BPF program of the qdisc.
    pub(crate) program: Object,
    /// The BPF program for arriving packets.
    pub(crate) ingress: Object,
    /// The shaper with this discipline in addition to the kit's; empty if it cannot be a class's
    /// queue.
    pub(crate) shaper: Object,
    /// A number that identifies the version of its source.
    pub(crate) version: u64,
    /// The number of the kit that it was built with.
    pub(crate) kit: u64,
    /// The contents of the file.
    pub(crate) file: Vec<u8>,
}

/// The bytes of a program, aligned to 64 bits.
pub(crate) struct Object {
    words: Vec<u64>,
    bytes: usize,
}

impl Object {
    fn of(program: &[u8]) -> Self {
        let words = program.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Self {
            words: words.collect(),
            bytes: program.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        let first = self.words.as_ptr().cast::<u8>();
        // SAFETY: the words are initialised and at least as long as the program.
        unsafe { std::slice::from_raw_parts(first, self.bytes) }
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Own(version {:#x})", self.version)
    }
}

/// The error of a file that is not a discipline of this version.
#[derive(Debug, Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The dynamic loader refuses it.
    #[error("{}: no discipline: {why}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The message of the loader.
        why: String,
    },
    /// It is not a discipline, or the output of `weirgate-lab aqm build` is damaged.
    #[error("{}: no discipline: {why}", path.display())]
    Seal {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: SealError,
    },
    /// Another user could change code that root would run.
    #[error("{}: {why}", path.display())]
    Writable {
        /// The file or its folder.
        path: PathBuf,
        /// The user, and how to correct it.
        why: String,
    },
    /// It was built with other sources of the kit.
    #[error("{}: it was built by another version of weirgate; build it again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
}

impl Discipline {
    /// Opens a compiled discipline, which stays loaded for the lifetime of the process. `kit` is
    /// the number of this kit's sources; a file that was built with others is refused. The code
    /// of the file runs in this process, so its author must be trusted.
    pub fn open(path: &Path, kit: u64) -> Result<Self, OpenError> {
        let file = read(path)?;
        match seal::check(&file) {
            Ok(of) if of == kit => {}
            Ok(_) => {
                return Err(OpenError::Version {
                    path: path.to_owned(),
                });
            }
            Err(why) => {
                return Err(OpenError::Seal {
                    path: path.to_owned(),
                    why,
                });
            }
        }
        let refused = |why: String| OpenError::Refused {
            path: path.to_owned(),
            why,
        };
        // The loader would search a name without a slash in system folders.
        let full = fs::canonicalize(path).map_err(|source| OpenError::File {
            path: path.to_owned(),
            source,
        })?;
        let name = CString::new(full.as_os_str().as_bytes())
            .map_err(|_| refused("its name has a zero in it".to_owned()))?;
        // SAFETY: the name is terminated by zero and lives until the call returns. The author of
        // the file is responsible for what its initialisers do.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(refused(loader_says()));
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library stays open, and the name is terminated by zero.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            if found.is_null() {
                return Err(refused(loader_says()));
            }
            Ok(found.cast_const())
        };
        // SAFETY: `weirgate aqm build` defines these symbols as 64-bit numbers.
        let [of_kit, version] = unsafe {
            [
                symbol(c"aqm_kit")?.cast::<u64>().read_unaligned(),
                symbol(c"aqm_source")?.cast::<u64>().read_unaligned(),
            ]
        };
        if of_kit != kit {
            return Err(OpenError::Version {
                path: path.to_owned(),
            });
        }
        let object = |first: &CStr, end: &CStr| {
            let (first, end) = (symbol(first)?.cast::<u8>(), symbol(end)?.cast::<u8>());
            // SAFETY: `weirgate aqm build` places the symbols around the program. The library is
            // never closed, and its data are constant.
            Ok(Object::of(unsafe {
                let length = usize::try_from(end.offset_from(first)).unwrap_or(0);
                std::slice::from_raw_parts(first, length)
            }))
        };
        // SAFETY: it was built from the sources of this program, as the number above proves.
        let raw = unsafe {
            let own: *const c_void = symbol(c"aqm_own")?.cast::<*const c_void>().read();
            &*own.cast::<RawDescriptor>()
        };
        let own = Own {
            program: object(c"aqm_program", c"aqm_program_end")?,
            ingress: object(c"aqm_ingress", c"aqm_ingress_end")?,
            shaper: object(c"aqm_shaper", c"aqm_shaper_end")?,
            version,
            kit,
            file,
        };
        Ok(Self {
            raw,
            own: Some(Box::leak(Box::new(own))),
        })
    }

    /// Returns the kernel program of a discipline that is not part of this library, aligned to
    /// 64 bits.
    pub fn program(self) -> Option<&'static [u8]> {
        self.own.map(|own| own.program.bytes())
    }

    /// Returns its program for arriving packets; empty if the discipline has none.
    pub fn ingress_program(self) -> Option<&'static [u8]> {
        self.own.map(|own| own.ingress.bytes())
    }

    /// Returns the shaper that includes this discipline, which is not part of this library;
    /// `None` if it cannot be a class's queue.
    pub fn shaper_program(self) -> Option<&'static [u8]> {
        let program = self.own?.shaper.bytes();
        (!program.is_empty()).then_some(program)
    }

    /// Returns a number for that program, which depends on the version of the discipline and of
    /// the kit. It is 0 if the discipline is part of this library.
    pub fn shaper_number(self) -> u64 {
        self.own
            .map_or(0, |own| shaper_number(own.version, own.kit))
    }

    /// Returns the number by which classes identify a discipline that is not part of this
    /// library. Versions whose instances have the same layout share a number, so that one can
    /// continue with the state of another.
    pub fn leaf_number(self) -> u64 {
        let rows = [self.params(), self.vars(), self.stats()].concat();
        let names = rows.iter().flat_map(|row| [row.name, row.unit]);
        let layout = format!("{} {:?} {}", self.name(), self.layout(), self.queues());
        let words = names.chain([layout.as_str()]).flat_map(str::bytes);
        fnv1a_64(words) | OWN_LEAF
    }

    /// Opens a discipline that root loads without being asked. The file and its folder must
    /// belong to root or to the caller, and no one else may write to them.
    pub fn open_trusted(path: &Path, kit: u64) -> Result<Self, OpenError> {
        let folder = path.parent().filter(|one| !one.as_os_str().is_empty());
        for one in folder.into_iter().chain([path]) {
            trusted(one)?;
        }
        Self::open(path, kit)
    }

    /// Returns the file of a discipline that is not part of this library.
    pub fn file(self) -> Option<&'static [u8]> {
        self.own.map(|own| own.file.as_slice())
    }

    /// Returns the number of its source's version, if it is not part of this library.
    pub fn version(self) -> Option<u64> {
        self.own.map(|own| own.version)
    }
}

/// A bit that is set in numbers of disciplines outside this library; the kit's numbers are
/// small.
const OWN_LEAF: u64 = 1 << 63;

/// Calculates [`Discipline::shaper_number`] from the numbers of a source and a kit.
pub fn shaper_number(version: u64, kit: u64) -> u64 {
    let words = [version, kit].into_iter().flat_map(u64::to_le_bytes);
    fnv1a_64(words).max(1)
}

/// The largest file that is read; the programs of one discipline take about a megabyte.
const MOST_BYTES: u64 = 64 << 20;

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    let failed = |source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    let file = fs::File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(OpenError::Seal {
            path: path.to_owned(),
            why: SealError::Other,
        });
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Checks that only root and this user can write there.
fn trusted(path: &Path) -> Result<(), OpenError> {
    let found = fs::metadata(path).map_err(|source| OpenError::File {
        path: path.to_owned(),
        source,
    })?;
    if !found.is_file() && !found.is_dir() {
        return Err(OpenError::Seal {
            path: path.to_owned(),
            why: SealError::Other,
        });
    }
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    let writable = |why: String| OpenError::Writable {
        path: path.to_owned(),
        why,
    };
    if found.uid() != 0 && found.uid() != own {
        return Err(writable(format!(
            "it belongs to the user {}, who could have root run anything; `chown root` it",
            found.uid()
        )));
    }
    if found.mode() & 0o022 != 0 {
        return Err(writable(format!(
            "others may write it (mode {:03o}), and have root run anything; `chmod go-w` it",
            found.mode() & 0o777
        )));
    }
    Ok(())
}

/// Returns the last error message of the dynamic loader.
fn loader_says() -> String {
    // SAFETY: the call has no arguments. Its result is a string that belongs to this thread
    // until its next call.
    let message: *const c_char = unsafe { libc::dlerror() };
    if message.is_null() {
        return "it does not have the symbols of a discipline".to_owned();
    }
    // SAFETY: as above.
    let message = unsafe { CStr::from_ptr(message) };
    message.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advice to change the mode of `/dev/null` would break the machine.
    #[test]
    fn a_special_file_is_no_discipline() {
        let refused = Discipline::open_trusted(Path::new("/dev/null"), 1);
        let text = refused.expect_err("no discipline").to_string();
        assert!(!text.contains("chmod"), "{text}");
        assert!(text.contains("did not make this file"), "{text}");
    }

    #[test]
    fn what_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("weirgate-own-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("mean.so");
        fs::write(&file, "no library").expect("a file");
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        let message = || {
            Discipline::open_trusted(&file, 1)
                .expect_err("nothing")
                .to_string()
        };
        mode(&folder, 0o755);
        mode(&file, 0o664);
        assert!(
            message().contains("others may write it (mode 664)"),
            "{}",
            message()
        );
        mode(&file, 0o600);
        assert!(message().contains("no discipline: "), "{}", message());
        mode(&folder, 0o777);
        assert!(
            message().contains("others may write it (mode 777)"),
            "{}",
            message()
        );
        mode(&folder, 0o700);
        crate::scan(&folder, 1);
        assert_eq!(Discipline::installed_names(), ["mean"]);
        let read = Discipline::installed("mean").expect("a file");
        assert!(
            read.expect_err("no discipline")
                .contains("did not make this file")
        );
        assert!(Discipline::any_named("mean").is_none());
        crate::scan(Path::new("/nowhere"), 1);
        assert!(Discipline::installed("mean").is_none());
        fs::remove_dir_all(&folder).expect("a folder");
    }

    #[test]
    fn what_is_no_discipline_is_refused() {
        let missing = Discipline::open(Path::new("/nowhere/mean.so"), 1).expect_err("nothing");
        assert!(
            missing.to_string().starts_with("/nowhere/mean.so: "),
            "{missing}"
        );
        let own = std::env::current_exe().expect("own path");
        let text = own.with_file_name("no-discipline.so");
        fs::write(&text, "no library").expect("a file");
        let refused = Discipline::open(&text, 1).expect_err("no library");
        assert!(refused.to_string().contains("no discipline: "), "{refused}");
        fs::remove_file(&text).expect("a file");
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines that are not part of this library: compiled by themselves into a
//! shared object, which holds what the native library needs and the program
//! for the kernel (`weirgate aqm build` makes them).

use crate::discipline::Discipline;
use crate::ffi::RawDescriptor;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};
use thiserror::Error;

/// What the object gives beside the descriptor. Once opened it stays, as its
/// functions do.
pub(crate) struct Own {
    /// The program for the kernel that is a qdisc.
    pub(crate) program: Object,
    /// The one for arriving packets.
    pub(crate) ingress: Object,
    /// What tells versions of its source apart.
    pub(crate) version: u64,
    /// The file itself.
    pub(crate) file: Vec<u8>,
}

/// A program's bytes, where a 64-bit word may begin.
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

/// Occurs when a file is no discipline, or not one of this version.
#[derive(Debug, Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The loader does not take it.
    #[error("{}: no discipline: {why}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What the loader says.
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
    /// Opens a compiled discipline, and keeps it for as long as the process
    /// runs. `kit` is the number that the sources of the kit have, by which
    /// those that it was built with are told. The file's code runs in this
    /// process: whoever wrote it is trusted as this program is.
    pub fn open(path: &Path, kit: u64) -> Result<Self, OpenError> {
        let file = fs::read(path).map_err(|source| OpenError::File {
            path: path.to_owned(),
            source,
        })?;
        let refused = |why: String| OpenError::Refused {
            path: path.to_owned(),
            why,
        };
        // Without a slash the loader would look in the system's folders.
        let full = fs::canonicalize(path).map_err(|source| OpenError::File {
            path: path.to_owned(),
            source,
        })?;
        let name = CString::new(full.as_os_str().as_bytes())
            .map_err(|_| refused("its name has a zero in it".to_owned()))?;
        // SAFETY: the name ends in zero and lives until the call returns. What
        // the file does when it is opened is its author's.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(refused(loader_says()));
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library stays open, and the name ends in zero.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            if found.is_null() {
                return Err(refused(loader_says()));
            }
            Ok(found.cast_const())
        };
        // SAFETY: what `weirgate aqm build` names so are 64-bit numbers.
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
            // SAFETY: `weirgate aqm build` puts the one behind the other, with
            // the program between; the library is never closed, and what is in
            // it is constant.
            Ok(Object::of(unsafe {
                let length = usize::try_from(end.offset_from(first)).unwrap_or(0);
                std::slice::from_raw_parts(first, length)
            }))
        };
        // SAFETY: it is of the same sources as this program's, which the number
        // above tells.
        let raw = unsafe {
            let own: *const c_void = symbol(c"aqm_own")?.cast::<*const c_void>().read();
            &*own.cast::<RawDescriptor>()
        };
        let own = Own {
            program: object(c"aqm_program", c"aqm_program_end")?,
            ingress: object(c"aqm_ingress", c"aqm_ingress_end")?,
            version,
            file,
        };
        Ok(Self {
            raw,
            own: Some(Box::leak(Box::new(own))),
        })
    }

    /// The program for the kernel of one that is not part of this library,
    /// where a 64-bit word may begin.
    pub fn program(self) -> Option<&'static [u8]> {
        self.own.map(|own| own.program.bytes())
    }

    /// The same for arriving packets; empty where the discipline has none.
    pub fn ingress_program(self) -> Option<&'static [u8]> {
        self.own.map(|own| own.ingress.bytes())
    }

    /// The file of one that is not part of this library.
    pub fn file(self) -> Option<&'static [u8]> {
        self.own.map(|own| own.file.as_slice())
    }

    /// What tells versions of its source apart, of one that is not part of this
    /// library.
    pub fn version(self) -> Option<u64> {
        self.own.map(|own| own.version)
    }
}

/// The last thing that went wrong.
fn loader_says() -> String {
    // SAFETY: the call takes nothing, and its answer is a string of this
    // thread's until its next call.
    let said: *const c_char = unsafe { libc::dlerror() };
    if said.is_null() {
        return "it has none of the names that a discipline has".to_owned();
    }
    // SAFETY: as above.
    let said = unsafe { CStr::from_ptr(said) };
    said.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a stored file of `apply`, `keep` and `circuits`. Reading it must succeed, or
//! the error must name the file and a remedy. Reading it twice must give the same result.
//!
//! The first byte selects the file. The second one selects whether a valid checksum is prepended;
//! without one, hardly any input would pass the checksum.

use crc32fast::hash;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{fmt, fs};
use tempfile::TempDir;
use weirgate_keep::{
    Circuits, CircuitsRefused, Folders, History, KeepError, LinksNow, Memory, RatesNow,
};
use weirgate_kernel::Kernel;
use weirgate_state::DeviceName;

/// Reads a file of these folders; returns its contents as a text, or the error.
type Reader = fn(&Folders) -> Result<String, KeepError>;

/// The files, relative to their folder, with their readers.
static FILES: [(&str, Reader); 8] = [
    ("state/head", |folders| {
        let history = History::of(folders);
        let head = history.head()?;
        planted(head.confirmed);
        // Following predecessors of a state must terminate.
        let _ = (history.earlier(&head), history.before(u64::MAX, &head));
        Ok(shown(head))
    }),
    ("state/000001.state", |folders| {
        let history = History::of(folders);
        history.damages()?;
        history.entry(1).map(shown)
    }),
    ("run/state.json", |folders| Memory::read(folders).map(shown)),
    ("run/rate.json", |folders| {
        RatesNow::read(folders).map(shown)
    }),
    ("run.links", |folders| LinksNow::read(folders).map(shown)),
    ("state/circuits/waiting", |folders| {
        // The time of the rollback varies.
        circuits(folders, |all, _| {
            let waiting = all.waiting()?;
            Ok(shown(waiting.map(|waiting| waiting.devices)))
        })
    }),
    ("state/circuits/wan.list", |folders| {
        circuits(folders, |all, wan| all.kept(wan).map(shown))
    }),
    ("state/circuits/wan.used", |folders| {
        circuits(folders, |all, wan| {
            Ok(shown(all.used(wan).bytes_now("house-1")))
        })
    }),
];

pub fn run(data: &[u8]) {
    static FOLDER: LazyLock<Mutex<TempDir>> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a folder");
        for one in ["run", "state/circuits"] {
            fs::create_dir_all(folder.path().join(one)).expect("a folder");
        }
        Mutex::new(folder)
    });
    let Some((&[file, sealed], body)) = data.split_first_chunk() else {
        return;
    };
    let folder = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let (name, read) = FILES[usize::from(file) % FILES.len()];
    let path = folder.path().join(name);
    fs::write(&path, file_of(sealed, body)).expect("it is written");
    let folders = Folders {
        run: folder.path().join("run"),
        state: folder.path().join("state"),
        boot: "this one".to_owned(),
    };
    match (read(&folders), read(&folders)) {
        (Ok(one), Ok(another)) => assert_eq!(one, another),
        (Err(one), Err(_)) => named(&one, &path),
        (one, another) => panic!("{one:?}, then {another:?}"),
    }
    fs::remove_file(path).expect("it was written");
}

/// Returns the contents of the file.
fn file_of(sealed: u8, body: &[u8]) -> Vec<u8> {
    if sealed.is_multiple_of(4) {
        return body.to_vec();
    }
    let head = format!("weirgate 1 {} {:08x}\n", body.len(), hash(body));
    [head.as_bytes(), body].concat()
}

/// Runs a function with circuits, and a device with the name `wan`.
fn circuits(
    folders: &Folders,
    read: impl FnOnce(&Circuits<'_>, &DeviceName) -> Result<String, CircuitsRefused>,
) -> Result<String, KeepError> {
    let kernel = Kernel::played(Vec::new());
    let all = Circuits::open(folders, &kernel).expect("BPF's file system, which needs root");
    let wan = DeviceName::new("wan").expect("a name");
    read(&all, &wan).map_err(|error| match error {
        CircuitsRefused::Keep(error) => *error,
        other => panic!("{other}"),
    })
}

/// Checks that an error names this file, and has a hint.
fn named(error: &KeepError, file: &Path) {
    match error {
        KeepError::Damaged { path, hint, .. } | KeepError::Foreign { path, hint, .. } => {
            assert_eq!(path, file);
            assert!(!hint.is_empty());
        }
        other => panic!("{other}"),
    }
}

fn shown(value: impl fmt::Debug) -> String {
    format!("{value:?}")
}

/// The planted mistake: a confirmed state that no seed has.
#[cfg(feature = "planted")]
fn planted(confirmed: Option<u64>) {
    assert_ne!(confirmed, Some(7), "the planted mistake: state 7");
}

#[cfg(not(feature = "planted"))]
fn planted(_: Option<u64>) {}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the disciplines that commands name: one of the kit, or the user's own. The latter is a
//! folder, a source, a compiled file, or the name of a loaded discipline.

pub mod class;
mod link;

pub use link::{LinkArguments, set};

use crate::exit::{Failure, wrong};
use crate::handover;
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use weirgate_aqm::Discipline;
use weirgate_bpf::{BpfError, kit_number};

/// The folder with the files of loaded disciplines. It does not survive a reboot, as they do not.
pub const LOADED: &str = "/run/weirgate/aqm";

/// Returns the discipline with that name, from the kit or loaded.
pub fn discipline(name: &str) -> Result<Discipline, Failure> {
    if let Some(found) = Discipline::named(name) {
        return Ok(found);
    }
    find(name)?.ok_or_else(|| {
        let all = Discipline::all();
        let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
        wrong(format!(
            "there is no discipline `{name}`; there are {}, with weirgate-lab {}, and your own \
             by its folder",
            names.join(", "),
            Discipline::lab_names().join(", ")
        ))
    })
}

/// A compiled discipline.
pub struct Built {
    /// The path of the file.
    pub path: PathBuf,
    /// The temporary folder that contains it, if it was compiled for this command only.
    _folder: Option<TempDir>,
}

/// Returns the file of a discipline that is not in the kit. The word names a compiled file, a
/// folder, a source, or a discipline of the laboratory; a source is compiled if necessary. Returns
/// `None` if the word is none of these.
pub fn file(word: &str) -> Result<Option<Built>, Failure> {
    let path = Path::new(word);
    let is = |extension: &str| path.extension().is_some_and(|kind| kind == extension);
    if is("so") && path.is_file() {
        return Ok(Some(Built {
            path: path.to_owned(),
            _folder: None,
        }));
    }
    if !path.is_dir() && !is("c") {
        let lab = Discipline::lab_names().contains(&word) && !is_loaded(word);
        return lab.then(|| compiled(path)).transpose();
    }
    if let Some(path) = built_in(path) {
        return Ok(Some(Built {
            path,
            _folder: None,
        }));
    }
    compiled(path).map(Some)
}

/// Has the laboratory's program compile a source for this command only, because that program knows
/// the compilers.
fn compiled(source: &Path) -> Result<Built, Failure> {
    let folder = tempfile::tempdir().context("a folder for what is built")?;
    // The file name determines the discipline's name.
    let name = fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    let name = name.file_stem().unwrap_or_default();
    let path = folder.path().join(name).with_extension("so");
    let mut build = Command::new(handover::lab()?);
    build.args(["aqm", "build"]).arg(source);
    let output = build.arg("--output").arg(&path).output()?;
    if output.status.success() {
        return Ok(Built {
            path,
            _folder: Some(folder),
        });
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.trim_end();
    Err(match output.status.code() {
        Some(2) => Failure::Input(message.to_owned()),
        _ => Failure::Other(anyhow::anyhow!(
            "{}",
            message.trim_start_matches("weirgate: ").to_owned()
        )),
    })
}

/// Returns the compiled file in a folder, unless the source is newer, or another version of
/// weirgate compiled it.
fn built_in(folder: &Path) -> Option<PathBuf> {
    let name = fs::canonicalize(folder).ok()?.file_name()?.to_owned();
    let place = folder.join(name);
    let changed = |extension: &str| {
        let file = fs::metadata(place.with_extension(extension)).ok()?;
        file.modified().ok()
    };
    let (built, source) = (changed("so")?, changed("c"));
    let file = place.with_extension("so");
    let current = source.is_none_or(|source| source <= built);
    (current && (source.is_none() || open(&file).is_ok())).then_some(file)
}

/// Returns the user's own discipline that a word names: a folder or a source, which is compiled; a
/// compiled file; or the name of a loaded discipline. Returns `None` if it is none of these.
pub fn find(word: &str) -> Result<Option<Discipline>, Failure> {
    let own = if let Some(built) = file(word)? {
        open(&built.path)?
    } else if is_loaded(word) {
        return named(word).map(Some);
    } else {
        return Ok(None);
    };
    if Discipline::named(own.name()).is_some() {
        let name = own.name();
        return Err(wrong(format!(
            "`{name}` is a discipline of the kit; choose another name"
        )));
    }
    Ok(Some(own))
}

/// Returns whether a discipline of this name that is not in the kit is loaded.
fn is_loaded(name: &str) -> bool {
    stored(name).is_some_and(|file| file.is_file())
}

/// Returns a loaded discipline.
fn named(name: &str) -> Result<Discipline, Failure> {
    let file = stored(name).ok_or_else(|| wrong(format!("`{name}` names no discipline")))?;
    open(&file)
}

/// Opens a compiled file.
pub fn open(path: &Path) -> Result<Discipline, Failure> {
    Discipline::open(path, kit_number()).map_err(wrong)
}

/// Returns the discipline with this name in the kernel, from the kit or the user's own.
pub fn known(name: &str) -> Option<Discipline> {
    Discipline::named(name).or_else(|| named(name).ok())
}

/// Returns the path of a loaded discipline's file; `None` if the word is not a valid name.
pub fn stored(name: &str) -> Option<PathBuf> {
    check_name(name).ok()?;
    Some(Path::new(LOADED).join(name).with_extension("so"))
}

/// Keywords of C with up to ten lower-case letters.
const KEYWORDS: [&str; 29] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "void", "while",
];

/// Checks that a name is valid in C and short enough to follow `weir_` in a qdisc's name.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if KEYWORDS.contains(&name) {
        return Err(wrong(format!(
            "`{name}` is a word of C; choose another name"
        )));
    }
    if begins && name.chars().all(plain) && name.len() <= 10 {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}` cannot be a discipline's name: write up to 10 small letters, digits and \
         underscores, a letter first"
    )))
}

/// Converts an error of the programs in the kernel to a failure, which determines the exit status.
pub fn failed(error: BpfError) -> Failure {
    match error {
        BpfError::Classes(text) => wrong(text),
        error if error.lacks_qdiscs() => Failure::Refused(
            "this kernel has no qdiscs of BPF programs, which disciplines are: use Linux 6.16 or \
             later with CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF"
                .to_owned(),
        ),
        error => Failure::Refused(error.to_string()),
    }
}

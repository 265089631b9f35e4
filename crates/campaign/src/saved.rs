// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results in a folder: everything needed to draw them again or to repeat the run, and, separately,
//! what differs between machines.
//!
//! ```text
//! FOLDER/experiment.toml   the file that was run
//! FOLDER/outcome.json      the figures; equal for equal seeds, byte for byte
//! FOLDER/run.json          seed, policies, arms; wall time, virtual machine
//! FOLDER/seeds.json        the figures of each run, where there were several seeds
//! FOLDER/N.recording       what arm N of run.json observed, with the first seed
//! FOLDER/N.pcapng          its packets, where the experiment asks for a capture
//! ```

use crate::result::{ArmResult, ExperimentResult};
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use weirgate_console::exit::Failure;
use weirgate_console::{output, source};
use weirgate_experiment::{Capture, Recording};
use weirgate_ledger::Digest;
use weirgate_measure::ArmFigures;
use weirgate_report::html::{Section, page_with_failures};
use weirgate_report::pcapng;

/// The contents of `run.json`.
#[derive(Serialize, Deserialize)]
struct Saved {
    weirgate: String,
    seed: u64,
    files: BTreeMap<String, String>,
    arms: Vec<SavedArm>,
}

#[derive(Serialize, Deserialize)]
struct SavedArm {
    arm: String,
    parameters: BTreeMap<String, String>,
    wall_seconds: f64,
    boot_seconds: f64,
    traffic_seconds: Option<f64>,
    memory_bytes: Option<u64>,
    command: String,
    capture: Option<SavedCapture>,
}

/// The size of an arm's capture.
#[derive(Serialize, Deserialize)]
struct SavedCapture {
    packets: usize,
    without_room: usize,
}

/// Writes a result into its own folder.
pub fn write(folder: &Path, result: &ExperimentResult) -> anyhow::Result<()> {
    let place = |name: &str| folder.join(name);
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let put = |name: &str, bytes: &[u8]| replace(&place(name), bytes);
    let mut arms = Vec::new();
    for (index, arm) in result.arms.iter().enumerate() {
        put(&format!("{index}.recording"), &arm.recording.encode()?)?;
        let name = format!("{index}.pcapng");
        let capture = match pcapng(&arm.recording)? {
            Some(file) => {
                put(&name, &file)?;
                Some(captured(&arm.arm, &place(&name), &arm.recording))
            }
            None => None,
        };
        arms.push(SavedArm {
            arm: arm.arm.clone(),
            parameters: arm.parameters.clone(),
            wall_seconds: arm.wall_seconds,
            boot_seconds: arm.boot_seconds,
            traffic_seconds: arm.traffic_seconds,
            memory_bytes: arm.memory_bytes,
            command: arm.command.clone(),
            capture,
        });
    }
    let saved = Saved {
        weirgate: env!("CARGO_PKG_VERSION").to_owned(),
        seed: result.seed,
        files: result.files.clone(),
        arms,
    };
    put("experiment.toml", result.text.as_bytes())?;
    put(
        "outcome.json",
        serde_json::to_string_pretty(&result.outcome)?.as_bytes(),
    )?;
    let runs: Vec<BTreeMap<&str, &BTreeMap<String, f64>>> = result
        .runs
        .iter()
        .map(|run| {
            run.iter()
                .map(|(arm, own)| (arm.as_str(), &own.metrics))
                .collect()
        })
        .collect();
    if runs.is_empty() {
        // Remove the file of an earlier result.
        match fs::remove_file(place("seeds.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error)?,
            _ => {}
        }
    } else {
        put("seeds.json", serde_json::to_string(&runs)?.as_bytes())?;
    }
    put("run.json", serde_json::to_string_pretty(&saved)?.as_bytes())
}

/// Returns the size of a capture, and prints a note about packets that it lacks.
fn captured(arm: &str, file: &Path, recording: &Recording) -> SavedCapture {
    let without_room = recording.not_captured();
    let packets = recording.line.len() - without_room;
    if without_room > 0 {
        output::note(&format!(
            "{}: arm `{arm}` sent more packets than a capture has room for ({} MiB): the first \
             {packets} are in it, the last {without_room} are not",
            file.display(),
            Capture::MOST_BYTES >> 20
        ));
    }
    SavedCapture {
        packets,
        without_room,
    }
}

/// Reads a folder that [`write`] wrote, and measures and judges it again.
pub fn read(folder: &Path) -> Result<ExperimentResult, Failure> {
    let file = folder.join("experiment.toml");
    let text = source::read(&file)?;
    let experiment = source::parse(&file, &text, weirgate_experiment::parse)?;
    let at = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).with_context(|| path.display().to_string())
    };
    let damaged = |name: &str, why: &dyn Display| {
        anyhow!(
            "{}: is not what `lab run --out` wrote ({why}); run the experiment again",
            folder.join(name).display()
        )
    };
    let saved: Saved =
        serde_json::from_slice(&at("run.json")?).map_err(|error| damaged("run.json", &error))?;
    if experiment.is_calculation() {
        return Ok(ExperimentResult::calculated(text, experiment, saved.seed)?);
    }
    let mut arms = Vec::new();
    for (index, arm) in saved.arms.into_iter().enumerate() {
        let name = format!("{index}.recording");
        let bytes = at(&name)?;
        let recording = Recording::decode(&bytes).map_err(|error| damaged(&name, &error))?;
        arms.push(ArmResult {
            arm: arm.arm,
            parameters: arm.parameters,
            recording,
            digest: Digest::of(&bytes),
            wall_seconds: arm.wall_seconds,
            boot_seconds: arm.boot_seconds,
            traffic_seconds: arm.traffic_seconds,
            memory_bytes: arm.memory_bytes,
            command: arm.command,
        });
    }
    let mut result = ExperimentResult::new(text, experiment, saved.seed, saved.files, &arms)?;
    if folder.join("seeds.json").exists() {
        let runs: Vec<BTreeMap<String, BTreeMap<String, f64>>> =
            serde_json::from_slice(&at("seeds.json")?)
                .map_err(|error| damaged("seeds.json", &error))?;
        let figures = |(arm, metrics): (String, BTreeMap<String, f64>)| {
            (arm.clone(), ArmFigures { arm, metrics })
        };
        let runs = runs
            .into_iter()
            .map(|run| run.into_iter().map(figures).collect());
        result.repeat(runs.collect());
    }
    Ok(result)
}

/// Writes an HTML file of sections, and of failed experiments with the reasons.
pub fn write_report(
    title: &str,
    sections: &[Section],
    failures: &[(String, String)],
    file: &Path,
) -> anyhow::Result<()> {
    let page = page_with_failures(title, sections, failures);
    replace(file, page.as_bytes())?;
    output::note(&format!("report: {}", file.display()));
    Ok(())
}

/// Checks that the report can be written, before a long run.
pub fn can_write_report(file: &Path) -> Result<(), Failure> {
    let tried = Target::of(file).and_then(|target| match target {
        Target::Special(file) => File::options().write(true).open(file).map(drop),
        Target::Named { folder, .. } => room(&folder),
    });
    refused(file, tried)
}

/// Checks that a folder of results can be written.
pub fn can_write_folder(folder: &Path) -> Result<(), Failure> {
    refused(folder, room(folder))
}

/// Creates and removes a file in a folder, or in its nearest existing ancestor.
fn room(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find_map(|above| {
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        };
        fs::metadata(above).ok().map(|found| (above, found))
    });
    match there {
        Some((above, found)) if found.is_dir() => aside(above).map(drop),
        _ => Err(io::ErrorKind::NotADirectory.into()),
    }
}

fn refused(path: &Path, tried: io::Result<()>) -> Result<(), Failure> {
    tried.map_err(|error| {
        Failure::Input(format!(
            "weirgate: {}: cannot be written: {error}; nothing was run",
            path.display()
        ))
    })
}

/// The destination of a file's new content.
enum Target {
    /// Not a regular file, for example a terminal: it is written directly.
    Special(PathBuf),
    /// A regular or new file: the content is written to another file, which is renamed.
    Named { folder: PathBuf, file: PathBuf },
}

impl Target {
    fn of(file: &Path) -> io::Result<Self> {
        match fs::metadata(file) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Ok(Self::Special(file.to_owned())),
            _ => {}
        }
        // For a link, replace the file that it refers to, and keep the link.
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self::Named { folder, file })
    }
}

/// Creates a new file in the folder of the file that it will replace.
fn aside(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

/// Writes a file atomically: if that fails, the old one remains.
pub(crate) fn replace(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let written = Target::of(file).and_then(|target| match target {
        Target::Special(file) => fs::write(file, content),
        Target::Named { folder, file } => {
            fs::create_dir_all(&folder)?;
            let mut new = aside(&folder)?;
            new.write_all(content)?;
            // Without this, a power failure could leave an empty file.
            new.as_file().sync_all()?;
            new.persist(file)?;
            Ok(())
        }
    });
    written.with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        replace(&at("new/folder/file"), b"one").unwrap();
        assert_eq!(fs::read(at("new/folder/file")).unwrap(), b"one");
        // A link remains a link, and a device remains a device.
        symlink("new/folder/file", at("link")).unwrap();
        replace(&at("link"), b"two").unwrap();
        assert_eq!(fs::read(at("new/folder/file")).unwrap(), b"two");
        assert!(at("link").is_symlink());
        replace(Path::new("/dev/null"), b"three").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        // A full disk.
        symlink("/dev/full", at("full")).unwrap();
        let error = replace(&at("full"), b"four").unwrap_err();
        assert!(format!("{error:#}").contains("No space left"), "{error:#}");
        assert!(replace(&at("new"), b"five").is_err());
        let left: Vec<_> = fs::read_dir(at("new/folder")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_cannot_be_written_is_refused_before() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("file"), "old").unwrap();
        fs::create_dir(at("here")).unwrap();
        for good in ["file", "absent", "new/absent"] {
            can_write_report(&at(good)).unwrap();
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"old");
        assert!(!at("absent").exists());
        for bad in ["file/below", "here"] {
            let refused = can_write_report(&at(bad));
            assert!(matches!(refused, Err(Failure::Input(_))), "{refused:?}");
        }
        assert!(can_write_folder(&at("file")).is_err());
        can_write_folder(&at("folder")).unwrap();
        let left: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

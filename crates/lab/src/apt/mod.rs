// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches packages of a newer Debian for the laboratory only. apt itself downloads them from
//! the machine's own mirror, with its keys, into a separate directory. The machine's package
//! state does not change, and no root is needed.

mod sources;

use crate::cache::Cache;
use crate::error::LabError;
use crate::tool::{APT_CACHE, APT_CONFIG, APT_GET, DPKG_DEB, Tool, output};
pub(crate) use sources::MAIN;
use sources::{from_deb822, from_list};
use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The prefix of the directories in which fetches work.
const PREFIX: &str = "fetch-";

/// A time longer than any fetch takes.
const ABANDONED: Duration = Duration::from_hours(24);

/// The code names of the releases from which packages are fetched. A machine's sources may use
/// one of them for its own release.
static RELEASES: [&str; 2] = ["trixie", "bookworm"];

/// The names of Debian suites that do not depend on the release.
const AGES: [&str; 5] = ["oldoldstable", "oldstable", "stable", "testing", "unstable"];

/// A package to fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The name of the package.
    pub(crate) package: &'static str,
    /// The suites that may have it, in order of preference.
    pub(crate) suites: &'static [&'static str],
    /// The components of the archive that have it, separated by spaces.
    pub(crate) components: &'static str,
    /// The directory of the cache for it.
    pub(crate) kept: &'static str,
    /// What the user can do if it cannot be fetched.
    pub(crate) instead: &'static str,
}

/// apt with its own state.
pub(crate) struct Apt {
    wanted: Wanted,
    directory: TempDir,
    stanzas: Vec<(&'static str, Vec<String>)>,
}

impl Apt {
    /// Reads the machine's package sources, and makes a directory in the cache.
    pub(crate) fn new(wanted: Wanted, cache: &Cache) -> Result<Self, LabError> {
        if ARCH != "x86_64" {
            return Err(LabError::Fetch {
                reason: format!("the lab needs an x86-64 machine, this one is {ARCH}"),
            });
        }
        let base = machine_suites()?;
        let base: Vec<&str> = base.iter().map(String::as_str).collect();
        let stanzas: Vec<(&str, Vec<String>)> = wanted
            .suites
            .iter()
            .map(|&suite| Ok((suite, machine_stanzas(&base, suite, wanted.components)?)))
            .collect::<Result<_, LabError>>()?;
        if stanzas.iter().all(|(_, stanzas)| stanzas.is_empty()) {
            return Err(LabError::Fetch {
                reason: format!(
                    "this machine's apt sources name no Debian archive (a `deb` entry for {} with \
                     component main)\n  {}, or add such an entry",
                    base.join(" or "),
                    wanted.instead
                ),
            });
        }
        // Use the cache, because the packages are too large for `/tmp` on some machines.
        let parent = cache.directory(wanted.kept)?;
        forget_abandoned(&parent);
        let directory = TempDir::with_prefix_in(PREFIX, &parent)
            .map_err(LabError::file("cannot be written", &parent))?;
        for part in [
            "parts",
            "lists/partial",
            "cache/archives/partial",
            "debs",
            "root",
        ] {
            let path = directory.path().join(part);
            fs::create_dir_all(&path).map_err(LabError::file("cannot be made", &path))?;
        }
        Ok(Self {
            wanted,
            directory,
            stanzas,
        })
    }

    fn path(&self, part: &str) -> PathBuf {
        self.directory.path().join(part)
    }

    /// Returns an apt command that uses only this fetch's configuration. Downloads run as the
    /// calling user, because no other may enter the directory.
    fn command(&self, tool: Tool) -> Result<Command, LabError> {
        let mut command = tool.command()?;
        command.current_dir(self.path("debs"));
        let own = |name: &str, part: &str| format!("{name}={}", self.path(part).display());
        for option in [
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            own("Dir::Etc::sourceparts", "parts"),
            own("Dir::State::lists", "lists"),
            own("Dir::Cache", "cache"),
            "Dir::State::status=/dev/null".to_owned(),
            "Dir::Etc::preferences=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            "APT::Architecture=amd64".to_owned(),
            "APT::Architectures=amd64".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            "Acquire::Languages=none".to_owned(),
            // Override the machine's own apt configuration.
            "Acquire::AllowInsecureRepositories=false".to_owned(),
            "Acquire::AllowWeakRepositories=false".to_owned(),
            "APT::Get::AllowUnauthenticated=false".to_owned(),
            // The machine's own packages are not involved.
            "Debug::NoLocking=true".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        Ok(command)
    }

    /// Reads the package lists of the first suite that exists on the mirror and has the package.
    /// Returns its name.
    pub(crate) fn update(&self) -> Result<&'static str, LabError> {
        let package = self.wanted.package;
        let mut refused = None;
        for (suite, stanzas) in &self.stanzas {
            let file = self.path("parts/weirgate.sources");
            fs::write(&file, stanzas.join("\n"))
                .map_err(LabError::file("cannot be written", &file))?;
            match output(self.command(APT_GET)?.args(["-q", "update"])) {
                Ok(_) => {
                    let found = output(self.command(APT_CACHE)?.args(["policy", package]))?;
                    if found.contains("Candidate:") && !found.contains("Candidate: (none)") {
                        return Ok(suite);
                    }
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| LabError::Fetch {
            reason: format!("none of {} has {package}", self.wanted.suites.join(", ")),
        }))
    }

    /// Returns the names of the packages on which the package depends, including itself.
    pub(crate) fn dependencies(&self) -> Result<Vec<String>, LabError> {
        let listed = output(self.command(APT_CACHE)?.args([
            "depends",
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
            self.wanted.package,
        ]))?;
        let names = listed.lines().filter(|line| !line.starts_with([' ', '<']));
        Ok(names.map(str::to_owned).collect())
    }

    /// Downloads and unpacks only these packages; returns the directory.
    pub(crate) fn unpack(&self, packages: &[String]) -> Result<PathBuf, LabError> {
        output(
            self.command(APT_GET)?
                .args(["-q", "download"])
                .args(packages),
        )?;
        self.unpacked("debs")
    }

    /// Downloads and unpacks the package with all its dependencies, as on an empty machine;
    /// returns the directory.
    pub(crate) fn unpack_whole(&self) -> Result<PathBuf, LabError> {
        output(self.command(APT_GET)?.args([
            "-q",
            "-y",
            "--download-only",
            "--no-install-recommends",
            "install",
            self.wanted.package,
        ]))?;
        self.unpacked("cache/archives")
    }

    fn unpacked(&self, debs: &str) -> Result<PathBuf, LabError> {
        let (debs, root) = (self.path(debs), self.path("root"));
        for entry in fs::read_dir(&debs).map_err(LabError::file("cannot be read", &debs))? {
            let deb = entry
                .map_err(LabError::file("cannot be read", &debs))?
                .path();
            if deb.extension().is_some_and(|kind| kind == "deb") {
                output(DPKG_DEB.command()?.arg("-x").args([&deb, &root]))?;
            }
        }
        Ok(root)
    }
}

/// Deletes directories of fetches that were killed long ago; a recent one may still be in use.
fn forget_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let made = entry.metadata().and_then(|file| file.modified());
        let age = made.ok().and_then(|made| made.elapsed().ok());
        if ours && age.is_some_and(|age| age > ABANDONED) {
            // Another process may delete it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The name of the link to the last fetch, if there is only one kind.
pub(crate) const CURRENT: &str = "current";

/// Moves a directory into the cache, and points the link with this name to it. An existing
/// directory is moved to `aside`, which will be deleted.
pub(crate) fn adopt(tree: &Path, target: &Path, link: &str, aside: &Path) -> Result<(), LabError> {
    if target.exists() {
        fs::rename(target, aside).map_err(LabError::file("cannot be replaced", target))?;
    }
    fs::rename(tree, target).map_err(LabError::file("cannot be moved", tree))?;
    let next = target.with_file_name(format!("{link}.next"));
    let link = target.with_file_name(link);
    // A process that was killed between the two steps below leaves it.
    let _ = fs::remove_file(&next);
    let name = target.file_name().unwrap_or_default();
    symlink(name, &next).map_err(LabError::file("cannot be made", &next))?;
    fs::rename(&next, &link).map_err(LabError::file("cannot be made", &link))
}

/// Returns the code name of this machine's release, if it is known.
fn codename() -> Result<Option<String>, LabError> {
    let file = Path::new("/etc/os-release");
    let text = fs::read_to_string(file).map_err(LabError::file("cannot be read", file))?;
    let mut lines = text.lines();
    let name = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.map(|name| name.trim_matches('"').to_owned()))
}

/// Returns the suite whose programs run with this machine's libraries: its own release, or else
/// the oldest known one.
pub(crate) fn own_release() -> Result<&'static [&'static str], LabError> {
    let codename = codename()?;
    let own = RELEASES
        .iter()
        .position(|name| codename.as_deref() == Some(name));
    let own = own.unwrap_or(RELEASES.len() - 1);
    Ok(&RELEASES[own..=own])
}

/// Returns the names that this machine's sources may use for its own Debian release.
fn machine_suites() -> Result<Vec<String>, LabError> {
    Ok(codename()?
        .into_iter()
        .chain(RELEASES.map(str::to_owned))
        .chain(AGES.map(str::to_owned))
        .collect())
}

/// Returns the machine's Debian archives, converted to these components of `suite`.
fn machine_stanzas(base: &[&str], suite: &str, components: &str) -> Result<Vec<String>, LabError> {
    let asked = output(APT_CONFIG.command()?.args([
        "shell",
        "list",
        "Dir::Etc::sourcelist/f",
        "parts",
        "Dir::Etc::sourceparts/d",
    ]))?;
    let path = |name: &str| {
        asked
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| PathBuf::from(value.trim_matches('\'')))
    };
    let mut files: Vec<PathBuf> = path("list").into_iter().collect();
    if let Some(parts) = path("parts") {
        let entries = fs::read_dir(parts).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()));
    }
    files.sort();
    let mut stanzas = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let kind = file.extension().unwrap_or_default();
        if kind == "list" {
            stanzas.extend(from_list(&text, base, suite, components));
        } else if kind == "sources" {
            stanzas.extend(from_deb822(&text, base, suite, components));
        }
    }
    // One mirror suffices; a duplicate would be fetched too.
    stanzas.dedup();
    Ok(stanzas)
}

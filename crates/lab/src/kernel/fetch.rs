// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches Debian's cloud kernel from the newest backports suite. apt itself
//! does it, from the machine's own mirror and with its keys, in a directory of
//! its own: nothing of the machine's package state changes, no root is needed.

use super::sources::{from_deb822, from_list};
use crate::cache::Cache;
use crate::error::LabError;
use crate::tool::{APT_CACHE, APT_CONFIG, APT_GET, DPKG_DEB, Tool, output};
use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The package that stands for the newest cloud kernel.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Ends the names of all packages of a cloud kernel.
const FLAVOUR: &str = "-cloud-amd64";

/// Debian releases whose backports may have the kernel, newest first, by
/// every name their sources go by.
const SUITES: [&str; 2] = ["trixie-backports", "bookworm-backports"];

/// Begins the names of directories that fetches work in.
const PREFIX: &str = "fetch-";

/// Longer than any fetch takes.
const ABANDONED: Duration = Duration::from_hours(24);

/// Names of Debian suites by age rather than by code name.
const AGES: [&str; 5] = ["oldoldstable", "oldstable", "stable", "testing", "unstable"];

/// Fetches the kernel into the cache and makes it the one that
/// [`Kernel::find`](super::Kernel::find) finds; returns its directory. `note`
/// is told each step.
pub fn fetch(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, LabError> {
    if ARCH != "x86_64" {
        return Err(LabError::Fetch {
            reason: format!("the lab needs an x86-64 machine, this one is {ARCH}"),
        });
    }
    let apt = Apt::new(cache)?;
    note("reading the list of Debian's backports");
    let suite = apt.update()?;
    let packages = apt.packages(suite)?;
    note(&format!("fetching {} from {suite}", packages.join(", ")));
    let tree = apt.unpack(&packages)?;
    let kernel = adopt(&tree, cache)?;
    note(&format!("the guest kernel is in {}", kernel.display()));
    Ok(kernel)
}

/// apt with state of its own.
struct Apt {
    directory: TempDir,
    stanzas: Vec<(&'static str, Vec<String>)>,
}

impl Apt {
    fn new(cache: &Cache) -> Result<Self, LabError> {
        let base = machine_suites()?;
        let base: Vec<&str> = base.iter().map(String::as_str).collect();
        let stanzas: Vec<(&str, Vec<String>)> = SUITES
            .iter()
            .map(|&suite| Ok((suite, machine_stanzas(&base, suite)?)))
            .collect::<Result<_, LabError>>()?;
        if stanzas.iter().all(|(_, stanzas)| stanzas.is_empty()) {
            return Err(LabError::Fetch {
                reason: format!(
                    "this machine's apt sources name no Debian archive (a `deb` entry for {} with \
                     component main)\n  name a kernel with --kernel, or add such an entry",
                    base.join(" or ")
                ),
            });
        }
        // Inside the cache: the packages are too large for some machines' /tmp.
        let parent = cache.directory("kernels")?;
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
        Ok(Self { directory, stanzas })
    }

    fn path(&self, part: &str) -> PathBuf {
        self.directory.path().join(part)
    }

    /// An apt command that sees only what this fetch set up. Downloads run as
    /// the calling user, who alone may enter the directory.
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
        ] {
            command.args(["-o", &option]);
        }
        Ok(command)
    }

    /// Reads package lists of the newest suite that the mirror has and that
    /// has the kernel; its name.
    fn update(&self) -> Result<&'static str, LabError> {
        let mut refused = None;
        for (suite, stanzas) in &self.stanzas {
            let file = self.path("parts/weirgate.sources");
            fs::write(&file, stanzas.join("\n"))
                .map_err(LabError::file("cannot be written", &file))?;
            match output(self.command(APT_GET)?.args(["-q", "update"])) {
                Ok(_) => {
                    let found = output(self.command(APT_CACHE)?.args(["policy", PACKAGE]))?;
                    if found.contains("Candidate:") && !found.contains("Candidate: (none)") {
                        return Ok(suite);
                    }
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| LabError::Fetch {
            reason: format!("none of {} has {PACKAGE}", SUITES.join(", ")),
        }))
    }

    /// The packages that hold the kernel and its modules: what the standing
    /// name depends on, as far as it is this kernel's own.
    fn packages(&self, suite: &str) -> Result<Vec<String>, LabError> {
        let listed = output(self.command(APT_CACHE)?.args([
            "depends",
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
            PACKAGE,
        ]))?;
        let packages: Vec<String> = listed
            .lines()
            .filter(|line| {
                line.starts_with("linux-") && line.ends_with(FLAVOUR) && *line != PACKAGE
            })
            .map(str::to_owned)
            .collect();
        if packages.is_empty() {
            return Err(LabError::Fetch {
                reason: format!("{PACKAGE} in {suite} depends on no kernel"),
            });
        }
        Ok(packages)
    }

    /// Downloads and unpacks; the directory that then holds the kernel's tree.
    fn unpack(&self, packages: &[String]) -> Result<PathBuf, LabError> {
        output(
            self.command(APT_GET)?
                .args(["-q", "download"])
                .args(packages),
        )?;
        let (debs, root) = (self.path("debs"), self.path("root"));
        for entry in fs::read_dir(&debs).map_err(LabError::file("cannot be read", &debs))? {
            let deb = entry
                .map_err(LabError::file("cannot be read", &debs))?
                .path();
            output(DPKG_DEB.command()?.arg("-x").args([&deb, &root]))?;
        }
        Ok(root)
    }
}

/// Deletes what a fetch left that was killed long ago; a recent one may still
/// be at work.
fn forget_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let made = entry.metadata().and_then(|file| file.modified());
        let age = made.ok().and_then(|made| made.elapsed().ok());
        if ours && age.is_some_and(|age| age > ABANDONED) {
            // Another process may do the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Moves an unpacked kernel to its place in the cache: `vmlinuz` and `kernel/`
/// in a directory named by its release, and the link `current` to it.
fn adopt(root: &Path, cache: &Cache) -> Result<PathBuf, LabError> {
    let modules = ["usr/lib/modules", "lib/modules"]
        .iter()
        .filter_map(|place| fs::read_dir(root.join(place)).ok())
        .flat_map(Iterator::flatten)
        .map(|entry| entry.path())
        .find(|tree| tree.join("kernel").is_dir());
    let Some(tree) = modules else {
        return Err(LabError::Fetch {
            reason: "the fetched packages hold no modules".into(),
        });
    };
    let release = tree.file_name().unwrap_or_default().to_owned();
    let image = tree.join("vmlinuz");
    let boot = root
        .join("boot")
        .join(format!("vmlinuz-{}", release.to_string_lossy()));
    if boot.is_file() {
        fs::rename(&boot, &image).map_err(LabError::file("cannot be moved", &boot))?;
    }
    if !image.is_file() {
        return Err(LabError::Fetch {
            reason: "the fetched packages hold no kernel".into(),
        });
    }
    let kernels = cache.kernels();
    let place = kernels.join(&release);
    if place.exists() {
        // Into the directory of this fetch, which is deleted with it.
        let aside = root.join("replaced");
        fs::rename(&place, &aside).map_err(LabError::file("cannot be replaced", &place))?;
    }
    fs::rename(&tree, &place).map_err(LabError::file("cannot be moved", &tree))?;
    let (link, aside) = (kernels.join("current"), kernels.join("next"));
    // Left by a process that was killed between the two steps below.
    let _ = fs::remove_file(&aside);
    symlink(&release, &aside).map_err(LabError::file("cannot be made", &aside))?;
    fs::rename(&aside, &link).map_err(LabError::file("cannot be made", &link))?;
    Ok(place)
}

/// The names that this machine's sources may have for its own Debian release.
fn machine_suites() -> Result<Vec<String>, LabError> {
    let file = Path::new("/etc/os-release");
    let text = fs::read_to_string(file).map_err(LabError::file("cannot be read", file))?;
    let codename = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned());
    let released = SUITES
        .iter()
        .filter_map(|suite| suite.strip_suffix("-backports"));
    Ok(codename
        .into_iter()
        .chain(released.map(str::to_owned))
        .chain(AGES.map(str::to_owned))
        .collect())
}

/// The machine's Debian archives, rewritten for `suite`.
fn machine_stanzas(base: &[&str], suite: &str) -> Result<Vec<String>, LabError> {
    let asked = output(APT_CONFIG.command()?.args([
        "shell",
        "list",
        "Dir::Etc::sourcelist/f",
        "parts",
        "Dir::Etc::sourceparts/d",
    ]))?;
    let told = |name: &str| {
        asked
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| PathBuf::from(value.trim_matches('\'')))
    };
    let mut files: Vec<PathBuf> = told("list").into_iter().collect();
    if let Some(parts) = told("parts") {
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
            stanzas.extend(from_list(&text, base, suite));
        } else if kind == "sources" {
            stanzas.extend(from_deb822(&text, base, suite));
        }
    }
    // One mirror serves; a second of the same name would only be fetched too.
    stanzas.dedup();
    Ok(stanzas)
}

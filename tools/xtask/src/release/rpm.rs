// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RPM of the router's program: the files of the Debian package, with its own scripts
//! (`packaging/rpm/weirgate.spec`).

use super::released::Release;
use crate::command::run;
use crate::deb::REVISION;
use crate::files::{below, empty, write};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Files that only the Debian package has.
const DEBIAN: [&str; 3] = [
    "DEBIAN",
    "usr/share/lintian",
    "usr/share/doc/weirgate/changelog.Debian.gz",
];

/// The package's own folder, which is removed with it.
const OWN: &str = "usr/share/doc/weirgate";

pub fn make(release: &Release<'_>) -> Result<()> {
    let work = release.folder.join("rpm");
    empty(&work)?;
    let mut files = String::new();
    let mut folders = BTreeSet::new();
    for file in below(&release.tree)? {
        if DEBIAN.iter().any(|only| file.starts_with(only)) {
            continue;
        }
        let shown = file.display().to_string();
        let kind = if file.starts_with(OWN) { "%doc " } else { "" };
        let _ = writeln!(files, "{kind}/{shown}");
        let above = file.ancestors().skip(1);
        folders.extend(
            above
                .filter(|folder| folder.starts_with(OWN))
                .map(PathBuf::from),
        );
    }
    for folder in folders {
        let _ = writeln!(files, "%dir /{}", folder.display());
    }
    let list = work.join("files");
    write(&list, files.as_bytes(), 0o644)?;
    let mut build = Command::new("rpmbuild");
    build
        .args(["-bb", "--quiet", "--target"])
        .arg(&release.machine);
    let define = |build: &mut Command, name: &str, value: &str| {
        build.arg("--define").arg(format!("{name} {value}"));
    };
    for (name, value) in [
        ("_topdir", work.display().to_string()),
        ("weirgate_version", release.version.clone()),
        ("weirgate_release", REVISION.to_owned()),
        ("weirgate_tree", release.tree.display().to_string()),
        ("weirgate_files", list.display().to_string()),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        // Debian's rpm has another folder for systemd.
        ("_unitdir", "/usr/lib/systemd/system".to_owned()),
    ] {
        define(&mut build, name, &value);
    }
    build.env("SOURCE_DATE_EPOCH", &release.epoch);
    run(build.arg(release.root.join("packaging/rpm/weirgate.spec")))?;
    let made = work.join("RPMS").join(&release.machine);
    for file in below(&made)? {
        fs::rename(made.join(&file), release.folder.join(&file))?;
    }
    Ok(fs::remove_dir_all(&work)?)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The copy of the sources into which faults are put.

use super::read::Fault;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of the page.
pub(super) const PAGE: &str = "docs/measurements/faults.md";

/// The folders of the copy and of its build.
const COPY: &str = "target/faults/tree";
const TARGET: &str = "target/faults/target";

/// A copy of a project's tracked files.
#[derive(Debug)]
pub(super) struct Tree {
    /// The project.
    root: PathBuf,
    /// The copy.
    pub(super) copy: PathBuf,
    /// The folder of the build.
    pub(super) target: PathBuf,
}

/// Refuses uncommitted changes, except of the page that this task writes: otherwise nobody could
/// reproduce the result.
pub(super) fn clean(root: &Path) -> Result<()> {
    let except = format!(":!{PAGE}");
    let output = Command::new("git")
        .current_dir(root)
        .args(["status", "--porcelain", "--", ".", &except])
        .output()
        .context("git status")?;
    ensure!(
        output.status.success(),
        "git status ended with {}",
        output.status
    );
    let changed = String::from_utf8_lossy(&output.stdout);
    if !changed.is_empty() {
        bail!(
            "commit these first, or take them away:\n{}",
            changed.trim_end()
        );
    }
    Ok(())
}

impl Tree {
    /// Updates the copy to the project's current files. Equal files are not rewritten, so that
    /// their timestamps tell cargo that they are unchanged.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let tree = Self {
            root: root.to_owned(),
            copy: root.join(COPY),
            target: root.join(TARGET),
        };
        let tracked = tracked(root)?;
        for path in &tracked {
            tree.copy(path)?;
        }
        tree.remove_others(&tracked)?;
        Ok(tree)
    }

    /// Copies a file of the project, unless the copy is equal.
    fn copy(&self, path: &str) -> Result<()> {
        let (from, to) = (self.root.join(path), self.copy.join(path));
        let text = fs::read(&from).with_context(|| path.to_owned())?;
        if fs::read(&to).is_ok_and(|there| there == text) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(&from, &to).with_context(|| path.to_owned())?;
        Ok(())
    }

    /// Removes files of the copy that the project no longer has.
    fn remove_others(&self, tracked: &BTreeSet<String>) -> Result<()> {
        let mut folders = vec![self.copy.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let own = path.strip_prefix(&self.copy)?;
                if !tracked.contains(&*own.to_string_lossy()) {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a fault into the copy.
    pub(super) fn plant(&self, fault: &Fault) -> Result<()> {
        let path = self.copy.join(&fault.file);
        let text = fs::read_to_string(&path).with_context(|| fault.file.clone())?;
        fs::write(path, text.replacen(&fault.find, &fault.replace, 1))?;
        Ok(())
    }

    /// Removes a fault. The file gets a new timestamp; otherwise cargo would use the build with the
    /// fault.
    pub(super) fn restore(&self, fault: &Fault) -> Result<()> {
        self.copy(&fault.file)
    }
}

/// Returns the files that git tracks, from the project's root.
fn tracked(root: &Path) -> Result<BTreeSet<String>> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z"])
        .output()
        .context("git ls-files")?;
    ensure!(
        listed.status.success(),
        "git ls-files ended with {}",
        listed.status
    );
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = names.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn git(root: &Path, words: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        let status = git.current_dir(root).args(identity).args(words).status();
        assert!(status.unwrap().success(), "{words:?}");
    }

    fn project() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        fs::write(root.path().join("src/a.rs"), "one two\n").unwrap();
        fs::write(root.path().join("b.rs"), "b\n").unwrap();
        fs::write(root.path().join(".gitignore"), "/target\n").unwrap();
        git(root.path(), &["init", "-q"]);
        git(root.path(), &["add", "."]);
        git(root.path(), &["commit", "-q", "-m", "one"]);
        root
    }

    #[test]
    fn a_fault_comes_and_goes() {
        let root = project();
        let tree = Tree::of(root.path()).unwrap();
        let fault = Fault {
            name: "one".to_owned(),
            file: "src/a.rs".to_owned(),
            find: "two".to_owned(),
            replace: "three".to_owned(),
            seen_by: Vec::new(),
            compiler: false,
            area: String::new(),
        };
        let text = || fs::read_to_string(tree.copy.join("src/a.rs")).unwrap();
        tree.plant(&fault).unwrap();
        assert_eq!(text(), "one three\n");
        // An interrupted run does not affect the next one.
        Tree::of(root.path()).unwrap();
        assert_eq!(text(), "one two\n");
        tree.plant(&fault).unwrap();
        tree.restore(&fault).unwrap();
        assert_eq!(text(), "one two\n");
    }

    #[test]
    fn what_stays_keeps_its_time_and_what_went_goes() {
        let root = project();
        let tree = Tree::of(root.path()).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let file = fs::File::open(tree.copy.join("b.rs")).unwrap();
        file.set_modified(long_ago).unwrap();
        git(root.path(), &["rm", "-q", "src/a.rs"]);
        Tree::of(root.path()).unwrap();
        let kept = fs::metadata(tree.copy.join("b.rs")).unwrap();
        assert_eq!(kept.modified().unwrap(), long_ago);
        assert!(!tree.copy.join("src/a.rs").exists());
    }

    #[test]
    fn what_is_not_committed_is_refused() {
        let root = project();
        clean(root.path()).unwrap();
        fs::create_dir_all(root.path().join(PAGE).parent().unwrap()).unwrap();
        fs::write(root.path().join(PAGE), "a page\n").unwrap();
        clean(root.path()).unwrap();
        fs::write(root.path().join("b.rs"), "other\n").unwrap();
        let refusal = clean(root.path()).unwrap_err().to_string();
        assert!(refusal.contains("b.rs"), "{refusal}");
    }
}

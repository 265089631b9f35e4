// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the files of `tests/faults`, and reports all their mistakes at once, before anything is
//! built.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the files, one for each area.
pub(super) const FOLDER: &str = "tests/faults";

/// The prefix of the workspace's package names; the rest is the folder's name.
const PREFIX: &str = "weirgate-";

/// A plausible mistake.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Fault {
    /// The faulty behaviour of the product.
    pub(super) name: String,
    /// The file, from the project's root.
    pub(super) file: String,
    /// A text that occurs once in the file.
    pub(super) find: String,
    /// The replacement.
    pub(super) replace: String,
    /// Tests that should fail, the cheapest first.
    #[serde(default)]
    pub(super) seen_by: Vec<Witness>,
    /// Whether the compiler detects it.
    #[serde(default)]
    pub(super) compiler: bool,
    /// The area: the name of its file, without extension.
    #[serde(skip)]
    pub(super) area: String,
}

/// Tests of one binary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Witness {
    /// The package, such as `weirgate-plan`.
    pub(super) package: String,
    /// `lib`, or `test` and the name of a target.
    pub(super) target: String,
    /// A part of the path of a test.
    pub(super) filter: String,
    /// Whether it boots the lab's guest, which must be built first.
    #[serde(default)]
    pub(super) guest: bool,
}

impl Witness {
    /// Returns the package's folder below `crates`.
    pub(super) fn folder(&self) -> &str {
        self.package.strip_prefix(PREFIX).unwrap_or_default()
    }

    /// Returns the integration test's name; `None` for unit tests.
    pub(super) fn test(&self) -> Option<&str> {
        self.target.strip_prefix("test ")
    }
}

/// The words of `cargo test`.
impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.folder(), self.target, self.filter)
    }
}

/// The faults of one file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    fault: Vec<Fault>,
}

/// Returns every fault, in the order of the files' names; fails with all mistakes in them.
pub(super) fn all(root: &Path) -> Result<Vec<Fault>> {
    let entries = fs::read_dir(root.join(FOLDER)).context(FOLDER)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let (mut faults, mut wrong) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for path in files {
        let area = path.file_stem().unwrap_or_default().to_string_lossy();
        let place = format!("{FOLDER}/{area}.toml");
        let text = fs::read_to_string(&path).with_context(|| place.clone())?;
        let read = match toml::from_str::<File>(&text) {
            Ok(read) => read,
            Err(error) => {
                wrong.push(format!("{place}: {}", error.to_string().trim_end()));
                continue;
            }
        };
        for mut fault in read.fault {
            let mut mistakes = mistakes(root, &fault);
            if !names.insert(fault.name.clone()) {
                mistakes.push("its name is another's too".to_owned());
            }
            let lines = mistakes.into_iter();
            wrong.extend(lines.map(|one| format!("{place}: `{}`: {one}", fault.name)));
            fault.area = area.to_string();
            faults.push(fault);
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(faults)
}

/// Returns the mistakes in a fault.
fn mistakes(root: &Path, fault: &Fault) -> Vec<String> {
    let mut found = Vec::new();
    let crates = fault.file.starts_with("crates/") && fault.file.contains("/src/");
    let programs = ["aqm/", "bpf/", "packaging/"];
    if !crates && !programs.iter().any(|it| fault.file.starts_with(it)) {
        let file = &fault.file;
        found.push(format!("`file` is {file}, which is not of the product"));
    }
    match fs::read_to_string(root.join(&fault.file)) {
        Err(error) => found.push(format!("`file`: {}: {error}", fault.file)),
        Ok(text) => {
            let count = text.matches(&fault.find).count();
            if fault.find.is_empty() || count != 1 {
                found.push(format!(
                    "`find` stands {count} times in {}; write more of it, or other text",
                    fault.file
                ));
            }
        }
    }
    if fault.find == fault.replace {
        found.push("`replace` is what `find` is".to_owned());
    }
    if fault.seen_by.is_empty() && !fault.compiler {
        found.push("`seen-by` names no test".to_owned());
    }
    let unknown = fault.seen_by.iter().filter_map(|one| unknown(root, one));
    found.extend(unknown.map(|one| format!("`seen-by`: {one}")));
    found
}

/// Returns why a test cannot exist, as far as its sources show.
fn unknown(root: &Path, witness: &Witness) -> Option<String> {
    let folder = root.join("crates").join(witness.folder());
    if witness.folder().is_empty() || !folder.join("Cargo.toml").is_file() {
        return Some(format!("there is no package `{}`", witness.package));
    }
    let sources = match witness.test() {
        None if witness.target == "lib" => vec![folder.join("src")],
        None => {
            let target = &witness.target;
            return Some(format!(
                "`target` is `{target}`; write `lib` or `test NAME`"
            ));
        }
        Some(name) => {
            let file = folder.join(format!("tests/{name}.rs"));
            let own = folder.join("tests").join(name);
            if !file.is_file() && !own.join("main.rs").is_file() {
                return Some(format!("{} has no test `{name}`", witness.package));
            }
            // Further sources of a test file are in folders beside it.
            vec![folder.join("tests")]
        }
    };
    let name = witness.filter.rsplit("::").next().unwrap_or_default();
    // A function, a module, or a row of a macro that generates tests.
    let known = [
        format!("fn {name}"),
        format!("mod {name}"),
        format!("    {name}: \""),
    ];
    let texts = texts(&sources);
    let named = texts
        .iter()
        .any(|text| known.iter().any(|it| text.contains(it)));
    (name.is_empty() || !named).then(|| {
        let (filter, package) = (&witness.filter, &witness.package);
        format!("{package} has no test `{filter}`")
    })
}

/// Returns the texts of the Rust files in these folders.
fn texts(folders: &[PathBuf]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = folders.to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                texts.extend(fs::read_to_string(path));
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a project with one crate and this file of faults.
    fn project(faults: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("crates/gate/Cargo.toml", ""),
            ("crates/gate/src/lib.rs", "let a = 1;\nlet b = 1;\n"),
            ("crates/gate/tests/opens.rs", "fn it_opens() {}\n"),
            ("tests/faults/gate.toml", faults),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn fault(name: &str, find: &str, seen_by: &str) -> String {
        format!(
            "[[fault]]\nname = \"{name}\"\nfile = \"crates/gate/src/lib.rs\"\nfind = '{find}'\n\
             replace = 'let a = 2;'\nseen-by = [{seen_by}]\n"
        )
    }

    const SEES: &str =
        "{ package = \"weirgate-gate\", target = \"test opens\", filter = \"opens\" }";

    fn sees(filter: &str) -> String {
        SEES.replace("filter = \"opens\"", &format!("filter = \"{filter}\""))
    }

    fn wrong(faults: &str) -> Vec<String> {
        let error = all(project(faults).path()).unwrap_err();
        error.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_fault_is_read_with_its_area() {
        let root = project(&fault("opens twice", "let a = 1;", &sees("it_opens")));
        let found = all(root.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].area.as_str(), found[0].compiler), ("gate", false));
        assert_eq!(found[0].seen_by[0].to_string(), "gate test opens it_opens");
        assert_eq!(found[0].seen_by[0].test(), Some("opens"));
    }

    #[test]
    fn all_mistakes_are_reported_with_file_and_entry() {
        let faults = [
            fault("nowhere", "let c", &sees("it_opens")),
            fault("twice", "= 1;", &sees("it_opens")),
            fault("twice", "let a = 1;", ""),
            fault("same", "let a = 2;", &sees("it_shuts")),
        ];
        let file = "crates/gate/src/lib.rs";
        assert_eq!(
            wrong(&faults.concat()),
            [
                format!(
                    "tests/faults/gate.toml: `nowhere`: `find` stands 0 times in {file}; write more of it, or other text"
                ),
                format!(
                    "tests/faults/gate.toml: `twice`: `find` stands 2 times in {file}; write more of it, or other text"
                ),
                "tests/faults/gate.toml: `twice`: `seen-by` names no test".to_owned(),
                "tests/faults/gate.toml: `twice`: its name is another's too".to_owned(),
                format!(
                    "tests/faults/gate.toml: `same`: `find` stands 0 times in {file}; write more of it, or other text"
                ),
                "tests/faults/gate.toml: `same`: `replace` is what `find` is".to_owned(),
                "tests/faults/gate.toml: `same`: `seen-by`: weirgate-gate has no test `it_shuts`"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn a_test_that_cannot_be_there_is_reported() {
        for (from, to, message) in [
            ("weirgate-gate", "gate", "there is no package `gate`"),
            (
                "weirgate-gate",
                "weirgate-door",
                "there is no package `weirgate-door`",
            ),
            (
                "test opens",
                "opens",
                "`target` is `opens`; write `lib` or `test NAME`",
            ),
            (
                "test opens",
                "test shuts",
                "weirgate-gate has no test `shuts`",
            ),
        ] {
            let seen_by = sees("it_opens").replace(from, to);
            let found = wrong(&fault("one", "let a = 1;", &seen_by));
            assert_eq!(
                found,
                [format!(
                    "tests/faults/gate.toml: `one`: `seen-by`: {message}"
                )]
            );
        }
    }

    #[test]
    fn what_is_no_source_of_the_product_is_refused() {
        let text = fault("one", "fn it_opens", &sees("it_opens"));
        let found = wrong(&text.replace("src/lib.rs", "tests/opens.rs"));
        let place = "tests/faults/gate.toml: `one`: `file` is crates/gate/tests/opens.rs";
        assert_eq!(found, [format!("{place}, which is not of the product")]);
    }

    #[test]
    fn a_file_that_cannot_be_read_names_itself() {
        let found = wrong("[[fault]]\nname = 5\n");
        assert!(
            found[0].starts_with("tests/faults/gate.toml: "),
            "{found:?}"
        );
        assert!(
            wrong("[[fault]]\nnames = \"a\"\n")
                .concat()
                .contains("names")
        );
    }

    /// The project's own faults: there are enough, and none is out of date.
    #[test]
    fn the_faults_of_this_project_fit_its_sources() {
        let faults = all(&crate::root()).unwrap_or_else(|error| panic!("{error}"));
        assert!(faults.len() >= 40, "{} faults", faults.len());
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads policy files and the files that they include, for commands.

use crate::exit::Failure;
use crate::source;
use serde::Serialize;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use weirgate_aqm::INSTALLED;
use weirgate_bpf::{kit_number, most_capabilities};
use weirgate_document::{Problem, Severity};
use weirgate_domain::DIVIDER;
use weirgate_keep::Source;
use weirgate_policy::{Parsed, Policy, apart, parse_with};
use weirgate_state::{Capabilities, DeviceName, State};

/// The policies of a file, one for each link, with the texts of all files.
pub struct Loaded {
    /// The file's name as given.
    name: String,
    /// The policies, at least one.
    policies: Vec<Policy>,
    /// The texts; the policy's own file is first.
    pub sources: Vec<Source>,
}

/// The default policy file of commands.
pub const SITE: &str = "/etc/weirgate/site.toml";

/// The argument for standard input.
pub const STDIN: &str = "-";

/// The name of standard input in problems and in the history.
const STDIN_NAME: &str = "standard input";

/// Reads a policy file, or standard input for `-`, and the files that it includes. All problems
/// become one failure.
pub fn read(path: &Path) -> Result<Loaded, Failure> {
    let (path, text) = text(path)?;
    parse(&path, &text)
}

/// Returns the text of a policy file, or of standard input for `-`, with its name in problems and
/// in the history.
pub fn text(path: &Path) -> Result<(PathBuf, String), Failure> {
    if path == Path::new(STDIN) {
        return Ok((PathBuf::from(STDIN_NAME), source::read_stdin()?));
    }
    let text = source::read(path);
    if path == Path::new(SITE) && !path.exists() {
        return text.map(|text| (path.to_owned(), text)).map_err(|failure| {
            Failure::Input(format!(
                "{}; `weirgate init` writes a first policy, or name a policy's file",
                failure.text()
            ))
        });
    }
    Ok((path.to_owned(), text?))
}

/// A problem of a policy or of another file, for JSON.
#[derive(Debug, Serialize)]
pub struct LocatedProblem {
    file: String,
    line: usize,
    column: usize,
    severity: &'static str,
    code: &'static str,
    message: String,
    hint: String,
}

impl LocatedProblem {
    /// Returns a problem at a line and a column of a file, both from 1.
    #[must_use]
    pub fn new(file: &str, (line, column): (usize, usize), problem: &Problem) -> Self {
        Self {
            file: file.to_owned(),
            line,
            column,
            severity: match problem.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            },
            code: problem.code,
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}

/// Returns the problems of a policy's text, including those of compiling it for a kernel that has
/// everything.
pub fn problems(path: &Path, text: &str) -> Vec<LocatedProblem> {
    weirgate_aqm::scan(Path::new(INSTALLED), kit_number());
    let folder = path.parent().unwrap_or(Path::new("."));
    let load = |name: &str| source::included(&folder.join(name));
    let name = path.display().to_string();
    let parts = weirgate_domain::divide(text);
    let parts = parts.iter().map(|part| parse_with(&name, part, &load));
    let mut parts: Vec<Parsed> = parts.collect();
    let found = (0..).zip(&mut parts);
    let found = found.filter_map(|(number, part)| Some((number, part.policy.take()?)));
    let (numbers, mut policies): (Vec<usize>, Vec<Policy>) = found.unzip();
    apart(&mut policies);
    for (number, policy) in numbers.into_iter().zip(policies) {
        parts[number].policy = Some(policy);
    }
    let mut all = Vec::new();
    for parsed in parts {
        let mut problems = parsed.problems;
        if let Some(policy) = &parsed.policy {
            problems.extend(weirgate_compile::compile(policy, &most_capabilities()).1);
        }
        all.extend(problems.into_iter().map(|problem| {
            let (file, line, column) = parsed.sources.locate(&problem);
            LocatedProblem::new(file, (line, column), &problem)
        }));
    }
    all
}

/// Parses a policy, and reads the files that it includes relative to its folder. All problems
/// become one failure.
pub fn parse(path: &Path, text: &str) -> Result<Loaded, Failure> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let sources = RefCell::new(vec![Source {
        path: whole.display().to_string(),
        text: text.to_owned(),
    }]);
    let load = |name: &str| {
        let file = path.parent().unwrap_or(Path::new(".")).join(name);
        let text = source::included(&file)?;
        let path = file.canonicalize().unwrap_or(file).display().to_string();
        let source = Source {
            path,
            text: text.clone(),
        };
        let mut sources = sources.borrow_mut();
        // Several links may include one file.
        if !sources.contains(&source) {
            sources.push(source);
        }
        Ok(text)
    };
    let name = path.display().to_string();
    let policies = policies(&name, text, &load)?;
    Ok(Loaded {
        name,
        policies,
        sources: sources.into_inner(),
    })
}

/// Reads the policies of a text, each with its problems at their places.
fn policies(
    name: &str,
    text: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Vec<Policy>, Failure> {
    weirgate_aqm::scan(Path::new(INSTALLED), kit_number());
    let mut policies = Vec::new();
    let mut wrong = Vec::new();
    let parts = weirgate_domain::divide(text);
    let count = parts.len();
    for (number, part) in (1..).zip(parts) {
        if count > 1 && part.trim().is_empty() {
            wrong.push(format!(
                "weirgate: {name}: nothing is written for link {number} of {count}; lines of \
                 `{DIVIDER}` stand between policies only"
            ));
            continue;
        }
        let parsed = parse_with(name, &part, load);
        let policy = source::judge(name, parsed.policy, &parsed.problems, |problem| {
            parsed.sources.render(problem)
        });
        match policy {
            Ok(policy) => policies.push(policy),
            Err(Failure::Input(text)) => wrong.push(text),
            Err(other) => return Err(other),
        }
    }
    let mut tracked = policies.iter().filter(|one| one.track.is_some());
    if let Some((one, other)) = tracked.next().zip(tracked.next()) {
        wrong.push(format!(
            "weirgate: {name}: `{}` and `{}` both have `[track]`, which one link of a file may \
             have; leave it out of the policy of `{1}`",
            one.link.device.value, other.link.device.value
        ));
    }
    if wrong.is_empty() {
        apart(&mut policies);
        Ok(policies)
    } else {
        Err(Failure::Input(wrong.join("\n\n")))
    }
}

/// Parses stored texts: the policy's own first, then the included ones by the path of each.
pub fn again(sources: &[Source]) -> Result<Loaded, Failure> {
    let Some((own, others)) = sources.split_first() else {
        return Err(Failure::Input(
            "weirgate: the applied state was stored without its policy; apply the policy again"
                .to_owned(),
        ));
    };
    let folder = Path::new(&own.path).parent().unwrap_or(Path::new("."));
    let load = |name: &str| {
        let path = folder.join(name);
        // The files were stored under their canonical paths.
        let whole = path.canonicalize().unwrap_or(path).display().to_string();
        let exact = others.iter().find(|source| source.path == whole);
        // The folder may have another name now.
        let named = |source: &&Source| Path::new(&source.path).ends_with(name);
        let named = others.iter().filter(named);
        exact
            .or_else(|| named.min_by_key(|source| source.path.len()))
            .map(|source| source.text.clone())
            .ok_or_else(|| format!("`{name}` was not stored"))
    };
    let policies = policies(&own.path, &own.text, &load)?;
    Ok(Loaded {
        name: own.path.clone(),
        policies,
        sources: sources.to_vec(),
    })
}

impl Loaded {
    /// Returns the file's name as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the policies, at least one.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Returns the policy of a link, for a command that uses one. If there is only one link, its
    /// device can be omitted.
    pub fn link(&self, device: Option<&DeviceName>) -> Result<&Policy, Failure> {
        let links = self.policies.iter().map(|one| &one.link.device.value);
        let links: Vec<&str> = links.map(DeviceName::as_str).collect();
        match (&self.policies[..], device) {
            ([policy], None) => Ok(policy),
            (all, Some(device)) => {
                let mut all = all.iter();
                let found = all.find(|one| one.link.device.value == *device);
                found.ok_or_else(|| {
                    Failure::Input(format!(
                        "weirgate: {}: has no link on {device}; its links are on {}",
                        self.name,
                        links.join(", ")
                    ))
                })
            }
            (_, None) => Err(Failure::Input(format!(
                "weirgate: {}: has the policies of {} links; name one, such as `--link {}`, of {}",
                self.name,
                links.len(),
                links.first().unwrap_or(&"DEVICE"),
                links.join(", ")
            ))),
        }
    }

    /// Compiles the policies for a kernel; all problems become one failure.
    pub fn compile(&self, kernel: &Capabilities) -> Result<State, Failure> {
        let mut parts = Vec::new();
        for policy in &self.policies {
            let (state, problems) = weirgate_compile::compile(policy, kernel);
            let state = source::judge(&self.name, state, &problems, |problem| {
                policy.sources.render(problem)
            })?;
            parts.push((policy.link.device.value.clone(), state));
        }
        weirgate_domain::together(parts).map_err(|problems| {
            let lines = problems
                .iter()
                .map(|problem| format!("weirgate: {}: {problem}", self.name));
            Failure::Input(lines.collect::<Vec<_>>().join("\n"))
        })
    }
}

/// Parses a device's name, as an option's value.
pub fn device(text: &str) -> Result<DeviceName, String> {
    DeviceName::new(text)
        .ok_or_else(|| "a device's name has 1 to 15 bytes, without spaces, `/` and `:`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored file whose name only ends with an included one's name is another file.
    #[test]
    fn stored_includes_are_found_by_their_whole_names() {
        let stored = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let group = |name: &str| format!("[group.{name}]\naddresses = \"192.0.2.1\"\n");
        let own = "include = [\"my-web.toml\", \"web.toml\"]\nversion = 1\n\
                   [link]\ndevice = \"wan\"\nup = \"4mbit\"\nlayer = \"ethernet\"\n\
                   [[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n";
        // The folder has another name now, so no path is the same.
        for folder in ["/etc/weirgate", "/gone"] {
            let sources = [
                stored("/etc/weirgate/site.toml", own),
                stored(&format!("{folder}/my-web.toml"), &group("mine")),
                stored(&format!("{folder}/parts/web.toml"), &group("part")),
                stored(&format!("{folder}/web.toml"), &group("web")),
            ];
            let loaded = again(&sources);
            let loaded = loaded.unwrap_or_else(|failure| panic!("{folder}: {failure:?}"));
            let groups = loaded.policies()[0].groups.iter();
            let names: Vec<&str> = groups.map(|group| &*group.name.value).collect();
            assert_eq!(names, ["mine", "web"], "{folder}");
        }
    }
}

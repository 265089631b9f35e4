// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Uses the kernel's selftests of BPF qdiscs as a test of loading. Their sources are compiled with
//! the declarations of the laboratory's kernel, and weirgate's loader loads them into it.

mod case;
mod inside;

use crate::machine::{LIMITS, lab, lines};
use anyhow::{Context, Result, ensure};
use case::{Case, marked, stated};
use inside::{Asked, CaseResult, FOLDER};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weirgate_lab::{Cache, declarations};

pub use inside::run;

/// The folder of the selftests in the kernel's source.
const SUITE: &str = "tools/testing/selftests/bpf";

/// The suite's include folders.
const INCLUDES: [&str; 3] = ["", "progs", "libarena/include"];

/// Programs that cases use.
const PROGRAMS: [&str; 2] = ["ip", "tc"];

/// Names of the compiler; the first one that runs is used.
const COMPILERS: [&str; 2] = ["clang-19", "clang"];

/// Compiles the sources, and runs their cases.
///
/// # Errors
///
/// Fails if there is no source, compiler or laboratory.
pub fn loaded(source: &Path) -> Result<Vec<CaseResult>> {
    let suite = source.join(SUITE);
    let lab = lab(PROGRAMS)?;
    let note = &mut |note: &str| eprintln!("{note}");
    let header = declarations(lab.kernel(), &Cache::of_user(), note)?;
    let folder = tempfile::tempdir()?;
    headers(folder.path(), &header)?;
    let mut asked = Vec::new();
    let mut files = Vec::new();
    for path in sources(&suite.join("progs"))? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let of_c = stated()
            .into_iter()
            .filter(|(_, source, _)| *source == name)
            .map(|(test, _, case)| (test.to_owned(), case));
        let own = marked(&text).map(|case| (name.to_string(), case));
        let cases: Vec<(String, Case)> = of_c.chain(own).collect();
        ensure!(!cases.is_empty(), "{name} has no case here");
        files.push((
            format!("{FOLDER}/{name}"),
            compiled(&suite, folder.path(), &path)?,
        ));
        asked.extend(cases.into_iter().map(|(test, case)| Asked {
            name: test,
            object: name.to_string(),
            case,
        }));
    }
    files.push((format!("{FOLDER}/cases.json"), serde_json::to_vec(&asked)?));
    // Sources use the kernel's configuration, which libbpf reads there.
    let settings = lab.kernel().modules.join("config");
    let release = &lab.kernel().release;
    files.push((
        format!("/boot/config-{release}"),
        fs::read(&settings).with_context(|| settings.display().to_string())?,
    ));
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, bytes)| (&**path, &**bytes))
        .collect();
    let words = ["outside", "inside", "programs"];
    let results: Vec<CaseResult> =
        lines(&lab.execute(&words, &files, (1, LIMITS), &mut |_| ())?)?;
    ensure!(
        results.len() == asked.len(),
        "{} of {} cases were reported",
        results.len(),
        asked.len()
    );
    for one in &results {
        if let Some(why) = &one.failed {
            eprintln!("{}: {why}", one.name);
        }
    }
    Ok(results)
}

/// Returns the sources of BPF qdiscs, by name.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("bpf_qdisc_") && name.ends_with(".c") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Writes the headers that the suite lacks: the kernel's declarations, and libbpf's headers of
/// weirgate's own programs.
fn headers(folder: &Path, declarations: &Path) -> Result<()> {
    fs::copy(declarations, folder.join("vmlinux.h"))?;
    let bpf = folder.join("bpf");
    fs::create_dir(&bpf)?;
    for (path, text) in weirgate_bpf::sources() {
        let path = Path::new(path);
        if path.parent().is_some_and(|folder| folder.ends_with("bpf")) {
            fs::write(bpf.join(path.file_name().unwrap_or_default()), text)?;
        }
    }
    Ok(())
}

/// Compiles a source, and returns the object.
fn compiled(suite: &Path, folder: &Path, source: &Path) -> Result<Vec<u8>> {
    let object = folder.join("object.o");
    let compiler = COMPILERS
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .context("no clang: apt-get install clang-19")?;
    let done = Command::new(compiler)
        .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-w"])
        .arg("-D__TARGET_ARCH_x86")
        .arg(format!("-I{}", folder.display()))
        .args(INCLUDES.map(|part| format!("-I{}", suite.join(part).display())))
        // Debian's folder of kernel headers for this processor.
        .arg("-I/usr/include/x86_64-linux-gnu")
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()?;
    ensure!(
        done.status.success(),
        "{}: {}",
        source.display(),
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(fs::read(object)?)
}

/// Returns the section: a table of the cases, and the failures.
pub fn text(results: &[CaseResult]) -> String {
    let mut out = String::from("| case | source | outcome |\n|---|---|---|\n");
    for one in results {
        let outcome = one.failed.as_ref().map_or("passes", |_| "fails");
        let _ = writeln!(out, "| {} | `{}` | {outcome} |", one.name, one.object);
    }
    let passed = results.iter().filter(|one| one.failed.is_none()).count();
    let _ = writeln!(out, "\n{passed} of {} cases pass.", results.len());
    for one in results {
        if let Some(why) = &one.failed {
            let line = why.lines().find(|line| !line.is_empty());
            let line = line.unwrap_or_default().replace('|', "\\|");
            let _ = writeln!(out, "\n- {}: {line}", one.name);
        }
    }
    out
}

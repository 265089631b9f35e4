// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate lab`: run, list, prepare; and `weirgate report`.

use clap::Subcommand;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weirgate_campaign::{Run, load, saved, unusable};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_document::did_you_mean;
use weirgate_lab::KernelChoice;
use weirgate_report::html::Section;

/// Subcommands of the laboratory.
#[derive(Subcommand)]
pub enum Command {
    /// Run experiments on a stock kernel in a virtual machine under virtual time.
    ///
    /// Needs no root. Exit status 1 if a figure differs from what its
    /// experiment expects.
    Run(Run),
    /// Describe experiments.
    List {
        /// Experiment files, folders of them, or names of experiments that come with weirgate;
        /// without paths, all of these.
        paths: Vec<PathBuf>,
    },
    /// Make the laboratory ready: fetch a guest kernel, build the guest image.
    Prepare {
        /// Fetch the kernel even if it exists already.
        #[arg(long)]
        refresh: bool,
        /// The kernel: cloud (the laboratory's default), generic, 6.12 or 6.1, which are fetched;
        /// or a bzImage, or a folder with `vmlinuz` and modules.
        #[arg(long)]
        kernel: Option<KernelChoice>,
    },
}

/// Runs the subcommand.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Run(mut arguments) => {
            for file in &mut arguments.files {
                *file = by_name(file)?;
            }
            weirgate_campaign::run(&arguments)
        }
        Command::List { paths } => list(&paths),
        Command::Prepare { refresh, kernel } => prepare(refresh, kernel),
    }
}

fn prepare(refresh: bool, kernel: Option<KernelChoice>) -> Outcome {
    let options = weirgate_lab::Options {
        kernel,
        ..weirgate_lab::Options::default()
    };
    weirgate_lab::prepare(&options, refresh, &mut |note| output::note(note))
        .map_err(|error| unusable(error, options.kernel.as_ref()))?;
    Ok(Status::Done)
}

fn list(paths: &[PathBuf]) -> Outcome {
    let own;
    let paths = if paths.is_empty() {
        own = [own_experiments()?];
        &own[..]
    } else {
        paths
    };
    let mut text = String::new();
    for file in experiment_files(paths)? {
        let experiment = load(&file, &[])?.1;
        let arms: Vec<&str> = experiment
            .arms
            .iter()
            .map(|arm| arm.name.as_str())
            .collect();
        let _ = writeln!(text, "{}  {}", experiment.name, experiment.title);
        let _ = writeln!(text, "    from  {}", experiment.source);
        if !experiment.covers.is_empty() {
            let _ = writeln!(text, "    also  {}", experiment.covers.join(", "));
        }
        let _ = writeln!(text, "    arms  {}", arms.join(", "));
        let seconds = experiment.duration().as_secs_f64();
        if seconds > 0.0 {
            let _ = writeln!(text, "    takes {seconds:.0} virtual seconds for each arm");
        }
    }
    output::data(&text)?;
    Ok(Status::Done)
}

/// Returns the folder of weirgate's own experiments: in the current folder, in the installation of
/// the program, or in the source tree of its build.
pub fn own_experiments() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let beside = program.parent().unwrap_or_else(|| Path::new("/"));
    let looked = [
        PathBuf::from("experiments"),
        above(beside, 1).join("share/weirgate/experiments"),
        above(beside, 2).join("experiments"),
    ];
    if let Some(found) = looked.iter().find(|folder| folder.is_dir()) {
        return Ok(found.clone());
    }
    let looked: Vec<String> = looked
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    Err(Failure::Input(format!(
        "weirgate: no experiments found; looked at {}; name files or folders",
        looked.join(", ")
    )))
}

/// Returns the folder that many levels up.
fn above(folder: &Path, levels: usize) -> &Path {
    folder.ancestors().nth(levels).unwrap_or(folder)
}

/// Returns the named files, and the files in named folders in order of name.
fn experiment_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let path = by_name(path)?;
        if path.is_dir() {
            let inside = in_folder(&path)?;
            if inside.is_empty() {
                let message = format!("{}: no experiment files (*.toml)", path.display());
                return Err(wrong(message));
            }
            files.extend(inside.into_values());
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn in_folder(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    weirgate_campaign::folder::files(folder)
        .map_err(|error| wrong(format!("{}: {error}", folder.display())))
}

/// Returns a path as it is given, or the file of weirgate's own experiment with that name.
fn by_name(given: &Path) -> Result<PathBuf, Failure> {
    let is_there = given.symlink_metadata().is_ok();
    let is_file = given.extension().is_some_and(|ending| ending == "toml");
    let Some(name) = given
        .to_str()
        .filter(|name| !is_there && !is_file && !name.contains('/'))
    else {
        return Ok(given.to_owned());
    };
    let mut own = in_folder(&own_experiments()?)?;
    own.remove(name).ok_or_else(|| {
        let otherwise = || "`weirgate-lab lab list` names those that come with it".to_owned();
        let hint = did_you_mean(name, own.keys().map(String::as_str), otherwise);
        wrong(format!(
            "{name}: No such file or directory, and no experiment is called so; {hint}"
        ))
    })
}

/// `weirgate report`: draws saved results again.
pub fn report(folders: &[PathBuf], file: &Path) -> Outcome {
    let mut sections = Vec::new();
    for folder in folders {
        sections.push(saved::read(folder)?.findings(Section::new));
    }
    saved::write_report("weirgate: experiments", &sections, &[], file)?;
    Ok(Status::Done)
}

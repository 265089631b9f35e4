// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that a program generates about itself: manual pages, completions.

use crate::exit::{Failure, Outcome, Status};
#[cfg(not(feature = "packed"))]
use crate::manual;
use crate::output;
use clap::{Command, Subcommand};
use clap_complete::shells;
use std::collections::BTreeMap;
use std::path::Path;
#[cfg(not(feature = "packed"))]
use std::{fs, path::PathBuf};

/// Pages by their paths below the reference's folder.
pub type Pages = BTreeMap<String, Vec<u8>>;

/// Writes pages into a folder, or with `check`, reports which files there differ.
///
/// # Errors
/// Fails if a file cannot be written.
#[cfg(not(feature = "packed"))]
pub fn write(folder: &Path, pages: Pages, check: bool) -> Outcome {
    let mut status = Status::Done;
    for (name, content) in pages {
        let path = folder.join(&name);
        if !check {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, content)?;
        } else if fs::read(&path).ok().as_ref() != Some(&content) {
            output::note(&format!(
                "{} is not what the program writes",
                path.display()
            ));
            status = Status::Differs;
        }
    }
    Ok(status)
}

/// Returns one manual page for each command of a program, except those of another program. These
/// have an argument `ARGUMENTS`, and the other program has their pages.
#[cfg(not(feature = "packed"))]
fn manual_pages(program: Command) -> Result<Pages, Failure> {
    let folder = tempfile::tempdir()?;
    let mut handed = Vec::new();
    let name = program.get_name().to_owned();
    handed_over(&program, &name, &mut handed);
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut environments = BTreeMap::new();
    manual::environments(&program, &mut environments);
    clap_mangen::generate_to(manual::with_synopsis(program), folder.path())?;
    let mut pages = Pages::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !handed.contains(&name) {
            let mut page = fs::read(entry.path())?;
            if let Some(section) = environments.get(&name) {
                page.extend_from_slice(section.as_bytes());
            }
            pages.insert(format!("man/{name}"), page);
        }
    }
    Ok(pages)
}

#[cfg(not(feature = "packed"))]
fn handed_over(command: &Command, name: &str, found: &mut Vec<String>) {
    for part in command.get_subcommands() {
        let name = format!("{name}-{}", part.get_name());
        if part
            .get_arguments()
            .any(|one| one.is_trailing_var_arg_set() && one.get_id() == "arguments")
        {
            found.push(format!("{name}.1"));
        }
        handed_over(part, &name, found);
    }
}

/// A shell that packages have completions for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Shell {
    /// bash(1).
    Bash,
    /// fish(1).
    Fish,
    /// zsh(1).
    Zsh,
}

/// Hidden commands of every program, about the program itself.
#[derive(Subcommand)]
pub enum About {
    /// Print the completions of a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages and what else belongs to the reference into a folder.
    #[cfg(not(feature = "packed"))]
    #[command(hide = true)]
    Reference {
        /// The folder.
        folder: PathBuf,
        /// Write nothing; exit status 1 if a file there differs.
        #[arg(long)]
        check: bool,
    },
}

impl About {
    /// Runs a command for `program`. `more` returns further pages of its reference for the given
    /// folder, in addition to manual pages.
    ///
    /// # Errors
    /// Fails if a file or standard output cannot be written, or `more` fails.
    pub fn run(
        &self,
        program: Command,
        #[cfg_attr(
            feature = "packed",
            expect(unused_variables, reason = "no command asks for them")
        )]
        more: impl FnOnce(&Path) -> Result<Pages, Failure>,
    ) -> Outcome {
        match self {
            Self::Completions { shell } => completions(*shell, program),
            #[cfg(not(feature = "packed"))]
            Self::Reference { folder, check } => {
                let mut pages = manual_pages(program)?;
                pages.extend(more(folder)?);
                write(folder, pages, *check)
            }
        }
    }
}

/// Prints the completions of a shell.
fn completions(shell: Shell, mut program: Command) -> Outcome {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    let program = &mut program;
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, program, name, &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, program, name, &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, program, name, &mut script),
    }
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Status::Done)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds and removes users in the access file of `weirgate watch`.

use std::io::{self, BufRead as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_watch::{Access, password, read_text, token};

/// The user to admit.
#[derive(clap::Args)]
pub struct Admit {
    /// The user name, for which browsers ask.
    name: String,
    /// The file of `weirgate watch --access`; it is created if it does not exist.
    #[arg(long, value_name = "FILE")]
    access: PathBuf,
    /// Read a password of at least twelve characters from standard input instead of making a token.
    #[arg(long)]
    password: bool,
}

/// The user to remove.
#[derive(clap::Args)]
pub struct Dismiss {
    /// The name.
    name: String,
    /// The file of `weirgate watch --access`.
    #[arg(long, value_name = "FILE")]
    access: PathBuf,
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("weirgate: {}: {why}", path.display()))
}

/// `weirgate watch admit`: adds a user, or gives a user a new secret.
pub fn admit(arguments: &Admit) -> Outcome {
    let path = &arguments.access;
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(wrong(path, error)),
    };
    let refused = |why: String| Failure::Input(format!("weirgate: {why}"));
    let (shown, line) = if arguments.password {
        let secret = asked(&arguments.name)?;
        (None, password(&arguments.name, &secret).map_err(refused)?)
    } else {
        let (token, line) = token(&arguments.name).map_err(refused)?;
        (Some(token), line)
    };
    let (mut lines, was) = without(&text, &arguments.name);
    lines.push(line);
    write(path, &lines)?;
    let done = if was {
        "has a new"
    } else {
        "may log in with this"
    };
    match shown {
        Some(token) => {
            output::note(&format!(
                "weirgate: {} {done} token, which is shown only now:",
                arguments.name
            ));
            output::data(&token)?;
        }
        None => output::note(&format!("weirgate: {} {done} password", arguments.name)),
    }
    Ok(Status::Done)
}

/// `weirgate watch dismiss`.
pub fn dismiss(arguments: &Dismiss) -> Outcome {
    let path = &arguments.access;
    let text = read_text(path).map_err(|error| wrong(path, error))?;
    let (lines, was) = without(&text, &arguments.name);
    if !was {
        return Err(wrong(
            path,
            format!("nobody is called `{}`", arguments.name),
        ));
    }
    write(path, &lines)?;
    Ok(Status::Done)
}

/// Returns the lines of a file without those of one user, and whether there were any.
fn without(text: &str, name: &str) -> (Vec<String>, bool) {
    let own = |line: &&str| line.split_whitespace().next() == Some(name);
    let rest = text.lines().filter(|line| !own(line));
    (
        rest.map(str::to_owned).collect(),
        text.lines().any(|line| own(&line)),
    )
}

/// Replaces the file in one step, and keeps its owner and permissions. Only its owner can read a
/// new file. Refuses lines that would not be valid.
fn write(path: &Path, lines: &[String]) -> Result<(), Failure> {
    let text = lines.join("\n") + "\n";
    if let Err(problems) = Access::parse(&text) {
        let named = problems
            .iter()
            .map(|why| format!("{}{why}", path.display()));
        let named: Vec<String> = named.collect();
        return Err(Failure::Input(format!("weirgate: {}", named.join("\n"))));
    }
    // If the path is a link, replace its target.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        if let Ok(old) = std::fs::metadata(&path) {
            let mode = std::fs::Permissions::from_mode(old.mode() & 0o777);
            std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
            file.as_file().set_permissions(mode)?;
        }
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| wrong(&path, error))
}

/// Reads a line of standard input, without echo at a terminal.
fn asked(name: &str) -> Result<String, Failure> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let input = io::stdin();
    // The input is not a terminal if this fails.
    let before = tcgetattr(&input).ok();
    if let Some(before) = &before {
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&input, OptionalActions::Now, &silent).map_err(io::Error::from)?;
        output::note(&format!("The password of {name}:"));
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(before) = &before {
        tcsetattr(&input, OptionalActions::Now, before).map_err(io::Error::from)?;
    }
    read?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

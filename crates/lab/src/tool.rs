// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs of the host that the laboratory runs: finds them, and tells what to install if one
//! is missing.

use crate::error::LabError;
use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many lines of a failed command's output the error shows.
const SHOWN_LINES: usize = 15;

/// A program of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    program: &'static str,
    purpose: &'static str,
    install: &'static str,
}

/// The emulator.
pub(crate) const QEMU: Tool = Tool {
    program: "qemu-system-x86_64",
    purpose: "the lab's virtual machine",
    install: "apt-get install qemu-system-x86",
};

/// Ends the emulator with the process that started it.
pub(crate) const SETPRIV: Tool = Tool {
    program: "setpriv",
    purpose: "ends the virtual machine when weirgate ends",
    install: "apt-get install util-linux",
};

/// Sets the emulator's scheduling policy.
pub(crate) const CHRT: Tool = Tool {
    program: "chrt",
    purpose: "lets the virtual machine's threads work in turn",
    install: "apt-get install util-linux",
};

/// Fetches packages and checks their signatures.
pub(crate) const APT_GET: Tool = Tool {
    program: "apt-get",
    purpose: "fetches the guest kernel and checks its signature",
    install: "on a system without apt, name a kernel with --kernel instead",
};

/// Resolves package names.
pub(crate) const APT_CACHE: Tool = Tool {
    program: "apt-cache",
    ..APT_GET
};

/// Tells apt's configuration.
pub(crate) const APT_CONFIG: Tool = Tool {
    program: "apt-config",
    ..APT_GET
};

/// Unpacks packages.
pub(crate) const DPKG_DEB: Tool = Tool {
    program: "dpkg-deb",
    purpose: "unpacks the guest kernel",
    install: "apt-get install dpkg",
};

/// Unpacks the kernel's source.
pub(crate) const TAR: Tool = Tool {
    program: "tar",
    purpose: "unpacks the kernel's source",
    install: "apt-get install tar xz-utils",
};

impl Tool {
    /// Returns the path of the program.
    pub(crate) fn path(self) -> Result<PathBuf, LabError> {
        find_program(self.program).ok_or(LabError::NoTool {
            program: self.program,
            purpose: self.purpose,
            install: self.install,
        })
    }

    /// Returns a command for it, without input and with messages in English.
    pub(crate) fn command(self) -> Result<Command, LabError> {
        let mut command = Command::new(self.path()?);
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        Ok(command)
    }
}

/// Finds a program by path or by name. Searches `PATH` and the directories of system programs,
/// which users' `PATH` often lacks.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let executable = |path: &Path| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        // A library is packed by its path too, because programs load it by name.
        let library = |path: &Path| path.extension().is_some_and(|kind| kind == "so");
        return Some(PathBuf::from(name)).filter(|path| executable(path) || library(path));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| executable(path))
}

/// Runs a command to its end and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String, LabError> {
    let shown = command_line(command);
    let output = command
        .output()
        .map_err(|error| failed(&shown, error.to_string(), ""))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let printed = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    Err(failed(&shown, output.status.to_string(), &printed))
}

fn failed(command: &str, status: String, output: &str) -> LabError {
    let lines: Vec<&str> = output.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    LabError::Command {
        command: command.to_owned(),
        status,
        output: shown.join("\n"),
    }
}

/// Formats a command as it would be typed into a shell.
pub(crate) fn command_line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_typed() {
        let mut command = Command::new("qemu");
        command.args(["-append", "a b", "it's", "", "x=1,y=2"]);
        assert_eq!(
            command_line(&command),
            r"qemu -append 'a b' 'it'\''s' '' x=1,y=2"
        );
    }

    #[test]
    fn failed_commands_show_the_end_of_their_output() {
        let error = output(Command::new("sh").args(["-c", "seq 100; echo why >&2; exit 3"]));
        let text = error.unwrap_err().to_string();
        assert!(text.ends_with("\n  100\n  why"), "{text}");
        assert!(
            text.contains("exit status: 3") && !text.contains(" 85\n"),
            "{text}"
        );
    }
}

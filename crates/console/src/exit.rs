// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit statuses, the same for every command.

use crate::output;
use std::process::ExitCode;

/// How a command ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done as requested.
    Done,
    /// Something differs, or a check failed.
    Differs,
}

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments or a file are wrong; the text is the complete message.
    Input(String),
    /// The kernel refused, and the old state was restored.
    Refused(String),
    /// The old state could not be restored.
    Broken(String),
    /// Any other error, for example a check that could not be made.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Returns a failure for wrong arguments.
pub fn wrong(text: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("weirgate: {text}"))
}

impl Failure {
    /// Returns the message.
    pub fn text(&self) -> String {
        match self {
            Self::Input(text) => text.clone(),
            Self::Other(error) => format!("weirgate: {}", chain(error)),
            Self::Refused(text) | Self::Broken(text) => format!("weirgate: {text}"),
        }
    }
}

/// What a command returns.
pub type Outcome = Result<Status, Failure>;

/// Prints a failure and returns the process's exit code. 0: done. 1: something differs or failed.
/// 2: error in usage, policy or experiment. 3: the kernel refused, and the old state was restored.
/// 4: the old state could not be restored.
pub fn code(outcome: Outcome) -> ExitCode {
    let failure = match outcome {
        Ok(Status::Done) => return ExitCode::SUCCESS,
        Ok(Status::Differs) => return ExitCode::from(1),
        Err(failure) => failure,
    };
    output::note(&failure.text());
    let code = match failure {
        Failure::Other(_) => 1,
        Failure::Input(_) => 2,
        Failure::Refused(_) => 3,
        Failure::Broken(_) => 4,
    };
    ExitCode::from(code)
}

/// Returns the texts of an error and its causes. Errors of libraries often end with their cause's
/// text, which is not repeated.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints clap's own message; help and version are not errors.
pub fn usage(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { 2 } else { 0 };
    if error.print().is_err() {
        return ExitCode::from(1);
    }
    ExitCode::from(code)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit statuses, the same for every command.

use crate::output;
use std::process::ExitCode;

/// How a command ended, other than by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done, and as promised.
    Done,
    /// It differs, or a check failed.
    Differs,
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The arguments or a file are wrong; what to say is already rendered.
    Input(String),
    /// The kernel refused; the old state is back.
    Refused(String),
    /// The old state could not be restored.
    Broken(String),
    /// Anything else: a check that could not be made.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// A mistake in the arguments.
pub fn wrong(text: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("weirgate: {text}"))
}

impl Failure {
    /// Its message.
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

/// Prints a failure and gives the process's exit code: 0 done; 1 it differs or
/// failed; 2 usage, policy or experiment error; 3 the kernel refused and the
/// old state is back; 4 the old state could not be restored.
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

/// An error and its causes. Errors of the libraries often end with their
/// cause's text; it is not repeated.
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

/// Prints clap's own message; help and version are no error.
pub fn usage(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { 2 } else { 0 };
    if error.print().is_err() {
        return ExitCode::from(1);
    }
    ExitCode::from(code)
}

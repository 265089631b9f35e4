// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors with stored states and their files.

use std::io;
use std::path::PathBuf;
use weirgate_kernel::{ApplyError, KernelError};
use weirgate_plan::Problem;

/// Says when a change that nobody has confirmed is undone, from the whole seconds that are left.
/// The text is a predicate for a sentence about the change.
#[must_use]
pub fn returns(seconds: u64) -> String {
    match seconds {
        0 => "is being undone now, because its time is over".to_owned(),
        seconds => format!("is undone in {seconds} s"),
    }
}

/// Occurs when a stored state or file cannot be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Occurs when a file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Occurs when a file was cut off or changed after it was written.
    #[error("{} is damaged ({why}); {hint}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// The advice to the user.
        hint: &'static str,
    },
    /// Occurs when a file is whole, but this version cannot interpret it.
    #[error(
        "{} is whole, but of another version of weirgate, which this one cannot read ({why}); \
         {hint}",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What cannot be read.
        why: String,
        /// The advice to the user.
        hint: &'static str,
    },
    /// Occurs when another user may change a file, a folder, or a folder above it.
    #[error("{} {wrong}, so its content is not trusted: {right}", path.display())]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        wrong: String,
        /// The command that corrects it.
        right: String,
    },
    /// Occurs when another weirgate process is changing this kernel.
    #[error("another weirgate is changing this kernel")]
    Busy,
    /// Occurs when another service already runs `keep`, `links` or `pods` in this network
    /// namespace.
    #[error("another `weirgate {0}` already runs in this network namespace; end it first")]
    Held(&'static str),
    /// Occurs when a change has to be confirmed or taken back first.
    #[error(
        "change {number} is not confirmed yet and {}: `weirgate confirm` or `weirgate rollback` \
         first",
        returns(*seconds)
    )]
    Unconfirmed {
        /// The number of its entry.
        number: u64,
        /// The seconds that are left for confirmation.
        seconds: u64,
    },
    /// Occurs when a newer change was begun during this one, which the lock should prevent. This
    /// change is given up.
    #[error(
        "change {0} was begun meanwhile, although this kernel was locked; was something \
         deleted in /run/weirgate?"
    )]
    Fenced(u64),
    /// Occurs when there is nothing to confirm or to restore.
    #[error("{0}")]
    Nothing(String),
    /// Occurs when the present routing over several links cannot be stored so that it could be
    /// restored. Nothing has been changed.
    #[error(
        "the present routing over several links cannot be stored so that it can be restored; \
         nothing was changed: look at the priorities 7700 to 7799 of `ip rule`, and remove what \
         is not weirgate's"
    )]
    NotRestorable,
    /// Occurs when the guard process cannot be started or does not answer.
    #[error("the guard process: {0}")]
    Guard(String),
    /// Occurs when no plan can be made; nothing has been changed.
    #[error("{}", lines(.0))]
    NoPlan(Vec<Problem>),
    /// Occurs when a netlink request fails.
    #[error(transparent)]
    Kernel(Box<KernelError>),
    /// Occurs when a change fails.
    #[error(transparent)]
    Apply(Box<ApplyError>),
    /// Occurs when circuits cannot be brought into force; the text names the device and the reason.
    #[error("{0}")]
    Circuits(String),
}

impl From<KernelError> for KeepError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl From<ApplyError> for KeepError {
    fn from(error: ApplyError) -> Self {
        Self::Apply(Box::new(error))
    }
}

impl KeepError {
    /// Returns whether the content is lost: the file is damaged or missing.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Nothing(_))
    }

    /// Returns whether another process keeps the lock on pins: a later attempt may succeed.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_held(),
            Self::Apply(error) => error.is_held(),
            _ => false,
        }
    }

    /// Makes an error from a failed file operation, for `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

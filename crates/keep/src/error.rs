// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors with stored states and their files.

use std::io;
use std::path::PathBuf;
use weirgate_kernel::{ApplyError, KernelError};
use weirgate_plan::Problem;

/// When a change that nobody has confirmed is taken back, by the whole seconds
/// that are left; as what it does.
#[must_use]
pub fn returns(seconds: u64) -> String {
    match seconds {
        0 => "is being undone now, because its time is over".to_owned(),
        seconds => format!("is undone in {seconds} s"),
    }
}

/// Occurs when something that weirgate keeps cannot be read, written or used.
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
    /// Occurs when a file is not what was written: cut off, or changed.
    #[error("{} is damaged ({why}); {hint}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// Occurs when a file is whole, and this version cannot read what it says.
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
        /// What to do.
        hint: &'static str,
    },
    /// Occurs when somebody else may change a file, a folder, or a folder above it.
    #[error("{} {wrong}, so its content is not trusted: {right}", path.display())]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        wrong: String,
        /// What would be right.
        right: String,
    },
    /// Occurs when another weirgate is changing this kernel.
    #[error("another weirgate is changing this kernel")]
    Busy,
    /// Occurs when a service holds the like in this network namespace: `links` or `pods`.
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
        /// Whole seconds that are left.
        seconds: u64,
    },
    /// Occurs when a newer change was begun while this one was under way, which
    /// the lock forbids; this one is given up.
    #[error(
        "change {0} was begun meanwhile, although this kernel was locked; was something \
         deleted in /run/weirgate?"
    )]
    Fenced(u64),
    /// Occurs when there is nothing to confirm or to go back to.
    #[error("{0}")]
    Nothing(String),
    /// Occurs when what routes over several links cannot be stored as it is, so that nobody
    /// could take a change of it back; nothing has been changed.
    #[error(
        "the present routing over several links cannot be stored so that it can be restored; \
         nothing was changed: look at the priorities 7700 to 7799 of `ip rule`, and remove what \
         is not weirgate's"
    )]
    NoWayBack,
    /// Occurs when the guard process cannot be started or does not answer.
    #[error("the guard process: {0}")]
    Guard(String),
    /// Occurs when no plan can be made; nothing has been changed.
    #[error("{}", lines(.0))]
    NoPlan(Vec<Problem>),
    /// Occurs when the kernel cannot be asked.
    #[error(transparent)]
    Kernel(Box<KernelError>),
    /// Occurs when a change fails.
    #[error(transparent)]
    Apply(Box<ApplyError>),
    /// Occurs when circuits cannot be brought into force: whose, and why not.
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
    /// Whether what was to be read is lost: it is damaged, or not there.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Nothing(_))
    }

    /// For `map_err` on a file operation.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

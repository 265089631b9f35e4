// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the kernel, with the object and the policy line.

use libc::{EAFNOSUPPORT, EEXIST, EINVAL, ENOBUFS, ENODEV, ENOENT, EOPNOTSUPP, EPERM};
use nlink::ErrorKind;
use rustix::thread::{CapabilitySet, capabilities};
use std::{fmt, io};
use weirgate_plan::{Difference, Problem};
use weirgate_state::{DeviceName, Origin, Program};

/// Occurs when the kernel refuses a request, or a netlink socket fails.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Occurs when the kernel answers a request with an error number.
    #[error("{0}")]
    Refused(Refusal),
    /// Occurs when a netlink socket cannot be opened, written or read.
    #[error("K311: {doing}: {source}")]
    Socket {
        /// The operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Occurs when an answer does not have the documented form.
    #[error("K312: {what}: the kernel's answer cannot be read")]
    Malformed {
        /// What was requested.
        what: String,
    },
    /// Occurs when a listing changes during every attempt to read it.
    #[error("K313: {what}: something else keeps changing it")]
    Unsteady {
        /// What was listed.
        what: String,
    },
    /// Occurs when something has to be written that can only be observed.
    #[error("K315: {0}: this cannot be written")]
    Unwritable(String),
    /// Occurs when a program for a device's hooks cannot be loaded.
    #[error("K316: {object}: {source}{denial}")]
    Program {
        /// The program.
        program: Program,
        /// The object and the operation.
        object: String,
        /// The cause.
        #[source]
        source: weirgate_bpf::BpfError,
        /// The capability that is missing, as the end of the message.
        denial: &'static str,
    },
    /// Occurs when a program or a map of the kit is refused, or cannot be used.
    #[error("K317: {object}: {source}")]
    Kit {
        /// The object and the operation.
        object: String,
        /// The cause.
        #[source]
        source: weirgate_bpf::BpfError,
    },
    /// Occurs when a hook qdisc of another program cannot take the filter.
    #[error("K318: {device}: its `{kind}` qdisc, which weirgate did not make, {why}")]
    HookQdisc {
        /// The device.
        device: DeviceName,
        /// The kind of the qdisc.
        kind: String,
        /// What prevents it, and the correction.
        why: &'static str,
    },
    /// Occurs when a device is not in this namespace.
    #[error("K301: {0}: there is no such network device")]
    NoDevice(String),
}

impl KernelError {
    /// Returns the error of a failed netlink socket.
    pub(crate) fn socket(doing: &'static str, error: &nlink::Error) -> Self {
        Self::Socket {
            doing,
            source: system(error),
        }
    }

    /// Returns whether a socket's receive buffer was too small for the kernel's answers.
    pub(crate) fn is_overrun(&self) -> bool {
        matches!(self, Self::Socket { source, .. } if source.raw_os_error() == Some(ENOBUFS))
    }

    /// Returns whether another process keeps the lock on pins: a later attempt may succeed.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Kit { source, .. } | Self::Program { source, .. } if source.is_held())
    }

    /// Returns the program that this kernel does not accept, if that is the cause. A missing
    /// capability or lack of memory is another cause.
    #[must_use]
    pub fn refused_program(&self) -> Option<Program> {
        match self {
            Self::Program {
                program,
                source,
                denial: "",
                ..
            } if source.is_verdict() => Some(*program),
            _ => None,
        }
    }
}

/// Converts an error of nlink to the system's error. nlink's own message names everything that
/// nlink can do, which would add 20 kB to the program for routers.
fn system(error: &nlink::Error) -> io::Error {
    let number = error.errno().map(io::Error::from_raw_os_error);
    match (number, error.ext_ack()) {
        (Some(number), None) => number,
        (Some(number), Some(text)) => io::Error::new(number.kind(), format!("{number}: {text}")),
        (None, _) => match error.kind() {
            ErrorKind::Truncated => io::Error::other("a message is longer than the room for it"),
            ErrorKind::Overrun => io::Error::other("messages were lost"),
            ErrorKind::NotSupported => io::ErrorKind::Unsupported.into(),
            ErrorKind::NotFound => io::ErrorKind::NotFound.into(),
            ErrorKind::Timeout => io::ErrorKind::TimedOut.into(),
            _ => io::ErrorKind::InvalidData.into(),
        },
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The object and the operation.
    pub object: String,
    /// The error number (errno-base.h, errno.h), positive.
    pub errno: i32,
    /// The kernel's extended message (`NLMSGERR_ATTR_MSG`), if there is one.
    pub text: Option<String>,
    /// For EPERM: why it was not permitted.
    pub denial: Option<Denial>,
    /// The policy line behind the object.
    pub origin: Origin,
}

impl KernelError {
    /// Returns whether this process lacks the permission, so that another attempt would fail too.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.errno == EPERM)
    }
}

/// Why the kernel answers EPERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// This thread does not have the capability.
    NoCapability,
    /// It has the capability, in a user namespace that does not own the
    /// network namespace (user_namespaces(7)).
    OtherNamespace,
    /// It has the capability, but another process created the table and owns it
    /// (`NFT_TABLE_F_OWNER`, `nft_table_lookup` of nf_tables_api.c).
    OwnedTable,
}

impl Denial {
    /// Returns why a request failed with this error number. `in_table` says that it reached
    /// nf_tables itself, after the check of capabilities.
    pub(crate) fn of(errno: i32, in_table: bool) -> Option<Self> {
        if errno != EPERM {
            return None;
        }
        let own = capabilities(None);
        let capable = own.is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
        Some(match (capable, in_table) {
            (false, _) => Self::NoCapability,
            (true, false) => Self::OtherNamespace,
            (true, true) => Self::OwnedTable,
        })
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCapability => "this needs CAP_NET_ADMIN in this network namespace",
            Self::OtherNamespace => {
                "CAP_NET_ADMIN is held, but not in the user namespace that owns this network \
                 namespace"
            }
            Self::OwnedTable => {
                "another process owns the table, see `nft list tables`; it must give it up or end"
            }
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "K310: {}: the kernel refused: ", self.object)?;
        match errno_name(self.errno) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "error {}", self.errno)?,
        }
        if let Some(text) = &self.text {
            write!(f, ": {text}")?;
        }
        if let Some(denial) = self.denial {
            write!(f, " ({denial})")?;
        }
        if self.origin.line != 0 {
            write!(f, " [{}]", self.origin)?;
        }
        Ok(())
    }
}

/// Returns the name of an error number that net/sched, rtnetlink or nf_tables use.
fn errno_name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        EPERM => "EPERM",
        ENOENT => "ENOENT",
        4 => "EINTR",
        6 => "ENXIO",
        7 => "E2BIG",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        16 => "EBUSY",
        EEXIST => "EEXIST",
        ENODEV => "ENODEV",
        EINVAL => "EINVAL",
        23 => "ENFILE",
        28 => "ENOSPC",
        31 => "EMLINK",
        34 => "ERANGE",
        38 => "ENOSYS",
        40 => "ELOOP",
        75 => "EOVERFLOW",
        90 => "EMSGSIZE",
        EOPNOTSUPP => "EOPNOTSUPP",
        EAFNOSUPPORT => "EAFNOSUPPORT",
        100 => "ENETDOWN",
        ENOBUFS => "ENOBUFS",
        110 => "ETIMEDOUT",
        _ => return None,
    })
}

/// Occurs when a plan could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Occurs when something failed and the former state was restored. Exit status 3.
    #[error("{cause}\nThe former state is back.")]
    Restored {
        /// What failed.
        cause: Cause,
    },
    /// Occurs when something failed and the former state could not be restored. Exit status 4.
    #[error("{cause}\nThe former state could not be restored: {}", lost(.differences, .because.as_ref()))]
    Lost {
        /// The first failure.
        cause: Cause,
        /// Why the former state could not be restored, if there was one error.
        because: Option<Cause>,
        /// What still differs from the former state.
        differences: Vec<Difference>,
    },
}

impl ApplyError {
    /// Does the same as [`KernelError::refused_program`], if the former state was restored.
    #[must_use]
    pub fn refused_program(&self) -> Option<Program> {
        match self {
            Self::Restored {
                cause: Cause::Kernel(error),
            } => error.refused_program(),
            _ => None,
        }
    }

    /// Returns whether another process kept the lock on pins. If the former state is not back, it
    /// may come back once the lock is free.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        match self {
            Self::Restored { cause }
            | Self::Lost {
                because: Some(cause),
                ..
            } => cause.is_held(),
            Self::Lost { .. } => false,
        }
    }
}

impl Cause {
    /// Returns whether another process keeps the lock on pins: a later attempt may succeed.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Kernel(error) if error.is_held())
    }
}

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Occurs when a step fails.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Occurs when every step succeeds but the resulting state differs from the requested one.
    #[error("K314: the kernel accepted every step, but differs from the requested state: {}", list(.0))]
    Differs(Vec<Difference>),
    /// Occurs when there is no plan back to the former state.
    #[error("{}", problems(.0))]
    NoPlanBack(Vec<Problem>),
}

fn list(differences: &[Difference]) -> String {
    let lines: Vec<String> = differences.iter().map(Difference::to_string).collect();
    lines.join("; ")
}

fn problems(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("; ")
}

fn lost(differences: &[Difference], because: Option<&Cause>) -> String {
    match because {
        Some(cause) if differences.is_empty() => cause.to_string(),
        Some(cause) => format!("{cause}; {}", list(differences)),
        None => list(differences),
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors with programs and maps.

use std::path::PathBuf;
use thiserror::Error;

/// Occurs when the kernel refuses a program, or it is not what it should be.
#[derive(Debug, Error)]
pub enum BpfError {
    /// There is no program for the discipline.
    #[error("{0} has no program for the kernel")]
    NoProgram(&'static str),
    /// The kernel did not take the program; its words say why.
    #[error("the kernel does not take {kind}: {source}{log}")]
    Refused {
        /// The qdisc.
        kind: String,
        /// The message of libbpf.
        source: libbpf_rs::Error,
        /// What libbpf and the verifier printed, after a line break.
        log: String,
    },
    /// A loaded program could not be used.
    #[error("the program {name} cannot be {doing}: {source}")]
    Program {
        /// The program.
        name: &'static str,
        /// `held` or `run`.
        doing: &'static str,
        /// The message of libbpf or the system.
        source: libbpf_rs::Error,
    },
    /// A map could not be read or written.
    #[error("the map `{map}` of {kind} cannot be {doing}: {source}")]
    Map {
        /// The qdisc.
        kind: String,
        /// The map.
        map: &'static str,
        /// `read`, `written`, ...
        doing: &'static str,
        /// The message of libbpf.
        source: libbpf_rs::Error,
    },
    /// Program and library disagree about a map's layout.
    #[error(
        "the map `{map}` of {kind} has values of {found} bytes where this program has {expected}: \
         it was loaded by another version; unload it with that one"
    )]
    Layout {
        /// The qdisc.
        kind: String,
        /// The map.
        map: &'static str,
        /// What is there.
        found: u32,
        /// What this program knows.
        expected: u32,
    },
    /// Program and library disagree about what rows have.
    #[error(
        "the rows of {0} have another layout: it was loaded by another version; unload it with \
         that one"
    )]
    Rows(String),
    /// A pin could not be made, opened or removed.
    #[error("{path} cannot be {doing}: {source}")]
    Pin {
        /// Where.
        path: PathBuf,
        /// `made`, `opened`, ...
        doing: &'static str,
        /// The message of the system.
        source: libbpf_rs::Error,
    },
    /// A file or folder of a BPF file system could not be used.
    #[error("{path} cannot be {doing}: {source}")]
    File {
        /// Where.
        path: PathBuf,
        /// `made`, `removed`, ...
        doing: &'static str,
        /// The message of the system.
        source: std::io::Error,
    },
    /// The network namespace could not be identified.
    #[error("the network namespace cannot be identified: {0}")]
    Namespace(std::io::Error),
    /// Nobody knows the discipline of a shaper's program any more.
    #[error("the discipline of {kind} no longer exists: {why}")]
    NoOwn {
        /// The qdisc.
        kind: String,
        /// Why its file cannot be used.
        why: String,
    },
    /// The settings are another discipline's.
    #[error("these are settings of {given}; the qdisc is {kind}")]
    Other {
        /// The qdisc.
        kind: String,
        /// Whose settings they are.
        given: &'static str,
    },
    /// The classes of a shaper are more or other than it can have.
    #[error("{0}")]
    Classes(String),
}

impl BpfError {
    /// Whether the kernel does not take the program itself, as its verifier decides; want of
    /// memory is another reason.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Refused { source, .. }
            if source.kind() != libbpf_rs::ErrorKind::OutOfMemory)
    }
}

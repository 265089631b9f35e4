// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of programs and maps.

use std::path::PathBuf;
use thiserror::Error;

/// The error of an operation on BPF programs, maps or pins.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The program does not exist.
    #[error("{0} has no program for the kernel")]
    NoProgram(&'static str),
    /// The kernel rejected the program; the log says why.
    #[error("the kernel does not take {kind}: {source}{log}")]
    Refused {
        /// The qdisc.
        kind: String,
        /// The message of libbpf.
        source: libbpf_rs::Error,
        /// What libbpf and the verifier printed, after a line break.
        log: String,
    },
    /// An operation on a loaded program failed.
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
    /// The map has another layout than this version of the program expects.
    #[error(
        "the map `{map}` of {kind} has values of {found} bytes where this program has {expected}: \
         it was loaded by another version; unload it with that one"
    )]
    Layout {
        /// The qdisc.
        kind: String,
        /// The map.
        map: &'static str,
        /// The size of values that was found.
        found: u32,
        /// The size that this version expects.
        expected: u32,
    },
    /// The rows have another layout than this version expects.
    #[error(
        "the rows of {0} have another layout: it was loaded by another version; unload it with \
         that one"
    )]
    Rows(String),
    /// A pin could not be made, opened or removed.
    #[error("{path} cannot be {doing}: {source}")]
    Pin {
        /// The path.
        path: PathBuf,
        /// `made`, `opened`, ...
        doing: &'static str,
        /// The message of the system.
        source: libbpf_rs::Error,
    },
    /// A file or folder of a BPF file system could not be used.
    #[error("{path} cannot be {doing}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// `made`, `removed`, ...
        doing: &'static str,
        /// The message of the system.
        source: std::io::Error,
    },
    /// Another process keeps the lock on pins.
    #[error("{} is locked by {holder}; if it hangs, end it", path.display())]
    Held {
        /// The locked folder.
        path: PathBuf,
        /// The process, as far as it is known.
        holder: String,
    },
    /// Another user may change a folder of pins.
    #[error("{} {wrong}, so its pins are not trusted; remove it", path.display())]
    Untrusted {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        wrong: String,
    },
    /// The network namespace could not be identified.
    #[error("the network namespace cannot be identified: {0}")]
    Namespace(std::io::Error),
    /// The discipline that the program of a shaper includes is not available any more.
    #[error("the discipline of {kind} no longer exists: {why}")]
    NoOwn {
        /// The qdisc.
        kind: String,
        /// Why its file cannot be used.
        why: String,
    },
    /// The settings are those of another discipline.
    #[error("these are settings of {given}; the qdisc is {kind}")]
    Other {
        /// The qdisc.
        kind: String,
        /// The discipline of these settings.
        given: &'static str,
    },
    /// The number or kind of classes is not possible.
    #[error("{0}")]
    Classes(String),
}

impl BpfError {
    /// Returns whether the program was rejected because the kernel has no qdiscs of BPF programs,
    /// or no type information. Then libbpf does not find their functions (net/sched/bpf_qdisc.c)
    /// or their structure.
    #[must_use]
    pub fn lacks_qdiscs(&self) -> bool {
        let lacks = |line: &str| {
            let function = ["bpf_kfree_skb", "bpf_qdisc_skb_drop"]
                .into_iter()
                .any(|name| line.contains(name));
            (line.contains("extern") && function)
                || line.contains("Qdisc_ops is not found")
                || line.contains("loading vmlinux BTF")
        };
        matches!(self, Self::Refused { log, .. } if log.lines().any(lacks))
    }

    /// Returns whether another process keeps the lock on pins: a later attempt may succeed.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// Returns whether the verifier rejected the program itself; a lack of memory is another
    /// reason.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Refused { source, .. }
            if source.kind() != libbpf_rs::ErrorKind::OutOfMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_bpf_qdiscs_is_recognised() {
        let refused = |log: &str| BpfError::Refused {
            kind: "codel".to_owned(),
            source: libbpf_rs::Error::from_raw_os_error(22),
            log: log.to_owned(),
        };
        for log in [
            "\nlibbpf: extern (func ksym) 'bpf_kfree_skb': not found in kernel or module BTFs",
            "\nlibbpf: struct_ops init_kern: struct Qdisc_ops is not found in kernel BTF",
            "\nlibbpf: Error loading vmlinux BTF: -3",
        ] {
            assert!(refused(log).lacks_qdiscs(), "{log}");
        }
        // A verifier's log shows calls of the same functions.
        assert!(!refused("\n12: (85) call bpf_kfree_skb#1234\nR1 is no pointer").lacks_qdiscs());
    }
}

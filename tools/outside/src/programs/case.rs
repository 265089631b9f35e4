// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cases of the kernel's selftest of BPF qdiscs (`prog_tests/bpf_qdisc.c`), with the source of
//! each.

use serde::{Deserialize, Serialize};

/// What is tested with an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Case {
    /// The loopback device has this kind of qdisc, and carries a connection.
    Carries(String),
    /// A queue of `mq` accepts this kind.
    UnderMq(String),
    /// A class of `htb` rejects this kind.
    UnderAClass(String),
    /// The queues of `mq` have this kind if it is the system's default.
    Default(String),
    /// It loads, but registering its operations fails.
    Incomplete,
    /// It loads.
    Loaded,
    /// The verifier rejects it, with each of these texts in its message.
    Refused(Vec<String>),
}

/// Returns the subtests in `prog_tests/bpf_qdisc.c`: name, source, and case.
pub fn stated() -> Vec<(&'static str, &'static str, Case)> {
    let fifo = || "bpf_fifo".to_owned();
    vec![
        ("fifo", "bpf_qdisc_fifo", Case::Carries(fifo())),
        ("fq", "bpf_qdisc_fq", Case::Carries("bpf_fq".to_owned())),
        ("attach to mq", "bpf_qdisc_fifo", Case::UnderMq(fifo())),
        (
            "attach to non root",
            "bpf_qdisc_fifo",
            Case::UnderAClass(fifo()),
        ),
        (
            "incompl_ops",
            "bpf_qdisc_fail__incompl_ops",
            Case::Incomplete,
        ),
        ("default", "bpf_qdisc_fifo", Case::Default(fifo())),
    ]
}

/// Returns the case that a source declares with the marks of `bpf_misc.h`; `None` if it declares
/// none.
pub fn marked(source: &str) -> Option<Case> {
    if source.contains("__success") {
        return Some(Case::Loaded);
    }
    if !source.contains("__failure") {
        return None;
    }
    let words = source.split("__msg(\"").skip(1);
    let words = words.filter_map(|rest| rest.split('"').next());
    Some(Case::Refused(words.map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_what_becomes_of_it() {
        let refused = "SEC(\"struct_ops\")\n__failure __msg(\"only read\")\nint x;";
        let words = vec!["only read".to_owned()];
        assert_eq!(marked(refused), Some(Case::Refused(words)));
        assert_eq!(marked("__success\nint x;"), Some(Case::Loaded));
        assert_eq!(marked("int x;"), None);
    }
}

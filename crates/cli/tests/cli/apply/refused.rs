// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel that refuses every program.

use crate::namespace::Namespace;
use crate::program::Ended;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::thread;

/// `BPF_PROG_LOAD` of `enum bpf_cmd` (include/uapi/linux/bpf.h).
const PROG_LOAD: u64 = 5;

/// A command for which the kernel refuses every program with the answer that a verifier
/// gives. Threads have filters of their own, and commands that they start have the same.
fn without_programs(namespace: &Namespace, line: &str) -> Ended {
    let dword = SeccompCmpArgLen::Dword;
    let load = SeccompCondition::new(0, dword, SeccompCmpOp::Eq, PROG_LOAD).unwrap();
    let refused = [(libc::SYS_bpf, vec![SeccompRule::new(vec![load]).unwrap()])];
    let filter = SeccompFilter::new(
        refused.into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EINVAL as u32),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    thread::scope(|scope| {
        let started = scope.spawn(|| {
            seccompiler::apply_filter(&filter).unwrap();
            namespace.weirgate(line)
        });
        started.join().unwrap()
    })
}

#[test]
fn without_programs_the_default_is_the_queue_alone() {
    let namespace = Namespace::new();
    let ended = without_programs(&namespace, "apply automatic.toml");
    ended.says(
        0,
        &[
            "The former state is back",
            "does not load the programs of receive windows",
            "done and read back",
        ],
    );
    let hooks = namespace.run("tc filter show dev wan ingress");
    assert!(!hooks.contains("weirgate-window"), "{hooks}");
    assert!(namespace.run("tc qdisc show dev ifb-wan").contains("htb"));
    // While the policy is applied, the kernel is not asked again.
    without_programs(&namespace, "apply automatic.toml").says(0, &["does not load the programs"]);
    let shown = namespace.weirgate("plan automatic.toml");
    assert!(shown.out.contains("nothing to change"), "{shown:?}");
    namespace.weirgate("remove").says(0, &[]);
    // After `remove` it is asked again.
    namespace.weirgate("apply automatic.toml").says(0, &[]);
    let hooks = namespace.run("tc filter show dev wan ingress");
    assert!(hooks.contains("weirgate-window"), "{hooks}");
}

#[test]
fn without_programs_what_a_policy_states_is_refused() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    without_programs(&namespace, "apply arriving.toml").says(3, &["The former state is back"]);
    crate::namespace::same(&before, &namespace.snapshot());
}

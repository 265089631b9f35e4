// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command that needs a privilege, without it: it names what is missing, ends by itself with
//! the documented status and changes nothing.
//!
//! `lab run --here` is among the tests of the module `here`.

use crate::namespace::{Namespace, same};
use crate::program::{Ended, WEIRGATE};
use std::path::Path;

const POLICY: &str = "upstream.toml";

/// Commands that read or change state, with their exit status without privileges.
const COMMANDS: [(&str, i32); 9] = [
    ("plan changed.toml", 1),
    ("apply changed.toml", 3),
    ("apply --confirm 5s changed.toml", 3),
    ("rollback 1", 3),
    ("boot", 3),
    ("keep", 3),
    ("remove", 3),
    ("show", 1),
    ("plan --commands --adopt changed.toml", 1),
];

/// Runs a command that must end within seconds.
#[track_caller]
fn soon(namespace: &Namespace, guard: &[&str], program: &str, line: &str) -> Ended {
    let mut command = namespace.command("timeout");
    command.args(["20", "setpriv"]).args(guard).arg(program);
    for word in line.split(' ') {
        if Path::new(word).extension().is_some() {
            command.arg(crate::program::root().join("tests/cli").join(word));
        } else {
            command.arg(word);
        }
    }
    let ended = Ended::of(&command.output().unwrap());
    assert_ne!(ended.status, 124, "`{line}` does not end: {ended:?}");
    ended
}

#[test]
fn without_the_capability_every_command_names_it() {
    let namespace = Namespace::new();
    namespace.weirgate(&format!("apply {POLICY}")).says(0, &[]);
    let before = namespace.snapshot();
    let guard = ["--bounding-set=-net_admin", "--inh-caps=-net_admin"];
    for (line, status) in COMMANDS {
        let ended = soon(&namespace, &guard, WEIRGATE, line);
        assert_eq!(ended.status, status, "{line}: {ended:?}");
        assert!(ended.err.contains("CAP_NET_ADMIN"), "{line}: {ended:?}");
    }
    same(&before, &namespace.snapshot());
    // A waiting change is found by its files, which root can read without the capability.
    soon(&namespace, &guard, WEIRGATE, "confirm").says(1, &["nothing waits"]);
    soon(&namespace, &guard, WEIRGATE, "history").says(0, &[]);
}

#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    let namespace = Namespace::new();
    namespace.weirgate(&format!("apply {POLICY}")).says(0, &[]);
    let before = namespace.snapshot();
    // The repository may be in a folder that others cannot read.
    namespace.run(&format!("cp {WEIRGATE} /run/program"));
    namespace.run("chmod 755 /run /run/program");
    let policy = crate::program::root().join("tests/cli").join(POLICY);
    namespace.run(&format!("cp {} /run/policy.conf", policy.display()));
    let guard = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    for (line, status) in COMMANDS {
        let line = line.replace("changed.toml", "/run/policy.conf");
        let ended = soon(&namespace, &guard, "/run/program", &line);
        // Stored files are readable by their owner alone.
        assert_eq!(ended.status, status, "{line}: {ended:?}");
        let reasons = ["CAP_NET_ADMIN", "read permission"];
        assert!(
            reasons.iter().any(|part| ended.err.contains(part)),
            "{line}: {ended:?}"
        );
    }
    for (line, status) in [("confirm", 3), ("history", 1)] {
        soon(&namespace, &guard, "/run/program", line)
            .says(status, &["Permission denied", "root has"]);
    }
    for line in ["check /run/policy.conf", "export /run/policy.conf"] {
        soon(&namespace, &guard, "/run/program", line).says(0, &[]);
    }
    let doctor = soon(
        &namespace,
        &guard,
        "/run/program",
        "doctor /run/policy.conf",
    );
    assert!(doctor.out.contains("[privilege]"), "{doctor:?}");
    same(&before, &namespace.snapshot());
}

/// Returns the capabilities of the packaged service.
fn of_the_unit() -> String {
    let path = crate::program::root().join("packaging/systemd/weirgate.service");
    let unit = std::fs::read_to_string(path).unwrap();
    let mut lines = unit.lines();
    let granted = lines.find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let granted = granted.unwrap().to_lowercase().replace("cap_", "+");
    format!("--bounding-set=-all,{}", granted.replace(' ', ","))
}

#[test]
fn the_service_may_put_back_what_holds_arriving_packets() {
    let namespace = Namespace::new();
    namespace.weirgate("apply arriving.toml").says(0, &[]);
    namespace.run("tc qdisc del dev wan clsact");
    let guard = [&*of_the_unit(), "--inh-caps=-all"];
    soon(&namespace, &guard, WEIRGATE, "boot").says(0, &[]);
    namespace.weirgate("show").says(0, &[]);
    let filters = namespace.run("tc filter show dev wan ingress");
    assert!(filters.contains("weirgate-window-in"), "{filters}");
}

/// Commands that read the applied state or switch it, with their exit status without privileges.
const INSIDE: [(&str, i32); 4] = [
    ("flows --interval 10ms", 1),
    ("flows --interval 10ms --summary", 1),
    ("rules", 1),
    ("ruleset night-games on", 3),
];

#[test]
fn what_looks_at_connections_and_rules_names_what_it_lacks() {
    let namespace = Namespace::new();
    namespace.weirgate("apply flows.toml").says(0, &[]);
    namespace.run(&format!("cp {WEIRGATE} /run/program"));
    namespace.run("chmod 755 /run /run/program");
    let before = namespace.snapshot();
    let without = ["--bounding-set=-net_admin", "--inh-caps=-net_admin"];
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    for (line, status) in INSIDE {
        for guard in [&without[..], &nobody] {
            let ended = soon(&namespace, guard, "/run/program", line);
            assert_eq!(ended.status, status, "{line}: {ended:?}");
            let reasons = ["CAP_NET_ADMIN", "read permission"];
            assert!(
                reasons.iter().any(|part| ended.err.contains(part)),
                "{line}: {ended:?}"
            );
        }
    }
    let blind = "--bounding-set=-bpf,-perfmon,-sys_admin";
    let blind = [blind, "--inh-caps=-bpf,-perfmon,-sys_admin"];
    for guard in [&blind[..], &nobody] {
        let ended = soon(&namespace, guard, "/run/program", "survey wan --for 1s");
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains("CAP_BPF, CAP_PERFMON"), "{ended:?}");
    }
    same(&before, &namespace.snapshot());
}

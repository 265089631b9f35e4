// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several links on this machine's kernel: probes that this machine prevents, and what remains when
//! the package is removed.

use crate::namespace::{Namespace, Running};
use crate::program::{WEIRGATE, root};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LINKS: &str = "version = 1\n[[link]]\nname = \"fibre\"\ndevice = \"wan\"\n\
                     gateway = \"10.9.0.2\"\nprobe = [\"10.9.0.9\", \"2001:db8::9\"]\n\
                     [[link]]\nname = \"lte\"\ndevice = \"lan\"\ngateway = \"10.8.0.2\"\n";

/// Returns a namespace with two links, and the file of links.
fn two_links() -> (Namespace, tempfile::TempDir, String) {
    let namespace = Namespace::new();
    namespace.run("ip address add 10.9.0.1/24 dev wan");
    namespace.run("ip address add 2001:db8::1/64 dev wan nodad");
    namespace.run("ip address add 10.8.0.1/24 dev lan");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("links.toml");
    fs::write(&file, LINKS).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (namespace, folder, file)
}

/// Returns whether the first link is up, and why, or `None` before it is known.
fn first(namespace: &Namespace) -> Option<(bool, String)> {
    let shown = namespace.weirgate("links show --json");
    let shown: Value = serde_json::from_str(&shown.out).ok()?;
    let link = shown["links"].get(0)?;
    Some((link["up"].as_bool()?, link["why"].as_str()?.to_owned()))
}

/// A firewall that drops the probes says nothing about the link.
#[test]
fn a_link_is_not_judged_by_probes_that_this_machine_prevents() {
    let (namespace, _folder, file) = two_links();
    for line in [
        "nft add table inet own",
        "nft add chain inet own out { type filter hook output priority 0; }",
        "nft add rule inet own out meta l4proto icmp drop",
        "nft add rule inet own out icmpv6 type echo-request drop",
    ] {
        namespace.run(line);
    }
    let mut run = namespace.command(WEIRGATE);
    run.args(["links", "run", &file]).stderr(Stdio::null());
    let _run = Running(run.spawn().unwrap());
    let why = |part: &str, up: bool| {
        let is = |(is_up, why): (bool, String)| is_up == up && why.contains(part);
        let begin = Instant::now();
        while !first(&namespace).is_some_and(is) {
            let seen = first(&namespace);
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "{part}: {seen:?}"
            );
            sleep(Duration::from_millis(100));
        }
    };
    why("cannot be probed (Operation not permitted", true);
    // Twice the silence that would be its end.
    sleep(Duration::from_secs(4));
    why("cannot be probed", true);
    namespace.run("nft delete table inet own");
    why("nobody answered", false);
}

/// The scripts of both packages leave nothing behind that only `weirgate` can remove.
#[test]
fn a_removed_package_leaves_no_routing() {
    let packaging = root().join("packaging");
    let read = |file: &str| fs::read_to_string(packaging.join(file)).unwrap();
    let spec = read("rpm/weirgate.spec");
    let (_, script) = spec.split_once("%preun\n").unwrap();
    let (script, _) = script.split_once("%postun").unwrap();
    let programs = Path::new(WEIRGATE).parent().unwrap().display();
    for (script, argument) in [(read("debian/prerm").as_str(), "remove"), (script, "0")] {
        let (namespace, _folder, file) = two_links();
        let seen = || {
            let lines = ["ip rule show", "ip route show table all", "nft list tables"];
            let all = lines.map(|line| namespace.run(line)).concat();
            // The kernel adds these after duplicate address detection.
            let stay = all.lines().filter(|line| !line.contains("fe80::"));
            stay.collect::<Vec<_>>().join("\n")
        };
        let before = seen();
        namespace.weirgate("apply both.toml").says(0, &[]);
        namespace
            .weirgate(&format!("links apply {file}"))
            .says(0, &[]);
        assert!(seen().contains("7701"), "{}", seen());
        let script = format!("PATH={programs}\n{script}");
        let mut removed = namespace.command("sh");
        let removed = removed.args(["-c", &script, "script", argument]);
        assert!(removed.status().unwrap().success(), "{script}");
        assert_eq!(seen(), before, "{script}");
    }
}

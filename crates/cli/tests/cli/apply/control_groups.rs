// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules by control group: real groups, real senders in them, and the service that follows groups
//! when they are created again.

use crate::namespace::Namespace;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(8);
/// The parent of the test's groups.
const TOP: &str = "weirgate-test";

/// A namespace whose `/run/cgroup` is the hierarchy of version 2.
struct Site {
    namespace: Namespace,
}

impl Site {
    fn new() -> Self {
        let namespace = Namespace::new();
        namespace.run("mkdir /run/cgroup");
        namespace.run("mount -t cgroup2 none /run/cgroup");
        namespace.run("ip addr add 10.9.0.1/24 dev wan");
        namespace.run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev wan");
        let site = Self { namespace };
        site.clear();
        site.make("");
        site
    }

    /// The directory of a group below the test's own.
    fn folder(&self, group: &str) -> PathBuf {
        let root = format!("/proc/{}/root/run/cgroup", self.namespace.holder());
        PathBuf::from(root).join(TOP).join(group)
    }

    fn make(&self, group: &str) {
        fs::create_dir(self.folder(group)).unwrap();
    }

    fn unmake(&self, group: &str) {
        let begin = Instant::now();
        // A process that has ended leaves its group a moment later.
        while let Err(error) = fs::remove_dir(self.folder(group)) {
            assert!(begin.elapsed() < SOON, "{group}: {error}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn clear(&self) {
        for group in ["a/b", "a", "c", ""] {
            // Groups of a failed test may exist or not.
            let _ = fs::remove_dir(self.folder(group));
        }
    }

    /// Returns the counters that count a datagram of a program in a group, or in none of the test's
    /// groups for `None`.
    #[track_caller]
    fn counted(&self, group: Option<&str>) -> Vec<&'static str> {
        let before = self.counters();
        let enter = group.map_or_else(String::new, |group| {
            format!("echo 0 > /run/cgroup/{TOP}/{group}/cgroup.procs; ")
        });
        let script = format!("{enter}echo x > /dev/udp/10.9.0.2/9");
        let ended = self
            .namespace
            .command("bash")
            .args(["-c", &script])
            .output();
        let ended = ended.unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let after = self.counters();
        let more = before.iter().zip(&after).filter(|(b, a)| a.1 > b.1);
        more.map(|(one, _)| one.0).collect()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let read = |name: &'static str| {
            let line = format!("nft list counter inet weirgate up_{name}");
            let text = self.namespace.run(&line);
            let packets = text.split("packets ").nth(1).unwrap_or_default();
            let count = packets.split(' ').next().unwrap_or_default();
            (name, count.parse().unwrap())
        };
        ["outer", "inner", "other"].map(read).to_vec()
    }

    /// Returns the rules with their handles, which an unchanged table keeps.
    fn rules(&self) -> String {
        let text = self.namespace.run("nft -a list table inet weirgate");
        let rules = text.lines().filter(|line| line.contains("# handle"));
        rules.collect::<Vec<_>>().join("\n")
    }

    /// Waits until a group's packets are counted by these rules; returns the time that it took.
    #[track_caller]
    fn comes_to_count(&self, group: &str, wanted: &[&str]) -> Duration {
        let begin = Instant::now();
        loop {
            let found = self.counted(Some(group));
            if found == wanted {
                return begin.elapsed();
            }
            assert!(begin.elapsed() < SOON, "{group}: {found:?}");
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.clear();
    }
}

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn senders_are_told_apart_and_followed() {
    let site = Site::new();
    let namespace = &site.namespace;
    site.make("a");
    site.make("a/b");
    namespace
        .weirgate("apply control-groups.toml")
        .says(0, &["there is no control group weirgate-test/c now"]);
    let rules = site.rules();
    namespace.weirgate("plan control-groups.toml").says(0, &[]);
    namespace.weirgate("show").says(0, &[]);
    // The deepest group decides, and a group includes those below it: the rule on `a` comes first.
    assert_eq!(site.counted(None), [""; 0]);
    assert_eq!(site.counted(Some("a")), ["outer"]);
    assert_eq!(site.counted(Some("a/b")), ["outer"]);
    assert_eq!(site.counted(Some("")), [""; 0]);
    // A new group is in force after the next apply, which changes nothing else.
    site.make("c");
    assert_eq!(site.counted(Some("c")), [""; 0]);
    let again = namespace.weirgate("apply control-groups.toml");
    again.says(0, &[]);
    assert!(again.out.contains("nothing to change"), "{again:?}");
    assert_eq!(site.counted(Some("c")), ["other"]);
    assert_eq!(site.rules(), rules);
    // A group that is created again has another number, without any notification.
    site.unmake("c");
    site.make("c");
    assert_eq!(site.counted(Some("c")), [""; 0]);
    // The service repairs it when it starts, and follows changes from then on.
    let log = tempfile::tempdir().unwrap();
    let file = fs::File::create(log.path().join("log")).unwrap();
    let keeper = Service(
        namespace
            .command(crate::program::WEIRGATE)
            .arg("keep")
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap(),
    );
    site.comes_to_count("c", &["other"]);
    for _ in 0..3 {
        site.unmake("c");
        site.make("c");
        let took = site.comes_to_count("c", &["other"]);
        println!("followed after {took:?}");
    }
    // The same below a group that is created again, and for a new group.
    site.unmake("a/b");
    site.unmake("a");
    site.make("a");
    site.make("a/b");
    site.comes_to_count("a/b", &["outer"]);
    site.comes_to_count("a", &["outer"]);
    site.unmake("c");
    assert_eq!(site.rules(), rules);
    namespace.weirgate("plan control-groups.toml").says(0, &[]);
    let log_text = fs::read_to_string(log.path().join("log")).unwrap();
    assert!(
        log_text.contains("control groups appeared, disappeared"),
        "{log_text}"
    );
    assert!(!log_text.contains("not followed"), "{log_text}");
    drop(keeper);
    // If the deeper rule comes first, it takes its own packets.
    namespace
        .weirgate("apply control-groups-inner.toml")
        .says(0, &[]);
    assert_eq!(site.counted(Some("a/b")), ["inner"]);
    assert_eq!(site.counted(Some("a")), ["outer"]);
    namespace.weirgate("remove").says(0, &[]);
}

#[test]
fn a_machine_without_the_hierarchy_is_reported() {
    let namespace = Namespace::new();
    // No cgroup version 2 is mounted in this mount namespace.
    let mounts = namespace.run("cat /proc/self/mounts");
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(at), Some("cgroup2")) = (fields.next(), fields.next()) {
            namespace.run(&format!("umount {at}"));
        }
    }
    namespace
        .weirgate("apply control-groups.toml")
        .says(0, &["no hierarchy of control groups of version 2"]);
    namespace.weirgate("plan control-groups.toml").says(0, &[]);
    namespace.weirgate("remove").says(0, &[]);
    namespace
        .weirgate("export control-groups.toml")
        .says(0, &["a script follows no control groups"]);
}

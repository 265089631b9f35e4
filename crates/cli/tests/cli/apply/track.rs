// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link whose rate is tracked by the real service: blind while no reflector answers, and then
//! seeing.

use crate::namespace::Namespace;
use crate::program::{WEIRGATE, root};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Kept {
    fn new(namespace: &Namespace) -> Self {
        let mut command = namespace.command(WEIRGATE);
        command
            .arg("keep")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

/// Waits until `weirgate track status` contains the wanted text.
#[track_caller]
fn says(namespace: &Namespace, wanted: &str) {
    let begin = Instant::now();
    loop {
        let status = namespace.weirgate("track status").out;
        if status.contains(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(55), "{status:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a class of `wan` has the wanted rate.
#[track_caller]
fn gate(namespace: &Namespace, wanted: &str) {
    let begin = Instant::now();
    loop {
        let classes = namespace.run("tc class show dev wan");
        if classes.contains(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(55), "{classes}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_floor_is_held_while_nobody_answers() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    namespace.run("ip address add 192.0.2.1/24 dev wan");
    assert_eq!(
        namespace.weirgate("track status").err,
        "no rate is followed\n"
    );
    assert_eq!(namespace.weirgate("apply track.toml").status, 0);
    gate(&namespace, "ceil 998Kbit");
    let root = namespace.run("tc qdisc show dev wan");
    let kept = Kept::new(&namespace);
    says(&namespace, "blind");
    says(&namespace, "up: 100kbit (blind; between 100kbit and 1mbit)");
    gate(&namespace, "ceil 99800bit");
    // The rate stays there although the applied policy has another one.
    namespace.run("ip link set lan down");
    namespace.run("ip link set lan up");
    std::thread::sleep(Duration::from_millis(500));
    gate(&namespace, "ceil 99800bit");
    namespace.run("ip address add 192.0.2.9/32 dev lo");
    says(&namespace, "up: 1mbit (sees; between 100kbit and 1mbit)");
    gate(&namespace, "ceil 998Kbit");
    // The rate changes in place: the qdiscs are still the original ones.
    assert_eq!(namespace.run("tc qdisc show dev wan"), root);
    drop(kept);
    let record = namespace.run("find /run/weirgate -name rate.record");
    let replayed = namespace.run(&format!("{WEIRGATE} track replay {}", record.trim()));
    assert_eq!(replayed, "");
    let replay = format!(
        "{WEIRGATE} track replay --json --decisions {}",
        record.trim()
    );
    let document: serde_json::Value = serde_json::from_str(&namespace.run(&replay)).unwrap();
    assert!(document["inputs"].as_u64() > Some(0), "{document}");
    assert_eq!(document["differs"], serde_json::Value::Null, "{document}");
    let decisions = document["decisions"].as_array().unwrap();
    assert!(decisions.len() as u64 >= document["rates"].as_u64().unwrap());
    assert_eq!(namespace.weirgate("remove").status, 0);
}

/// The line changes while another policy waits for confirmation, which does not come.
#[test]
fn a_rate_that_was_decided_during_a_change_comes_into_force_after_it() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    namespace.run("ip address add 192.0.2.1/24 dev wan");
    namespace.run("ip address add 192.0.2.9/32 dev lo");
    namespace.weirgate("apply track.toml").says(0, &[]);
    let _kept = Kept::new(&namespace);
    says(&namespace, "up: 1mbit (start; ");
    gate(&namespace, "ceil 998Kbit");
    namespace
        .weirgate("apply --confirm 600s upstream.toml")
        .says(0, &[]);
    namespace.run("ip address del 192.0.2.9/32 dev lo");
    says(&namespace, "up: 100kbit (blind; ");
    namespace.weirgate("rollback").says(0, &[]);
    gate(&namespace, "ceil 99800bit");
}

/// One of two links is tracked: its probes leave through its device, although the router's own
/// packets take the other link, and the other link keeps its rate.
#[test]
fn one_of_several_links_is_tracked() {
    let namespace = Namespace::new();
    let tracked = std::fs::read_to_string(root().join("tests/cli/track.toml")).unwrap();
    let tracked = tracked.replace("lan = \"lan\"\n", "");
    let other = "version = 1\n[link]\ndevice = \"lan\"\nup = \"2mbit\"\nlayer = \"ethernet\"\n\
                 [[class]]\nname = \"all\"\nshare = \"100%\"\nqueue = \"bfifo 30000\"\ndefault = true\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.toml");
    std::fs::write(&file, format!("{other}---\n{tracked}")).unwrap();
    for line in [
        "ip netns add outside",
        "ip link set far netns outside",
        "ip -n outside link set far up",
        "ip address add 192.0.2.1/24 dev wan",
        "ip route add 192.0.2.9/32 dev lan",
    ] {
        namespace.run(line);
    }
    let apply = format!("apply {}", file.display());
    namespace.weirgate(&apply).says(0, &[]);
    let _kept = Kept::new(&namespace);
    says(&namespace, "up: 100kbit (blind; between 100kbit and 1mbit)");
    gate(&namespace, "ceil 99800bit");
    namespace.run("ip -n outside address add 192.0.2.9/24 dev far");
    says(&namespace, "up: 1mbit (sees; between 100kbit and 1mbit)");
    gate(&namespace, "ceil 998Kbit");
    let classes = namespace.run("tc class show dev lan");
    assert!(classes.contains("ceil 1996Kbit"), "{classes}");
    // Two links cannot be tracked.
    let second = tracked.replace("\"wan\"", "\"lan\"");
    std::fs::write(&file, format!("{tracked}---\n{second}")).unwrap();
    let both = "`wan` and `lan` both have `[track]`";
    namespace.weirgate(&apply).says(2, &[both]);
}

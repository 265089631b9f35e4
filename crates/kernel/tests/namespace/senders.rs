// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests rules by the user and the group of a local socket: applied, read back, and matched by real
//! sockets.

use crate::harness::{apply, in_namespace, observe};
use crate::scheme::{SITE, counters, tables};
use std::net::UdpSocket;
use weirgate_plan::{Options, plan_with, verify};
use weirgate_state::{Content, Key, State};

const RULES: &str = r#"
[[rule]]
name = "backup"
class = "rest"
uid = ["34", "990-999"]
set-dscp = "LE"

[[rule]]
name = "voice"
class = "first"
gid = "1005"
protocol = "udp"
set-dscp = "EF"

[[rule]]
name = "both"
class = "good"
uid = "2000"
gid = "2000"
"#;

/// Sends a datagram from a socket of a user and a group, which are set only for this thread.
fn send(user: u32, group: u32, to: &str) {
    // SAFETY: these change a number of the calling thread's credentials; memory
    // safety does not rest on it.
    #[expect(unsafe_code, reason = "no safe call sets one thread's")]
    let before = unsafe { (libc::setfsgid(group), libc::setfsuid(user)) };
    let from = if to.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(from).unwrap();
    // SAFETY: as above.
    #[expect(unsafe_code, reason = "no safe call sets one thread's")]
    unsafe {
        libc::setfsuid(before.1 as u32);
        libc::setfsgid(before.0 as u32);
    }
    socket.send_to(b"x", to).unwrap();
}

#[test]
fn senders_are_told_apart() {
    in_namespace(|kernel| async move {
        let state = tables(&format!("{SITE}{RULES}"));
        apply(&kernel, &state, None).await;
        let after = observe(&kernel, &[&state]).await;
        assert_eq!(verify(&after, &state), vec![]);
        let cases: [(u32, u32, &[&str]); 9] = [
            (34, 34, &["up_backup"]),
            (990, 1, &["up_backup"]),
            (999, 1, &["up_backup"]),
            (1000, 1, &[]),
            (35, 1, &[]),
            (0, 1005, &["up_voice"]),
            (995, 1005, &["up_backup", "up_voice"]),
            (2000, 2000, &["up_both"]),
            (2000, 1, &[]),
        ];
        for to in ["10.9.0.2:9", "[2001:db8::2]:9"] {
            for (user, group, wanted) in cases {
                let before = counters(&kernel).await;
                send(user, group, to);
                let after = counters(&kernel).await;
                let own = ["up_backup", "up_voice", "up_both"];
                let more = own.into_iter().filter(|one| before[*one] < after[*one]);
                let more: Vec<&str> = more.collect();
                assert_eq!(more, wanted, "{user} {group} to {to}");
            }
        }
    });
}

const GROUPS: &str = r#"
[[rule]]
name = "outer"
class = "rest"
cgroup = ["one", "one/two/three"]

[[rule]]
name = "inner"
class = "good"
cgroup = "one/two"
"#;

/// The numbers in a state's sets of control groups, by set.
fn groups(state: &State) -> Vec<(String, Vec<u128>)> {
    let sets = state.tables.iter().flat_map(|table| &table.sets);
    let mut found: Vec<_> = sets
        .filter(|set| set.key == Key::ControlGroup)
        .map(|set| match &set.content {
            Content::Refreshed(groups) => (set.name.clone(), groups.found.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    found.sort();
    found
}

#[test]
fn control_groups_are_held_and_read_back() {
    in_namespace(|kernel| async move {
        let found = kernel.capabilities().await.unwrap();
        assert!(found.fields.contains("socket cgroupv2"), "{found:?}");
        let mut state = tables(&format!("{SITE}{GROUPS}"));
        // Numbers of both halves, so that none is cut off or turned round.
        let mut number = 0x0000_0102_0304_0506_u128;
        for set in state.tables.iter_mut().flat_map(|table| &mut table.sets) {
            if let Content::Refreshed(groups) = &mut set.content {
                groups.found = vec![number];
                number += 1 << 40;
            }
        }
        assert_eq!(groups(&state).len(), 3);
        apply(&kernel, &state, None).await;
        let after = observe(&kernel, &[&state]).await;
        assert_eq!(verify(&after, &state), vec![]);
        assert_eq!(groups(&after), groups(&state));
        let again = plan_with(&after, &state, &Options::default()).unwrap();
        assert!(again.steps.is_empty(), "{:?}", again.steps);
        // nft reads the table as its own.
        let text = crate::harness::run("nft list table inet weirgate");
        for part in [
            "type cgroupsv2",
            "hook output priority mangle",
            "socket cgroupv2 level 3 @cgroup_",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Replaced in place, as the service does it.
        let table = &state.tables[0];
        let set = table.sets.iter().find(|set| set.key == Key::ControlGroup);
        let set = set.unwrap();
        kernel.refill(table, set, &[7, 9]).await.unwrap();
        let now = kernel.refreshed(table, set).await.unwrap();
        match now.content {
            Content::Refreshed(groups) => assert_eq!(groups.found, [7, 9]),
            other => panic!("{other:?}"),
        }
        let after = observe(&kernel, &[&state]).await;
        assert_eq!(verify(&after, &state), vec![]);
    });
}

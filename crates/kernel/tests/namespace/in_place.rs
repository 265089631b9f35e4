// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of an existing table: what differs is rewritten, and everything else keeps its counters,
//! its sets and its connections' decisions.

use crate::classify::Packet;
use crate::harness::{apply, in_namespace, run};
use crate::scheme::{SITE, counted, counters, syn, tables, to};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio::runtime::Builder;
use weirgate_kernel::Kernel;
use weirgate_plan::{Action, Step, plan};
use weirgate_state::{Origin, State};

fn site(rules: &str) -> State {
    tables(&format!("{SITE}{rules}"))
}

const KEPT: &str = r#"
[[rule]]
name = "kept"
class = "first"
protocol = "udp"
remote-port = 700
keep = true
"#;

const METERED: &str = r#"
[[rule]]
name = "metered"
class = "good"
service = "tcp-syn"
rate = { within = "1/min", per = "remote", burst = 2 }
"#;

const UNNAMED: &str = r#"
[[rule]]
class = "rest"
remote-port = 80
"#;

fn udp(local: u16, remote: u16) -> Packet {
    Packet {
        protocol: 17,
        ..Packet {
            ports: (local, remote),
            ..to(remote)
        }
    }
}

#[test]
fn what_a_change_does_not_concern_keeps_counts_and_memory() {
    in_namespace(|kernel| async move {
        apply(&kernel, &site(&format!("{METERED}{UNNAMED}")), None).await;
        let packets = [syn(80), syn(81), to(80), syn(80)];
        let found = counted(&kernel, &packets).await;
        assert_eq!(found[1], ["up_metered"]);
        let unnamed = found[2].first().cloned().unwrap();
        assert!(unnamed.starts_with("up_rest_"), "{unnamed}");
        let before = counters(&kernel).await;
        assert_eq!((before["up_metered"], before[&unnamed]), (2, 3));

        let more = "# a line that moves the others\n[[rule]]\nclass = \"good\"\nport = [22, 23]\n";
        let steps = apply(&kernel, &site(&format!("{more}{METERED}{UNNAMED}")), None).await;
        let actions: Vec<&Action> = steps.iter().map(|step| &step.action).collect();
        assert!(
            matches!(actions[..], [Action::ChangeTable { .. }]),
            "{steps:?}"
        );
        let after = counters(&kernel).await;
        assert_eq!((after["up_metered"], after[&unnamed]), (2, 3));
        // Its two connections are still used up.
        let found = counted(&kernel, &[syn(81), to(22)]).await;
        assert_eq!(found[0], Vec::<String>::new());
        assert!(found[1][0].starts_with("up_good_"), "{found:?}");
    });
}

#[test]
fn a_meter_with_another_rate_begins_anew() {
    in_namespace(|kernel| async move {
        apply(&kernel, &site(METERED), None).await;
        assert_eq!(
            counted(&kernel, &[syn(1), syn(2), syn(3)]).await[2],
            [""; 0]
        );
        let faster = METERED.replace("burst = 2", "burst = 4");
        apply(&kernel, &site(&faster), None).await;
        let found = counted(&kernel, &[syn(1), syn(2), syn(3), syn(4), syn(5)]).await;
        let all: Vec<bool> = found.iter().map(|by| !by.is_empty()).collect();
        assert_eq!(all, [true, true, true, true, false]);
    });
}

#[test]
fn connections_that_end_meanwhile_have_no_decision() {
    in_namespace(|kernel| async move {
        run("nft add table inet marks");
        run("nft add chain inet marks sent { type filter hook output priority 0 ; }");
        run("nft add rule inet marks sent udp dport 2000-2399 ct mark set 0x100");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for port in 2000..2400 {
            socket.send_to(b"one", ("127.0.0.1", port)).unwrap();
        }
        let count = async || kernel.connection_table().await.unwrap().count.marked;
        assert_eq!(count().await, 400);
        let ended = AtomicBool::new(false);
        kernel.witness(Box::new(move |what| {
            if what.contains("kept decision") && !ended.swap(true, Ordering::Relaxed) {
                // A thread is in the namespace of the one that spawns it.
                thread::spawn(end_connections).join().unwrap();
            }
        }));
        let mut forget = plan(&State::default(), &State::default()).unwrap();
        forget.steps.push(Step {
            action: Action::ForgetDecisions {
                mask: 0xf00,
                values: [0x100].into(),
            },
            origin: Origin::default(),
        });
        kernel.apply(&forget).await.unwrap();
        assert_eq!(count().await, 0);
    });
}

fn end_connections() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kernel = Kernel::open().unwrap();
        kernel.drop_connections(0xf00, 0x100).await.unwrap();
    });
}

#[test]
fn a_decision_goes_with_its_rule_and_stays_with_the_others() {
    in_namespace(|kernel| async move {
        let other = KEPT.replace("\"kept\"", "\"other\"").replace("700", "800");
        apply(&kernel, &site(&format!("{KEPT}{other}")), None).await;
        let marks = async || {
            let all = kernel.connections().await.unwrap();
            let mut marks: Vec<(u16, u32)> = all
                .iter()
                .filter(|one| [700, 800].contains(&one.original.destination_port))
                .map(|one| (one.original.destination_port, one.mark))
                .collect();
            marks.sort_unstable();
            marks
        };
        counted(&kernel, &[udp(5, 700), udp(6, 800)]).await;
        assert_eq!(marks().await, [(700, 0x1_0000), (800, 0x2_0000)]);

        let moved = KEPT.replace("700", "701");
        let now = site(&format!("{moved}{other}"));
        let steps = apply(&kernel, &now, None).await;
        assert!(
            steps.iter().any(|step| matches!(
                &step.action,
                Action::ForgetDecisions { values, .. } if values.len() == 1
            )),
            "{steps:?}"
        );
        assert_eq!(marks().await, [(700, 0), (800, 0x2_0000)]);
        // The current rules decide their next packets.
        let found = counted(&kernel, &[udp(5, 700), udp(6, 800)]).await;
        assert_eq!(found, [vec![], vec![String::from("up_other")]]);

        let steps = apply(&kernel, &State::default(), Some(&now)).await;
        assert!(!steps.is_empty());
        assert_eq!(marks().await, [(700, 0), (800, 0)]);
    });
}

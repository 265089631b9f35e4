// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failures while a domain is applied: every router must return to its former state.

use crate::inside::{SSH, domain};
use crate::topology::{Plan, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ROUTERS: [&str; 3] = ["west", "middle", "east"];

/// Returns the plan of three routers in a row, whose links have this rate.
fn row(rate: &str) -> Plan {
    let mut plan = Plan::new(
        "[class.gold]\nbehaviour = \"AF1\"\nshare = \"40%\"\n\
         [class.rest]\nbehaviour = \"DF\"\nshare = \"25%\"\n",
    );
    for router in ROUTERS {
        plan.router(router, "boundary");
    }
    plan.link("west", "middle", rate);
    plan.link("middle", "east", rate);
    plan.customer("alfa", "west", "10mbit");
    plan.customer("beta", "east", "10mbit");
    plan.service(
        "name = \"books\"\nfrom = \"alfa\"\nto = \"beta\"\nclass = \"gold\"\nrate = \"500kbit\"",
    );
    plan
}

/// Writes a replacement of ssh with which `east` never answers some commands. With `done`, the
/// commands run first; otherwise they do not.
fn silent(name: &str, commands: &[&str], done: bool) -> String {
    let file = format!("/run/{name}");
    let words = commands.join("|");
    let first = if done {
        "weirgate domain within \"$@\"; "
    } else {
        ""
    };
    let script = format!(
        "#!/bin/sh\ncase \"$1 $3\" in\n{}) {first}exec sleep 100000 ;;\nesac\n\
         exec weirgate domain within \"$@\"\n",
        words
            .split('|')
            .map(|word| format!("\"east {word}\""))
            .collect::<Vec<_>>()
            .join("|")
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn read_back() -> Vec<String> {
    // Queues show the flows that they serve as classes, which vary.
    let lasting = |listed: String| -> String {
        let lines = listed.split_inclusive('\n');
        lines
            .filter(|line| !line.starts_with("class fq_codel "))
            .collect()
    };
    let one = |router: &str| {
        let classes = lasting(run(&format!("tc -n {router} class show dev middle")));
        let qdiscs = run(&format!("tc -n {router} qdisc show"));
        let tables = run(&format!("ip netns exec {router} nft list tables"));
        format!("{classes}{qdiscs}{tables}")
    };
    let ends = ["west", "east"].map(one);
    let classes = lasting(run("tc -n middle class show dev west"));
    let middle = classes + &run("tc -n middle qdisc show");
    [&ends[..], &[middle]].concat()
}

/// Waits until the state is as before, at most for the given time.
#[track_caller]
fn back(before: &[String], most: Duration) {
    let begun = Instant::now();
    while read_back() != before {
        assert!(begun.elapsed() < most, "{:#?}\n{before:#?}", read_back());
        sleep(Duration::from_millis(200));
    }
    println!("as it was after {:.1} s", begun.elapsed().as_secs_f64());
}

#[test]
#[ignore = "runs in the guest"]
fn one_of_several() {
    let (first, second) = ("/run/first.toml", "/run/second.toml");
    row("4mbit").build(first);
    let text = fs::read_to_string(first).unwrap();
    fs::write(second, text.replace("4mbit", "3mbit")).unwrap();
    let (status, text) = domain(&["apply", first, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    let before = read_back();
    let guard = Duration::from_secs(20);
    let apply = |ssh: &str| domain(&["apply", second, "--confirm", "20s", "--ssh", ssh]);

    // One router does not answer at all. The others return long before their guards would act.
    let begun = Instant::now();
    let (status, text) = apply(&silent("mute", &["apply"], false));
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("east has not answered for 10 s"), "{text}");
    assert!(text.contains("2 returned"), "{text}");
    assert!(begun.elapsed() < guard, "{:?}", begun.elapsed());
    assert_eq!(read_back(), before);

    // The router is cut off by its new policy, and returns by itself.
    let (status, text) = apply(&silent("cut-off", &["apply", "rollback"], true));
    assert_eq!(status, 3, "{text}");
    back(&before, guard);

    // The confirmation and the rollback do not reach the router. The others return, and the router
    // is named.
    let (status, text) = apply(&silent("unconfirmed", &["confirm", "rollback"], false));
    assert_eq!(status, 4, "{text}");
    assert!(text.contains("east: it returns by itself"), "{text}");
    back(&before, guard);

    // The applying command dies when some routers have their policies.
    let ssh = silent("endless", &["apply"], true);
    let mut dying = Command::new("weirgate")
        .args(["domain", "apply", second, "--confirm", "20s", "--ssh", &ssh])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while read_back()[0] == before[0] || read_back()[1] == before[1] {
        assert!(begun.elapsed() < guard, "it applies nothing");
        sleep(Duration::from_millis(100));
    }
    dying.kill().unwrap();
    dying.wait().unwrap();
    back(&before, guard + Duration::from_secs(5));

    // The same commands succeed if nothing fails.
    let (status, text) = apply(SSH);
    assert_eq!(status, 0, "{text}");
    assert_ne!(read_back(), before);
}

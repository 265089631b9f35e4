// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest.

use crate::topology::{Plan, ended, run};
use std::fs;
use std::time::Instant;

/// The replacement of ssh, because the machines are namespaces.
pub const SSH: &str = "weirgate domain within";

/// Runs `weirgate domain`; returns its status and its whole output.
pub fn domain(words: &[&str]) -> (i32, String) {
    let began = Instant::now();
    let output = std::process::Command::new("weirgate")
        .arg("domain")
        .args(words)
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    println!(
        "domain {}: {:.3} s",
        words.join(" "),
        began.elapsed().as_secs_f64()
    );
    (output.status.code().unwrap_or(-1), text)
}

fn eight() -> Plan {
    let mut plan = Plan::new(
        "[class.voice]\nbehaviour = \"EF\"\nshare = \"30%\"\n\
         [class.gold]\nbehaviour = \"AF1\"\nshare = \"40%\"\n\
         [class.rest]\nbehaviour = \"DF\"\nshare = \"25%\"\n",
    );
    for name in ["w1", "w2", "e1", "e2"] {
        plan.router(name, "boundary");
    }
    for name in ["c1", "c2", "c3", "c4"] {
        plan.router(name, "interior");
    }
    for (one, other) in [
        ("w1", "c1"),
        ("w2", "c1"),
        ("c1", "c2"),
        ("c2", "c3"),
        ("c3", "c4"),
        ("c4", "e1"),
        ("c4", "e2"),
    ] {
        plan.link(one, other, "10mbit");
    }
    for number in 0..10 {
        for at in ["w1", "w2", "e1", "e2"] {
            plan.customer(&format!("{at}h{number}"), at, "10mbit");
        }
    }
    for number in 0..10 {
        for (from, to) in [("w1", "e1"), ("w2", "e2")] {
            plan.service(&format!(
                "name = \"voice-{from}-{number}\"\nfrom = \"{from}h{number}\"\nto = \"{to}h{number}\"\n\
                 class = \"voice\"\nrate = \"80kbit\"\npacket = \"200B\"\nburst = \"400B\"\n\
                 delay = \"120ms\"\njitter = \"100ms\"\nloss = \"0%\""
            ));
            plan.service(&format!(
                "name = \"books-{from}-{number}\"\nfrom = \"{from}h{number}\"\nto = \"{to}h{number}\"\n\
                 class = \"gold\"\nrate = \"160kbit\"\nburst = \"3000B\""
            ));
        }
    }
    plan
}

/// Builds the domain and checks it; returns its file.
fn built() -> &'static str {
    let plan = eight();
    let file = "/run/eight.toml";
    plan.build(file);
    let (status, text) = domain(&["check", file]);
    assert_eq!(status, 0, "{text}");
    file
}

/// Returns the seconds of the lab's clock that the work takes on a single processor with 10⁹
/// instructions a second.
fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

#[test]
#[ignore = "runs in the guest"]
fn eight_timed() {
    let file = built();
    let applied = || {
        let (status, text) = domain(&["apply", file, "--ssh", SSH]);
        assert_eq!(status, 0, "{text}");
    };
    let check = timed(|| drop(run(&format!("weirgate domain check {file}"))));
    let all = timed(applied);
    let again = timed(applied);
    run(&format!("weirgate domain apply {file} --files /run/files"));
    let routers = ["w1", "w2", "e1", "e2", "c1", "c2", "c3", "c4"];
    let alone = routers.map(|router| {
        let at = format!("weirgate domain within {router} weirgate");
        run(&format!("{at} remove"));
        timed(|| drop(run(&format!("{at} apply /run/files/{router}.toml"))))
    });
    let longest = alone.iter().copied().fold(0.0, f64::max);
    // This leaves out the other routers' own work. Requests and answers besides the policies count
    // in full.
    let apart = all - alone.iter().sum::<f64>() + longest;
    println!(
        "check {check:.3} s; apply {all:.3} s on one processor, the same again {again:.3} s; \
         the slowest router {longest:.3} s; with a processor each {apart:.3} s"
    );
    assert!(check < 1.0);
    assert!(apart < 3.0);
}

#[test]
#[ignore = "runs in the guest"]
fn eight_routers() {
    let file = built();

    // One router refuses, because its device has a foreign root qdisc.
    run("tc -n c3 qdisc add dev c4 root pfifo limit 10");
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("c3: not applied"), "{text}");
    assert!(text.contains("7 returned"), "{text}");
    for router in ["w1", "w2", "e1", "e2", "c1", "c2", "c4"] {
        let shown = run(&format!("ip netns exec {router} weirgate show"));
        assert_eq!(shown.trim(), "nothing is applied", "{router}");
    }
    run("tc -n c3 qdisc del dev c4 root");

    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("8 routers have their policies"), "{text}");
    let (status, text) = domain(&["plan", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    // Another apply of the same domain is confirmed again.
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");

    let verify = ["verify", file, "--ssh", SSH, "--time", "3s"];
    let (status, text) = domain(&verify);
    println!("{text}");
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("Everything that was promised is kept."),
        "{text}"
    );
    assert!(text.contains("\nw1h0 "), "{text}");
    assert_eq!(text.matches(" kept since ").count(), 20 + 20, "{text}");

    // A router is broken: its port to the next one is slow.
    run("tc -n c2 qdisc replace dev c3 root tbf rate 200kbit burst 1600 limit 6000");
    let (status, text) = domain(&verify);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("BROKEN since"), "{text}");
    let named = "The router `c2` is not as the domain says";
    assert!(text.contains(named), "{text}");
    assert!(text.contains("passes the router `c2`"), "{text}");

    // A router that is not queried is found by the services that pass it.
    run("tc -n c2 qdisc del dev c3 root");
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    run("tc -n w2 qdisc replace dev c1 root tbf rate 200kbit burst 1600 limit 6000");
    let measure = [
        "verify",
        file,
        "--ssh",
        SSH,
        "--time",
        "3s",
        "--measure-only",
    ];
    let (status, text) = domain(&measure);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("c1 of w2"), "{text}");
    assert!(!text.contains("c2 of c1,"), "{text}");

    let files = std::path::Path::new("/run/files");
    let (status, text) = domain(&["apply", file, "--files", files.to_str().unwrap()]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(fs::read_dir(files).unwrap().count(), 8);
    let (status, out, err) = ended(&format!("weirgate check {}/w1.toml", files.display()));
    assert_eq!(status, 0, "{out}{err}");
}

/// Returns the number after `word` in the line of a text that begins with `line`.
#[track_caller]
fn milliseconds(text: &str, line: &str, word: &str) -> f64 {
    let line = text.lines().find(|one| one.trim_start().starts_with(line));
    let line = line.unwrap_or_else(|| panic!("no such line: {text}"));
    let rest = line.split_once(word).unwrap_or_else(|| panic!("{line}")).1;
    rest.trim().split(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "runs in the guest"]
fn five_hops() {
    let mut plan = Plan::new(
        "[class.voice]\nbehaviour = \"EF\"\nshare = \"32%\"\n\
         [class.gold]\nbehaviour = \"AF1\"\nshare = \"40%\"\n\
         [class.rest]\nbehaviour = \"DF\"\nshare = \"25%\"\n",
    );
    for router in 1..=5 {
        plan.router(&format!("r{router}"), "boundary");
    }
    // Gates with equal rates and packets of equal size stay in step. A packet would then never meet
    // the worst case at all of them, so the rates differ.
    for (router, rate) in (1..5).zip(["10mbit", "10100kbit", "10230kbit", "10410kbit"]) {
        plan.link(&format!("r{router}"), &format!("r{}", router + 1), rate);
    }
    plan.customer("alfa", "r1", "10mbit");
    plan.customer("beta", "r5", "10570kbit");
    for router in 1..=5 {
        plan.customer(&format!("x{router}"), &format!("r{router}"), "10mbit");
    }
    // On the wire, the rate is 30 % of the slowest link and 28 % of the fastest: packets of 300
    // bytes take 338 there.
    plan.service(
        "name = \"voice\"\nfrom = \"alfa\"\nto = \"beta\"\nclass = \"voice\"\nrate = \"2662kbit\"\n\
         packet = \"300B\"\nburst = \"600B\"\ndelay = \"30ms\"\njitter = \"20ms\"\nloss = \"0%\"",
    );
    // Services of assured forwarding use the whole share of every port, from neighbour to
    // neighbour, and to the customer at the end.
    for router in 1..=5 {
        let to = if router == 5 {
            "beta".to_owned()
        } else {
            format!("x{}", router + 1)
        };
        plan.service(&format!(
            "name = \"books-{router}\"\nfrom = \"x{router}\"\nto = \"{to}\"\nclass = \"gold\"\n\
             rate = \"3700kbit\"\nburst = \"3000B\""
        ));
    }
    let file = "/run/five.toml";
    plan.build(file);
    let (status, text) = domain(&["check", file, "--details"]);
    assert_eq!(status, 0, "{text}");
    println!("{text}");
    let bound = milliseconds(&text, "jitter: promised", "at worst");
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    let idle = ["verify", file, "--ssh", SSH, "--time", "2s"];
    let (_, text) = domain(&idle);
    println!("{text}");
    // Best effort from each neighbour to the next saturates every port.
    let full = [
        "verify", file, "--ssh", SSH, "--time", "10s", "--beside", "6mbit",
    ];
    let (status, text) = domain(&full);
    println!("{text}");
    assert_eq!(status, 0, "{text}");
    // A line's last cells are rate, delay, jitter, loss and the time of the state.
    let mut voice = text.lines().filter(|line| line.starts_with("alfa "));
    let cells = voice.next().unwrap().split("  ");
    let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
    let jitter = cells[cells.len() - 3].trim();
    let measured: f64 = jitter.split(' ').next().unwrap().parse().unwrap();
    let packet = 1538.0 * 8.0 / 10_000.0;
    println!("bound {bound} ms, measured {measured} ms, {packet:.3} ms a full packet");
    assert!(
        measured <= 5.0 * packet,
        "{measured} ms added over five hops"
    );
    assert!(measured <= bound, "{measured} of {bound}");
    assert!(measured >= bound / 2.0, "{measured} of {bound}");
}

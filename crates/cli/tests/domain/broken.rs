// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain of three routers in a row, one of which fails or is broken.

use crate::inside::{SSH, domain};
use crate::topology::{Plan, run};

const ROUTERS: [&str; 3] = ["west", "middle", "east"];

/// Returns the plan, with two customers at each router. Of each class, some services use the port
/// from `middle` to `east`, and another ends before it.
fn three() -> Plan {
    let mut plan = Plan::new(
        "[class.voice]\nbehaviour = \"EF\"\nshare = \"30%\"\n\
         [class.gold]\nbehaviour = \"AF1\"\nshare = \"40%\"\n\
         [class.rest]\nbehaviour = \"DF\"\nshare = \"25%\"\n",
    );
    for router in ROUTERS {
        plan.router(router, "boundary");
    }
    plan.link("west", "middle", "4mbit");
    plan.link("middle", "east", "4mbit");
    for router in ROUTERS {
        for number in 0..2 {
            plan.customer(&format!("{router}{number}"), router, "10mbit");
        }
    }
    for (name, from, to) in [
        ("voice-through", "west0", "east0"),
        ("voice-before", "west1", "middle1"),
        ("voice-behind", "middle0", "east1"),
        ("voice-beside", "middle1", "east0"),
    ] {
        plan.service(&format!(
            "name = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nclass = \"voice\"\n\
             rate = \"80kbit\"\npacket = \"200B\"\nburst = \"400B\"\ndelay = \"60ms\"\n\
             jitter = \"40ms\"\nloss = \"0%\""
        ));
    }
    for (name, from, to, rate) in [
        ("books-through", "west0", "east0", "1400kbit"),
        ("books-before", "west1", "middle1", "100kbit"),
    ] {
        plan.service(&format!(
            "name = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nclass = \"gold\"\n\
             rate = \"{rate}\"\nburst = \"3000B\""
        ));
    }
    plan
}

/// Returns the state of every router: the kernel's qdiscs and tables, and the output of `weirgate
/// show`.
fn read_back() -> Vec<String> {
    let one = |router: &str| {
        let qdiscs = run(&format!("tc -n {router} qdisc show"));
        let tables = run(&format!("ip netns exec {router} nft list tables"));
        let shown = run(&format!("ip netns exec {router} weirgate show"));
        format!("{qdiscs}{tables}{shown}")
    };
    ROUTERS.map(one).to_vec()
}

#[test]
#[ignore = "runs in the guest"]
fn three_routers() {
    let plan = three();
    let file = "/run/three.toml";
    plan.build(file);
    let (status, text) = domain(&["check", file]);
    assert_eq!(status, 0, "{text}");

    // One router refuses, because its device has a foreign root qdisc.
    run("tc -n middle qdisc add dev east root pfifo limit 10");
    let before = read_back();
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("middle: not applied"), "{text}");
    assert!(text.contains("2 returned"), "{text}");
    assert_eq!(read_back(), before);
    run("tc -n middle qdisc del dev east root");

    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    let applied = read_back();
    assert!(applied.iter().zip(&before).all(|(now, then)| now != then));
    let verify = [
        "verify", file, "--ssh", SSH, "--time", "3s", "--beside", "3mbit",
    ];
    let (status, text) = domain(&verify);
    println!("{text}");
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("Everything that was promised is kept."),
        "{text}"
    );
    assert_eq!(text.matches(" kept since ").count(), 4 + 2, "{text}");

    // The router in the middle loses the tables that classify packets. The books then take turns
    // with three flows of best effort, and more than a quarter of the line was promised to them.
    // Voice may still be kept: the default class serves flows in turns, and sparse flows first.
    for table in run("ip netns exec middle nft list tables").lines() {
        run(&format!("ip netns exec middle nft delete {table}"));
    }
    let (status, text) = domain(&verify);
    println!("{text}");
    assert_eq!(status, 1, "{text}");
    let line = |service: &str| {
        let name = format!("  {service}  ");
        text.lines().find(|line| line.contains(&name)).unwrap()
    };
    assert!(line("books-through").contains("BROKEN since"), "{text}");
    for kept in ["books-before", "voice-before"] {
        assert!(line(kept).contains("kept since"), "{text}");
    }
    assert!(
        text.contains("The router `middle` is not as the domain says"),
        "{text}"
    );
    assert!(text.contains("passes the router `middle`"), "{text}");
    for sound in ["west", "east"] {
        assert!(
            !text.contains(&format!("The router `{sound}` is")),
            "{text}"
        );
    }

    // The measurement alone gives the same result.
    let alone = [&verify[..], &["--measure-only"]].concat();
    let (status, text) = domain(&alone);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("east of middle"), "{text}");
    assert!(!text.contains("middle of west"), "{text}");

    // Another apply repairs the domain.
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = domain(&verify);
    assert_eq!(status, 0, "{text}");
}

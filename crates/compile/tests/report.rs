// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `check` says of a class.

use weirgate_compile::{ClassReport, FullQueue, check_report};
use weirgate_policy::parse;

const LINK: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\ninbound = \"ifb\"\nlayer = \"docsis\"\n";
const ALL: &str = "[[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n";

/// Returns the report of an upstream class.
fn class(source: &str, name: &str) -> ClassReport {
    let (policy, problems) = parse(source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"));
    let up = check_report(&policy).directions.remove(0);
    let mut classes = up.classes.into_iter();
    classes.find(|one| one.name == name).expect("a class")
}

fn unbounded(class: &ClassReport) -> &str {
    match &class.full {
        FullQueue::NoHardBound { reason } => reason,
        FullQueue::Bound(bound) => panic!("{bound:?}"),
    }
}

/// The line also carries OAM cells while it carries a packet.
#[test]
fn a_packet_is_on_the_line_with_oam_cells() {
    let layer = "{ name = \"adsl:pppoa-vc\", oam = true }";
    let source = format!("{LINK}{ALL}").replace("\"docsis\"", layer);
    let (policy, _) = parse(&source);
    let up = check_report(&policy.expect("valid")).directions.remove(0);
    assert_eq!(up.classes[0].largest, up.costs[0].wire);
    assert_eq!(up.classes[0].own_time, up.costs[0].time);
}

/// With cake as the engine, the queue is the cake at the root.
#[test]
fn the_queue_of_cake_is_cake() {
    let source = format!("{LINK}engine = \"cake\"\n{ALL}");
    let own = class(&source, "all");
    assert!(own.queue.starts_with("cake, shared"), "{}", own.queue);
    assert!(unbounded(&own).starts_with("cake serves"), "{own:?}");
    // The waits are those with the same queue in words.
    let stated = class(
        &source.replace("default", "queue = \"cake\"\ndefault"),
        "all",
    );
    assert_eq!((own.queue, own.full), (stated.queue, stated.full));
}

/// Acknowledgements that are held back wait in fq.
#[test]
fn the_queue_of_held_acknowledgements_is_fq() {
    let source =
        format!("{LINK}{ALL}[ack]\n[receive]\nrate = \"50%\"\nmax-ack-delay = \"100ms\"\n");
    let own = class(&source, "ack");
    assert_eq!(own.queue, "fq, which holds acknowledgements back");
    assert!(unbounded(&own).starts_with("fq serves"), "{own:?}");
}

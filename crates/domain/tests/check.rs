// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of a domain: sums, worst cases, and reports where promises do not fit.
//!
//! Over 500 lines: one test for each promise and each warning of `domain check`.

use proptest::prelude::*;
use std::fmt::Write;
use weirgate_domain::{Check, Domain, Outcome, PortId, check, conditioners, parse, policy_text};
use weirgate_units::Span;

const ROW: &str = include_str!("domains/five-hops.toml");

fn domain(text: &str) -> Domain {
    let (domain, problems) = parse(text);
    assert!(problems.is_empty(), "{problems:?}");
    domain.expect("a domain")
}

fn checked(text: &str) -> Check {
    check(&domain(text))
}

fn findings(text: &str) -> Vec<String> {
    let found = checked(text).findings.into_iter();
    found
        .map(|one| format!("{}: {} [{}]", one.line, one.what, one.changes.join(" | ")))
        .collect()
}

/// Traffic without a profile gets no promise, and conditioners that exceed a router's room are
/// reported before anything is applied.
#[test]
fn what_no_router_could_hold_is_refused() {
    let free = ROW.replace("class = \"gold\"", "class = \"rest\"");
    let (_, problems) = parse(&free);
    assert!(
        problems
            .iter()
            .any(|one| one.message == "nothing can be promised in `rest`"),
        "{problems:?}"
    );
    let mut many = ROW.replace(
        "role = \"interior\"",
        "role = \"interior\"\nengine = \"kit\"",
    );
    for number in 1..=7 {
        let _ = write!(
            many,
            "\n[class.more-{number}]\nbehaviour = \"CS{number}\"\nshare = \"0.1%\"\n"
        );
    }
    let found = findings(&many);
    assert!(
        found.iter().any(|one| one.contains("room for 8 classes")),
        "{found:?}"
    );
}

#[test]
fn the_example_keeps_what_it_promises() {
    let example = include_str!("../../../domains/university.toml");
    let domain = domain(example);
    assert_eq!((domain.routers.len(), domain.customers.len()), (8, 40));
    assert_eq!(findings(example), Vec::<String>::new());
    // Packets leave a building for the other site by the only path.
    let first = domain.first_ports("hall");
    assert_eq!(first.len(), 7);
    let ports = domain.ports();
    for port in first.values() {
        assert_eq!(ports[port.0].device, "east0");
    }
}

#[test]
fn a_row_of_routers_keeps_what_is_promised() {
    let check = checked(ROW);
    assert_eq!(check.findings, []);
    let hops: Vec<String> = check.paths[0]
        .as_ref()
        .expect("a domain")
        .iter()
        .map(|id| {
            let port = &check.ports[id.0];
            format!("{} {}", port.router, port.device)
        })
        .collect();
    assert_eq!(
        hops,
        [
            "west core0",
            "one two0",
            "two three0",
            "three east0",
            "east beta0"
        ]
    );
    let delay = check.delays[0].as_ref().expect("a domain");
    // A full packet on 10 Mbit/s Ethernet takes 1538 B, 1.23 ms: each port adds that, and 0.1 ms
    // for the machine. Only at the first port do the five packets of 238 B queue behind one
    // another: 0.95 ms. After it they arrive as fast as they leave, and a packet waits for one of
    // its own, 0.19 ms.
    for (number, hop) in delay.hops.iter().enumerate() {
        let own = if number == 0 { 952 } else { 190 };
        let least = Span::from_micros(1232 + 100 + own);
        assert!(
            hop.wait >= least && hop.wait < least + Span::from_micros(12),
            "{hop:?}"
        );
        let steps = hop.steps.iter().map(|(_, time)| *time);
        assert_eq!(steps.fold(Span::ZERO, |a, b| a + b), hop.wait);
    }
    // Packets that waited may leave closer together: the burst grows at each port.
    let bursts: Vec<u64> = delay.hops.iter().map(|hop| hop.burst).collect();
    assert_eq!(bursts[0], 5 * 238);
    assert!(bursts.is_sorted_by(|a, b| a < b), "{bursts:?}");
    assert_eq!(
        Outcome::of(domain(ROW).services[0].delay, delay.worst()),
        Outcome::Kept
    );
    let waits = delay.worst().saturating_sub(delay.variation());
    // Four links of 1 ms, and six times 238 B at 10 Mbit/s: five ports and the sender's own link.
    assert_eq!(
        waits,
        Span::from_micros(4000 + 6 * 190) + Span::from_nanos(6 * 400)
    );
}

#[test]
fn what_exceeds_a_class_is_refused_with_link_sum_and_change() {
    let text = ROW.replace("rate = \"1mbit\"\npacket", "rate = \"2600kbit\"\npacket");
    let found = findings(&text);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(
        found[0],
        "39: core0 of west towards one: 3094 kbit/s are promised in `voice`, which has 2993.696 \
         kbit/s there; the sum of telephone [promise `telephone` 2515 kbit/s in place of 2600 \
         kbit/s | a link of 10336 kbit/s at core0 of west | give `voice` a share of 31.1%]"
    );
    // Each of these changes alone resolves the findings about that sum.
    for changed in [
        text.replace("2600kbit", "2515kbit"),
        text.replace("share = \"30%\"", "share = \"31.1%\""),
        text.replace("10mbit", "10336kbit"),
    ] {
        let left = findings(&changed);
        assert!(
            left.iter().all(|one| !one.contains("promised in")),
            "{left:#?}"
        );
    }
    // And a little less is not.
    assert_eq!(findings(&text.replace("2600kbit", "2517kbit")).len(), 5);
    assert_eq!(findings(&text.replace("10mbit", "10334kbit")).len(), 5);
}

#[test]
fn a_delay_that_cannot_be_had_is_refused_with_the_one_that_can() {
    let text = ROW.replace("delay = \"30ms\"", "delay = \"13ms\"");
    let found = findings(&text);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("`telephone` is promised a delay of 13ms; at worst it is "));
    let changes = checked(&text).findings[0].changes.clone();
    assert_eq!(
        changes,
        [
            "promise a delay of 13.6ms",
            "a burst of 400B for `telephone` in place of 1kB",
            "a link of 16818 kbit/s at core0 of west",
        ]
    );
    // Each change alone is enough, and a slightly smaller one is not.
    for (from, enough, less) in [
        (
            "delay = \"13ms\"",
            "delay = \"13.6ms\"",
            "delay = \"13.5ms\"",
        ),
        ("burst = \"1000B\"", "burst = \"400B\"", "burst = \"600B\""),
        (
            "rate = \"10mbit\"",
            "rate = \"16818kbit\"",
            "rate = \"15mbit\"",
        ),
    ] {
        let mended = text.replacen(from, enough, 1);
        assert_eq!(findings(&mended), Vec::<String>::new(), "{enough}");
        assert_eq!(findings(&text.replacen(from, less, 1)).len(), 1, "{less}");
    }
}

/// Five routers in a ring, each with a customer, and services between them.
fn ring(services: &[(&str, &str)], promised: &str) -> String {
    let mut text = "version = 1\n[class.books]\nbehaviour = \"AF1\"\nshare = \"60%\"\n\
                    [class.rest]\nbehaviour = \"DF\"\nshare = \"40%\"\n"
        .to_owned();
    for (one, next) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")] {
        let _ = write!(
            text,
            "[router.{one}]\nrole = \"boundary\"\n[customer.at-{one}]\nrouter = \"{one}\"\n\
             device = \"x0\"\nrate = \"10mbit\"\n[[link]]\nbetween = [\"{one}\", \"{next}\"]\n\
             devices = [\"{next}0\", \"{one}0\"]\nrate = \"10mbit\"\ndelay = \"1ms\"\n"
        );
    }
    for (from, to) in services {
        let _ = write!(
            text,
            "[[service]]\nname = \"{from}-to-{to}\"\nfrom = \"at-{from}\"\nto = \"at-{to}\"\n\
             class = \"books\"\nrate = \"1mbit\"\n{promised}"
        );
    }
    text
}

#[test]
fn services_in_a_circle_are_named() {
    let all = [("a", "c"), ("b", "d"), ("c", "e"), ("d", "a"), ("e", "b")];
    let found = findings(&ring(&all, TIME));
    assert_eq!(
        found,
        [
            "63: the worst case cannot be derived: a-to-c, b-to-d, c-to-e, d-to-a, e-to-b follow one \
          another in a circle, a to b, b to c, c to d, d to e, e to a [take one of these services \
          away, or change a link's `delay` so that one of them goes another way | promise rates \
          alone, and nothing of EF: they need no worst case]"
        ]
    );
    // Each of the suggested changes is enough.
    assert_eq!(findings(&ring(&all[1..], TIME)), Vec::<String>::new());
    let slow = ring(&all, TIME).replacen("delay = \"1ms\"", "delay = \"9ms\"", 1);
    assert_eq!(findings(&slow), Vec::<String>::new());
    let rates = checked(&ring(&all, ""));
    assert_eq!(rates.findings, []);
    let notes = rates.notes.join("\n");
    assert!(
        notes.contains("cannot be derived: a-to-c, b-to-d"),
        "{notes}"
    );
}

/// A promised loss.
const TIME: &str = "loss = \"1%\"\n";

#[test]
fn more_than_the_senders_own_line_brings_is_refused() {
    let line = |rate: &str| {
        let own = format!("device = \"x0\"\nrate = {rate}");
        ring(&[("a", "c")], "").replacen("device = \"x0\"\nrate = \"10mbit\"", &own, 1)
    };
    let found = findings(&line("[\"10mbit\", \"1mbit\"]"));
    assert_eq!(
        found,
        [
            "10: the line of `at-a` carries 1000 kbit/s from there, but 1025.334 kbit/s are \
             promised to its packets [a line of 1025.334 kbit/s from `at-a` | promise less to \
             packets from there]"
        ]
    );
    assert_eq!(
        findings(&line("[\"10mbit\", \"1026kbit\"]")),
        Vec::<String>::new()
    );
}

/// Files that can be read, but would be applied on the wrong machine or on none.
#[test]
fn machines_and_versions_are_told_apart() {
    let refused = |text: &str, says: &str| {
        let (domain, problems) = parse(text);
        assert!(domain.is_none(), "{text}");
        let messages: Vec<&str> = problems.iter().map(|one| one.message.as_str()).collect();
        assert!(messages.contains(&says), "{messages:?}");
    };
    let text = ring(&[("a", "c")], "");
    let hosts = text.replacen(
        "[router.b]\nrole = \"boundary\"",
        "[router.b]\nrole = \"boundary\"\nhost = \"a\"",
        1,
    );
    refused(&hosts, "`a` and `b` are both the machine `a`");
    refused(&text.replace("at-a", "b"), "`b` is a router as well");
    let own = text.replacen("device = \"x0\"", "device = \"lo\"", 1);
    refused(&own, "`lo` leads to the router itself");
    let size = format!("{text}burst = -1000\n");
    let (_, problems) = parse(&size);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let lost = format!("{text}[router.lost]\nrole = \"interior\"\n");
    let (domain, _) = parse(&lost);
    let note = "No link or customer is at `lost`, which gets no policy.";
    assert!(check(&domain.unwrap()).notes.iter().any(|one| one == note));
    let mut versions = text.clone();
    for (at, address) in [("a", "192.0.2.1"), ("c", "2001:db8::1")] {
        let customer = format!("[customer.at-{at}]\n");
        let with = format!("{customer}address = \"{address}\"\n");
        versions = versions.replacen(&customer, &with, 1);
    }
    refused(&versions, "`at-a` and `at-c` have no IP version in common");
}

/// A file far over the limits gives one problem, and quickly.
#[test]
fn too_many_services_are_one_problem() {
    let many: Vec<(&str, &str)> = std::iter::repeat_n(("a", "c"), 6000).collect();
    let mut text = String::new();
    for (number, part) in ring(&many, "").split("name = \"a-to-c\"").enumerate() {
        if number > 0 {
            let _ = write!(text, "name = \"s{number}\"");
        }
        text.push_str(part);
    }
    let (_, problems) = parse(&text);
    let messages: Vec<&str> = problems.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(messages, ["there are more than 4096 services"]);
}

/// All mistakes of a file are reported at once, each with its place and the correction.
#[test]
fn a_broken_file_is_refused_with_everything_that_is_wrong() {
    let source = include_str!("domains/broken.toml");
    let (domain, problems) = parse(source);
    assert!(domain.is_none());
    let rendered = problems.iter().map(|one| one.render("broken.toml", source));
    snapshot(
        "a_broken_file_is_refused_with_everything_that_is_wrong",
        &rendered.collect::<Vec<_>>().join("\n\n"),
    );
}

/// A mistake in a class does not hide that two routers are not joined.
#[test]
fn a_missing_way_does_not_wait_for_other_mistakes() {
    let start = ROW.find("[[link]]").expect("links");
    let end = start + 8 + ROW[start + 8..].find("[[link]]").expect("another");
    let apart = format!("{}{}", &ROW[..start], &ROW[end..]);
    let codes =
        |text: &str| -> Vec<&'static str> { parse(text).1.iter().map(|one| one.code).collect() };
    let alone = codes(&apart);
    assert!(
        !alone.is_empty() && alone.iter().all(|code| *code == "N108"),
        "{alone:?}"
    );
    let both = codes(&format!("{apart}\n[class.odd]\nbehaviour = \"odd\"\n"));
    assert_eq!(both, [&alone[..], &["N103"]].concat());
}

#[test]
fn the_report_shows_sums_and_derivations() {
    let domain = domain(ROW);
    let check = check(&domain);
    let report = |details| weirgate_domain::Report {
        domain: &domain,
        check: &check,
        details,
    };
    snapshot(
        "the_report_shows_sums_and_derivations",
        &report(true).to_string(),
    );
    snapshot("the_report_has_a_line_for_each", &report(false).to_string());
}

#[test]
fn every_port_has_a_policy_that_is_one() {
    let domain = domain(ROW);
    for port in domain.ports() {
        let text = policy_text(&domain, &port, &std::collections::BTreeMap::new());
        let (policy, problems) = weirgate_policy::parse(&text);
        assert!(policy.is_some(), "{text}\n{problems:?}");
    }
    let first = &domain.ports()[0];
    let bursts = [("voice".to_owned(), 1190), ("gold".to_owned(), 15380)].into();
    snapshot(
        "every_port_has_a_policy_that_is_one",
        &policy_text(&domain, first, &bursts),
    );
}

/// Customers are measured where they enter and expedited forwarding wherever it leaves. The
/// resulting policies are valid.
#[test]
fn conditioners_hold_what_was_promised() {
    let domain = domain(ROW);
    let check = check(&domain);
    let mut texts = String::new();
    for (number, port) in check.ports.iter().enumerate() {
        let own = conditioners(&domain, &check, PortId(number));
        let text = policy_text(&domain, port, &std::collections::BTreeMap::new()) + &own;
        let (policy, problems) = weirgate_policy::parse(&text);
        let policy = policy.unwrap_or_else(|| panic!("{text}\n{problems:?}"));
        assert!(problems.is_empty(), "{text}\n{problems:?}");
        let entering = policy.conditioners.iter().filter(|one| one.enters).count();
        let customer = domain.customers.contains_key(&port.towards);
        assert_eq!(entering > 0, customer, "{text}");
        // Expedited forwarding is metered at every port, at a rate of 0 where nothing was promised.
        assert_eq!(policy.conditioners.len(), entering + 1, "{text}");
        let voice = check.loads.iter().any(|load| {
            load.port == PortId(number) && load.class == "voice" && !load.services.is_empty()
        });
        assert_ne!(
            own.contains("class = \"voice\"\ngreen = \"drop\""),
            voice,
            "{text}"
        );
        writeln!(texts, "## {} {}\n{own}", port.router, port.device).expect("a string");
    }
    snapshot("conditioners_hold_what_was_promised", &texts);
}

/// A camera in the urgent class of two routers that use the kit.
const CAMERA: &str = r#"version = 1
[router.west]
role = "boundary"
engine = "kit"
[router.east]
role = "boundary"
engine = "kit"
[[link]]
between = ["west", "east"]
devices = ["core0", "core0"]
rate = "10mbit"
[class.urgent]
behaviour = "RT"
share = "30%"
[class.patient]
behaviour = "NRT"
share = "40%"
[class.rest]
behaviour = "DF"
share = "30%"
[customer.alfa]
router = "west"
device = "alfa0"
rate = "10mbit"
[customer.beta]
router = "east"
device = "beta0"
rate = "10mbit"
[[service]]
name = "camera"
from = "alfa"
to = "beta"
class = "urgent"
rate = "1mbit"
packet = "1000B"
burst = "4000B"
"#;

/// Two delay classes by six importance levels: each is a class with all of its code points.
/// Customers' packets get the importance of their promise.
#[test]
fn urgency_and_importance_are_two_things() {
    let domain = domain(CAMERA);
    let check = check(&domain);
    assert!(check.findings.is_empty(), "{:?}", check.findings);
    let policies: Vec<String> = (check.ports.iter().enumerate())
        .map(|(number, port)| {
            let bursts = [("urgent".to_owned(), 4_600)].into();
            policy_text(&domain, port, &bursts) + &conditioners(&domain, &check, PortId(number))
        })
        .collect();
    for text in &policies {
        let (policy, problems) = weirgate_policy::parse(text);
        assert!(
            policy.is_some() && problems.is_empty(),
            "{text}\n{problems:?}"
        );
        assert!(text.contains("dscp = [\"RT6\", \"RT5\", \"RT4\", \"RT3\", \"RT2\", \"RT1\"]"));
    }
    let of = |device: &str, router: &str| {
        let at = check
            .ports
            .iter()
            .position(|one| one.device == device && one.router == router);
        policies[at.expect("a port")].as_str()
    };
    assert!(of("core0", "west").contains("queue = { kind = \"drt\", limit_bytes = 27600 }"));
    assert!(of("core0", "west").contains("queue = \"drt\""));
    let entering = "nominal-rate = \"1mbit\"\nburst = 4000\nurgency = \"real-time\"";
    assert!(
        of("alfa0", "west").contains(entering),
        "{}",
        of("alfa0", "west")
    );
    assert_eq!(
        weirgate_domain::code_point(&domain, &domain.services[0]).to_string(),
        "RT6"
    );
}

/// Where routers distinguish levels, excess traffic waits with conforming traffic, so that no delay
/// is promised there. Otherwise it is dropped at the edge, and the router that cannot distinguish
/// levels is named.
#[test]
fn times_and_levels_do_not_go_together() {
    let timed = CAMERA.replace("burst = \"4000B\"", "burst = \"4000B\"\ndelay = \"60ms\"");
    let found = findings(&timed);
    assert!(
        found
            .iter()
            .any(|one| one.contains("is promised a time in `urgent` (RT)")),
        "{found:?}"
    );

    // One router cannot distinguish levels, and excess is dropped at the edge.
    let mixed = timed.replace(
        "[router.east]\nrole = \"boundary\"\nengine = \"kit\"",
        "[router.east]\nrole = \"boundary\"",
    );
    let domain = domain(&mixed);
    let check = check(&domain);
    assert!(check.findings.is_empty(), "{:?}", check.findings);
    let entering = check.ports.iter().position(|one| one.device == "alfa0");
    let text = conditioners(&domain, &check, PortId(entering.expect("a port")));
    assert!(
        text.contains("\nmeter = \"bucket\"\nrate = \"1mbit\"\nburst = 4000\n"),
        "{text}"
    );
    assert!(!text.contains("nominal"), "{text}");
    let east = check
        .ports
        .iter()
        .find(|one| one.router == "east")
        .expect("a port");
    assert!(!policy_text(&domain, east, &[].into()).contains("drt"));
    let report = weirgate_domain::Report {
        domain: &domain,
        check: &check,
        details: false,
    }
    .to_string();
    assert!(
        report.contains("DRT's importance levels are not distinguished at east"),
        "{report}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// For any promises, nothing panics, and with more load no service has a shorter worst case.
    #[test]
    fn more_load_is_never_faster(rate in 100_u64..900, more in 1_u64..900, burst in 200_u64..5000) {
        let text = |rate: u64, burst: u64| ROW
            .replace("rate = \"1mbit\"\npacket", &format!("rate = \"{rate}kbit\"\npacket"))
            .replace("burst = \"1000B\"", &format!("burst = \"{burst}B\""));
        let one = checked(&text(rate, burst));
        let other = checked(&text(rate + more, burst + 200));
        for at in [0, 1] {
            let (one, other) = (one.delays[at].as_ref(), other.delays[at].as_ref());
            let (Some(one), Some(other)) = (one, other) else { continue };
            prop_assert!(one.worst() <= other.worst());
        }
    }
}

fn snapshot(name: &str, text: &str) {
    weirgate_testing::golden(format!("crates/domain/tests/snapshots/{name}.txt"), text);
}

/// A list of routers, from `[[router]]`, gives an error with the correct form.
#[test]
fn the_form_of_a_router_is_reported() {
    let (_, problems) = parse("version = 1\n[[router]]\nhost = \"a\"\n");
    let reported = problems
        .iter()
        .any(|one| format!("{one:?}").contains("[router.NAME]"));
    assert!(reported, "{problems:?}");
}

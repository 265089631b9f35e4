// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arriving packets: those for the router itself, and those for inside hosts behind address
//! translation.

use weirgate_compile::compile;
use weirgate_document::Severity;
use weirgate_policy::{Policy, parse};
use weirgate_state::{Capabilities, DeviceName};

const SITE: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\ninbound = \"ifb\"\nlayer = \"docsis\"\n[[class]]\nname = \"all\"\nshare = \"100%\"\n\
    queue = \"cake\"\ndefault = true\n";

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

/// Returns codes and severities of the report about a policy.
fn refused(source: &str, kernel: &Capabilities) -> Vec<(&'static str, Severity)> {
    let (_, problems) = compile(&policy(source), kernel);
    let each = problems.iter();
    each.map(|problem| (problem.code, problem.severity))
        .collect()
}

/// The router's answers never leave through the LAN device.
#[test]
fn kept_rules_for_the_routers_own_packets_are_doubted_on_a_lan_device() {
    let source = format!("{SITE}[[rule]]\nclass = \"all\"\nfrom = \"router\"\nkeep = true\n");
    let all = Capabilities::all();
    assert_eq!(refused(&source, &all), []);
    let lan = |source: &str| source.replace("\"ifb\"", "\"lan\"");
    assert_eq!(refused(&lan(&source), &all), [("C224", Severity::Warning)]);
    assert_eq!(refused(&lan(SITE), &all), []);
}

/// Behind address translation, the connection shows the inside host.
#[test]
fn parts_of_inside_hosts_reach_an_ifb_by_the_packets_mark() {
    let all = Capabilities::all();
    let parts = "[group.a]\naddresses = [\"10.0.0.0/24\", \"2001:db8::/64\"]\n\
                 [[share]]\ngroup = \"a\"\nshare = \"30%\"\n";
    let configured = format!("{SITE}{parts}[marks]\ninside = \"0x0000ff00\"\n");
    assert_eq!(
        refused(&format!("{SITE}{parts}"), &all),
        [("C206", Severity::Warning)]
    );
    let (state, problems) = compile(&policy(&configured), &all);
    assert_eq!(problems, []);
    let state = state.unwrap();
    let wan = DeviceName::new("wan").unwrap();
    assert_eq!(state.hooks[&wan].restore, Some(0x0000_ff00));
    let without = Capabilities {
        restore_marks: false,
        ..all.clone()
    };
    assert_eq!(refused(&configured, &without), [("C225", Severity::Error)]);
    // Two groups of hosts, but bits for only one.
    let more = format!(
        "{configured}[group.b]\naddresses = [\"10.0.1.0/24\"]\n\
         [[share]]\ngroup = \"b\"\nshare = \"30%\"\n"
    );
    assert_eq!(refused(&more, &all), []);
    let narrow = more.replace("0x0000ff00", "0x00000100");
    assert_eq!(refused(&narrow, &all), [("C225", Severity::Error)]);
}

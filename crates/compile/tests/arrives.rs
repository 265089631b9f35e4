// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What arrives for the router itself.

use weirgate_compile::compile;
use weirgate_document::Severity;
use weirgate_policy::{Policy, parse};
use weirgate_state::Capabilities;

const SITE: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\nlayer = \"docsis\"\n[[class]]\nname = \"all\"\nshare = \"100%\"\n\
    queue = \"cake\"\ndefault = true\n";

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

/// Codes and severities of what is said about a policy.
fn refused(source: &str, kernel: &Capabilities) -> Vec<(&'static str, Severity)> {
    let (_, problems) = compile(&policy(source), kernel);
    let each = problems.iter();
    each.map(|problem| (problem.code, problem.severity))
        .collect()
}

/// Their answers never leave by the LAN device.
#[test]
fn kept_rules_for_the_routers_own_packets_are_doubted_on_a_lan_device() {
    let source = format!("{SITE}[[rule]]\nclass = \"all\"\nfrom = \"router\"\nkeep = true\n");
    let all = Capabilities::all();
    assert_eq!(refused(&source, &all), []);
    let lan = |source: &str| source.replace("layer", "inbound = \"lan\"\nlayer");
    assert_eq!(refused(&lan(&source), &all), [("C223", Severity::Warning)]);
    assert_eq!(refused(&lan(SITE), &all), []);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of rules: a packet is counted once, however many services of its rule it belongs to.

use weirgate_compile::compile;
use weirgate_policy::parse;
use weirgate_state::{Capabilities, IpVersion, Match, Rule, RuleVerdict, State, Table};

const SITE: &str = "version = 1\n[link]\ndevice = \"wan\"\nup = \"10mbit\"\nlayer = \"docsis\"\n\
    [[class]]\nname = \"all\"\nshare = \"90%\"\ndefault = true\n\
    [[class]]\nname = \"slow\"\nshare = \"10%\"\n\
    [[service.web.match]]\nprotocol = \"tcp\"\nremote-port = [80, 443]\n\
    [[service.mine.match]]\nprotocol = \"tcp\"\nremote-port = [443, 5000]\n";

fn state(rule: &str) -> State {
    let source = format!("{SITE}{rule}");
    let (policy, problems) = parse(&source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"));
    let (state, problems) = compile(&policy, &Capabilities::all());
    state.unwrap_or_else(|| panic!("{problems:#?}"))
}

/// Returns the rules with a meter, and the names of their chains.
fn metered(state: &State) -> Vec<(String, Rule)> {
    let chains = state.tables.iter().flat_map(|table: &Table| &table.chains);
    chains
        .flat_map(|chain| chain.rules.iter().map(|rule| (chain.name.clone(), rule)))
        .filter(|(_, rule)| {
            rule.matches
                .iter()
                .any(|one| matches!(one, Match::Meter(_)))
        })
        .map(|(name, rule)| (name, rule.clone()))
        .collect()
}

#[test]
fn a_packet_of_two_services_is_counted_once() {
    for last in ["", "final = false\n"] {
        let rule = format!(
            "[[rule]]\nclass = \"slow\"\nservice = [\"web\", \"mine\"]\n{last}\
             rate = {{ over = \"100/s\", per = \"local\" }}\n"
        );
        let state = state(&rule);
        let metered = metered(&state);
        let versions = metered.iter().map(|(_, rule)| rule.matches[0].clone());
        let both = IpVersion::BOTH.map(Match::version_is);
        assert_eq!(versions.collect::<Vec<_>>(), both, "{metered:#?}");
        // What leads there neither counts nor decides.
        let chains = state.tables.iter().flat_map(|table| &table.chains);
        let leading: Vec<&Rule> = chains
            .flat_map(|chain| &chain.rules)
            .filter(|rule| rule.verdict == RuleVerdict::Goto(metered[0].0.clone()))
            .collect();
        assert_eq!(leading.len(), 4, "{leading:#?}");
        assert!(
            leading
                .iter()
                .all(|rule| rule.counter.is_none() && rule.effects.is_empty())
        );
    }
}

#[test]
fn a_rule_of_one_service_needs_no_chain() {
    let rule = "[[rule]]\nclass = \"slow\"\nservice = [\"web\"]\nrate = { over = \"100/s\" }\n";
    let metered = metered(&state(rule));
    assert_eq!(metered.len(), 2);
    assert!(
        metered.iter().all(|(chain, _)| chain == "up"),
        "{metered:#?}"
    );
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of a policy as nftables chains that give each packet its class.
//!
//! Upstream they are at postrouting, before source NAT; they see forwarded packets and the
//! router's own, with inside addresses. Downstream they are where packets arrive (IFB), before
//! destination NAT, or at postrouting of the LAN device, after it. On a bridge they are at the
//! egress of its two ports (`bridge`). Arriving packets have not passed connection tracking yet.
//! Kept decisions are therefore read from the packet's mark, to which `act_ctinfo` has copied
//! them. They are made upstream only. The order is the same everywhere:
//!
//! 1. on a LAN device, what does not come from the link is not shaped;
//!    (and TCP's segments are lowered there for the upstream, `segments`);
//! 2. neighbour discovery and DHCP go to the first class, so that a full queue
//!    never costs the link itself (ARP is not IP: no rule of `inet` sees it,
//!    and [`Scheduler::unseen`] is its class);
//! 3. code points that are not trusted are cleared, others mapped;
//! 4. where a rule lets later ones decide, the default class is written first;
//! 5. pure ACKs go to their class, where `[ack]` asks for it;
//! 6. the policy's rules in their order, those of a rule set in a chain that is
//!    switched as one;
//! 7. where each rule is final, all other IP packets go to the default class;
//! 8. packets of a divided class go to the part of their host (`part_rules`);
//! 9. code points are cleared on the way out, where that is asked for.
//!
//! `rule` translates a rule of the policy, and `condition` translates conditions to matches. Crate
//! `state` defines what the chains mean.

pub(crate) mod bridge;
pub(crate) mod code_points;
pub(crate) mod condition;
pub(crate) mod inside;
pub(crate) mod naming;
pub(crate) mod part_rules;
mod rule;
pub(crate) mod segments;
pub(crate) mod session;

use crate::classify::code_points::{clear, mapped};
use crate::classify::condition::{Lists, Lowering};
use crate::inbound::receive;
use crate::scheduler::{Member, Scheduler};
use crate::tree::LOCAL;
use weirgate_policy::{Direction, Inbound, Policy, Protocol, Rule as PolicyRule};
use weirgate_state::{
    Chain, DeviceName, Effect, Field, Frame, Hook, IpVersion, Match, Origin, Rule, RuleVerdict, Set,
};

/// Returns a direction's chains, the one with the hook first, and adds the sets that they use.
/// `restored` tells whether arriving packets have their connections' decisions.
pub(crate) fn chains(
    policy: &Policy,
    scheduler: &Scheduler,
    hook: Hook,
    sets: &mut Vec<Set>,
    restored: bool,
) -> Vec<Chain> {
    let direction = scheduler.direction;
    let tracked = !matches!(hook, Hook::Ingress { .. } | Hook::Egress { .. });
    let mask = policy.marks.decisions;
    let wash = policy.dscp.as_ref().filter(|dscp| {
        dscp.wash
            .as_ref()
            .is_some_and(|directions| directions.value.contains(direction))
    });
    let mut parts = part_rules::rules(scheduler, sets);
    if matches!(hook, Hook::Ingress { .. }) {
        parts.extend(inside::leading(policy, scheduler));
    }
    let kept = match direction {
        Direction::Up if tracked => inside::keeping(policy, sets),
        _ => Vec::new(),
    };
    let mut writer = Writer {
        policy,
        scheduler,
        lists: Lists::new(policy, sets),
        lowering: Lowering::new(policy, scheduler.direction),
        tracked,
        decisions: if tracked {
            Some(Field::ConnectionMark { mask })
        } else {
            restored.then_some(Field::Mark { mask })
        },
        ending: if wash.is_some() || !parts.is_empty() {
            RuleVerdict::Goto(format!("{direction}_end"))
        } else {
            RuleVerdict::Final
        },
        called: Vec::new(),
        kept: 0,
    };
    let mut rules = [kept, writer.before()].concat();
    writer.scheme(&mut rules);
    let marking = writer.is_marking();
    if let (Some(default), false) = (scheduler.default_class(), marking) {
        rules.extend(rest(default, &writer.ending.clone()));
    }
    let ending = writer.ending.clone();
    let mut called = std::mem::take(&mut writer.called);
    if wash.is_some() || !parts.is_empty() {
        let line = wash.map_or(0, |dscp| dscp.line);
        if marking {
            rules.push(Rule {
                frame: Frame::Plain,
                matches: Vec::new(),
                counter: None,
                effects: Vec::new(),
                verdict: ending,
                origin: Origin::new(line, "on to what follows the scheme"),
            });
        }
        let mut last = parts;
        if let Some(dscp) = wash {
            last.extend(clear(dscp, "cleared on the way out"));
        }
        last.push(Rule {
            frame: Frame::Plain,
            matches: Vec::new(),
            counter: None,
            effects: Vec::new(),
            verdict: RuleVerdict::Final,
            origin: Origin::new(line, "the end of the scheme"),
        });
        called.push(Chain {
            name: format!("{direction}_end"),
            hook: Hook::Called,
            rules: last.into(),
        });
    }
    let first = Chain {
        name: direction.to_string(),
        hook,
        rules: rules.into(),
    };
    let mut chains: Vec<Chain> = std::iter::once(first).chain(called).collect();
    naming::settle(&mut chains, sets);
    if policy.link.bridge {
        session::add(policy, scheduler, &mut chains, sets);
    }
    chains
}

/// Returns the chain that stores the signature of a payload in the connection, for packets that
/// are shaped on arrival. It is placed where they leave for the inside, and the result also
/// applies upstream. Rules of rule sets are omitted, because they may be off. Returns `None` if
/// no rule needs it.
pub(crate) fn learning(
    policy: &Policy,
    scheduler: &Scheduler,
    (device, number): (&DeviceName, usize),
    sets: &mut Vec<Set>,
) -> Option<Chain> {
    let mask = policy.marks.decisions;
    let field = Field::ConnectionMark { mask };
    let mut writer = Writer {
        policy,
        scheduler,
        lists: Lists::new(policy, sets),
        lowering: Lowering::new(policy, scheduler.direction),
        tracked: true,
        decisions: Some(field),
        ending: RuleVerdict::Final,
        called: Vec::new(),
        kept: 0,
    };
    let comes = Match::text(Field::InputDevice, policy.link.device.value.as_str());
    let mut rules = Vec::new();
    let keeping = policy.rules.iter().filter(|rule| rule.keep.is_some());
    for (rule, number) in keeping.zip(1..) {
        let both = Direction::BOTH
            .into_iter()
            .all(|direction| rule.directions.contains(direction));
        if rule.payload().is_none() || rule.ruleset.is_some() || !both {
            continue;
        }
        let value = number << mask.trailing_zeros();
        let name = match &rule.name {
            Some(name) => format!("learn_{}", name.value.replace('-', "_")),
            None => format!("learn_{}", naming::provisional(rule)),
        };
        for one in writer.alternatives(rule, Some(value), &name) {
            rules.push(Rule {
                frame: Frame::Plain,
                matches: [vec![comes.clone()], one.matches, one.late].concat(),
                counter: None,
                effects: vec![Effect::ConnectionMark { mask, value }],
                verdict: if rule.last {
                    RuleVerdict::Final
                } else {
                    RuleVerdict::Continue
                },
                origin: Origin::new(
                    writer.origin(rule).line,
                    "what a payload from outside betrays holds for the connection",
                ),
            });
        }
    }
    let name = match number {
        0 => "learn".to_owned(),
        more => format!("learn_{}", more + 1),
    };
    let chain = Chain {
        name,
        hook: Hook::Postrouting {
            device: device.clone(),
        },
        rules: rules.into(),
    };
    let mut chains = vec![chain];
    naming::settle(&mut chains, sets);
    chains.pop().filter(|chain| !chain.rules.is_empty())
}

/// Returns the name of the chain for a rule set in a direction; its switch has the same name.
#[must_use]
pub fn ruleset_chain(direction: Direction, name: &str) -> String {
    format!("{direction}_set_{}", name.replace('-', "_"))
}

/// Returns whether any rule of the policy lets later ones decide.
pub(crate) fn is_marking(policy: &Policy) -> bool {
    policy.rules.iter().any(|rule| !rule.last)
}

struct Writer<'a> {
    policy: &'a Policy,
    scheduler: &'a Scheduler,
    lists: Lists<'a>,
    lowering: Lowering,
    /// Whether packets have passed connection tracking.
    tracked: bool,
    /// The field with kept decisions: the connection's mark or, where packets arrive, its copy
    /// in the packet's mark.
    decisions: Option<Field>,
    /// The verdict of a rule that is the last one for its packets.
    ending: RuleVerdict,
    called: Vec<Chain>,
    /// The number of rules so far that keep their decision.
    kept: u32,
}

impl Writer<'_> {
    fn is_marking(&self) -> bool {
        is_marking(self.policy)
    }

    /// Returns the rules before those of the policy.
    fn before(&mut self) -> Vec<Rule> {
        let link = &self.policy.link;
        let direction = self.scheduler.direction;
        let mut rules = Vec::new();
        if direction == Direction::Down && link.inbound.value == Inbound::Lan && !link.bridge {
            let other = Match::text(Field::InputDevice, link.device.value.as_str()).negated();
            let origin = Origin::new(link.inbound.line, "does not come from the link");
            rules.push(Rule::classify(vec![other], LOCAL, origin));
        }
        rules.extend(segments::rules(self.policy, direction));
        rules.extend(receive::segments(self.policy, direction));
        if let Some(first) = self.scheduler.members.first() {
            control(first, direction, &self.ending, &mut rules);
            if link.bridge {
                rules.push(bridge::control(first, &self.ending));
            }
        }
        if let Some(dscp) = &self.policy.dscp {
            let distrusted = dscp
                .distrust
                .as_ref()
                .is_some_and(|directions| directions.value.contains(direction));
            if distrusted {
                rules.extend(clear(dscp, "not trusted"));
            } else {
                rules.extend(mapped(dscp));
            }
        }
        if let (Some(default), true) = (self.scheduler.default_class(), self.is_marking()) {
            rules.extend(rest(default, &RuleVerdict::Continue));
        }
        if let (Some(default), true) = (self.scheduler.default_class(), link.bridge) {
            rules.extend(bridge::hidden(default, &self.ending));
        }
        let mut members = self.scheduler.members.iter();
        if let Some(ack) = members.find(|member| member.class.ack) {
            let origin = Origin::new(ack.class.line, "an acknowledgement without data");
            for version in IpVersion::BOTH {
                let matches = condition::pure_ack(version);
                rules.push(Rule {
                    counter: Some(format!("ack_{direction}")),
                    verdict: self.ending.clone(),
                    ..Rule::classify(matches, ack.id, origin.clone()).guarded()
                });
            }
        }
        rules
    }

    /// Adds the rules of the policy; those of a rule set go into its own chain.
    fn scheme(&mut self, rules: &mut Vec<Rule>) {
        let policy = self.policy;
        let direction = self.scheduler.direction;
        let mut position = 0;
        while let Some(rule) = policy.rules.get(position) {
            let Some(index) = rule.ruleset else {
                self.rule(rule, rules);
                position += 1;
                continue;
            };
            let same = |other: &&PolicyRule| other.ruleset == Some(index);
            let set: Vec<&PolicyRule> = policy.rules[position..].iter().take_while(same).collect();
            position += set.len();
            let mut inside = Vec::new();
            for rule in set {
                self.rule(rule, &mut inside);
            }
            // Omit a chain without rules for this direction; its rules were counted above.
            if inside.is_empty() {
                continue;
            }
            if let Some(ruleset) = policy.rulesets.get(index) {
                let name = ruleset_chain(direction, &ruleset.name.value);
                rules.push(Rule {
                    frame: Frame::Plain,
                    matches: Vec::new(),
                    counter: None,
                    effects: Vec::new(),
                    verdict: RuleVerdict::Jump(name.clone()),
                    origin: Origin::new(ruleset.line, format!("rule set {}", ruleset.name.value)),
                });
                self.called.push(Chain {
                    name,
                    hook: Hook::Switched {
                        on: ruleset.enabled,
                    },
                    rules: inside.into(),
                });
            }
        }
    }

    fn origin(&self, rule: &PolicyRule) -> Origin {
        let what = match &rule.class {
            Some(class) => format!("rule for class {}", class.value),
            None => "rule that sets a code point".to_owned(),
        };
        match self.policy.sources.included(&rule.span) {
            Some(file) => Origin::new(0, format!("{file} line {}: {what}", rule.line)),
            None => Origin::new(rule.line, what),
        }
    }
}

/// Returns the rules that send all other IP packets to the default class.
fn rest(default: &Member, verdict: &RuleVerdict) -> Vec<Rule> {
    let origin = Origin::new(default.class.line, "what no rule matches");
    let rule = |version| Rule {
        verdict: verdict.clone(),
        ..Rule::classify(vec![Match::version_is(version)], default.id, origin.clone())
    };
    IpVersion::BOTH.map(rule).to_vec()
}

/// Adds rules for the packets on which the link itself depends.
fn control(first: &Member, direction: Direction, ending: &RuleVerdict, rules: &mut Vec<Rule>) {
    let mut add = |matches: Vec<Match>, what: &str| {
        let reason = format!("{what}, never behind others");
        let origin = Origin::new(first.class.line, reason);
        rules.push(Rule {
            verdict: ending.clone(),
            ..Rule::classify(matches, first.id, origin).guarded()
        });
    };
    add(
        vec![Match::range(Field::IcmpType(IpVersion::V6), 133, 137)],
        "neighbour discovery of IPv6",
    );
    // The ports of server and client: RFC 2131 section 4.1 and RFC 8415 section 7.2.
    for (version, server, client) in [(IpVersion::V4, 67, 68), (IpVersion::V6, 547, 546)] {
        let (source, destination) = match direction {
            Direction::Up => (client, server),
            Direction::Down => (server, client),
        };
        add(
            vec![
                Match::version_is(version),
                Match::one(Field::Protocol, Protocol::UDP.0.into()),
                Match::one(Field::SourcePort, source),
                Match::one(Field::DestinationPort, destination),
            ],
            "DHCP",
        );
    }
}

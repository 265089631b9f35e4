// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates a rule of the policy to rules of a chain: one for each way to fulfil it.

use crate::classify::condition::{self, Alternative, guard};
use crate::classify::{Writer, naming, segments};
use weirgate_policy::{
    Count as PolicyCount, Direction, Meter as PolicyMeter, Per, Rule as PolicyRule, ServiceMatch,
};
use weirgate_state::{
    Chain, Content, Count, Effect, Field, Frame, Hook, IpVersion, Match, Meter, Origin, Rule,
    RuleVerdict, Set,
};
use weirgate_units::Dscp;

impl Writer<'_> {
    /// Translates one rule.
    pub(super) fn rule(&mut self, rule: &PolicyRule, out: &mut Vec<Rule>) {
        let direction = self.scheduler.direction;
        let keep = rule.keep.is_some().then(|| {
            self.kept += 1;
            self.kept
        });
        let here = rule.directions.contains(direction);
        if !here && keep.is_none() {
            return;
        }
        let member = match &rule.class {
            Some(class) => match self.scheduler.named(&class.value) {
                Some(member) => Some(member),
                // The rule keeps a decision, and its class does not exist in this direction.
                None => return,
            },
            None => None,
        };
        let label = match &rule.name {
            Some(name) => name.value.replace('-', "_"),
            None => naming::provisional(rule),
        };
        let name = format!("{direction}_{label}");
        let body = Rule {
            frame: Frame::Plain,
            matches: Vec::new(),
            counter: Some(name.clone()),
            effects: member
                .map(|member| Effect::Class(member.id))
                .into_iter()
                .collect(),
            verdict: if rule.last {
                self.ending.clone()
            } else {
                RuleVerdict::Continue
            },
            origin: self.origin(rule),
        };
        let mask = self.policy.marks.decisions;
        let decision = keep.map(|number| number << mask.trailing_zeros());
        if let (Some(value), Some(field)) = (decision, self.decisions) {
            let kept = Match::one(field, value.into());
            if here {
                let held = [Alternative::of(vec![kept.clone()])];
                out.extend(segments::stated(rule, &held, &body.origin));
            }
            out.extend(with_dscp(
                vec![kept],
                rule.set_dscp.as_ref().map(|d| d.value),
                &body,
            ));
        }
        if !here {
            return;
        }
        let alternatives = self.alternatives(rule, decision, &name);
        out.extend(segments::stated(rule, &alternatives, &body.origin));
        let body = match (decision, self.tracked) {
            (Some(value), true) => {
                let mut body = body;
                body.effects.push(Effect::ConnectionMark { mask, value });
                body
            }
            _ => body,
        };
        let dscp = rule.set_dscp.as_ref().map(|d| d.value);
        let meters = Metered::of(&alternatives);
        // A packet may match several alternatives: services overlap. It is counted once.
        let once = alternatives.len() > meters.len() && !meters.is_empty();
        if once {
            let counted = meters
                .iter()
                .flat_map(|meter| with_dscp(meter.matches(), dscp, &body));
            let chain = self.call(direction, "counted", &label, counted.collect());
            let goto = RuleVerdict::Goto(chain);
            let matching = alternatives.into_iter();
            let matching = matching.map(|one| one.leading(&goto, self.origin(rule)));
            let matching = matching.collect();
            out.push(self.jump(rule, direction, &label, matching));
            return;
        }
        let all = alternatives.into_iter();
        let mut own: Vec<Rule> = all
            .flat_map(|one| {
                let mut body = body.clone();
                body.origin.service = one.service;
                with_dscp([one.matches, one.late].concat(), dscp, &body)
            })
            .collect();
        // Services may overlap, so return after the first match to count each packet once.
        if rule.services.len() > 1 && !rule.last {
            for one in &mut own {
                if one.verdict == RuleVerdict::Continue {
                    one.verdict = RuleVerdict::Return;
                }
            }
            out.push(self.jump(rule, direction, &label, own));
        } else {
            out.extend(own);
        }
    }

    /// Adds a chain that other chains call; returns its name.
    fn call(&mut self, direction: Direction, what: &str, label: &str, rules: Vec<Rule>) -> String {
        let name = format!("{direction}_{what}_{label}");
        self.called.push(Chain {
            name: name.clone(),
            hook: Hook::Called,
            rules: rules.into(),
        });
        name
    }

    /// Adds a chain with the alternatives of a rule; returns the rule that jumps to it.
    fn jump(
        &mut self,
        rule: &PolicyRule,
        direction: Direction,
        label: &str,
        alternatives: Vec<Rule>,
    ) -> Rule {
        Rule {
            frame: Frame::Plain,
            matches: Vec::new(),
            counter: None,
            effects: Vec::new(),
            verdict: RuleVerdict::Jump(self.call(direction, naming::ANY, label, alternatives)),
            origin: self.origin(rule),
        }
    }

    /// Returns every way to fulfil a rule.
    pub(super) fn alternatives(
        &mut self,
        rule: &PolicyRule,
        decision: Option<u32>,
        name: &str,
    ) -> Vec<Alternative> {
        let direction = self.scheduler.direction;
        let services: Vec<Option<&ServiceMatch>> = if rule.services.is_empty() {
            vec![None]
        } else {
            rule.services.iter().map(Some).collect()
        };
        let times = condition::times(rule.during.as_ref(), &mut self.lists);
        let mut found = Vec::new();
        for named in services {
            let service = named.map(|named| &named.when);
            let counts = rule.meter.as_ref().is_some_and(|meter| {
                meter.value.per == Per::Connection
                    || matches!(meter.value.count, PolicyCount::Connections(_))
            });
            let needs = counts
                || condition::needs_tracking(&rule.when)
                || service.is_some_and(condition::needs_tracking);
            if !self.tracked && needs {
                // `check` reports it.
                continue;
            }
            let by_version = rule.meter.is_some() || rule.set_dscp.is_some();
            let each =
                condition::matches(&self.lowering, (rule, service), by_version, &mut self.lists);
            for matches in each {
                for time in &times {
                    let mut matches = [matches.clone(), time.clone()].concat();
                    if let (Some(value), Some(field)) = (decision, self.decisions) {
                        // Packets with the kept decision have already matched an earlier rule.
                        // Of two decisions, the one that determines the class is kept: the later
                        // one where rules re-mark.
                        matches.push(if rule.last {
                            Match::one(field, value.into()).negated()
                        } else {
                            Match::range(field, 0, u128::from(value) - 1)
                        });
                    }
                    let version = version_of(&matches);
                    if let Some(Count::Connections(_)) =
                        rule.meter.as_ref().map(|meter| counted(&meter.value))
                    {
                        // nftables drops packets that it cannot count.
                        let mask = INVALID | UNTRACKED;
                        matches.push(Match::one(Field::ConnectionState { mask }, 0));
                    }
                    let late = match (&rule.meter, version) {
                        (Some(meter), Some(version)) => {
                            let name = format!("meter{}_{name}", version.number());
                            vec![self.meter(&meter.value, direction, version, &name)]
                        }
                        _ => Vec::new(),
                    };
                    found.push(Alternative {
                        matches: guard(matches),
                        late,
                        service: named.map(|named| named.service.clone()),
                    });
                }
            }
        }
        found
    }

    fn meter(
        &mut self,
        meter: &PolicyMeter,
        direction: Direction,
        version: IpVersion,
        name: &str,
    ) -> Match {
        let local_is_source = direction == Direction::Up;
        let (field, name) = match meter.per {
            Per::Local if local_is_source => (Field::Source(version), name.to_owned()),
            Per::Remote if !local_is_source => (Field::Source(version), name.to_owned()),
            Per::Local | Per::Remote => (Field::Destination(version), name.to_owned()),
            // One set contains connections of both IP versions.
            Per::Connection => (Field::ConnectionId, name.replacen(['4', '6'], "", 1)),
            Per::All => (Field::Mark { mask: 0 }, name.replacen(['4', '6'], "", 1)),
        };
        let set = name;
        if let Some(key) = field.key() {
            self.lists.add(Set {
                name: set.clone(),
                key,
                content: Content::Meter {
                    size: meter.size,
                    timeout: meter.timeout(),
                },
                origin: Origin::default(),
            });
        }
        Match::Meter(Meter {
            field,
            set,
            count: counted(meter),
            over: meter.over,
        })
    }
}

/// A meter of a rule, for packets of one IP version.
#[derive(PartialEq)]
struct Metered {
    version: IpVersion,
    late: Vec<Match>,
}

impl Metered {
    /// Returns the meters of these alternatives, each once.
    fn of(alternatives: &[Alternative]) -> Vec<Self> {
        let mut found = Vec::new();
        for one in alternatives {
            let version = version_of(&one.matches).filter(|_| !one.late.is_empty());
            let late = one.late.clone();
            let meter = version.map(|version| Self { version, late });
            found.extend(meter.filter(|meter| !found.contains(meter)));
        }
        found
    }

    fn matches(&self) -> Vec<Match> {
        [vec![Match::version_is(self.version)], self.late.clone()].concat()
    }
}

/// Returns the IP version of the packets that these matches describe, if they imply one.
fn version_of(matches: &[Match]) -> Option<IpVersion> {
    matches.iter().find_map(Match::version).or_else(|| {
        IpVersion::BOTH
            .into_iter()
            .find(|one| matches.contains(&Match::version_is(*one)))
    })
}

/// Bits of a packet's state without a connection (`NF_CT_STATE_BIT`).
const INVALID: u32 = 1;
const UNTRACKED: u32 = 64;

fn counted(meter: &PolicyMeter) -> Count {
    match meter.count {
        PolicyCount::Packets { rate, per, burst } => Count::Packets { rate, per, burst },
        PolicyCount::Bytes { rate, burst } => Count::Bytes { rate, burst },
        PolicyCount::Connections(count) => Count::Connections(count),
    }
}

/// Returns the rule with these matches. If it sets a code point and the matches name no IP
/// version, there is one rule for each version.
fn with_dscp(matches: Vec<Match>, dscp: Option<Dscp>, body: &Rule) -> Vec<Rule> {
    let Some(dscp) = dscp else {
        return vec![Rule {
            matches,
            ..body.clone()
        }];
    };
    let named = |version| matches.contains(&Match::version_is(version));
    let anywhere = !IpVersion::BOTH.into_iter().any(named);
    IpVersion::BOTH
        .into_iter()
        .filter(|version| anywhere || named(*version))
        .map(|version| {
            let mut rule = body.clone();
            rule.matches.clone_from(&matches);
            if anywhere {
                rule.matches.insert(0, Match::version_is(version));
            }
            rule.effects.push(Effect::Dscp(version, dscp));
            rule
        })
        .collect()
}

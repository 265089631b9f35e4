// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PPPoE sessions that pass a bridge. Each chain has a copy for IPv4 and one for IPv6, whose
//! rules look behind the PPPoE header ([`Frame::Session`]). Chains with a hook or a switch hand
//! packets of sessions over to these copies. A packet thus traverses only one copy. Counters,
//! meters, lists and switches are those of the original rules.

use crate::scheduler::Scheduler;
use std::collections::BTreeSet;
use weirgate_document::Problems;
use weirgate_policy::{Direction, Policy};
use weirgate_state::{
    Chain, EXTENSION_HEADERS, Effect, Field, Frame, Hook, IpVersion, Match, Origin, PPPOE_SESSION,
    Rule, RuleVerdict, Set, extension_headers,
};
use weirgate_units::Inserted as _;

use crate::classify::segments;
use crate::codes;

/// The numbers of PPP protocols that control the link or a network protocol (RFC 1661 section
/// 2): LCP, IPCP, IPV6CP.
const CONTROL: (u128, u128) = (0x8000, 0xffff);

/// Returns the PPP protocol number of IPv4 (RFC 1332 section 2) or of IPv6 (RFC 5072 section 2).
const fn number(version: IpVersion) -> u128 {
    match version {
        IpVersion::V4 => 0x0021,
        IpVersion::V6 => 0x0057,
    }
}

/// Returns matches for packets of a session with one of these PPP protocols.
pub(crate) fn carries((from, to): (u128, u128)) -> Vec<Match> {
    vec![
        Match::one(Field::EtherType, PPPOE_SESSION.into()),
        Match::range(Field::PppProtocol, from, to),
    ]
}

/// Returns matches for packets that keep sessions up.
pub(crate) fn control() -> Vec<Match> {
    carries(CONTROL)
}

/// Adds the copies of a direction's chains.
pub(crate) fn add(
    policy: &Policy,
    scheduler: &Scheduler,
    chains: &mut Vec<Chain>,
    sets: &mut Vec<Set>,
) {
    let line = scheduler.default_class().map_or(0, |one| one.class.line);
    let called = chains.iter().filter(|chain| chain.hook == Hook::Called);
    let copying = Copying {
        called: called.map(|chain| chain.name.clone()).inserted(),
        rewritten: rewritten(policy, scheduler.direction),
    };
    let mut copies = Vec::new();
    for chain in chains.iter_mut() {
        let mut entries = Vec::new();
        for version in IpVersion::BOTH {
            let copy = copying.chain(chain, version);
            entries.push(Rule {
                frame: Frame::Plain,
                matches: carries((number(version), number(version))),
                counter: None,
                effects: Vec::new(),
                verdict: RuleVerdict::Goto(copy.name.clone()),
                origin: Origin::new(line, format!("IPv{} in PPPoE", version.number())),
            });
            copies.push(copy);
        }
        if chain.hook != Hook::Called {
            chain.rules = [entries, chain.rules.to_vec()].concat().into();
        }
    }
    chains.extend(copies);
    let guard = beyond_extensions();
    let rules = || chains.iter().flat_map(|chain| &chain.rules);
    let known = sets.iter().any(|set| set.name == EXTENSION_HEADERS);
    if !known && rules().any(|rule| rule.matches.contains(&guard)) {
        sets.push(extension_headers());
    }
}

/// Returns whether code points are changed before rules read them.
fn rewritten(policy: &Policy, direction: Direction) -> bool {
    policy.dscp.as_ref().is_some_and(|dscp| {
        let distrusted = dscp.distrust.as_ref();
        !dscp.map.is_empty() || distrusted.is_some_and(|some| some.value.contains(direction))
    })
}

/// Returns a match for packets whose next header is that of the upper layer.
fn beyond_extensions() -> Match {
    Match::within(Field::Protocol, EXTENSION_HEADERS).negated()
}

struct Copying {
    /// The chains that are copied under another name.
    called: BTreeSet<String>,
    /// Whether code points are changed before rules read them.
    rewritten: bool,
}

impl Copying {
    fn name(chain: &str, version: IpVersion) -> String {
        format!("{chain}_pppoe{}", version.number())
    }

    fn chain(&self, chain: &Chain, version: IpVersion) -> Chain {
        let rules = chain.rules.iter();
        let rules: Vec<Rule> = rules.filter_map(|rule| self.rule(rule, version)).collect();
        Chain {
            name: Self::name(&chain.name, version),
            hook: Hook::Called,
            rules: rules.into(),
        }
    }

    /// Returns a copy of a rule for sessions that carry an IP version; `None` if it concerns
    /// other packets, or has an effect that is impossible there.
    fn rule(&self, rule: &Rule, version: IpVersion) -> Option<Rule> {
        let mut rule = rule.clone();
        let own = Match::version_is(version);
        rule.matches.retain(|one| *one != own);
        let foreign = |one: &Match| {
            let field = one.field();
            // The fragment header of IPv6 is at no fixed place.
            let sought = Field::FragmentOffset(IpVersion::V6);
            matches!(field, Some(Field::Version | Field::EtherType))
                || field == Some(sought)
                || one.version().is_some_and(|other| other != version)
                || (self.rewritten && matches!(field, Some(Field::Dscp(_))))
        };
        let lowers = |effect: &Effect| matches!(effect, Effect::MaxSegment(_));
        if rule.matches.iter().any(foreign) || rule.effects.iter().any(lowers) {
            return None;
        }
        let writes = |effect: &Effect| matches!(effect, Effect::Dscp(..));
        if rule.effects.iter().any(writes) {
            rule.effects.retain(|effect| !writes(effect));
            let idle = rule.effects.is_empty() && rule.verdict == RuleVerdict::Continue;
            if idle && rule.counter.is_none() {
                return None;
            }
        }
        if let RuleVerdict::Jump(name) | RuleVerdict::Goto(name) = &mut rule.verdict
            && self.called.contains(name)
        {
            *name = Self::name(name, version);
        }
        if let Some(guard) = guard(&rule.matches, version) {
            rule.matches.insert(0, guard);
        }
        Some(rule.in_frame(Frame::Session(version)))
    }
}

/// Returns a match that must apply so that the fields of these matches are at their fixed
/// offsets.
fn guard(matches: &[Match], version: IpVersion) -> Option<Match> {
    let upper = |one: &Match| {
        let ports = matches!(
            one.field(),
            Some(Field::SourcePort | Field::DestinationPort)
        );
        ports || one.protocol().is_some()
    };
    let protocol = |one: &Match| one.field() == Some(Field::Protocol);
    let looks = matches.iter().any(upper);
    match version {
        IpVersion::V4 => looks.then(|| Match::one(Field::Shape, Field::PLAIN_SHAPE.into())),
        // A stated protocol is not an extension header.
        IpVersion::V6 => {
            let stated = matches.iter().any(Match::names_protocol);
            let asks = looks || matches.iter().any(protocol);
            (asks && !stated).then(beyond_extensions)
        }
    }
}

/// Reports what a policy asks for that is not done in sessions.
pub(crate) fn doubts(policy: &Policy, problems: &Problems) {
    let rules = || policy.rules.iter();
    let hint = "with PPPoE, do that on the router that terminates the session";
    let link = || policy.link.device.span.clone();
    let set = rules().find_map(|rule| rule.set_dscp.as_ref().map(|dscp| dscp.span.clone()));
    let treated = policy.dscp.as_ref().map(|_| link());
    if let Some(span) = set.or(treated) {
        let unseen = Direction::BOTH
            .into_iter()
            .any(|one| rewritten(policy, one));
        let rules = if unseen {
            "; where code points are distrusted or mapped, rules with `dscp` do not match there"
        } else {
            ""
        };
        problems.warning(
            codes::BRIDGE,
            span,
            format!("no code point is written into packets that PPPoE carries{rules}"),
            hint,
        );
    }
    let stated = rules().find_map(|rule| rule.mss.as_ref().map(|one| one.span.clone()));
    let asked = || {
        let receive = policy.receive.as_ref()?;
        receive.mss.as_ref().map(|one| one.span.clone())
    };
    let delayed = || {
        let lowered = segments::lowered(policy, policy.gate(Direction::Up)?)?;
        Some(lowered.delay.span.clone())
    };
    if let Some(span) = stated.or_else(asked).or_else(delayed) {
        problems.warning(
            codes::BRIDGE,
            span,
            "the MSS of TCP is not lowered in packets that PPPoE carries",
            hint,
        );
    }
}

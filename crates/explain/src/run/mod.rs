// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs tables on packets, as the documentation of `weirgate_state`'s module `classify` specifies.

mod value;

use crate::count::Counting;
use crate::meter::{Charge, Level, Meters};
use crate::packet::{Headers, IPV4, IPV6, Packet};
use crate::track::{Tracked, Tracker};
use std::collections::BTreeMap;
use value::Value;
use weirgate_state::{
    Chain, Content, Effect, Field, Frame, Hook, Match, Meter, PPPOE_SESSION, Rule, RuleVerdict,
    Table, Values,
};
use weirgate_units::{Arrange as _, Handle};

/// The maximum depth of called chains (`NFT_JUMP_STACK_SIZE`); the kernel refuses more.
const DEEPEST: usize = 16;

/// A rule that was tried on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Its chain.
    pub chain: String,
    /// Its index there.
    pub index: usize,
    /// The index of the first match that did not hold; `None` if all held.
    pub failed: Option<usize>,
    /// The indexes of later tests that hold. The order of matches says nothing about how close a
    /// rule came.
    pub held_behind: Vec<usize>,
    /// The packet's value there, if it is a number.
    pub found: Option<u128>,
    /// The values of the meters that were reached.
    pub levels: Vec<Level>,
    /// Whether its effects ended early because the packet has no connection.
    pub without_connection: bool,
}

/// The result of a table's chain for a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pass {
    /// Whether the table is one of family `netdev`.
    pub netdev: bool,
    /// The index of the table in the simulator.
    pub table: usize,
    /// The base chain.
    pub chain: String,
    /// The final class; `None` if no rule wrote one.
    pub class: Option<Handle>,
    /// Every rule that was tried, in order.
    pub tried: Vec<Tried>,
    /// The unknown properties on which the result depends.
    pub unknown: Vec<Unknown>,
    /// The time in nanoseconds by which the closest rate limit was met or missed.
    pub slack: u64,
}

impl Pass {
    /// Returns the rules whose matches all held, in order.
    pub fn matched(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.failed.is_none())
    }
}

/// An unknown property of a packet, and what was assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// The known part of the packet ends before the field; assumed to be absent.
    CutOff,
    /// The MAC address of the sender.
    SourceMac,
    /// A property of the local socket that sent the packet, such as its user; assumed to be absent.
    Sender {
        /// Its name in messages.
        what: &'static str,
        /// The word in a packet's text that gives it.
        word: &'static str,
    },
    /// The payload, whose known part ends before the bytes that are compared; assumed to match no
    /// signature.
    Payload,
    /// Whether the kernel has already removed ended connections from its count, if the result
    /// depends on that. The assumption is that only packets cause a removal.
    Collected,
    /// The time of day; assumed to be midnight UTC of 1 January 1970, a Thursday.
    Time,
}

/// The context of a packet.
pub(crate) struct Context<'a> {
    pub(crate) now: u64,
    /// Seconds since 1970.
    pub(crate) clock: Option<i64>,
    /// The input device of the packet, as this hook sees it.
    pub(crate) input: Option<&'a str>,
    /// Bytes of the frame's header that meters also count at this hook.
    pub(crate) link_header: usize,
    pub(crate) tracked: Option<Tracked>,
    pub(crate) counting: Counting,
    pub(crate) tracker: &'a mut Tracker,
    pub(crate) meters: &'a mut Meters,
    pub(crate) counters: &'a mut BTreeMap<(bool, String), u64>,
}

/// How processing continues after a chain.
enum Flow {
    Next,
    Ends,
}

pub(crate) struct Run<'a, 'c> {
    table: &'a Table,
    packet: &'a mut Packet,
    headers: Headers,
    /// Where the present rule finds the IP packet.
    frame: Frame,
    context: Context<'c>,
    pass: Pass,
}

impl<'a, 'c> Run<'a, 'c> {
    /// Runs a base chain.
    pub(crate) fn base(
        (table, at): (&'a Table, usize),
        chain: &'a Chain,
        packet: &'a mut Packet,
        context: Context<'c>,
    ) -> Pass {
        let mut run = Run {
            headers: packet.headers(),
            frame: Frame::Plain,
            table,
            packet,
            context,
            pass: Pass {
                netdev: table.netdev,
                table: at,
                chain: chain.name.clone(),
                slack: u64::MAX,
                ..Pass::default()
            },
        };
        run.chain(chain, 0);
        run.pass.unknown.arrange();
        run.pass.unknown.dedup();
        run.pass
    }

    fn named(&self, name: &str) -> Option<&'a Chain> {
        self.table.chains.iter().find(|chain| chain.name == name)
    }

    fn chain(&mut self, chain: &'a Chain, depth: usize) -> Flow {
        for (index, rule) in chain.rules.iter().enumerate() {
            if !self.rule(chain, index, rule) {
                continue;
            }
            match &rule.verdict {
                RuleVerdict::Continue => {}
                // Refused packets get no class.
                RuleVerdict::Final | RuleVerdict::Refuse => return Flow::Ends,
                RuleVerdict::Return => return Flow::Next,
                RuleVerdict::Jump(name) => {
                    if let Flow::Ends = self.called(name, depth) {
                        return Flow::Ends;
                    }
                }
                RuleVerdict::Goto(name) => return self.called(name, depth),
            }
        }
        Flow::Next
    }

    fn called(&mut self, name: &str, depth: usize) -> Flow {
        match self.named(name) {
            Some(chain) if depth < DEEPEST => {
                // A switch is a lookup of the ethertype.
                let off = matches!(chain.hook, Hook::Switched { on: false });
                let switched = matches!(chain.hook, Hook::Switched { .. });
                if off || (switched && !self.is_switched()) {
                    return Flow::Next;
                }
                self.chain(chain, depth + 1)
            }
            _ => Flow::Next,
        }
    }

    fn is_switched(&self) -> bool {
        let kind = self.packet.ethertype;
        [IPV4, IPV6].contains(&kind) || (kind == PPPOE_SESSION && self.table.netdev)
    }

    /// Tries a rule. Returns whether its verdict happens.
    fn rule(&mut self, chain: &Chain, index: usize, rule: &Rule) -> bool {
        let mut tried = Tried {
            chain: chain.name.clone(),
            index,
            failed: None,
            held_behind: Vec::new(),
            found: None,
            levels: Vec::new(),
            without_connection: false,
        };
        self.frame = rule.frame;
        let failed = rule
            .matches
            .iter()
            .position(|one| !self.holds(one, &mut tried));
        tried.failed = failed;
        tried.found = tried.found.filter(|_| failed.is_some());
        if let Some(failed) = failed {
            tried.held_behind = self.held_behind(rule, failed);
        }
        let happens = failed.is_none() && {
            if let Some(counter) = &rule.counter {
                let key = (self.table.netdev, counter.clone());
                *self.context.counters.entry(key).or_default() += 1;
            }
            let done = rule.effects.iter().all(|effect| self.effect(effect));
            tried.without_connection = !done;
            done
        };
        self.pass.tried.push(tried);
        happens
    }

    /// Applies an effect. Returns false if the rule ends there.
    fn effect(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Class(class) => self.pass.class = Some(*class),
            Effect::ClassOf { field, map } => {
                let Value::Number(value) = self.value(*field) else {
                    return false;
                };
                let Some(class) = self.class_of(map, field.raw(value)) else {
                    return false;
                };
                self.pass.class = Some(class);
            }
            Effect::MaxSegment(most) => {
                let at = self.headers.transport;
                let whole = self.headers.version.is_some() && self.headers.fragment == 0;
                return whole && self.packet.lower_segment(at, *most);
            }
            Effect::Mark { mask, value } => {
                self.packet.mark = self.packet.mark & !mask | value;
            }
            Effect::ConnectionMark { mask, value } => {
                let id = self.context.tracked.and_then(|tracked| tracked.connection);
                let Some(connection) = id.and_then(|id| self.context.tracker.get_mut(id)) else {
                    return false;
                };
                connection.mark = connection.mark & !mask | value;
            }
            Effect::Dscp(version, dscp) => self.packet.set_dscp(*version, dscp.value()),
        }
        true
    }

    /// Returns the indexes of tests after `failed` that hold. Meters are left out, because trying
    /// them counts. Unknown properties do not influence the result here, and are not reported.
    fn held_behind(&mut self, rule: &Rule, failed: usize) -> Vec<usize> {
        let unknown = self.pass.unknown.len();
        let mut held = Vec::new();
        for (at, one) in rule.matches.iter().enumerate().skip(failed + 1) {
            if let Match::Test {
                field,
                negated,
                values,
            } = one
                && self.tested(*field, *negated, values).0
            {
                held.push(at);
            }
        }
        self.pass.unknown.truncate(unknown);
        held
    }

    /// Returns whether a test holds, and the packet's number there.
    fn tested(&mut self, field: Field, negated: bool, values: &Values) -> (bool, Option<u128>) {
        let value = self.value(field);
        let number = match value {
            Value::Number(number) => Some(number),
            Value::Text(_) | Value::Absent => None,
        };
        let found = match (value, values) {
            (Value::Text(text), Values::Text(wanted)) => text == *wanted,
            (Value::Number(value), Values::Range(from, to)) => (*from..=*to).contains(&value),
            (Value::Text(path), Values::Set(name)) => self.named_in(name, &path),
            (Value::Number(value), Values::Set(name)) => self.element(name, field.raw(value)),
            _ => return (false, number),
        };
        (found != negated, number)
    }

    fn holds(&mut self, one: &Match, tried: &mut Tried) -> bool {
        match one {
            Match::Test {
                field,
                negated,
                values,
            } => {
                let (holds, found) = self.tested(*field, *negated, values);
                tried.found = found;
                holds
            }
            Match::TcpPayloadEmpty { version, negated } => match self.payload_empty(*version) {
                Some(empty) => empty != *negated,
                None => false,
            },
            Match::Meter(meter) => self.meter(meter, tried),
            Match::Other(_) => false,
        }
    }

    fn element(&self, name: &str, value: u128) -> bool {
        match self.table.set(name).map(|set| &set.content) {
            Some(Content::Fixed(ranges)) => ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&value)),
            Some(Content::Refreshed(refreshed)) => refreshed.found.contains(&value),
            _ => false,
        }
    }

    /// Returns whether a followed set belongs to a path.
    fn named_in(&self, set: &str, path: &str) -> bool {
        match self.table.set(set).map(|set| &set.content) {
            Some(Content::Refreshed(followed)) => followed.names.iter().any(|name| name == path),
            _ => false,
        }
    }

    fn class_of(&self, map: &str, value: u128) -> Option<Handle> {
        match self.table.set(map).map(|set| &set.content) {
            Some(Content::Classes(ranges)) => ranges
                .iter()
                .find(|(from, to, _)| (*from..=*to).contains(&value))
                .map(|(_, _, class)| *class),
            _ => None,
        }
    }

    fn meter(&mut self, meter: &Meter, tried: &mut Tried) -> bool {
        let Value::Number(value) = self.value(meter.field) else {
            return false;
        };
        let charge = Charge {
            now: self.context.now,
            length: self.packet.length + self.context.link_header,
            tracked: self.context.tracked,
            tracker: self.context.tracker,
            counting: self.context.counting,
        };
        let set = (self.table.netdev, meter.set.as_str());
        let key = meter.field.raw(value);
        let reading = self
            .context
            .meters
            .charge(set, key, (&meter.count, meter.over), charge);
        tried.levels.push(reading.level);
        if reading.unsure {
            self.pass.unknown.push(Unknown::Collected);
        }
        self.pass.slack = self.pass.slack.min(reading.slack);
        reading.holds
    }
}

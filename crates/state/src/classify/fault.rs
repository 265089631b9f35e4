// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mistakes in a table that would make the kernel refuse it.

use crate::classify::field::{Field, TCP};
use crate::classify::{Content, Effect, Hook, Match, Rule, RuleVerdict, Table, Values};

impl Table {
    /// Returns the mistakes that would make the kernel refuse the table, each with its place and a
    /// correction. Hooks of chains and redirections are not checked here, because they need the
    /// whole state.
    #[must_use]
    pub fn faults(&self) -> Vec<(String, &Rule, String, &'static str)> {
        let mut found = Vec::new();
        for chain in &self.chains {
            for rule in &chain.rules {
                for (wrong, right) in self.rule_faults(rule) {
                    found.push((format!("chain {}", chain.name), rule, wrong, right));
                }
                let fields = rule.matches.iter().filter_map(Match::field);
                let mut elsewhere = fields.filter(|_| chain.hook != Hook::Output);
                if let Some(field) = elsewhere.find(|field| field.is_at_output_only()) {
                    found.push((
                        format!("chain {}", chain.name),
                        rule,
                        format!("a packet's {} is known at output only", field.words()),
                        "put the rule into a chain of output",
                    ));
                }
                if rule.verdict == RuleVerdict::Refuse && chain.hook != Hook::Prerouting {
                    found.push((
                        format!("chain {}", chain.name),
                        rule,
                        "packets are refused at prerouting only".to_owned(),
                        "put the rule into a chain of prerouting",
                    ));
                }
            }
        }
        found
    }

    fn rule_faults(&self, rule: &Rule) -> Vec<(String, &'static str)> {
        let mut found: Vec<(String, &'static str)> = rule
            .matches
            .iter()
            .filter_map(|m| self.match_fault(m))
            .collect();
        if let RuleVerdict::Jump(name) | RuleVerdict::Goto(name) = &rule.verdict
            && !self.chains.iter().any(|chain| {
                chain.name == *name && matches!(chain.hook, Hook::Called | Hook::Switched { .. })
            })
        {
            found.push((
                format!("there is no chain `{name}` to jump to"),
                "add the chain",
            ));
        }
        for effect in &rule.effects {
            if let Effect::ConnectionMark { mask, value } | Effect::Mark { mask, value } = effect
                && value & !mask != 0
            {
                found.push((
                    format!("mark {value:#x} is not within the mask {mask:#x}"),
                    "write bits of the mask only",
                ));
            }
            found.extend(self.effect_fault(rule, effect));
        }
        found
    }

    fn effect_fault(&self, rule: &Rule, effect: &Effect) -> Option<(String, &'static str)> {
        match effect {
            Effect::ClassOf { field, map } => {
                match self.set(map).map(|set| (&set.content, set.key)) {
                    Some((Content::Classes(_), key)) if Some(key) == field.key() => None,
                    _ => Some((
                        format!("there is no map `{map}` from values of {field:?} to classes"),
                        "add the map",
                    )),
                }
            }
            Effect::MaxSegment(_)
                if !rule
                    .matches
                    .contains(&Match::one(Field::Protocol, u128::from(TCP))) =>
            {
                Some((
                    "only TCP has a largest segment".to_owned(),
                    "match the protocol before",
                ))
            }
            _ => None,
        }
    }

    fn match_fault(&self, candidate: &Match) -> Option<(String, &'static str)> {
        match candidate {
            Match::Other(text) => Some((
                format!("`{text}` is not a condition weirgate can write"),
                "use one that it knows",
            )),
            Match::TcpPayloadEmpty { .. } => None,
            Match::Meter(meter) => match self.set(&meter.set).map(|set| (&set.content, set.key)) {
                Some((Content::Meter { .. }, key)) if Some(key) == meter.field.key() => None,
                _ => Some((
                    format!("there is no set `{}` for a meter of this kind", meter.set),
                    "add the set",
                )),
            },
            Match::Test { field, values, .. } => match values {
                Values::Text(_) => (!field.is_text())
                    .then(|| (format!("{field:?} is no text"), "compare it with numbers")),
                Values::Set(name) => match self.set(name).map(|set| (&set.content, set.key)) {
                    Some((Content::Fixed(_) | Content::Refreshed(_), key))
                        if Some(key) == field.key() =>
                    {
                        None
                    }
                    _ => Some((
                        format!("there is no set `{name}` of values of {field:?}"),
                        "add the set",
                    )),
                },
                Values::Range(from, to) => {
                    if field.is_text() {
                        Some((format!("{field:?} is no number"), "compare it with a text"))
                    } else if from > to || *to > field.greatest() {
                        Some((
                            format!("the range {from} to {to} is empty or out of bounds"),
                            "write the lower end first, within what the field can hold",
                        ))
                    } else if let Field::TcpFlags { mask } = field
                        && from & !u128::from(*mask) != 0
                    {
                        Some((
                            format!("flags {from:#04x} under mask {mask:#04x} never match"),
                            "the value has only bits of the mask",
                        ))
                    } else {
                        None
                    }
                }
            },
        }
    }
}

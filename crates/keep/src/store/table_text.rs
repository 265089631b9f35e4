// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of classification tables. It is written once for all files of a change, and read by
//! comparison with the text of the desired tables.
//!
//! The tables of a large policy are half a megabyte of JSON, and a change of one rule leaves nearly
//! all of it. So rules with the same text as the desired ones are shared with these, and only the
//! rest is parsed. The files have the plain format of a [`State`]; a reader without anything to
//! compare parses them completely.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use weirgate_state::{Chain, Device, DeviceName, Hook, HookPrograms, Rule, Shared, State, Table};

/// The shared text of a value.
pub(crate) type Text = Arc<RawValue>;

/// Returns the text of any value.
pub(crate) fn of(value: &impl Serialize) -> Result<Text, serde_json::Error> {
    to_raw_value(value).map(Text::from)
}

/// A state for writing, whose tables are a text.
#[derive(Debug, Serialize)]
pub(crate) struct Written<'a> {
    devices: &'a BTreeMap<DeviceName, Device>,
    tables: &'a RawValue,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    arriving: &'a BTreeMap<DeviceName, HookPrograms>,
}

impl<'a> Written<'a> {
    /// Combines a state with the text of its tables.
    pub(crate) fn of(state: &'a State, tables: &'a RawValue) -> Self {
        Self {
            devices: &state.devices,
            tables,
            arriving: &state.hooks,
        }
    }
}

/// A state as it is read, with its tables not parsed yet.
#[derive(Debug, Deserialize)]
pub(crate) struct Unread<'a> {
    devices: BTreeMap<DeviceName, Device>,
    #[serde(borrow)]
    pub(crate) tables: &'a RawValue,
    #[serde(default)]
    arriving: BTreeMap<DeviceName, HookPrograms>,
}

impl Unread<'_> {
    /// Parses the state. Shares the parts whose text is the same with `known`, whose text is
    /// `text`.
    pub(crate) fn read(self, known: &[Table], text: &RawValue) -> serde_json::Result<State> {
        Ok(State {
            tables: tables(self.tables, known, text)?,
            devices: self.devices,
            hooks: self.arriving,
        })
    }

    /// Returns whether this is `state`, whose tables have the text `tables`.
    pub(crate) fn is(&self, state: &State, tables: &RawValue) -> bool {
        self.tables.get() == tables.get()
            && self.devices == state.devices
            && self.arriving == state.hooks
    }
}

/// A table whose parts are not parsed yet.
#[derive(Deserialize)]
struct TableText<'a> {
    netdev: bool,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    sets: Option<&'a RawValue>,
    #[serde(borrow)]
    chains: Vec<ChainText<'a>>,
}

#[derive(Deserialize)]
struct ChainText<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    hook: Hook,
    #[serde(borrow)]
    rules: Vec<&'a RawValue>,
}

/// Parses a value from bytes, as whole files are parsed. A second parser type, for text, would
/// double the code that serde generates.
fn parsed<'a, T: Deserialize<'a>>(text: &'a RawValue) -> serde_json::Result<T> {
    serde_json::from_slice(text.get().as_bytes())
}

/// Parses tables. Shares the parts whose text is the same with `known`, whose text is `known_text`.
fn tables(
    text: &RawValue,
    known: &[Table],
    known_text: &RawValue,
) -> serde_json::Result<Vec<Table>> {
    if text.get() == known_text.get() {
        return Ok(known.to_vec());
    }
    let texts: Vec<TableText<'_>> = parsed(text)?;
    let known_texts: Vec<TableText<'_>> = parsed(known_text)?;
    texts
        .into_iter()
        .map(|text| {
            let mut pairs = known.iter().zip(&known_texts);
            let twin =
                pairs.find(|(_, other)| other.netdev == text.netdev && other.name == text.name);
            table(text, twin)
        })
        .collect()
}

fn table(text: TableText<'_>, twin: Option<(&Table, &TableText<'_>)>) -> serde_json::Result<Table> {
    let sets = match (text.sets, twin) {
        (None, _) => Shared::default(),
        (Some(sets), Some((table, other))) if other.sets.map(RawValue::get) == Some(sets.get()) => {
            table.sets.clone()
        }
        (Some(sets), _) => parsed(sets)?,
    };
    let chain = |text: ChainText<'_>| {
        let twin = twin.and_then(|(table, other)| {
            let mut pairs = table.chains.iter().zip(&other.chains);
            pairs.find(|(_, other)| other.name == text.name)
        });
        Ok(Chain {
            rules: match twin {
                Some((chain, other)) => rules(&text.rules, &chain.rules, &other.rules)?,
                None => rules(&text.rules, &Shared::default(), &[])?,
            },
            name: text.name.into_owned(),
            hook: text.hook,
        })
    };
    Ok(Table {
        netdev: text.netdev,
        name: text.name.into_owned(),
        sets,
        chains: text
            .chains
            .into_iter()
            .map(chain)
            .collect::<serde_json::Result<_>>()?,
    })
}

/// Parses rules. Rules at the beginning and at the end that have the text of the known ones there
/// are shared with these.
fn rules(
    texts: &[&RawValue],
    known: &Shared<Rule>,
    known_texts: &[&RawValue],
) -> serde_json::Result<Shared<Rule>> {
    let same = |(a, b): &(&&RawValue, &&RawValue)| a.get() == b.get();
    let head = texts.iter().zip(known_texts).take_while(same).count();
    if head == texts.len() && head == known_texts.len() {
        return Ok(known.clone());
    }
    let most = texts.len().min(known_texts.len()) - head;
    let backwards = texts.iter().rev().zip(known_texts.iter().rev());
    let tail = backwards.take(most).take_while(same).count();
    let middle = texts[head..texts.len() - tail].iter();
    let middle: Vec<Rule> = middle
        .map(|text| parsed(text))
        .collect::<serde_json::Result<_>>()?;
    let mut rules = known[..head].to_vec();
    rules.extend(middle);
    rules.extend_from_slice(&known[known.len() - tail..]);
    Ok(rules.into())
}

/// Returns whether two lists of tables share their content, including what comparisons ignore. It
/// compares pointers only, and returns false if they differ.
pub(crate) fn shared(a: &[Table], b: &[Table]) -> bool {
    let chain =
        |(a, b): (&Chain, &Chain)| a.name == b.name && a.hook == b.hook && a.rules.is(&b.rules);
    let table = |(a, b): (&Table, &Table)| {
        (a.netdev, &a.name) == (b.netdev, &b.name)
            && a.sets.is(&b.sets)
            && a.chains.len() == b.chains.len()
            && a.chains.iter().zip(&b.chains).all(chain)
    };
    a.len() == b.len() && a.iter().zip(b).all(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Field, Match, Origin, port_protocols};
    use weirgate_units::Handle;

    /// Returns tables with one chain of rules for ports, each of which names its line.
    fn state(ports: &[u128], first_line: u32) -> State {
        let rule = |(index, port): (usize, &u128)| {
            let line = first_line + index as u32;
            let port = Match::one(Field::SourcePort, *port);
            Rule::classify(vec![port], Handle::new(1, 0x10), Origin::new(line, "r"))
        };
        let table = |netdev: bool| Table {
            netdev,
            name: "weirgate \"x\"".to_owned(),
            sets: vec![port_protocols()].into(),
            chains: vec![Chain {
                name: "up".to_owned(),
                hook: Hook::Called,
                rules: ports.iter().enumerate().map(rule).collect(),
            }],
        };
        State {
            tables: vec![table(false), table(true)],
            ..State::default()
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let wanted = state(&[1, 2, 3, 4], 1);
        let known = of(&wanted.tables).unwrap();
        for (ports, line) in [
            (&[1, 2, 3, 4][..], 1),
            (&[1, 2, 9, 4], 1),
            (&[1, 2, 4], 1),
            (&[1, 2, 3, 3, 4], 1),
            (&[], 1),
            (&[1, 1, 1, 1, 2, 3, 4, 4], 1),
            (&[1, 2, 3, 4], 7),
        ] {
            let mut stored = state(ports, line);
            stored.tables[0].chains[0].name = "other".to_owned();
            for stored in [stored, state(ports, line)] {
                let text = of(&stored.tables).unwrap();
                let whole = serde_json::to_string(&stored).unwrap();
                let written = serde_json::to_string(&Written::of(&stored, &text)).unwrap();
                assert_eq!(whole, written);
                let unread: Unread<'_> = serde_json::from_str(&written).unwrap();
                assert!(unread.is(&stored, &text));
                let read = unread.read(&wanted.tables, &known).unwrap();
                // Compare origins too, which equality ignores.
                assert_eq!(format!("{read:?}"), format!("{stored:?}"));
                let same = of(&stored.tables).unwrap().get() == known.get();
                assert_eq!(shared(&read.tables, &wanted.tables), same);
            }
        }
    }

    #[test]
    fn broken_texts_are_refused() {
        let wanted = state(&[1, 2], 1);
        let known = of(&wanted.tables).unwrap();
        let broken = known.get().replacen("\"counter\"", "\"count\"", 1);
        assert_ne!(broken, known.get());
        for text in [
            broken.replace("matches", "m"),
            "[{}]".to_owned(),
            "7".to_owned(),
        ] {
            let raw = RawValue::from_string(text).unwrap();
            assert!(tables(&raw, &wanted.tables, &known).is_err());
        }
    }
}

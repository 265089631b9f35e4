// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `network.json` of LibreQoS: the tree of sites.
//!
//! An object has the sites by their names. Each has `downloadBandwidthMbps` and
//! `uploadBandwidthMbps`, and perhaps `children`. One that is `virtual` holds
//! nothing back.

use crate::codes::{DEEP, JSON, RATE, UNUSED};
use crate::located::FileMistakes;
use crate::model::Pair;
use crate::rate;
use crate::raw::{RawSite, identifier};
use crate::table::Cell;
use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use weirgate_document::{SourceSpan, did_you_mean};
use weirgate_units::Rate;

/// The levels of sites: the engine has eight, with the link and the circuits.
const LEVELS: usize = 6;

const DOWN: &str = "downloadBandwidthMbps";
const UP: &str = "uploadBandwidthMbps";
const CHILDREN: &str = "children";
const VIRTUAL: &str = "virtual";

/// What a site may have.
const FIELDS: [&str; 4] = [DOWN, UP, CHILDREN, VIRTUAL];

/// What else LibreQoS and its integrations write, and circuits have no use for.
const KNOWN: [&str; 6] = [
    "type",
    "id",
    "name",
    "uisp_device",
    "uisp_site",
    "parent_site",
];

/// JSON alone (RFC 8259), without what other forms add.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

fn span(range: Range) -> SourceSpan {
    range.start..range.end
}

/// Reads the file.
pub(crate) fn read(text: &str, mistakes: &FileMistakes<'_, '_>, into: &mut Vec<RawSite>) {
    let begin = text.len() - text.trim_start_matches('\u{feff}').len();
    match parse_to_ast(
        text.get(begin..).unwrap_or_default(),
        &CollectOptions::default(),
        &STRICT,
    ) {
        Ok(parsed) => {
            let tree = Tree { mistakes, begin };
            match parsed.value {
                Some(Value::Object(sites)) => tree.sites(&sites, None, 1, into),
                _ => mistakes.error(
                    JSON,
                    &(0..0),
                    "the file has no object",
                    "write `{ \"SITE\": { ... } }`",
                ),
            }
        }
        Err(error) => {
            let at = span(error.range());
            let at = at.start + begin..at.end + begin;
            mistakes.error(
                JSON,
                &at,
                format!("this is not JSON: {}", error.kind()),
                "mend it; what follows was not read",
            );
        }
    }
}

struct Tree<'d, 'm, 't> {
    mistakes: &'d FileMistakes<'m, 't>,
    begin: usize,
}

impl Tree<'_, '_, '_> {
    fn span(&self, range: Range) -> SourceSpan {
        range.start + self.begin..range.end + self.begin
    }

    fn error(&self, code: &'static str, at: &impl Ranged, message: impl Into<String>, hint: &str) {
        self.mistakes
            .error(code, &self.span(at.range()), message, hint);
    }

    /// Takes the sites of an object, with those below them.
    fn sites(
        &self,
        all: &Object<'_>,
        parent: Option<usize>,
        level: usize,
        into: &mut Vec<RawSite>,
    ) {
        for one in &all.properties {
            if level > LEVELS {
                let message = format!("the site is at level {level} of sites");
                self.error(
                    DEEP,
                    &one.name,
                    message,
                    "the tree has at most six levels of sites",
                );
                return;
            }
            let Value::Object(fields) = &one.value else {
                let hint = format!("write `{{ \"{DOWN}\": 1000, \"{UP}\": 1000 }}`");
                self.error(JSON, &one.value, "the site is no object", &hint);
                continue;
            };
            let name = Cell {
                text: one.name.as_str().trim(),
                span: self.span(one.name.range()),
            };
            let children = self.site(&name, fields, parent, into);
            let own = into.len().checked_sub(1);
            if let Some(children) = children {
                self.sites(children, own, level + 1, into);
            }
        }
    }

    /// Takes one site; returns those below it.
    fn site<'o, 'a>(
        &self,
        name: &Cell<'_>,
        fields: &'o Object<'a>,
        parent: Option<usize>,
        into: &mut Vec<RawSite>,
    ) -> Option<&'o Object<'a>> {
        let mut rates = [None; 2];
        let (mut wrong, mut is_virtual, mut children) = (false, false, None);
        for (number, field) in fields.properties.iter().enumerate() {
            let word = field.name.as_str();
            if fields.properties[..number]
                .iter()
                .any(|other| other.name.as_str() == word)
            {
                self.error(
                    JSON,
                    &field.name,
                    format!("`{word}` is there twice"),
                    "leave out one of them",
                );
                wrong = true;
            }
            match (word, &field.value) {
                (DOWN | UP, value) => match self.rate(value) {
                    Some(rate) => rates[usize::from(word == UP)] = Some(rate),
                    None => wrong = true,
                },
                (CHILDREN, Value::Object(own)) => children = Some(own),
                (CHILDREN, Value::NullKeyword(_)) => {}
                (CHILDREN, value) => {
                    self.error(
                        JSON,
                        value,
                        "`children` is no object",
                        "write `{ \"SITE\": { ... } }`",
                    );
                }
                (VIRTUAL, Value::BooleanLit(own)) => is_virtual = own.value,
                (VIRTUAL, value) => {
                    self.error(
                        JSON,
                        value,
                        "`virtual` is neither true nor false",
                        "write `true` or `false`",
                    );
                }
                (word, _) if KNOWN.contains(&word) => {}
                _ => self.unknown(field),
            }
        }
        let most = match rates {
            _ if is_virtual || wrong => None,
            [Some(down), Some(up)] => Some(Pair { down, up }),
            _ => {
                let message = format!("the site `{}` lacks a rate", name.text);
                let hint = format!(
                    "write `\"{DOWN}\": 1000, \"{UP}\": 1000`, or `\"virtual\": true` for none"
                );
                self.mistakes.error(RATE, &name.span, message, hint);
                None
            }
        };
        // One without a name is kept, so that those below it have a span.
        let known = identifier(name, "site", self.mistakes).unwrap_or_default();
        into.push(RawSite {
            name: known.to_owned(),
            at: self.mistakes.at(&name.span),
            parent,
            most,
        });
        children
    }

    fn rate(&self, value: &Value<'_>) -> Option<Rate> {
        let text = match value {
            Value::NumberLit(number) => number.value,
            Value::StringLit(text) => &text.value,
            _ => {
                self.error(
                    JSON,
                    value,
                    "a rate is no number",
                    "write a number of Mbit/s, such as `1000`",
                );
                return None;
            }
        };
        match rate::read(text, false) {
            Ok(rate) => Some(rate),
            Err((message, hint)) => {
                self.error(RATE, value, message, &hint);
                None
            }
        }
    }

    fn unknown(&self, field: &ObjectProp<'_>) {
        let word = field.name.as_str();
        let hint = did_you_mean(word, FIELDS, || format!("a site has {}", FIELDS.join(", ")));
        let at = self.span(field.name.range());
        self.mistakes
            .warning(UNUSED, &at, format!("nothing is made of `{word}`"), hint);
    }
}

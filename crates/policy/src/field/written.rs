// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of the values that a field accepts, as used in the reference.

use crate::field::FieldKind;
use std::fmt;

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Text(example) => write!(f, "a text, such as `\"{example}\"`"),
            Self::Word(words) => f.write_str(&quoted(words)),
            Self::Integer(least, most) if least == most => write!(f, "{least}"),
            Self::Integer(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Number => f.write_str("a number"),
            Self::Boolean => f.write_str("true or false"),
            Self::BooleanOrRate => f.write_str("`true`, `false` or a rate"),
            Self::Rate => f.write_str("a rate"),
            Self::Share => f.write_str("a share"),
            Self::Amount => f.write_str("a rate or a share"),
            Self::Size => f.write_str("a size"),
            Self::Time => f.write_str("a time"),
            Self::List(example) => write!(f, "one value or a list, such as `\"{example}\"`"),
            Self::Words(words) => write!(f, "one or a list of {}", quoted(words)),
            Self::Table(table) => write!(f, "the table `{table}`"),
            Self::TextOrTable(table, example) => {
                write!(f, "a text, such as `\"{example}\"`, or the table `{table}`")
            }
            Self::Tables(table) => write!(f, "tables `{table}`"),
            Self::Named(table) => write!(f, "a table `{table}` for each name"),
            Self::Map => f.write_str("a table from texts to texts"),
            Self::Setting(example) => write!(f, "a setting, such as `{example}`"),
        }
    }
}

/// Returns words in quotes, as written in a policy.
fn quoted(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
    quoted.join(", ")
}

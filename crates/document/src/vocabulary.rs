// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names from other tools, and the corresponding fields.

use crate::suggest::nearest;

/// The vocabulary of a kind of document for names that it does not have.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// Names in other tools, in lower case and with `-`.
    pub synonyms: &'static [Synonym],
    /// The page that lists the fields; empty if there is none.
    pub manual: &'static str,
}

/// A name in other tools.
#[derive(Debug)]
pub struct Synonym {
    /// The name.
    pub name: &'static str,
    /// The fields that it may mean, the most likely first.
    pub fields: &'static [&'static str],
    /// The difference between these fields, for a text after the corrected lines; may be empty.
    pub why: &'static str,
    /// The table in which the name has this meaning; empty for all tables.
    pub table: &'static str,
    /// The whole hint, if no corrected line follows from the name alone; may be empty. `{}` stands
    /// for the value as written, and `{name}` for it without quotes.
    pub hint: &'static str,
}

/// Longer lists of fields are not printed.
const LISTED: usize = 8;

impl Vocabulary {
    /// Returns the fields that `name` may mean, and the difference between them. They are found by
    /// synonym, otherwise by the nearest of `names`, which has pairs of a name and its field.
    pub(crate) fn meant<'k>(
        &self,
        name: &str,
        table: &str,
        names: &[(&'k str, &'k str)],
    ) -> (Vec<&'k str>, &'static str) {
        for synonym in self.entries(name, table) {
            let fields = synonym.fields.iter();
            let found: Vec<&str> = fields
                .filter_map(|field| names.iter().find(|(_, own)| own == field))
                .map(|(_, field)| *field)
                .collect();
            if !found.is_empty() || !synonym.hint.is_empty() {
                let why = if found.len() > 1 { synonym.why } else { "" };
                return (found, why);
            }
        }
        let near = nearest(name, names.iter().map(|(name, _)| *name));
        let field = names.iter().find(|(name, _)| near == Some(*name));
        (field.map(|(_, field)| *field).into_iter().collect(), "")
    }

    /// Returns the entries of a name in a table.
    fn entries(&self, name: &str, table: &str) -> impl Iterator<Item = &'static Synonym> {
        let plain = name.to_lowercase().replace('_', "-");
        let here = move |one: &&Synonym| one.table.is_empty() || one.table == table;
        let all = self.synonyms.iter().filter(here);
        all.filter(move |one| one.name == plain)
    }

    /// Returns what to write instead of the unknown field `name`. `names` has the accepted names,
    /// each with its field. `line` returns the line with another name.
    pub(crate) fn hint<'k>(
        &self,
        name: &str,
        table: &str,
        names: &[(&'k str, &'k str)],
        line: impl Fn(&str) -> Option<String>,
    ) -> String {
        let told = self.entries(name, table).next();
        if let Some(Synonym { hint, .. }) = told.filter(|one| !one.hint.is_empty()) {
            let value = line("").unwrap_or_default();
            let value = value.trim_start_matches(" = ");
            return hint
                .replace("{name}", value.trim_matches('"'))
                .replace("{}", value);
        }
        let (fields, why) = self.meant(name, table, names);
        if let [field] = fields[..] {
            return match line(field) {
                Some(line) => format!("write `{line}`"),
                None => format!("did you mean `{field}`?"),
            };
        }
        if !fields.is_empty() {
            let lines = fields.iter().map(|field| line(field));
            let lines: Vec<String> = lines
                .zip(&fields)
                .map(|(line, field)| format!("`{}`", line.unwrap_or_else(|| (*field).to_owned())))
                .collect();
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(": {why}")
            };
            return format!("write {}{why}", lines.join(" or "));
        }
        let own = names.iter().filter(|(name, field)| name == field);
        let all: Vec<&str> = own.map(|(name, _)| *name).collect();
        match table {
            _ if self.manual.is_empty() || all.len() <= LISTED => {
                format!("known here: {}", all.join(", "))
            }
            "" => format!("{} lists the {} tables of a policy", self.manual, all.len()),
            table => format!(
                "{} lists the {} fields of `{table}`",
                self.manual,
                all.len()
            ),
        }
    }
}

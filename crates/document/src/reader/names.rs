// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of a table's fields: current and former ones, and reports of unknown ones.

use super::Reader;
use std::borrow::Cow;
use toml::Spanned;
use toml::de::DeValue;

impl<'d, 'i> Reader<'d, 'i> {
    /// Declares former names of a field. From then on, the field is found by its current name,
    /// whichever of the names the table has. A former name is reported as a note (code `D007`), or
    /// as an error (`D008`) if another name of the field is present too.
    pub fn formerly(&mut self, name: &'static str, former: &'static [&'static str]) {
        let mut first = self.table.get_key_value(name);
        for old in former {
            self.former.push((old, name));
            let Some(entry) = self.table.get_key_value(*old) else {
                continue;
            };
            let place = entry.0.span();
            if let Some((other, _)) = first {
                let message = format!(
                    "`{old}` on line {} and `{}` on line {} are one field",
                    self.text.line(place.start),
                    other.get_ref(),
                    self.text.line(other.span().start)
                );
                let hint = format!("write `{name}` alone: `{old}` is a former name of it");
                self.problems.error("D008", place, message, hint);
            } else {
                let line = self.line_with(old, name);
                let line = line.unwrap_or_else(|| name.to_owned());
                let message = format!("`{old}` is now called `{name}`");
                let hint = format!("write `{line}`; the old name works as before");
                self.problems.note("D007", place, message, hint);
                first = Some(entry);
            }
        }
    }

    /// Returns a field's key and value, by its current or a former name.
    pub(super) fn entry(
        &self,
        key: &str,
    ) -> Option<(&'d Spanned<Cow<'i, str>>, &'d Spanned<DeValue<'i>>)> {
        let former = self.former.iter().filter(|(_, name)| *name == key);
        let mut names = std::iter::once(key).chain(former.map(|(old, _)| *old));
        names.find_map(|name| self.table.get_key_value(name))
    }

    /// Returns whether the table has a field that was not requested so far. At the end, it would be
    /// reported as unknown.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        let mut keys = self.table.keys();
        keys.any(|key| !self.knows(key.get_ref()))
    }

    /// Returns whether an unknown field was probably meant as `key`. Call this after all possible
    /// fields were requested.
    #[must_use]
    pub fn meant(&self, key: &str) -> bool {
        let (keys, names) = (self.table.keys(), self.names());
        let mut unknown = keys.filter(|name| !self.knows(name.get_ref()));
        unknown.any(|name| {
            let (fields, _) = self.vocabulary.meant(name.get_ref(), &self.name, &names);
            fields.contains(&key)
        })
    }

    /// Returns the line or header of a field with another name, if it is short.
    fn line_with(&self, name: &str, other: &str) -> Option<String> {
        let entry = self.table.get(name)?;
        let path = match self.name.as_str() {
            "" => other.to_owned(),
            table => format!("{table}.{other}"),
        };
        match entry.get_ref() {
            DeValue::Table(_) => Some(format!("[{path}]")),
            DeValue::Array(list)
                if matches!(list.first().map(Spanned::get_ref), Some(DeValue::Table(_))) =>
            {
                Some(format!("[[{path}]]"))
            }
            _ => {
                let value = self.text.source.get(entry.span())?;
                let short = value.len() <= 60 && !value.contains('\n');
                short.then(|| format!("{other} = {value}"))
            }
        }
    }

    /// Returns whether a field of this name was requested, or had the name formerly.
    fn knows(&self, key: &str) -> bool {
        self.known.contains(key) || self.former.iter().any(|(old, _)| *old == key)
    }

    /// Returns every accepted name, with the name of its field.
    fn names(&self) -> Vec<(&'static str, &'static str)> {
        let known = self.known.iter().map(|name| (*name, *name));
        known.chain(self.former.iter().copied()).collect()
    }
}

impl Drop for Reader<'_, '_> {
    fn drop(&mut self) {
        if self.open {
            return;
        }
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.knows(name) {
                continue;
            }
            let place = match self.name.as_str() {
                "" => String::new(),
                table => format!(" in `{table}`"),
            };
            let line = |other: &str| self.line_with(name, other);
            let hint = self.vocabulary.hint(name, &self.name, &self.names(), line);
            self.problems.error(
                "D003",
                key.span(),
                format!("`{name}` is not known{place}"),
                hint,
            );
        }
    }
}

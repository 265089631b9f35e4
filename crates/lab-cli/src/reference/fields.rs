// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the fields of policies, experiments and domains, and the manual page
//! weirgate-policy(5). They are generated from the registries that the parsers use.

use crate::reference::disciplines::escaped;
use std::fmt::Write as _;
use weirgate_document::registry;
use weirgate_policy::{Field, TABLES};

/// Returns the page about policies.
pub fn page() -> String {
    let mut text = String::from(
        "# Fields\n\nEvery table and field of a policy. [The policy file](../policy.md) explains \
         them. A file's own fields are those of `policy`.\n",
    );
    for table in TABLES {
        let fields = table.fields();
        let rows = fields.iter().map(|field| {
            let (kind, default) = (field.kind.to_string(), absent(field));
            [field.name.to_owned(), kind, default, about_of(field)]
        });
        section(&mut text, table.name, table.about, rows);
    }
    text
}

/// Returns the page about experiment files.
pub fn of_experiments() -> String {
    let head = "# Fields of an experiment\n\nEvery table and field of an experiment file. [The \
                experiment file](../experiments.md) explains them, and says how values are written.\n";
    declared(head, weirgate_experiment::TABLES)
}

/// Returns the page about domain files.
pub fn of_domains() -> String {
    let head = "# Fields of a domain\n\nEvery table and field of a domain file. [A DiffServ \
                domain](../domain.md) explains them.\n";
    declared(head, weirgate_domain::TABLES)
}

fn declared(head: &str, tables: &[registry::Table]) -> String {
    let mut text = head.to_owned();
    for table in tables {
        let rows = table.rows().into_iter().map(|row| {
            let (name, default) = (row.name.to_owned(), row.default.to_owned());
            [name, row.kind, default, row.about.to_owned()]
        });
        section(&mut text, table.name, table.about, rows);
    }
    text
}

/// Appends a table: name, permitted values, default and meaning of each field.
fn section(text: &mut String, name: &str, about: &str, rows: impl Iterator<Item = [String; 4]>) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n## `{name}`\n\n{about}.\n\n| field | what may be written | default | meaning |\n\
         |---|---|---|---|\n"
    );
    for [field, kind, default, meaning] in rows {
        let cells = [kind, default, meaning].map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| `{field}` | {} |", cells.join(" | "));
    }
}

/// Returns the manual page.
pub fn manual() -> String {
    let mut text = String::from(
        ".TH \"weirgate-policy\" 5 \"\" \"weirgate\" \"Policy file\"\n.SH NAME\n\
         weirgate\\-policy \\- who gets what of a shared link\n.SH DESCRIPTION\n\
         A policy is a TOML file. It describes one link, classes, and rules that put packets into \
         them. \\fBweirgate check\\fR reports every mistake at once, and what each class gets.\n\
         .SH TABLES\n",
    );
    for table in TABLES {
        let (name, about) = (escaped(table.name), escaped(table.about));
        let _ = write!(text, ".SS {name}\n{about}.\n");
        for field in table.fields() {
            let mut note = field.kind.to_string();
            match absent(&field).as_str() {
                "" => {}
                default => note = format!("{note}; {default}"),
            }
            let (name, note) = (escaped(field.name), escaped(&note));
            let about = escaped(&about_of(&field));
            let _ = write!(text, ".TP\n\\fB{name}\\fR ({note})\n{about}\n");
        }
    }
    text + ".SH SEE ALSO\n\\fBweirgate\\-check\\fR(1), \\fBweirgate\\-explain\\fR(1)\n"
}

/// Returns the meaning of a field, with its former names.
fn about_of(field: &Field) -> String {
    match field.former {
        [] => field.about.to_owned(),
        names => format!("{}; formerly {}", field.about, listed(names)),
    }
}

/// Returns what applies if the field is absent.
fn absent(field: &Field) -> String {
    match (field.required, field.default) {
        (Some(_), _) => "required".to_owned(),
        (None, Some(default)) => default.to_owned(),
        (None, None) => String::new(),
    }
}

/// Formats names of fields as a list.
fn listed(names: &[&str]) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_row_and_an_entry() {
        let (page, manual) = (page(), manual());
        for table in TABLES {
            assert!(
                page.contains(&format!("\n## `{}`\n", table.name)),
                "{table:?}"
            );
            for field in table.fields() {
                assert!(
                    page.contains(&format!("\n| `{}` |", field.name)),
                    "{field:?}"
                );
                let entry = format!(".TP\n\\fB{}\\fR (", escaped(field.name));
                assert!(manual.contains(&entry), "{field:?}");
                for old in field.former {
                    assert!(page.contains(&format!("; formerly `{old}`")), "{field:?}");
                    let former = escaped(&format!("; formerly `{old}`"));
                    assert!(manual.contains(&former), "{field:?}");
                }
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of fields: its tables are consistent, and each row's properties hold.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use weirgate_document::{Problem, Severity};
use weirgate_policy::{FieldKind, TABLES};

#[test]
fn tables_have_one_name_each_and_all_are_reached() {
    let mut reached = BTreeSet::from(["policy"]);
    for table in TABLES {
        reached.extend(table.fields().iter().filter_map(|one| match one.kind {
            FieldKind::Table(name)
            | FieldKind::TextOrTable(name, _)
            | FieldKind::Tables(name)
            | FieldKind::Named(name) => Some(name),
            _ => None,
        }));
    }
    let names: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(names.len(), TABLES.len());
    assert_eq!(reached, names);
}

#[test]
fn every_field_has_a_text_of_one_line() {
    for table in TABLES {
        for field in table.fields() {
            let place = format!("{}.{}", table.name, field.name);
            assert!(!field.about.is_empty(), "{place}");
            assert!(!field.about.ends_with('.'), "{place}");
            assert!(
                field.default.is_none() || field.required.is_none(),
                "{place}"
            );
        }
    }
}

/// The table of conditions in docs/policy.md.
#[test]
fn the_manual_has_every_condition() {
    let table = |name: &str| {
        let found = TABLES.iter().find(|table| table.name == name);
        found.unwrap_or_else(|| panic!("{name}")).fields()
    };
    let excluded: Vec<&str> = table("not").iter().map(|field| field.name).collect();
    let mut text = String::from("| field | what may be written | meaning |\n|---|---|---|\n");
    for field in table("match") {
        let alone = if excluded.contains(&field.name) {
            ""
        } else {
            ". Not in `not`"
        };
        let cells = [field.kind.to_string(), format!("{}{alone}", field.about)];
        let cells = cells.map(|cell| cell.replace('|', "\\|")).join(" | ");
        writeln!(text, "| `{}` | {cells} |", field.name).expect("a String takes any text");
    }
    weirgate_testing::golden_part("docs/policy.md", "conditions", &text);
}

/// Returns the problems of a conditioner with these fields.
fn conditioner(fields: &str) -> Vec<Problem> {
    let text = format!(
        "version = 1\n[link]\ndevice = \"wan\"\nup = \"10mbit\"\nlayer = \"ethernet\"\n\
         [[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\n\
         [[conditioner]]\nname = \"gold\"\nmeter = \"bucket\"\nrate = \"1mbit\"\n{fields}"
    );
    weirgate_policy::parse(&text).1
}

#[test]
fn a_former_name_is_read_with_a_note() {
    assert!(conditioner("mpu = 120\n").is_empty());
    let [note] = &conditioner("smallest = 120\n")[..] else {
        panic!("one note");
    };
    assert_eq!((note.code, note.severity), ("D007", Severity::Note));
    assert!(note.hint.starts_with("write `mpu = 120`"), "{note:?}");
    let wrong = conditioner("smallest = 3\n");
    assert!(wrong.iter().any(|one| one.code == "P191"), "{wrong:?}");
    let both = conditioner("smallest = 120\nmpu = 120\n");
    assert!(both.iter().any(|one| one.code == "D008"), "{both:?}");
}

/// A former name that is also a field of the same table, or of two fields, would be ambiguous.
#[test]
fn former_names_are_no_fields() {
    for table in TABLES {
        let fields = table.fields();
        let mut names: BTreeSet<&str> = fields.iter().map(|field| field.name).collect();
        for old in fields.iter().flat_map(|field| field.former) {
            assert!(names.insert(old), "{}.{old}", table.name);
        }
    }
}

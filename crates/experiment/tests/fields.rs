// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields that the readers accept are those in the registry.

use std::collections::BTreeSet;
use weirgate_document::registry::Table;
use weirgate_experiment::{TABLES, parse};

/// Every table once, each with an unknown field.
const EVERY_TABLE: &str = include_str!("fields.toml");

/// For each table of the file, its tables in [`TABLES`] by name, and the fields that it lacks.
const TABLES_OF: &[(&[&str], &str)] = &[
    (&["the file"], ""),
    (&["[machine]"], ""),
    (&["[topology]"], ""),
    (&["[topology.line]"], ""),
    (&["[[topology.line.then]]"], ""),
    (&["[topology.line.up] and [topology.line.down]"], ""),
    (&["reordering"], ""),
    (&["[[phase]]"], ""),
    (&["[[traffic]]", "[[traffic]] of TCP"], ""),
    (&["[[traffic]]", "[[traffic]] of kind quic"], ""),
    (&["[[traffic]]", "[[traffic]] of kind udp"], ""),
    (
        &[
            "[[traffic]]",
            "[[traffic]] of kind requests",
            "[[traffic]] of TCP",
        ],
        "bytes",
    ),
    (
        &[
            "[[traffic]]",
            "[[traffic]] of kind short-flows",
            "[[traffic]] of TCP",
        ],
        "bytes",
    ),
    (&["[[traffic]]", "[[traffic]] of kind syns"], ""),
    (&["[[traffic]]", "[[traffic]] of kind voice"], ""),
    (&["[[probe]]"], ""),
    (&["[sampling]"], ""),
    (&["[[arm]]"], ""),
    (&["[arm.kit]"], ""),
    (&["[arm.autorate]"], ""),
    (&["[arm.autorate.up] and [arm.autorate.down]"], ""),
    (&["[[arm.then]]"], ""),
    (&["[arm.sweep]"], ""),
    (&["[[expect]]"], ""),
];

fn declared(names: &[&str], but: &str) -> BTreeSet<String> {
    let tables = TABLES.iter().filter(|table| names.contains(&table.name));
    let rows = tables.flat_map(Table::rows);
    let fields = rows.map(|row| row.name).filter(|name| *name != but);
    fields.map(str::to_owned).collect()
}

fn known(source: &str) -> Vec<BTreeSet<String>> {
    weirgate_testing::known_fields(source, &parse(source).1)
}

#[test]
fn readers_know_what_is_declared() {
    let found = known(EVERY_TABLE);
    assert_eq!(found.len(), TABLES_OF.len());
    for (own, (names, but)) in found.iter().zip(TABLES_OF) {
        assert_eq!(own, &declared(names, but), "{names:?}");
    }
    let figures = "version = 1\nname = \"a\"\ntitle = \"a\"\n\
                   [[figure]]\nqqqqqqqq = 1\nname = \"b\"\nformula = \"1\"\n";
    assert_eq!(known(figures), [declared(&["[[figure]]"], "")]);
    let tables: BTreeSet<&str> = TABLES_OF.iter().flat_map(|one| one.0).copied().collect();
    let all = TABLES.iter().map(|table| table.name);
    let rest: Vec<&str> = all.filter(|name| !tables.contains(name)).collect();
    assert_eq!(rest, ["[[figure]]"]);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of fields and the readers agree: a field is in the table of its
//! place exactly if the reader of that place knows it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use weirgate_aqm::Discipline;
use weirgate_policy::{FieldKind, TABLES, Table};

/// Where a field of each table stands: texts with `FIELD`. A table whose fields
/// depend on another has several.
const PLACES: [(&str, &[&str]); 26] = [
    ("policy", &["FIELD\n"]),
    ("link", &["[link]\nFIELD\n"]),
    (
        "layer",
        &[
            "[link.layer]\nFIELD\n",
            "[link.layer]\nname = \"docsis\"\nFIELD\n",
        ],
    ),
    ("inbound", &["[inbound]\nFIELD\n"]),
    ("receive", &["[receive]\nFIELD\n"]),
    ("udp", &["[receive.udp]\nFIELD\n"]),
    ("announced", &["[receive.announced]\nFIELD\n"]),
    ("track", &["[track]\nFIELD\n"]),
    (
        "conditioner",
        &[
            "[[conditioner]]\nmeter = \"moving\"\nFIELD\n",
            "[[conditioner]]\nmeter = \"trtcm\"\nFIELD\n",
            "[[conditioner]]\nmeter = \"srtcm\"\nFIELD\n",
            "[[conditioner]]\nnominal = \"1mbit\"\nFIELD\n",
            "[[conditioner]]\nFIELD\n",
        ],
    ),
    ("ack", &["[ack]\nFIELD\n"]),
    ("class", &["[[class]]\nFIELD\n"]),
    (
        "queue",
        &[
            "[[class]]\n[class.queue]\nkind = \"bfifo\"\nFIELD\n",
            "[[class]]\n[class.queue]\nkind = \"sfq\"\nFIELD\n",
            "[[class]]\n[class.queue]\nkind = \"red\"\nFIELD\n",
            "[[class]]\n[class.queue]\nkind = \"fq_codel\"\nFIELD\n",
            "[[class]]\n[class.queue]\nkind = \"cake\"\nFIELD\n",
        ],
    ),
    (
        "rule",
        &[
            "[[rule]]\nFIELD\n",
            "[[ruleset]]\n[[ruleset.rule]]\nFIELD\n",
        ],
    ),
    ("share", &["[[share]]\nFIELD\n"]),
    ("cap", &["[[cap]]\nFIELD\n"]),
    ("not", &["[[rule]]\n[rule.not]\nFIELD\n"]),
    ("match", &["[[service.one.match]]\nFIELD\n"]),
    ("connection", &["[[rule]]\n[rule.connection]\nFIELD\n"]),
    ("rate", &["[[rule]]\n[rule.rate]\nFIELD\n"]),
    ("connections", &["[[rule]]\n[rule.connections]\nFIELD\n"]),
    ("ruleset", &["[[ruleset]]\nFIELD\n"]),
    ("group", &["[group.one]\nFIELD\n"]),
    ("service", &["[service.one]\nFIELD\n"]),
    ("schedule", &["[schedule.one]\nFIELD\n"]),
    ("dscp", &["[dscp]\nFIELD\n"]),
    ("marks", &["[marks]\nFIELD\n"]),
];

/// Whether a reader knows a field: it does not say that it is unknown. The
/// value is one that no field takes.
fn known(place: &str, field: &str) -> bool {
    let text = place.replace("FIELD", &format!("{field} = 1979-05-27"));
    let (_, problems) = weirgate_policy::parse(&text);
    let wrong = format!("`{field}`");
    !problems
        .iter()
        .any(|one| one.code == "D003" && one.message.contains(&wrong))
}

/// Every name in quotes that the readers' sources have: a field among others.
fn quoted() -> BTreeSet<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let found = entry.path();
            let list = if found.is_dir() {
                &mut folders
            } else {
                &mut files
            };
            list.push(found);
        }
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let plain = |part: &&str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        names.extend(text.split('"').filter(plain).map(str::to_owned));
    }
    names
}

/// Where a field of a table stands; a queue's also for each discipline of the kit.
fn places(name: &str, listed: &[&str]) -> Vec<String> {
    let kit = Discipline::all();
    let kit = kit.iter().filter(|_| name == "queue").map(|one| {
        let kind = one.name();
        format!("[[class]]\n[class.queue]\nkind = \"weir_{kind}\"\nFIELD\n")
    });
    let listed = listed.iter().map(|place| (*place).to_owned());
    listed.chain(kit).collect()
}

fn table(name: &str) -> &'static Table {
    TABLES.iter().find(|table| table.name == name).unwrap()
}

#[test]
fn the_table_has_every_field_of_the_readers_and_no_other() {
    let names = quoted();
    assert!(names.len() > 100);
    let mut wrong = Vec::new();
    for (name, listed) in PLACES {
        let places = places(name, listed);
        let fields: BTreeSet<&str> = table(name).fields().iter().map(|one| one.name).collect();
        for field in fields
            .iter()
            .copied()
            .chain(names.iter().map(String::as_str))
        {
            let read = places.iter().any(|place| known(place, field));
            if read != fields.contains(field) {
                let says = if read {
                    "read, and not in the table"
                } else {
                    "in the table, not read"
                };
                wrong.push(format!("{name}.{field}: {says}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(TABLES.len(), PLACES.len());
}

#[test]
fn tables_are_told_once_and_all_are_reached() {
    let mut reached = BTreeSet::from(["policy"]);
    for table in TABLES {
        let names: BTreeSet<&str> = table.fields().iter().map(|one| one.name).collect();
        assert_eq!(names.len(), table.fields().len(), "{}", table.name);
        reached.extend(table.fields().iter().filter_map(|one| match one.kind {
            FieldKind::Table(name)
            | FieldKind::TextOrTable(name, _)
            | FieldKind::Tables(name)
            | FieldKind::Named(name) => Some(name),
            _ => None,
        }));
    }
    assert_eq!(reached, TABLES.iter().map(|table| table.name).collect());
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How sections and options are called: names of tables and fields of a policy, as UCI
//! allows them (`uci_validate_str` of libuci's util.c: letters, digits and `_`).

use weirgate_policy::{Field, FieldKind, TABLES, Table};

/// Between the names of fields in an option's name. No field has it in its own.
pub(crate) const WITHIN: &str = "__";

/// The option that says under which name a policy has a table.
pub(crate) const NAME: &str = "name";

/// The section with the fields of the policy itself, and its table in the registry.
pub(crate) const ROOT: &str = "policy";

/// The fields of a table; none where the registry has no such table.
pub(crate) fn fields(table: &str) -> Vec<Field> {
    let found = TABLES.iter().find(|known| known.name == table);
    found.map(Table::fields).unwrap_or_default()
}

/// A name as UCI has it.
pub(crate) fn written(name: &str) -> String {
    name.replace('-', "_")
}

/// The field that UCI calls so, by its name or a former one.
pub(crate) fn called(table: &str, name: &str) -> Option<Field> {
    let all = fields(table);
    let by = |names: &dyn Fn(&Field) -> bool| all.iter().find(|field| names(field)).copied();
    by(&|field| written(field.name) == name)
        .or_else(|| by(&|field| field.former.iter().any(|former| written(former) == name)))
}

/// The table whose options stand within those of the one that has the field.
pub(crate) fn inner(kind: FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Table(name) | FieldKind::TextOrTable(name, _) => Some(name),
        _ => None,
    }
}

/// The table of which a field has several, each a section.
pub(crate) fn several(kind: FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Tables(name) | FieldKind::Named(name) => Some(name),
        _ => None,
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of sections and options: names of a policy's tables and fields in UCI's character set
//! (`uci_validate_str` of libuci's util.c: letters, digits and `_`).

use weirgate_policy::{Field, FieldKind, TABLES, Table};

/// The separator of field names in an option's name. No field's name contains it.
pub(crate) const WITHIN: &str = "__";

/// The option with the name of a named table.
pub(crate) const NAME: &str = "name";

/// The section with the policy's own fields, and its table in the registry.
pub(crate) const ROOT: &str = "policy";

/// Returns the fields of a table; empty if the registry has no such table.
pub(crate) fn fields(table: &str) -> Vec<Field> {
    let found = TABLES.iter().find(|known| known.name == table);
    found.map(Table::fields).unwrap_or_default()
}

/// Converts a name to UCI.
pub(crate) fn written(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the field with this UCI name, by its current or a former name.
pub(crate) fn called(table: &str, name: &str) -> Option<Field> {
    let all = fields(table);
    let by = |names: &dyn Fn(&Field) -> bool| all.iter().find(|field| names(field)).copied();
    by(&|field| written(field.name) == name)
        .or_else(|| by(&|field| field.former.iter().any(|former| written(former) == name)))
}

/// Returns the inner table of a field, whose options are in the section of the outer one.
pub(crate) fn inner(kind: FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Table(name) | FieldKind::TextOrTable(name, _) => Some(name),
        _ => None,
    }
}

/// Returns the table of which a field has several, each as a section.
pub(crate) fn several(kind: FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Tables(name) | FieldKind::Named(name) => Some(name),
        _ => None,
    }
}

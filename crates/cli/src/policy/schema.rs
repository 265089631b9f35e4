// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate schema`: prints the fields of a policy as a JSON Schema, for editors.
//!
//! The schema is made from [`TABLES`], the registry of fields from which policies are read too. It
//! accepts more than the reader does: it does not check fields that depend on other fields.

use serde_json::{Map, Value, json};
use std::path::Path;
use weirgate_aqm::INSTALLED;
use weirgate_bpf::kit_number;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_policy::{Field, FieldKind, TABLES, Table};
use weirgate_units::Inserted as _;

/// Prints the schema.
pub fn run() -> Outcome {
    // A policy may name disciplines that are installed on this machine.
    weirgate_aqm::scan(Path::new(INSTALLED), kit_number());
    output::data(&serde_json::to_string_pretty(&schema())?)?;
    Ok(Status::Done)
}

/// Returns the schema in draft 7, which editors support best.
fn schema() -> Value {
    let tables = TABLES.iter().skip(1);
    let definitions: Map<String, Value> = tables
        .map(|table| (table.name.to_owned(), of_table(table)))
        .inserted();
    let mut schema = TABLES.first().map_or_else(|| json!({}), of_table);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("weirgate policy");
    schema["definitions"] = Value::Object(definitions);
    schema
}

fn of_table(table: &Table) -> Value {
    let fields = table.fields();
    let properties: Map<String, Value> = fields
        .iter()
        .flat_map(|field| {
            let own = (field.name.to_owned(), of_field(field));
            let former = field.former.iter();
            former
                .map(|old| ((*old).to_owned(), deprecated(field)))
                .chain([own])
        })
        .inserted();
    // A required field with a former name may be present under that name, so it is not required
    // here.
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| field.required.is_some() && field.former.is_empty())
        .map(|field| field.name)
        .collect();
    let mut found = json!({
        "type": "object",
        "description": table.about,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        found["required"] = json!(required);
    }
    found
}

fn of_field(field: &Field) -> Value {
    let mut found = of_kind(field.kind);
    // Draft 7 ignores all other keywords beside a `$ref`.
    if let Some(reference) = found.get("$ref") {
        found = json!({ "allOf": [{ "$ref": reference }] });
    }
    found["description"] = json!(field.about);
    found
}

/// Returns the schema of a field under a former name.
fn deprecated(field: &Field) -> Value {
    let mut found = of_field(field);
    found["description"] = json!(format!("Now called `{}`: {}", field.name, field.about));
    found["deprecated"] = json!(true);
    found
}

fn of_kind(kind: FieldKind) -> Value {
    let text = |example: &str| json!({ "type": "string", "examples": [example] });
    let quantity = |pattern: &str, example: &str| json!({ "type": "string", "pattern": pattern, "examples": [example] });
    let rate = || quantity(r"^\s*[0-9.]+\s*[A-Za-z/]+\s*$", "512kbit");
    let reference = |name: &str| json!({ "$ref": format!("#/definitions/{name}") });
    match kind {
        FieldKind::Text(example) => text(example),
        FieldKind::Word(words) => json!({ "enum": words }),
        FieldKind::Integer(from, to) => {
            json!({ "type": "integer", "minimum": from, "maximum": to })
        }
        FieldKind::Number => json!({ "type": "number" }),
        FieldKind::Boolean => json!({ "type": "boolean" }),
        FieldKind::BooleanOrRate => json!({ "anyOf": [{ "type": "boolean" }, rate()] }),
        FieldKind::Rate => rate(),
        FieldKind::Share => quantity(r"^\s*[0-9.]+\s*%\s*$", "20%"),
        FieldKind::Amount => quantity(r"^\s*[0-9.]+\s*(%|[A-Za-z/]+)\s*$", "2%"),
        FieldKind::Size => json!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            quantity(r"^\s*[0-9.]+\s*[A-Za-z]*\s*$", "64KiB"),
        ] }),
        FieldKind::Time => quantity(r"^\s*[0-9.]+\s*[A-Za-z]+\s*$", "5ms"),
        FieldKind::List(example) => {
            let one = json!({ "type": ["string", "integer"], "examples": [example] });
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        }
        FieldKind::Words(words) => {
            let one = json!({ "enum": words });
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        }
        FieldKind::Setting(example) => {
            json!({ "type": ["string", "number", "boolean"], "examples": [example] })
        }
        FieldKind::Table(name) => reference(name),
        FieldKind::TextOrTable(name, example) => {
            json!({ "anyOf": [text(example), reference(name)] })
        }
        FieldKind::Tables(name) => json!({ "type": "array", "items": reference(name) }),
        FieldKind::Named(name) => {
            json!({ "type": "object", "additionalProperties": reference(name) })
        }
        FieldKind::Map => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that calculate figures and run nothing: `[[figure]]` in place of topology, phases, traffic
//! and arms.

use super::registry::{Field, Own, Table, Text};
use super::scope::Scope;
use super::{codes, expect, field};
use crate::{Arm, Figure};
use std::collections::BTreeSet;
use weirgate_document::Reader;

/// The name of a calculation's only arm.
const ARM: &str = "calculation";

pub(super) const FIGURE: Field<Own> = Field::new(
    "figure",
    Own("tables"),
    "What the file calculates, in place of topology, phases, traffic, probes and arms",
);

const NAME: Field<Own> = Field::new(
    "name",
    Own("name"),
    "The figure's name; its metric is `calculated.NAME.value`",
)
.required("give the figure a name");
const FORMULA: Field<Text> = Field::new(
    "formula",
    Text,
    "The formula, which may use the figures before it",
)
.required("say how it is calculated: `formula = \"512 * 48 / 53\"`");
const ABOUT: Field<Text> = Field::new("about", Text, "What it is");

pub(super) const TABLE: Table = Table::new(
    "[[figure]]",
    "A figure to calculate. A file with figures runs nothing",
    &[&NAME, &FORMULA, &ABOUT],
);

/// Reads the figures. Each may use those before it. Other files have none.
pub(super) fn figures(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Figure> {
    let mut names = BTreeSet::new();
    let tables = root.tables(FIGURE.name);
    if !tables.is_empty() {
        for key in [
            "machine", "topology", "phase", "traffic", "probe", "sampling", "arm",
        ] {
            if root.has(key) {
                let message = format!("a calculation has no `{key}`");
                let hint = "leave it out, or leave out every `[[figure]]`";
                root.problems().error(codes::ARM, field::TOP, message, hint);
            }
        }
        scope.arms.insert(ARM.to_owned());
    }
    tables
        .into_iter()
        .filter_map(|mut table| figure(&mut table, scope, &mut names))
        .collect()
}

fn figure(
    table: &mut Reader<'_, '_>,
    scope: &mut Scope,
    names: &mut BTreeSet<String>,
) -> Option<Figure> {
    let name = field::name(table, &NAME, "figure", names);
    let about = ABOUT.get(table);
    let text = FORMULA.get(table);
    let formula = text
        .as_ref()
        .and_then(|text| expect::formula(table, scope, text));
    let name = name?.value;
    scope.figures.insert(name.clone());
    let formula = formula?;
    Some(Figure {
        name,
        formula,
        about: about.map(|text| text.value).unwrap_or_default(),
    })
}

/// Returns the arm that stands for the calculation.
pub(super) fn arm() -> Arm {
    Arm {
        about: "calculated, nothing is run".to_owned(),
        ..Arm::named(ARM)
    }
}

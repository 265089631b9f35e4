// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field `autorate` of an arm: a control loop that changes rates while traffic runs.

use super::command::{command, parameters};
use super::registry::{Field, Own, Table, Text, Within, rate};
use super::scope::Scope;
use super::{codes, field};
use crate::{Autorate, AutorateSide, Node};
use weirgate_document::Reader;
use weirgate_units::Rate;

/// The parameter that stands for the new rate in a command.
const PARAMETER: &str = "kbit";
const SLOWEST: Rate = Rate::kbit(1);
const FASTEST: Rate = Rate::kbit(100_000_000);

pub(super) const AUTORATE: Field<Own> = Field::new(
    "autorate",
    Own("table"),
    "The control loop of cake-autorate, which changes rates by echoes and load while traffic \
     runs: a rival of `[track]`. Not beside a policy",
);

const ASK: Field<Own> = Field::new(
    "ask",
    Own("place"),
    "Who answers the gateway's echo requests; a place beyond the line",
)
.required("name who answers echoes: `ask = \"provider\"`");
const UP: Field<Own> = Field::new(
    "up",
    Own("table"),
    "The direction from the gateway; at least one of `up` and `down` is required",
);
const DOWN: Field<Own> = Field::new("down", Own("table"), "The direction to the gateway");

pub(super) const TABLE: Table = Table::new(
    "[arm.autorate]",
    "A loop that changes rates while traffic runs",
    &[&ASK, &UP, &DOWN],
);

const LEAST: Field<Within<Rate>> = Field::new("least", rate(SLOWEST, FASTEST), "The lowest rate")
    .required("write the lowest rate, such as `least = \"2mbit\"`");
const BASE: Field<Within<Rate>> = Field::new(
    "base",
    rate(SLOWEST, FASTEST),
    "The rate at which it begins, and to which it returns at low load",
)
.required("write the rate to begin with, such as `base = \"8mbit\"`");
const MOST: Field<Within<Rate>> = Field::new("most", rate(SLOWEST, FASTEST), "The highest rate")
    .required("write the highest rate, such as `most = \"12mbit\"`");
const COMMAND: Field<Text> = Field::new(
    "command",
    Text,
    "A command, `PLACE: PROGRAM ARGUMENT...`, that runs when traffic starts and whenever the rate \
     changes; `{kbit}` stands for the rate in kbit/s",
)
.required(EXAMPLE);
const EXAMPLE: &str =
    "write `command = \"gateway: tc qdisc change dev lan root cake bandwidth {kbit}kbit\"`";

pub(super) const SIDE: Table = Table::new(
    "[arm.autorate.up] and [arm.autorate.down]",
    "A direction whose rate is changed",
    &[&LEAST, &BASE, &MOST, &COMMAND],
);

pub(super) fn autorate(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<Autorate> {
    let mut table = table.table(AUTORATE.name)?;
    let ask = ask(&mut table, scope);
    let given = [UP.is_in(&mut table), DOWN.is_in(&mut table)];
    let mut read = |name| table.table(name).and_then(|mut one| side(&mut one, scope));
    let (up, down) = (read(UP.name), read(DOWN.name));
    if given == [false; 2] {
        let message = "no rate is there to change";
        let hint = "describe a direction: `up` or `down`";
        let problems = table.problems();
        problems.error(codes::ARM, field::head(&table), message, hint);
    }
    Some(Autorate {
        ask: ask?,
        up,
        down,
    })
}

fn ask(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<Node> {
    if !ASK.is_there(table) {
        return None;
    }
    let text = table.text(ASK.name)?;
    let node = scope.node_of(table, &text)?;
    if matches!(node, Node::Provider | Node::Server(_)) {
        return Some(node);
    }
    let message = format!("echoes of `{node}` do not cross the line");
    let hint = "ask `provider` or a server";
    let problems = table.problems();
    problems.error(codes::DIRECTION, text.span, message, hint);
    None
}

fn side(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<AutorateSide> {
    let (least, base, most) = (LEAST.get(table), BASE.get(table), MOST.get(table));
    let line = COMMAND.get(table);
    let argv = line.and_then(|line| {
        let command = command(table, scope, &line)?;
        let names: Vec<&str> = command
            .argv
            .iter()
            .flat_map(|text| parameters(text))
            .collect();
        let message = match names.iter().find(|name| **name != PARAMETER) {
            Some(other) => format!("`{{{other}}}` has no value"),
            None if names.is_empty() => "the command does not have the rate".to_owned(),
            None => return Some(command),
        };
        let hint = format!("write `{{{PARAMETER}}}` where the rate belongs, in kbit/s");
        let problems = table.problems();
        problems.error(codes::COMMAND, line.span, message, hint);
        None
    });
    let (least, base, most) = (least?, base?, most?);
    if !(least <= base && base <= most) {
        let message = format!("the rates {least}, {base}, {most} are not in order");
        let hint = "write `least`, `base` and `most` so that none is below the one before";
        let problems = table.problems();
        problems.error(codes::LIMIT, field::head(table), message, hint);
        return None;
    }
    Some(AutorateSide {
        least,
        base,
        most,
        command: argv?,
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[router.NAME]` and `[[link]]`.

use super::circuits;
use super::field::{self, MOST, Rates};
use crate::codes;
use crate::{Link, Position, Role, Router};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_document::registry::{Field, FieldType, Own, Table, Text};
use weirgate_document::{Reader, Value};

pub(super) const ROUTER: Field<Own> =
    Field::new("router", Own("a table for each name"), "The routers")
        .required("add a table `[router.NAME]`");

const ROLE: Field<Own> = Field::new(
    "role",
    Own("`\"boundary\"`, `\"interior\"`"),
    "`boundary` where customers are connected, else `interior`. It only serves as a check: a \
     customer at an interior router is refused. Conditioners are placed wherever a customer is. \
     Optional for a router with `circuits`",
)
.required("write `boundary` where customers are connected, else `interior`");
const ENGINE: Field<Own> = Field::new(
    "engine",
    Own("`\"htb\"`, `\"kit\"`"),
    "`kit` if the router's kernel takes BPF disciplines; AF's drop precedences are then \
     distinguished (`queue = \"wred\"`)",
)
.default("`\"htb\"`");
const HOST: Field<Text> = Field::new("host", Text, "The router's address for ssh: `[USER@]HOST`")
    .default("the router's name");

pub(super) const OF_ROUTER: Table = Table::new(
    "[router.NAME]",
    "A router",
    &[
        &ROLE,
        &ENGINE,
        &HOST,
        &circuits::OF_ROUTER,
        &circuits::OTHERS,
    ],
);

pub(super) const LINK: Field<Own> = Field::new("link", Own("tables"), "The links between routers");

const BETWEEN: Field<Pair> = Field::new(
    "between",
    Pair("the two routers that it joins"),
    "The two routers",
)
.required("list the two routers that it joins");
const DEVICES: Field<Pair> = Field::new(
    "devices",
    Pair("the device of each towards the other"),
    "The device of each towards the other",
)
.required("list the device of each towards the other");
const RATE: Field<Rates> = Field::new(
    "rate",
    field::RATES,
    "The rate of the link; one rate, or one from the first router to the second and one back",
)
.required("write what it carries, such as `rate = \"10mbit\"`");

pub(super) const OF_LINK: Table = Table::new(
    "[[link]]",
    "A link between two routers",
    &[&BETWEEN, &DEVICES, &RATE, &field::DELAY, &field::LAYER],
);

pub(super) fn routers(root: &mut Reader<'_, '_>) -> BTreeMap<String, Router> {
    let mut routers = BTreeMap::new();
    for (name, mut table) in field::named_tables(root, &ROUTER, MOST) {
        let circuits = circuits::of_router(&mut table);
        let other_circuits = circuits::OTHERS
            .get(&mut table)
            .is_some_and(|one| one.value);
        let role = role(&mut table);
        let kit = engine(&mut table) == Some(KIT);
        let host = HOST.get(&mut table);
        let host = field::host(&table, host);
        let position = Position {
            span: name.span.clone(),
            line: name.line,
        };
        let role = role.unwrap_or(Role::Interior);
        routers.insert(
            name.value,
            Router {
                role,
                kit,
                host,
                circuits,
                other_circuits,
                position,
            },
        );
    }
    reached_once(root, &routers);
    routers
}

/// Reports two routers that ssh would reach as the same machine: each would remove the policy of
/// the other.
fn reached_once(root: &Reader<'_, '_>, routers: &BTreeMap<String, Router>) {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, router) in routers {
        let host = router.host.as_deref().unwrap_or(name);
        if let Some(other) = reached.insert(host, name) {
            let message = format!("`{other}` and `{name}` are both the machine `{host}`");
            let hint = "write each router's own machine as its `host`";
            let span = router.position.span.clone();
            root.problems().error(codes::NAME, span, message, hint);
        }
    }
}

/// The engine that has the kit's disciplines.
const KIT: &str = "kit";

fn engine(table: &mut Reader<'_, '_>) -> Option<&'static str> {
    let word = table.text(ENGINE.name)?;
    let known = ["htb", KIT].into_iter().find(|one| *one == word.value);
    if known.is_none() {
        let message = format!("`{}` does not shape a domain's routers", word.value);
        let hint = "write `htb`, or `kit` for drop precedences";
        table
            .problems()
            .error(codes::WORD, word.span, message, hint);
    }
    known
}

fn role(table: &mut Reader<'_, '_>) -> Option<Role> {
    let is_stated = table.has(circuits::OF_ROUTER.name) || ROLE.is_there(table);
    let word = is_stated.then(|| table.text(ROLE.name)).flatten()?;
    match word.value.as_str() {
        "boundary" => Some(Role::Boundary),
        "interior" => Some(Role::Interior),
        other => {
            let message = format!("`{other}` is not a role");
            let hint = "write `boundary` where customers are connected, else `interior`";
            table
                .problems()
                .error(codes::WORD, word.span, message, hint);
            None
        }
    }
}

pub(super) fn links(root: &mut Reader<'_, '_>, routers: &BTreeMap<String, Router>) -> Vec<Link> {
    let (mut tables, excess) = root.tables_up_to(LINK.name, MOST);
    if let Some(span) = excess {
        let message = format!("there are more than {MOST} links");
        root.problems()
            .error(codes::LIMIT, span, message, "divide the domain");
    }
    let mut used = BTreeSet::new();
    let links = tables.iter_mut();
    links
        .filter_map(|table| link(table, routers, &mut used))
        .collect()
}

fn link(
    table: &mut Reader<'_, '_>,
    routers: &BTreeMap<String, Router>,
    used: &mut BTreeSet<(String, String)>,
) -> Option<Link> {
    let position = Position {
        span: table.span(),
        line: table.line(),
    };
    let between = BETWEEN.get(table);
    let devices = DEVICES.get(table);
    let rates = RATE.get(table);
    let delay = field::delay(table);
    let layer = field::layer(table);
    let (between, devices) = (between?, devices?);
    let mut sound = true;
    for name in &between {
        sound &= field::exists(table, name, "router", routers.keys().map(String::as_str));
    }
    for name in &devices {
        sound &= field::device(table, name);
    }
    if between[0].value == between[1].value {
        let message = format!("the link joins `{}` to itself", between[0].value);
        let hint = "name two routers";
        let span = between[1].span.clone();
        table.problems().error(codes::LINK, span, message, hint);
        sound = false;
    }
    for end in [0, 1] {
        let port = (between[end].value.clone(), devices[end].value.clone());
        sound &= unused(table, used, port, &devices[end]);
    }
    let (rates, layer) = (rates?, layer?);
    sound.then(|| Link {
        between: between.map(|name| name.value),
        devices: devices.map(|name| name.value),
        rates,
        delay,
        layer,
        position,
    })
}

/// Returns whether a router's device is still unused; reports it otherwise.
pub(super) fn unused(
    table: &Reader<'_, '_>,
    used: &mut BTreeSet<(String, String)>,
    port: (String, String),
    at: &Value<String>,
) -> bool {
    let message = format!(
        "device `{}` of router `{}` leads elsewhere already",
        port.1, port.0
    );
    if used.insert(port) {
        return true;
    }
    let hint = "give each line a device of its own, such as one for each VLAN: what comes in is measured by \
                where it does";
    table
        .problems()
        .error(codes::NAME, at.span.clone(), message, hint);
    false
}

/// The type of a list of two texts, with a description.
#[derive(Clone, Copy)]
struct Pair(&'static str);

impl FieldType for Pair {
    type Value = [Value<String>; 2];

    fn read(&self, table: &mut Reader<'_, '_>, key: &'static str) -> Option<[Value<String>; 2]> {
        let list = table.text_list(key)?;
        let count = list.len();
        <[Value<String>; 2]>::try_from(list)
            .map_err(|_| {
                let message = format!("`{key}` lists {count} names in place of two");
                let hint = format!("list {}", self.0);
                let span = table.span_of(key);
                table.problems().error(codes::LINK, span, message, hint);
            })
            .ok()
    }

    fn text(&self) -> String {
        "list of two names".to_owned()
    }
}

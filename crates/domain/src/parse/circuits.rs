// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[circuits]` and `[router.NAME.circuits]`: the circuits of each router.

use super::field::{self, Rates};
use crate::codes;
use crate::{Circuits, CircuitsOf, Domain, Position, Router};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_document::registry::{Field, Integer, Own, Switch, Table, Text, Texts};
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::Inserted as _;

/// The largest number of files of a list, and of sites of a router.
const MOST: usize = 4096;

/// The largest number of queues of a device (`MEMBERS` of `crates/aqm/src/engine/line.rs`).
const MOST_QUEUES: i64 = 64;

pub(super) const CIRCUITS: Field<Own> = Field::new(
    "circuits",
    Own("a table"),
    "The list of circuits that several routers share",
);

const FILES: Texts = Texts("paths, from this file's folder");

const COMMON: Field<Texts> = Field::new(
    "files",
    FILES,
    "The files of the list, as [`circuits apply`](../circuits.md#files) takes them",
)
.required("list the files, such as `files = [\"devices.csv\", \"network.json\"]`");

pub(super) const OF_LIST: Table = Table::new(
    "[circuits]",
    "A list of circuits; each router has the part below its sites",
    &[&COMMON],
);

pub(super) const OF_ROUTER: Field<Own> = Field::new(
    "circuits",
    Own("a table"),
    "The circuits that the router shapes ([circuits](../domain.md#circuits))",
);

pub(super) const OTHERS: Field<Switch> = Field::new(
    "other-circuits",
    Switch,
    "Whether devices that this file does not name may have circuits, which then stay as they \
     are. Otherwise `apply` takes these away, and `plan` and `verify` name them",
)
.default("false");

const OWN: Field<Texts> = Field::new("files", FILES, "The files of the router's own list");
const SITES: Field<Texts> = Field::new(
    "sites",
    Texts("sites of the common list"),
    "The sites that it shapes, with everything below them. `files` or `sites` is required",
);
const ACCESS: Field<Text> = Field::new(
    "access",
    Text,
    "The router's device towards subscribers. `access` or `core` is required",
);
const CORE: Field<Text> = Field::new(
    "core",
    Text,
    "The router's device towards the core, which sends packets from subscribers",
);
const RATE: Field<Rates> = Field::new(
    "rate",
    field::RATES,
    "The rate that all circuits share; one rate, or one to subscribers and one from them",
)
.default("what the devices take");
const QUEUES: Field<Integer> = Field::new(
    "queues",
    Integer(1, MOST_QUEUES),
    "The largest number of transmit queues of each device that share the rate",
)
.default("one for each 2 Gbit/s");

pub(super) const OF_CIRCUITS: Table = Table::new(
    "[router.NAME.circuits]",
    "The circuits of a router",
    &[&OWN, &SITES, &ACCESS, &CORE, &RATE, &QUEUES],
);

/// Reads the files of the common list.
pub(super) fn common(root: &mut Reader<'_, '_>) -> Vec<Value<String>> {
    let Some(mut table) = root.table(CIRCUITS.name) else {
        return Vec::new();
    };
    let files = COMMON.get(&mut table).unwrap_or_default();
    some(&table, COMMON.name, &files);
    files
}

/// Rejects a list that is empty or too long.
fn some(table: &Reader<'_, '_>, key: &'static str, list: &[Value<String>]) {
    let empty = list.iter().find(|one| one.value.trim().is_empty());
    let (message, span) = match (list.get(MOST), empty) {
        (Some(one), _) => (format!("`{key}` lists more than {MOST}"), one.span.clone()),
        (_, Some(one)) => (format!("`{key}` lists an empty name"), one.span.clone()),
        _ if list.is_empty() && !table.problems().has_errors() => {
            (format!("the list `{key}` is empty"), table.span_of(key))
        }
        _ => return,
    };
    let hint = "name each, at least one";
    table.problems().error(codes::LIMIT, span, message, hint);
}

/// Reads the circuits of a router.
pub(super) fn of_router(router: &mut Reader<'_, '_>) -> Option<Circuits> {
    let mut table = router.table(OF_ROUTER.name)?;
    let position = Position {
        span: table.span(),
        line: table.line(),
    };
    let files = OWN.get(&mut table);
    let sites = SITES.get(&mut table);
    let access = device(&mut table, &ACCESS);
    let core = device(&mut table, &CORE);
    let rates = RATE.is_in(&mut table).then(|| RATE.get(&mut table));
    let queues = QUEUES.get(&mut table);
    let of = match (files, sites) {
        (Some(files), None) => {
            some(&table, OWN.name, &files);
            CircuitsOf::Files(files)
        }
        (None, Some(sites)) => {
            some(&table, SITES.name, &sites);
            CircuitsOf::Sites(sites)
        }
        (files, _) => {
            if !table.problems().has_errors() {
                let (message, span) = if files.is_some() {
                    (
                        "both `files` and `sites` are there",
                        table.span_of(SITES.name),
                    )
                } else {
                    ("neither `files` nor `sites` is there", table.span())
                };
                let hint = "write `files` for a list of its own, `sites` for a part of the \
                            domain's";
                table.problems().error(codes::EMPTY, span, message, hint);
            }
            CircuitsOf::Sites(Vec::new())
        }
    };
    if access.is_none() && core.is_none() && !table.problems().has_errors() {
        let hint = "write `access` for the device that sends to subscribers, `core` for the one \
                    that sends what comes from them";
        let message = "the circuits have neither `access` nor `core`";
        let span = table.span();
        table.problems().error(codes::EMPTY, span, message, hint);
    }
    Some(Circuits {
        of,
        access,
        core,
        rates: rates.flatten(),
        queues: queues.and_then(|queues| u32::try_from(queues).ok()),
        position,
    })
}

fn device(table: &mut Reader<'_, '_>, of: &Field<Text>) -> Option<Value<String>> {
    let name = of.get(table)?;
    field::device(table, &name).then_some(name)
}

/// Checks that a device has only one list and no policy, and that sites refer to the common
/// list.
pub(super) fn apart(domain: &Domain, root: &Reader<'_, '_>) {
    let ports = domain.ports();
    let mut used: BTreeSet<(&str, &str)> = ports
        .iter()
        .map(|port| (&*port.router, &*port.device))
        .inserted();
    for (name, own) in routers(&domain.routers) {
        for device in [&own.access, &own.core].into_iter().flatten() {
            if !used.insert((name, &device.value)) {
                let message = format!(
                    "device `{}` of router `{name}` is used already",
                    device.value
                );
                let hint = "a device has circuits or the port of a policy, and is `access` or \
                            `core`";
                error(root, codes::NAME, &device.span, &message, hint);
            }
        }
        if matches!(own.of, CircuitsOf::Sites(_)) && domain.circuits.is_empty() {
            let hint = "add a table `[circuits]` with the `files` of the list";
            let message = "there is no list that these sites are of";
            error(root, codes::UNKNOWN, &own.position.span, message, hint);
        }
    }
    let is_divided =
        routers(&domain.routers).any(|(_, own)| matches!(own.of, CircuitsOf::Sites(_)));
    if let (Some(first), false) = (domain.circuits.first(), is_divided) {
        let hint = "name `sites` in the `[router.NAME.circuits]` of each that has a part";
        let message = "no router has a part of this list";
        error(root, codes::EMPTY, &first.span, message, hint);
    }
}

/// Iterates over the routers that have circuits.
pub(super) fn routers(all: &BTreeMap<String, Router>) -> impl Iterator<Item = (&str, &Circuits)> {
    let own = all.iter();
    own.filter_map(|(name, router)| Some((&**name, router.circuits.as_ref()?)))
}

fn error(root: &Reader<'_, '_>, code: &'static str, span: &SourceSpan, message: &str, hint: &str) {
    root.problems().error(code, span.clone(), message, hint);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Services: named conditions that rules use. A library of services is in `policies/services`. A
//! policy's own service replaces a library service of the same name.

use crate::codes;
use crate::condition;
use crate::condition::facts::Conditions;
use crate::field::{self, Cell, FieldKind, Row, Table};
use crate::file::include::Env;
use crate::model::ServiceMatch;
use crate::named::group::{Groups, USABLE, usable};
use std::collections::BTreeMap;
use weirgate_document::{Problems, Reader, Value, did_you_mean};

/// The services of all files by name. A packet must match one of a service's conditions.
pub(crate) type Services = BTreeMap<String, Vec<Conditions>>;

macro_rules! library {
    ($($file:literal)*) => {
        /// The library: the path for `include`, and the text of each file.
        pub const LIBRARY: &[(&str, &str)] = &[$((
            concat!("services/", $file, ".toml"),
            include_str!(concat!("../../../../policies/services/", $file, ".toml")),
        )),*];
    };
}

library! {
    "behaviour" "chat" "dns" "ftp" "games" "mail" "p2p" "ping" "ssh" "tcp" "video" "voice"
    "vpn" "web"
}

/// The table `[service.NAME]`.
pub(crate) const TABLE: Table = Table {
    name: "service",
    about: "Conditions under one name",
    rows: &[&ROWS],
};

type ServiceRow = Row<Vec<Conditions>, Groups>;

const ROWS: &[ServiceRow] = &[
    ServiceRow::new(
        "about",
        FieldKind::Text("Telephones"),
        "What the service is",
        |cell, _| drop(cell.text()),
    ),
    ServiceRow::new(
        "match",
        FieldKind::Tables("match"),
        "One set of conditions that identifies the service",
        |cell, service| {
            *service = cell
                .tables()
                .into_iter()
                .map(|one| conditions(one, cell.context))
                .collect();
        },
    ),
];

/// Reads `[service.NAME]`.
pub(crate) fn read(
    name: &Value<String>,
    mut table: Reader<'_, '_>,
    groups: &Groups,
) -> Vec<Conditions> {
    let problems = table.problems();
    if !usable(&name.value) {
        let wrong = format!("`{}` cannot be the name of a service", name.value);
        problems.error(codes::SERVICE, name.span.clone(), wrong, USABLE);
    }
    let mut service = Vec::new();
    field::read(&mut table, ROWS, groups, &mut service);
    if !table.has("match") {
        problems.error(
            codes::SERVICE,
            table.span(),
            "this service has no conditions",
            format!("write them as `[[service.{}.match]]`", name.value),
        );
    }
    service
}

/// Reads `[[service.NAME.match]]`.
fn conditions(mut table: Reader<'_, '_>, groups: &Groups) -> Conditions {
    let when = condition::read(&mut table, groups);
    if !condition::has_any(&mut table, &when) {
        table.problems().error(
            codes::SERVICE,
            table.span(),
            "these conditions match every packet",
            "add a condition",
        );
    }
    when
}

/// Returns the services of the library.
pub(crate) fn shipped() -> Services {
    let problems = Problems::default();
    let mut all = Services::new();
    for (_, text) in LIBRARY {
        weirgate_document::parse(text, &problems, |mut root| {
            all.extend(tables(&mut root, &Groups::new()));
        });
    }
    all
}

/// Returns a description of each library service in one line, by name.
#[must_use]
pub fn described() -> BTreeMap<String, String> {
    let problems = Problems::default();
    let mut all = BTreeMap::new();
    for (_, text) in LIBRARY {
        weirgate_document::parse(text, &problems, |mut root| {
            let Some(mut table) = root.table(TABLE.name) else {
                return;
            };
            for name in table.keys() {
                let service = table.table_named(&name);
                let about = service.and_then(|mut one| one.text("about"));
                all.insert(
                    name.value,
                    about.map_or_else(String::new, |about| about.value),
                );
            }
        });
    }
    all
}

/// Returns the services of a file.
pub(crate) fn tables(root: &mut Reader<'_, '_>, groups: &Groups) -> Services {
    let Some(mut table) = root.table("service") else {
        return Services::new();
    };
    let mut all = Services::new();
    for name in table.keys() {
        if let Some(one) = table.table_named(&name) {
            let found = read(&name, one, groups);
            all.insert(name.value, found);
        }
    }
    all
}

/// Returns the conditions of the services that a rule names.
pub(crate) fn named(cell: &mut Cell<'_, '_, '_, Env>) -> Option<Vec<ServiceMatch>> {
    let (names, env) = (cell.texts(), cell.context);
    if names.is_empty() {
        cell.error(
            codes::CONTRADICTION,
            cell.table.span(),
            "the list `service` is empty, so nothing matches",
            "name at least one service, or leave `service` out",
        );
    }
    let mut found = Vec::new();
    for name in names {
        if let Some(one) = env.services.get(&name.value) {
            found.extend(one.iter().map(|when| ServiceMatch {
                service: name.value.clone(),
                when: when.clone(),
            }));
            continue;
        }
        let known = || env.services.keys().map(String::as_str);
        let hint = did_you_mean(&name.value, known(), || {
            format!(
                "the services are {}",
                known().collect::<Vec<_>>().join(", ")
            )
        });
        let wrong = format!("there is no service `{}`", name.value);
        cell.error(codes::SERVICE, name.span, wrong, hint);
    }
    (!found.is_empty()).then_some(found)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a domain file to a checked [`Domain`], and reports all problems in one run.

mod circuits;
mod customer;
mod field;
mod service;
mod topology;

use crate::codes;
use crate::{Behaviour, Class, Domain, Position};
use std::collections::BTreeMap;
use weirgate_document::registry::{Field, Own, Table, Text};
use weirgate_document::{Problem, Problems, Reader, SourceSpan};
use weirgate_units::Share;

/// The only version of the format so far.
const VERSION: i64 = 1;

/// The largest number of classes: one for each behaviour (`Behaviour::ALL`).
const MOST_CLASSES: usize = Behaviour::ALL.len();

/// The total of all shares in millionths.
const WHOLE: u64 = 1_000_000;

const FORMAT: Field<Own> =
    Field::new("version", Own("1"), "The version of this format").required("write `version = 1`");
const CLASS: Field<Own> = Field::new(
    "class",
    Own("a table for each name"),
    "The classes of every port. A domain whose routers have only circuits has no classes and no \
     customers",
)
.required("add a table `[class.NAME]`");

const FILE: Table = Table::new(
    "the file",
    "The head of the file, and its tables",
    &[
        &FORMAT,
        &circuits::CIRCUITS,
        &topology::ROUTER,
        &topology::LINK,
        &CLASS,
        &customer::CUSTOMER,
        &service::SERVICE,
    ],
);

const BEHAVIOUR: Field<Text> = Field::new(
    "behaviour",
    Text,
    "`EF`, `AF1` to `AF4`, `CS1` to `CS7`, `RT` and `NRT` \
     ([DRT](../conditioners.md#urgency-and-importance)), `DF` or `LE`; each at most once; `DF` is \
     required",
)
.required("name it: EF, AF1 to AF4, CS1 to CS7, RT, NRT, DF or LE");
const SHARE: Field<Own> = Field::new(
    "share",
    Own("percentage"),
    "The class's share of each port; for `EF` also its largest share. Required except for `LE`",
);

const OF_CLASS: Table = Table::new("[class.NAME]", "A class", &[&BEHAVIOUR, &SHARE]);

/// Every table of a domain file, for the reference.
pub const TABLES: &[Table] = &[
    FILE,
    circuits::OF_LIST,
    topology::OF_ROUTER,
    circuits::OF_CIRCUITS,
    topology::OF_LINK,
    OF_CLASS,
    customer::OF_CUSTOMER,
    service::OF_SERVICE,
];

/// The span for problems that concern the whole file.
const TOP: SourceSpan = 0..0;

/// Parses a domain file. The domain is returned if no problem is an error.
#[must_use]
pub fn parse(source: &str) -> (Option<Domain>, Vec<Problem>) {
    let problems = Problems::default();
    let domain = weirgate_document::parse(source, &problems, |mut root| read(&mut root));
    let domain = domain.filter(|_| !problems.has_errors());
    (domain, problems.into_sorted())
}

fn read(root: &mut Reader<'_, '_>) -> Option<Domain> {
    version(root);
    let circuits = circuits::common(root);
    let routers = topology::routers(root);
    let links = topology::links(root, &routers);
    let is_topology_sound = !root.problems().has_errors();
    // Routers with only circuits have no ports.
    let parts = [
        CLASS.name,
        customer::CUSTOMER.name,
        topology::LINK.name,
        service::SERVICE.name,
    ];
    let has_ports = circuits::routers(&routers).next().is_none()
        || parts.into_iter().any(|part| root.has(part));
    let (mut classes, mut customers, mut names) = Default::default();
    if has_ports {
        classes = self::classes(root);
        (customers, names) = customer::customers(root, &routers, &links);
    }
    let services = service::services(root, &names, &classes);
    let mut domain = Domain {
        circuits,
        routers,
        links,
        classes,
        customers,
        services,
    };
    // What services select and where customers are is compared only if all of it could be read.
    if !root.problems().has_errors() {
        crate::contract::settle_smallest(&mut domain);
        service::apart(&domain, root.problems());
        service::of_one_version(&domain, root.problems());
    }
    if !is_topology_sound {
        return None;
    }
    circuits::apart(&domain, root);
    let known = |name: &String| domain.customers.contains_key(name);
    for (service, path) in domain.services.iter().zip(domain.paths()) {
        if path.is_none() && known(&service.from) && known(&service.to) {
            let message = format!(
                "there is no way from `{}` to `{}`",
                service.from, service.to
            );
            let hint = "join their routers by links";
            let span = service.position.span.clone();
            root.problems().error(codes::PATH, span, message, hint);
        }
    }
    Some(domain)
}

fn version(root: &mut Reader<'_, '_>) {
    if !FORMAT.is_there(root) {
        return;
    }
    let Some(version) = root.integer(FORMAT.name, 0..=i64::MAX) else {
        return;
    };
    if version.value != VERSION {
        let message = format!(
            "version {} of the format is not known to this weirgate",
            version.value
        );
        let hint = "write `version = 1`";
        root.problems()
            .error(codes::VERSION, version.span, message, hint);
    }
}

fn classes(root: &mut Reader<'_, '_>) -> BTreeMap<String, Class> {
    let mut classes = BTreeMap::new();
    let mut used: BTreeMap<Behaviour, String> = BTreeMap::new();
    let mut sum: u64 = 0;
    for (name, mut table) in field::named_tables(root, &CLASS, MOST_CLASSES) {
        let behaviour = behaviour(&mut table);
        let share = table.parsed::<Share>(SHARE.name);
        let stated = SHARE.is_in(&mut table);
        let Some(behaviour) = behaviour else { continue };
        if let Some(other) = used.insert(behaviour, name.value.clone()) {
            let message = format!("class `{other}` has the behaviour {behaviour} already");
            let hint = "give each behaviour one class";
            let span = table.span_of(BEHAVIOUR.name);
            table.problems().error(codes::NAME, span, message, hint);
        }
        let none = behaviour == Behaviour::LowerEffort;
        if none && stated {
            let hint = "take `share` away: lower effort has what others leave";
            let message = "lower effort has no share";
            let span = table.span_of(SHARE.name);
            table.problems().error(codes::SHARE, span, message, hint);
        }
        if !none && !stated {
            table.missing::<()>(
                SHARE.name,
                "give its part of each port, such as `share = \"20%\"`",
            );
        }
        if let Some(share) = &share {
            sum += u64::from(share.value.as_millionths());
            if share.value.as_millionths() == 0 || sum > WHOLE {
                let message = if sum > WHOLE {
                    format!(
                        "the shares up to here sum to {}",
                        Share::millionths(u32::try_from(sum).unwrap_or(u32::MAX))
                    )
                } else {
                    "a share of 0 guarantees nothing".to_owned()
                };
                let hint = "write shares above 0 that sum to 100% at most";
                let span = share.span.clone();
                table.problems().error(codes::SHARE, span, message, hint);
            }
        }
        let position = Position {
            span: name.span.clone(),
            line: name.line,
        };
        let class = Class {
            behaviour,
            share: share.map(|share| share.value),
            position,
        };
        classes.insert(name.value, class);
    }
    if !used.contains_key(&Behaviour::Default) {
        let hint = "add a class with `behaviour = \"DF\"`";
        let message = "no class has the default behaviour";
        root.problems().error(codes::EMPTY, TOP, message, hint);
    }
    classes
}

fn behaviour(table: &mut Reader<'_, '_>) -> Option<Behaviour> {
    let text = BEHAVIOUR.get(table)?;
    let found = Behaviour::named(&text.value);
    if found.is_none() {
        let message = format!("`{}` is not a behaviour", text.value);
        let hint = "name it: EF, AF1 to AF4, CS1 to CS7, RT, NRT, DF or LE";
        table
            .problems()
            .error(codes::WORD, text.span, message, hint);
    }
    found
}

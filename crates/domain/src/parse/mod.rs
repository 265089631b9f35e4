// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a domain file to a checked [`Domain`], and reports all problems in one run.

mod circuits;
mod class;
mod customer;
mod field;
mod service;
mod topology;

use crate::Domain;
use crate::codes;
use weirgate_document::registry::{Field, Own, Table};
use weirgate_document::{Problem, Problems, Reader, SourceSpan};

/// The only version of the format so far.
const VERSION: i64 = 1;

const FORMAT: Field<Own> =
    Field::new("version", Own("1"), "The version of this format").required("write `version = 1`");
const FILE: Table = Table::new(
    "the file",
    "The head of the file, and its tables",
    &[
        &FORMAT,
        &circuits::CIRCUITS,
        &topology::ROUTER,
        &topology::LINK,
        &class::CLASS,
        &customer::CUSTOMER,
        &service::SERVICE,
    ],
);

/// Every table of a domain file, for the reference.
pub const TABLES: &[Table] = &[
    FILE,
    circuits::OF_LIST,
    topology::OF_ROUTER,
    circuits::OF_CIRCUITS,
    topology::OF_LINK,
    class::OF_CLASS,
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
        class::CLASS.name,
        customer::CUSTOMER.name,
        topology::LINK.name,
        service::SERVICE.name,
    ];
    let has_ports = circuits::routers(&routers).next().is_none()
        || parts.into_iter().any(|part| root.has(part));
    let (mut classes, mut customers, mut names) = Default::default();
    if has_ports {
        classes = class::classes(root);
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

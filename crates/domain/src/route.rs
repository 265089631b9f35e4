// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of a domain, and those that a service's packets pass.

use crate::model::Layer;
use crate::{Domain, Service};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::{Inserted as _, Rate, Span};

/// The index of a port: a device of a router through which packets leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub usize);

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The router.
    pub router: String,
    /// Its device.
    pub device: String,
    /// The router or customer at the other end of the line.
    pub towards: String,
    /// The rate of the line in this direction.
    pub rate: Rate,
    /// The link layer.
    pub layer: Layer,
    /// The propagation delay.
    pub delay: Span,
}

/// The ports by which a service's packets leave routers, from boundary to boundary.
pub type Path = Vec<PortId>;

impl Domain {
    /// Returns every port: both of each link, in the order of the links, then that of the
    /// boundary router for each customer.
    #[must_use]
    pub fn ports(&self) -> Vec<Port> {
        let ends = self.links.iter().flat_map(|link| {
            [0, 1].map(|end| Port {
                router: link.between[end].clone(),
                device: link.devices[end].clone(),
                towards: link.between[1 - end].clone(),
                rate: link.rates[end],
                layer: link.layer.clone(),
                delay: link.delay,
            })
        });
        let accesses = self.customers.iter().map(|(name, customer)| Port {
            router: customer.router.clone(),
            device: customer.device.clone(),
            towards: name.clone(),
            rate: customer.rate,
            layer: customer.layer.clone(),
            delay: customer.delay,
        });
        ends.chain(accesses).collect()
    }

    /// Returns the path of every service, in the order of the services; `None` if there is none.
    /// It is the path with the smallest propagation delay, then with the fewest links, then the
    /// first by the routers' names. Shortest-path routing with these costs gives the same
    /// result.
    #[must_use]
    pub fn paths(&self) -> Vec<Option<Path>> {
        let ports = self.ports();
        let mut trees: BTreeMap<&str, BTreeMap<&str, Path>> = BTreeMap::new();
        let path = |service: &Service| {
            let from = self.customers.get(&service.from)?;
            let to = self.customers.get(&service.to)?;
            let tree = trees
                .entry(&from.router)
                .or_insert_with(|| self.tree(&ports, &from.router));
            let mut path = tree.get(to.router.as_str())?.clone();
            let position = self.customers.keys().position(|name| *name == service.to)?;
            path.push(PortId(self.links.len() * 2 + position));
            Some(path)
        };
        self.services.iter().map(path).collect()
    }

    /// Returns, for every reachable router, the port through which packets for it leave this
    /// one.
    #[must_use]
    pub fn first_ports(&self, router: &str) -> BTreeMap<String, PortId> {
        let ports = self.ports();
        let tree = self.tree(&ports, router);
        let first = tree
            .iter()
            .filter_map(|(to, path)| Some(((*to).to_owned(), *path.first()?)));
        first.inserted()
    }

    /// Returns the best path from a router to every other one (Dijkstra).
    fn tree<'d>(&'d self, ports: &'d [Port], from: &'d str) -> BTreeMap<&'d str, Path> {
        let mut done: BTreeMap<&str, Path> = BTreeMap::new();
        let mut open = BTreeSet::from([(Span::ZERO, 0_usize, vec![from], Path::new())]);
        while let Some((time, count, routers, path)) = open.pop_first() {
            let Some(here) = routers.last().copied() else {
                continue;
            };
            if done.contains_key(here) {
                continue;
            }
            done.insert(here, path.clone());
            let between = ports.iter().enumerate().take(self.links.len() * 2);
            for (number, port) in between {
                if port.router != here || done.contains_key(port.towards.as_str()) {
                    continue;
                }
                let mut further = routers.clone();
                further.push(&port.towards);
                let mut path = path.clone();
                path.push(PortId(number));
                open.insert((time + port.delay, count + 1, further, path));
            }
        }
        done
    }
}

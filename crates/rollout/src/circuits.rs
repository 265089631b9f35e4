// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The circuit lists that a domain file names: reads and checks all of them together, and writes
//! each router's part in the form that `weirgate circuits apply` reads.

use crate::part::Texts;
use serde_json::json;
use std::path::{Path, PathBuf};
use weirgate_circuits::kept::{Port, Ports};
use weirgate_circuits::{Direction, File, List, Listed, Share, read_several};
use weirgate_console::exit::Failure;
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::source::{LARGEST_LIST, judge_list, read_up_to};
use weirgate_document::Value;
use weirgate_domain::{Circuits, CircuitsOf, Domain, Router};
use weirgate_units::Inserted as _;

/// The circuits of routers.
pub struct Lists {
    /// Routers with circuits: the name, the devices, the list.
    all: Vec<(String, Ports, List)>,
    /// Routers that should have no circuits.
    none: Vec<String>,
}

/// Reads the lists of a domain, whose file is at `path` and has this text. Prints warnings.
///
/// # Errors
/// If a file cannot be read or has mistakes; every problem is reported.
pub fn lists(path: &Path, text: &str, domain: &Domain) -> Result<Lists, Failure> {
    let own = || {
        let all = domain.routers.iter();
        all.filter_map(|(name, router)| Some((&**name, router.circuits.as_ref()?)))
    };
    let none = |(name, router): (&String, &Router)| {
        let is_free = router.circuits.is_none() && !router.other_circuits;
        is_free.then(|| name.clone())
    };
    let none: Vec<String> = domain.routers.iter().filter_map(none).collect();
    if own().next().is_none() {
        let all = Vec::new();
        return Ok(Lists { all, none });
    }
    let mut files = Files {
        folder: path.parent().unwrap_or(Path::new("")),
        texts: vec![(path.to_owned(), text.to_owned())],
    };
    let mut common = Vec::new();
    let mut listed = Vec::new();
    for (router, circuits) in own() {
        match &circuits.of {
            CircuitsOf::Files(paths) => listed.push(Listed {
                files: files.read(paths)?,
                shares: vec![Share {
                    router,
                    sites: None,
                }],
            }),
            CircuitsOf::Sites(sites) => {
                let sites = sites.iter();
                let sites = sites.map(|site| (&*site.value, site.span.clone()));
                common.push(Share {
                    router,
                    sites: Some(sites.collect()),
                });
            }
        }
    }
    if !common.is_empty() {
        listed.push(Listed {
            files: files.read(&domain.circuits)?,
            shares: common,
        });
    }
    let named: Vec<(String, &str)> = files
        .texts
        .iter()
        .map(|(path, text)| (path.display().to_string(), &**text))
        .collect();
    let named: Vec<File<'_>> = named
        .iter()
        .map(|(name, text)| File { name, text })
        .collect();
    let several = read_several(&named, &listed);
    let problems = several.problems.iter();
    let problems = problems.map(|one| (one.problem.severity, one.to_string()));
    let lists = judge_list(problems, several.lists)?;
    let shares = listed.iter().flat_map(|one| &one.shares);
    let all = shares.zip(lists).filter_map(|(share, list)| {
        let router = domain.routers.get(share.router)?;
        let ports = ports(router.circuits.as_ref()?, !router.other_circuits);
        Some((share.router.to_owned(), ports, list))
    });
    let all = all.collect();
    Ok(Lists { all, none })
}

impl Lists {
    /// Prints the circuits of each router, or puts them into the document.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn show(&self, document: &Document) -> Result<(), Failure> {
        if document.is_wanted() {
            document.put("circuits", self.json());
            return Ok(());
        }
        for (router, ports, list) in &self.all {
            let devices = ports.ports.iter().map(|port| &*port.device);
            let devices: Vec<&str> = devices.collect();
            output::text(&format!(
                "{router}: {} below {} at {}",
                output::count(list.circuits.len(), "circuit"),
                output::count(list.sites.len(), "site"),
                devices.join(" and ")
            ))?;
        }
        for router in self.none.iter().filter(|_| !self.all.is_empty()) {
            output::text(&format!(
                "{router}: no circuits; `apply` removes those that it has"
            ))?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let all = self.all.iter().map(|(router, ports, list)| {
            let devices = ports.ports.iter().map(|port| &*port.device);
            json!({
                "router": router,
                "circuits": list.circuits.len(),
                "sites": list.sites.len(),
                "devices": devices.collect::<serde_json::Value>(),
            })
        });
        all.collect()
    }

    /// Returns the input of `weirgate circuits apply -` for each router.
    pub fn texts(&self) -> Texts {
        let all = self.all.iter();
        let all = all.map(|(router, ports, list)| (router.clone(), ports.write(list)));
        let none = self.none.iter();
        let none = none.map(|router| (router.clone(), Ports::NONE.to_owned()));
        all.chain(none).inserted()
    }
}

/// Returns the devices of a router, and whether they are the only ones.
fn ports(circuits: &Circuits, only: bool) -> Ports {
    let rates = circuits.rates;
    let port = |device: &Value<String>, direction, link| Port {
        device: device.value.clone(),
        direction,
        link,
        queues: circuits.queues,
    };
    let access = circuits.access.iter();
    let access = access.map(|device| port(device, Direction::Down, rates.map(|[down, _]| down)));
    let core = circuits.core.iter();
    let core = core.map(|device| port(device, Direction::Up, rates.map(|[_, up]| up)));
    let ports = access.chain(core).collect();
    Ports { ports, only }
}

/// Files that were read, each once.
struct Files<'p> {
    /// The folder to which their paths are relative.
    folder: &'p Path,
    texts: Vec<(PathBuf, String)>,
}

impl Files<'_> {
    /// Returns the numbers of these files.
    fn read(&mut self, paths: &[Value<String>]) -> Result<Vec<usize>, Failure> {
        let mut numbers = Vec::new();
        for path in paths {
            let path = self.folder.join(&path.value);
            let known = self.texts.iter().position(|(other, _)| *other == path);
            let number = if let Some(number) = known {
                number
            } else {
                let text = read_up_to(&path, LARGEST_LIST)?;
                self.texts.push((path, text));
                self.texts.len() - 1
            };
            // The domain file itself is not a list.
            if number > 0 && !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }
}

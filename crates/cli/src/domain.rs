// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain`: several routers as one DiffServ domain.

use crate::exit::{Failure, Outcome, Status};
use crate::{output, source};
use clap::Subcommand;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_domain::{Check, Domain, PortId, Report};

/// What can be done with a domain.
#[derive(Subcommand)]
pub enum Command {
    /// Say what every port carries and how long every service takes at worst.
    ///
    /// Exit status 1 if something that is promised cannot be kept; then with the smallest changes
    /// that would each be enough.
    Check {
        /// The domain file.
        domain: PathBuf,
    },
    /// Write the policy of each port of each router into a folder.
    ///
    /// Only if everything that is promised can be kept.
    Policies {
        /// The domain file.
        domain: PathBuf,
        /// The folder; each router gets one in it, with a file for each of its devices.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
}

/// Runs one of them.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Check { domain } => check(domain),
        Command::Policies { domain, out } => policies(domain, out),
    }
}

fn read(path: &Path) -> Result<(Domain, Check), Failure> {
    let domain = source::parse(path, &source::read(path)?, weirgate_domain::parse)?;
    let check = weirgate_domain::check(&domain);
    Ok((domain, check))
}

fn check(path: &Path) -> Outcome {
    let (domain, check) = read(path)?;
    let report = Report {
        domain: &domain,
        check: &check,
    };
    output::text(&report.to_string())?;
    Ok(if check.findings.is_empty() {
        Status::Done
    } else {
        Status::Differs
    })
}

fn policies(path: &Path, out: &Path) -> Outcome {
    let (domain, check) = read(path)?;
    if !check.findings.is_empty() {
        let report = Report {
            domain: &domain,
            check: &check,
        };
        output::note(&report.to_string());
        return Ok(Status::Differs);
    }
    for (number, port) in check.ports.iter().enumerate() {
        let mut text =
            weirgate_domain::policy_text(&domain, port, &bursts(&domain, &check, number));
        text += &weirgate_domain::conditioners(&domain, &check, PortId(number));
        let folder = out.join(&port.router);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{}.toml", port.device)), text)?;
    }
    output::text(&format!(
        "{} policies in {}",
        check.ports.len(),
        out.display()
    ))?;
    Ok(Status::Done)
}

/// What may come to a port at once in each class, in wire bytes.
fn bursts(domain: &Domain, check: &Check, port: usize) -> BTreeMap<String, u64> {
    let mut bursts: BTreeMap<String, u64> = BTreeMap::new();
    for (service, delay) in domain.services.iter().zip(&check.delays) {
        let hops = delay.iter().flat_map(|delay| &delay.hops);
        for hop in hops.filter(|hop| hop.port == PortId(port)) {
            *bursts.entry(service.class.clone()).or_default() += hop.burst;
        }
    }
    bursts
}

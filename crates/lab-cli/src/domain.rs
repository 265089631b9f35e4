// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab domain try`: tries the whole domain in the lab's machine, before any router is
//! changed. This program packs itself, `weirgate` and the domain file into the machine. In the
//! machine it runs as `domain inside`: it makes a namespace of every router and customer, has
//! `weirgate` apply the domain, and measures the promises. Lists of circuits are read here and
//! packed in the form that routers get.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::{output, source, time};
use weirgate_domain::Domain;
use weirgate_lab::{Limits, Options, prepare};
use weirgate_rollout::part::{Parts, parts};
use weirgate_rollout::ssh::Ssh;
use weirgate_rollout::verify::{self, Settings};
use weirgate_rollout::{Sound, apply, namespaces, sound, whole};
use weirgate_units::Rate;

/// The path of the domain file in the machine.
const FILE: &str = "/domain.toml";

/// The path of the verification record in the machine; nothing reads it.
const RECORD: &str = "/run/verified.json";

/// The confirmation time, after which a router would restore its old state. It is long, because
/// everything takes longer in the machine than on a router.
const CONFIRM: Duration = Duration::from_mins(10);

/// Subcommands that deal with a domain.
#[derive(Subcommand)]
pub enum Command {
    /// Try the domain in a virtual machine: apply it there and measure its promises.
    ///
    /// Every router and customer is a network namespace of a stock kernel, with the links and their
    /// delays. Nothing on this machine changes, and no router is contacted. Time there is virtual,
    /// so that a slow machine measures what a fast one does. Circuits come into force and are read
    /// back, but no traffic passes them, because there are no subscribers. Exit status 1 if a
    /// promise is broken or a list is not in force.
    Try {
        /// The domain file.
        domain: PathBuf,
        #[command(flatten)]
        arguments: Arguments,
    },
    /// The part of `try` in the machine.
    #[command(hide = true)]
    Inside {
        /// The domain file.
        domain: PathBuf,
        /// Make the namespaces only.
        #[arg(long)]
        only_build: bool,
        #[command(flatten)]
        measure: Measure,
    },
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Try {
            domain: path,
            arguments,
        } => match whole(path, &Document::none())? {
            Some((domain, _, parts)) => boot(&domain, &source::read(path)?, &parts, arguments),
            None => Ok(Status::Differs),
        },
        Command::Inside {
            domain,
            only_build,
            measure,
        } => match sound(domain)? {
            Some(all) => inside(all, (!only_build).then_some(measure)),
            None => Ok(Status::Differs),
        },
    }
}

/// What is measured.
#[derive(Args)]
pub struct Measure {
    /// How long the traffic is sent.
    #[arg(long, value_name = "TIME", value_parser = time::duration, default_value = "5s")]
    time: Duration,
    /// Also send best-effort traffic of this rate between the same customers.
    #[arg(long, value_name = "RATE")]
    beside: Option<Rate>,
}

/// Arguments of `try`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    measure: Measure,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules.
    #[arg(long)]
    kernel: Option<weirgate_lab::KernelChoice>,
    /// Wall-clock limit, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    limit: u64,
}

/// Boots the machine with the domain file, and prints its output.
fn boot(domain: &Domain, text: &str, parts: &Parts, arguments: &Arguments) -> Outcome {
    // Report here what is left out in the machine.
    namespaces::settle(&mut domain.clone())?;
    let own = std::env::current_exe()?;
    let name = own.file_name().unwrap_or_default().to_string_lossy();
    let time = format!("{}ms", arguments.measure.time.as_millis());
    let mut words = vec![&*name, "domain", "inside", FILE, "--time", &time];
    let beside = arguments.measure.beside.map(|rate| rate.to_string());
    if let Some(rate) = &beside {
        words.extend(["--beside", rate]);
    }
    // The program of routers and customers, from this program's folder or from PATH.
    let beside = own.with_file_name("weirgate");
    let router = if beside.is_file() {
        beside.to_string_lossy().into_owned()
    } else {
        "weirgate".to_owned()
    };
    let programs = ["ip", "tc", "sysctl"].map(str::to_owned).into_iter();
    let options = Options {
        kernel: arguments.kernel.clone(),
        programs: programs
            .chain([own.to_string_lossy().into_owned(), router])
            .collect::<BTreeSet<_>>(),
        ..Options::default()
    };
    let lab = prepare(&options, false, &mut |note| output::note(note)).map_err(|e| anyhow!(e))?;
    let limits = Limits {
        wall: Duration::from_secs(arguments.limit),
        memory_mib: memory(domain, parts),
        ..Limits::default()
    };
    let lists = parts.iter().filter(|(part, _)| part.is_circuits);
    let lists: Vec<_> = lists
        .map(|(part, text)| (list(&part.router), text))
        .collect();
    let lists = lists.iter().map(|(path, text)| (&**path, text.as_bytes()));
    let files: Vec<(&str, &[u8])> = [(FILE, text.as_bytes())].into_iter().chain(lists).collect();
    let output = lab
        .execute(&words, &files, (1, limits), &mut |step| {
            output::note(&step.what);
        })
        .map_err(anyhow::Error::from)?;
    let text = String::from_utf8_lossy(&output.result).into_owned();
    let (status, message) = text.split_once('\n').unwrap_or((&text, ""));
    let status = match status {
        "status: 0" => Status::Done,
        "status: 1" => Status::Differs,
        _ => return Err(Failure::Other(anyhow!("{}", message.trim_end()))),
    };
    output::data(&format!("kernel {}\n{}", output.kernel, message.trim_end()))?;
    Ok(status)
}

/// Returns the path of a router's list in the machine. Names of routers have no dots.
fn list(router: &str) -> String {
    format!("/{router}.circuits")
}

/// Returns the machine's memory in MiB. It starts a program for each customer and router at once,
/// each of 8 MiB besides shared memory. A device with circuits takes 64 MiB, and 32 times the size
/// of its list as text.
fn memory(domain: &Domain, parts: &Parts) -> u32 {
    let processes = domain.routers.len() + domain.customers.len();
    let lists = parts.iter().filter(|(part, _)| part.is_circuits);
    let lists = lists.map(|(part, text)| {
        let router = domain.routers.get(&part.router);
        let own = router.and_then(|router| router.circuits.as_ref());
        let devices = own.map_or(0, |own| {
            usize::from(own.access.is_some()) + usize::from(own.core.is_some())
        });
        devices * (64 + 32 * text.len() / (1 << 20))
    });
    let all = 512 + 8 * processes + lists.sum::<usize>();
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// Reports progress to the program outside the machine.
fn tell(what: &str) {
    let console = fs::File::options().write(true).open("/dev/console");
    // Ignore a missing console: then nothing shows progress.
    let _ = console.and_then(|mut console| writeln!(console, "@progress 0 0 {what}"));
}

/// Runs inside the machine: builds the domain, and unless `measure` is absent, applies and measures
/// it.
fn inside((mut domain, check, texts): Sound, measure: Option<&Measure>) -> Outcome {
    namespaces::settle(&mut domain)?;
    let Some(measure) = measure else {
        namespaces::build(&domain)?;
        return Ok(Status::Done);
    };
    tell(&format!(
        "building {} routers and {} customers",
        domain.routers.len(),
        domain.customers.len()
    ));
    namespaces::build(&domain)?;
    let own = domain.routers.iter();
    let own = own.filter(|(_, router)| router.circuits.is_some());
    let lists: BTreeMap<String, String> = own
        .map(|(name, _)| Ok((name.clone(), fs::read_to_string(list(name))?)))
        .collect::<std::io::Result<_>>()?;
    tell("applying the routers' policies and circuits");
    let ssh = Ssh::namespaces();
    let has_circuits = !lists.is_empty();
    let parts = parts(texts, lists);
    let none = Document::none();
    match apply::apply(&domain, &parts, &ssh, (CONFIRM, false), &none)? {
        Status::Done => (),
        Status::Differs => return Ok(Status::Differs),
    }
    tell(&format!("measuring {} services", domain.services.len()));
    let settings = Settings {
        time: measure.time,
        beside: measure.beside,
        ask: true,
        record: Path::new(RECORD),
        history: None,
    };
    let found = verify::run(&domain, &check, &parts, &ssh, &settings, &none)?;
    if has_circuits {
        output::data(
            "Circuits came into force here and were read back. What they carry is not measured: \
             no subscribers are here.",
        )?;
    }
    Ok(found)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate links`: routes over several links of one site.

use crate::keep::{pulse, ready};
use crate::metrics::legend::legend;
use crate::policy::apply::{asked, ended, refused, site, unread};
use crate::policy::plan::put;
use clap::Subcommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weirgate_bpf::most_capabilities;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::{Document, documented};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::runtime::in_runtime;
use weirgate_console::source;
use weirgate_console::time::{self, calendar};
use weirgate_keep::{
    AppliedLinks, Folders, LinkNow, LinkReport, LinksNow, PlannedLinks, Site, Source, hold_links,
};
use weirgate_kernel::{Kernel, checks_sources};
use weirgate_links::{Links, parse};
use weirgate_plan::plan_routing;
use weirgate_policy::{Policy, in_kbit};
use weirgate_state::DeviceName;
use weirgate_units::Rate;
use weirgate_watch::{ClassLegend, Legend, SiteLink, Sorter};

/// The default file of links.
const FILE: &str = "/etc/weirgate/links.toml";

/// What can be done with several links.
#[derive(Subcommand)]
pub enum Command {
    /// Check the file; print what each link is for, and what prevents it on this machine.
    ///
    /// Changes nothing and contacts no host. Exit status 1 if something prevents the use of a link.
    Check {
        /// The file of links.
        #[arg(default_value = FILE)]
        file: PathBuf,
        /// The policies of the links.
        #[arg(long, value_name = "FILE", default_value = policy::SITE)]
        policy: PathBuf,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show what `apply` would change.
    ///
    /// Changes nothing. Exit status 1 if something would change.
    Plan {
        /// The file of links.
        #[arg(default_value = FILE)]
        file: PathBuf,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Route over all links whose devices exist, and store the file as the applied one.
    ///
    /// Probes no host; a link that `run` found dead is left out. Changes weirgate's own routing
    /// tables, rules and table of marks, and reads them back. `run` continues with the new links.
    /// Needs CAP_NET_ADMIN.
    Apply {
        /// The file of links.
        #[arg(default_value = FILE)]
        file: PathBuf,
        /// Return to the previous state after this time, unless `weirgate confirm` comes
        /// first.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<Duration>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Probe the links through the named hosts, and route over those that are up, until SIGTERM.
    ///
    /// When other links are applied, confirmed or rolled back, it continues with those. The routing
    /// stays when it ends; `remove` removes it. Needs CAP_NET_ADMIN, and CAP_NET_RAW to probe
    /// hosts.
    Run {
        /// The file of links; without it, the applied links, else /etc/weirgate/links.toml.
        file: Option<PathBuf>,
    },
    /// Show which links are up, since when and why.
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove all routing over several links.
    ///
    /// Removes weirgate's own routing tables, rules and table of marks, and nothing else. Needs
    /// CAP_NET_ADMIN.
    Remove {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(state: &Path, command: &Command) -> Outcome {
    match command {
        Command::Check { file, policy, json } => {
            documented(*json, |document| check(file, policy, document))
        }
        Command::Plan { file, json } => documented(*json, |document| plan(state, file, document)),
        Command::Apply {
            file,
            confirm,
            json,
        } => documented(*json, |document| apply(state, file, *confirm, document)),
        Command::Run { file } => hold(state, file.as_deref()),
        Command::Show { json } => show(state, *json),
        Command::Remove { json } => documented(*json, |document| remove(state, document)),
    }
}

fn read(file: &Path) -> Result<(Links, Source), Failure> {
    let text = source::read(file)?;
    let links = source::parse(file, &text, parse)?;
    let path = file.display().to_string();
    Ok((links, Source { path, text }))
}

fn open() -> Result<Kernel, Failure> {
    Kernel::open().map_err(|error| refused(error.into()))
}

fn folders(state: &Path) -> Result<Folders, Failure> {
    Folders::here(state).map_err(refused)
}

fn apply(state: &Path, file: &Path, confirm: Option<Duration>, document: &Document) -> Outcome {
    let read = read(file)?;
    in_runtime(async { make(&site(state)?, Some(read), confirm, document).await })
}

fn remove(state: &Path, document: &Document) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let _held = site.links_unheld().await.map_err(refused)?;
        make(&site, None, None, document).await
    })
}

/// Describes a change of links, makes it and prints the result.
async fn make(
    site: &Site,
    links: Option<(Links, Source)>,
    confirm: Option<Duration>,
    document: &Document,
) -> Outcome {
    let _later = output::later();
    let lock = site.lock().await.map_err(refused)?;
    site.nothing_waits().map_err(refused)?;
    let planned = planned(site, links).await?;
    describe(&planned, document)?;
    let made = site.apply_links(&lock, planned, confirm).await;
    ended(&made.map_err(refused)?, confirm, document);
    Ok(Status::Done)
}

async fn planned(site: &Site, links: Option<(Links, Source)>) -> Result<PlannedLinks, Failure> {
    let links = links.as_ref().map(|(links, file)| (links, file.clone()));
    site.plan_links(links).await.map_err(refused)
}

fn describe(planned: &PlannedLinks, document: &Document) -> Result<(), Failure> {
    put(document, Some(planned), None);
    if document.is_wanted() {
        return Ok(());
    }
    if planned.steps.is_empty() {
        output::data("nothing to change")?;
    }
    for step in &planned.steps {
        output::data(&step.to_string())?;
    }
    Ok(())
}

fn check(file: &Path, policy: &Path, document: &Document) -> Outcome {
    let (links, _) = read(file)?;
    let policies = if policy.exists() {
        let loaded = policy::read(policy)?;
        // All links are shaped at the same time.
        loaded.compile(&most_capabilities())?;
        loaded.policies().to_vec()
    } else {
        output::note(&format!(
            "weirgate: {}: there is no such file: no link is shaped",
            policy.display()
        ));
        Vec::new()
    };
    let mut wrong = Vec::new();
    for (number, link) in links.links.iter().enumerate() {
        let own = policies
            .iter()
            .find(|policy| policy.link.device.value == link.device);
        if document.is_wanted() {
            document.add("links", link_value(&links, number, own));
        } else {
            output::data(&described(&links, number, own))?;
        }
        if own.is_none() && !policies.is_empty() {
            wrong.push(format!(
                "{}: no policy has the device {}: packets that leave through it are not shaped",
                link.name, link.device
            ));
        }
        if link.probe.is_empty() {
            wrong.push(format!(
                "{}: no host is probed: only its carrier shows that it is dead; add `probe`",
                link.name
            ));
        }
        if checks_sources(&link.device) {
            wrong.push(format!(
                "{}: the kernel drops packets that arrive through any link but the first: write \
                 2 to net.ipv4.conf.{}.rp_filter and to that of `all`",
                link.name, link.device
            ));
        }
    }
    let bits = |policy: &Policy| {
        let inside = policy
            .marks
            .inside
            .as_ref()
            .map_or(0, |inside| inside.value);
        policy.marks.decisions | policy.marks.payload() | policy.marks.control_groups | inside
    };
    let shared = policies.iter().find(|one| bits(one) & links.marks != 0);
    if let Some(one) = shared {
        wrong.push(format!(
            "the policy of {} uses bits of {:#010x} as well: give `marks` others",
            one.link.device.value, links.marks
        ));
    }
    document.put("warnings", wrong.iter().map(String::as_str).collect());
    for one in &wrong {
        document.note(&format!("weirgate: warning: {one}"));
    }
    Ok(if wrong.is_empty() {
        Status::Done
    } else {
        Status::Differs
    })
}

/// Returns a link of a file as JSON. Rates are in bits per second.
fn link_value(links: &Links, number: usize, policy: Option<&Policy>) -> Value {
    let link = &links.links[number];
    let up = policy.map(|policy| policy.link.up.value);
    let down = policy.and_then(|policy| Some(policy.link.down.as_ref()?.value));
    json!({
        "name": link.name,
        "device": link.device,
        "weight": link.weight,
        "table": links.table(number),
        "mark": links.mark(number),
        "up_bit_s": up.map(Rate::as_bits_per_second),
        "down_bit_s": down.map(Rate::as_bits_per_second),
    })
}

/// Returns a link as one line of text.
fn described(links: &Links, number: usize, policy: Option<&Policy>) -> String {
    let link = &links.links[number];
    let (table, mark) = (links.table(number), links.mark(number));
    let mut text = format!(
        "{}: device {}, weight {}, table {table}, mark {mark:#x}",
        link.name, link.device, link.weight
    );
    if let Some(policy) = policy {
        let _ = write!(text, ", up {}", policy.link.up.value);
        if let Some(down) = &policy.link.down {
            let _ = write!(text, ", down {}", down.value);
        }
    }
    text
}

fn plan(state: &Path, file: &Path, document: &Document) -> Outcome {
    let read = read(file)?;
    in_runtime(async {
        let site = site(state).map_err(asked)?;
        let planned = planned(&site, Some(read)).await.map_err(asked)?;
        describe(&planned, document)?;
        Ok(if planned.steps.is_empty() {
            Status::Done
        } else {
            Status::Differs
        })
    })
}

fn hold(state: &Path, file: Option<&Path>) -> Outcome {
    in_runtime(async {
        let (kernel, folders) = (open()?, folders(state)?);
        let applied = AppliedLinks::read(&folders).map_err(refused)?;
        let links = match (file, &applied.file) {
            (None, Some(applied)) => source::parse(Path::new(&applied.path), &applied.text, parse)?,
            (file, _) => {
                let file = file.unwrap_or(Path::new(FILE));
                if let Some(lost) = &applied.lost {
                    output::note(&format!("weirgate: warning: {lost}"));
                    let file = file.display();
                    output::note(&format!(
                        "weirgate: the applied links are not known, so those of {file} are used"
                    ));
                }
                read(file)?.0
            }
        };
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let report = |report: LinkReport| output::note(&line(&report));
        let links = (&links, &applied);
        let held = hold_links(links, &folders, &kernel, stop, ready, pulse(), report);
        held.await.map_err(refused)?;
        Ok(Status::Done)
    })
}

fn line(report: &LinkReport) -> String {
    match report {
        LinkReport::Others(file) => format!("weirgate: links of {file}"),
        LinkReport::Changed(link) => format!("weirgate: {}", shown(link)),
        LinkReport::Routed(steps) => {
            let steps = output::count(*steps, "step");
            format!("weirgate: routing: {steps} taken")
        }
        LinkReport::NotAsked { link, error } => {
            format!("weirgate: {link}: a host cannot be probed: {error}")
        }
        LinkReport::Failed(error) => format!("weirgate: {error}; again in 1 s"),
    }
}

fn shown(link: &LinkNow) -> String {
    let LinkNow { name, device, .. } = link;
    let word = if link.up { "up" } else { "down" };
    let why = &link.why;
    match &link.suspected {
        Some(sign) => format!("{name} ({device}) is {word}, and suspected: {sign}"),
        None => format!("{name} ({device}) is {word}: {why}"),
    }
}

/// Returns the links that `weirgate links run` holds, or none if that may not be read.
pub fn held(folders: &Folders) -> Vec<SiteLink> {
    let now = LinksNow::read(folders).ok().flatten();
    now.map_or_else(Vec::new, |now| {
        now.links.into_iter().map(site_link).collect()
    })
}

fn site_link(link: LinkNow) -> SiteLink {
    SiteLink {
        name: link.name,
        device: link.device,
        up: link.up,
        suspected: link.suspected,
        since_s: link.since,
        why: link.why,
        weight: link.weight,
        rules: link.rules,
    }
}

/// Returns a link as JSON, with the counters of its device and the classes of its policy.
async fn document(kernel: &Kernel, legend: &Legend, link: SiteLink) -> Result<Value, Failure> {
    let counted = match DeviceName::new(&*link.device) {
        Some(device) => kernel.traffic_of(&device).await.ok().flatten(),
        None => None,
    };
    let (received, sent) = counted.unzip();
    let mut text = serde_json::to_value(&link).map_err(anyhow::Error::from)?;
    text["received_bytes"] = json!(received.map(|traffic| traffic.bytes));
    text["sent_bytes"] = json!(sent.map(|traffic| traffic.bytes));
    let classes = classes(legend, &link.device);
    text["classes"] = classes.map(|class| json!(class)).collect();
    Ok(text)
}

/// Returns the classes of a link's policy.
fn classes<'l>(legend: &'l Legend, link: &str) -> impl Iterator<Item = &'l ClassLegend> {
    let own = legend.link_devices(link);
    let classes = legend.classes.iter();
    classes.filter(move |class| own.contains(&&*class.device))
}

/// Returns what a class is promised as one line of text.
fn promised(class: &ClassLegend) -> String {
    let kbit = |rate| in_kbit(Rate::bits_per_second(rate));
    let wait = class.bound.map_or_else(
        || "no bound for its wait".to_owned(),
        |bound| format!("waits at most {:.1} ms", bound as f64 / 1_000.0),
    );
    format!(
        "{} {}: at least {}, at most {}, {wait}",
        class.direction,
        class.name,
        kbit(class.guaranteed),
        kbit(class.maximum)
    )
}

fn show(state: &Path, json: bool) -> Outcome {
    in_runtime(async {
        let folders = folders(state).map_err(asked)?;
        let now = LinksNow::read(&folders).map_err(unread)?;
        let kernel = open().map_err(asked)?;
        let observed = kernel.routing().await;
        let observed = observed.map_err(|error| asked(refused(error.into())))?;
        let legend = legend(state, None, |_, _| Sorter::default())?;
        if json {
            let mut links = Vec::new();
            for link in now.iter().flat_map(|now| &now.links) {
                links.push(document(&kernel, &legend, site_link(link.clone())).await?);
            }
            let links = now.is_some().then_some(links);
            let text = json!({ "held": links.is_some(), "links": links, "routing": observed });
            output::data(&format!("{text:#}"))?;
            return Ok(Status::Done);
        }
        match now {
            None => output::note("weirgate: `weirgate links run` does not run"),
            Some(now) => {
                for link in &now.links {
                    let since = calendar(link.since);
                    output::data(&format!("{}, since {since}", shown(link)))?;
                    for class in classes(&legend, &link.device) {
                        output::data(&format!("  {}", promised(class)))?;
                    }
                }
            }
        }
        for step in plan_routing(&weirgate_state::Routing::default(), &observed) {
            let text = step.to_string();
            output::data(
                text.strip_prefix("set ")
                    .or(text.strip_prefix("add "))
                    .unwrap_or(&text),
            )?;
        }
        Ok(Status::Done)
    })
}

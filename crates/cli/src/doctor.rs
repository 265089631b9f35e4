// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate doctor`: what this kernel and machine offer, and what disturbs the shaping.
//!
//! The kernel crate looks, the doctor crate judges. The command changes nothing and needs no
//! privilege. It reports what it could not see without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::runtime::in_runtime;
use weirgate_doctor::{Finding, Passage, Question, Severity, damaged, examine, offered, passages};
use weirgate_keep::{Circuits, Damage, Memory, Site};
use weirgate_kernel::{DeviceOverview, Kernel, Scope};
use weirgate_plan::verify;
use weirgate_policy::Policy;
use weirgate_state::{Ability, Capabilities, DeviceName, Hook, Machine, Presence, State};
use weirgate_units::Span;
use weirgate_units::{Arrange as _, Inserted as _};

/// What to look at.
#[derive(clap::Args)]
pub struct Arguments {
    /// The policy to examine; without it, the one in force, else /etc/weirgate/site.toml
    /// if it exists.
    policy: Option<PathBuf>,
    /// A device to examine besides the policy's; may be repeated.
    #[arg(long, value_name = "DEVICE", value_parser = policy::device)]
    device: Vec<DeviceName>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// The report that `--json` prints.
#[derive(serde::Serialize)]
struct Report<'a> {
    kernel: &'a str,
    privileges: weirgate_state::Privileges,
    abilities: &'a BTreeMap<Ability, Presence>,
    findings: &'a [Finding],
    unread: &'a [String],
}

/// Prints the findings. The exit status is 1 if there is a fault or a warning.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    let named = arguments.policy.as_deref().map(policy::read).transpose()?;
    in_runtime(async {
        let mut machine = Kernel::open()?.machine().await?;
        let stored = Stored::read(state, &mut machine.unread).await;
        let site = Path::new(policy::SITE);
        let installed = match (&named, &stored.loaded) {
            (None, None) if site.exists() => Some(policy::read(site)?),
            _ => None,
        };
        let loaded = named.as_ref().or(stored.loaded.as_ref());
        let loaded = loaded.or(installed.as_ref());
        let policies = loaded.map_or(&[][..], policy::Loaded::policies);
        let mut devices: BTreeSet<DeviceName> = arguments.device.iter().cloned().inserted();
        if policies.is_empty() && devices.is_empty() {
            devices = ordinary(&machine);
        }
        let judged = |policy: Option<&Policy>| {
            let most = weirgate_bpf::most_capabilities();
            let here = Capabilities {
                windows_refused: stored.windows_refused,
                ..offered(&machine, &most)
            };
            let compiled = |found| weirgate_compile::compile(policy?, found).0;
            let (desired, possible) = (compiled(&most), compiled(&here));
            examine(&Question {
                machine: &machine,
                policy,
                desired: desired.as_ref(),
                possible: possible.as_ref(),
                windows_refused: stored.windows_refused,
                applied: stored.applied.as_ref(),
                differences: &stored.differences,
                devices: &devices,
            })
        };
        let mut findings = match policies {
            [] => judged(None),
            links => links.iter().flat_map(|one| judged(Some(one))).collect(),
        };
        let damages = stored.damages.iter();
        findings.extend(damages.map(|one| damaged(one.to_string(), one.is_grave())));
        let circuits = stored.circuits.into_iter();
        findings.extend(circuits.map(|one| damaged(one, false)));
        if let Some(applied) = &stored.applied {
            findings.extend(passages(&looked(applied).await?));
        }
        // With several links, findings about the machine appear once for each link.
        findings.arrange();
        findings.dedup();
        if arguments.json {
            output::data(&serde_json::to_string_pretty(&Report {
                kernel: &machine.release,
                privileges: machine.privileges,
                abilities: &machine.abilities,
                findings: &findings,
                unread: &machine.unread,
            })?)?;
        } else {
            output::text(&text(&machine, &findings, !policies.is_empty()))?;
        }
        let grave = |finding: &Finding| finding.severity < Severity::Note;
        Ok(if findings.iter().any(grave) {
            Status::Differs
        } else {
            Status::Done
        })
    })
}

/// The time between two readings of the counters.
const LOOK: Duration = Duration::from_millis(400);

/// Returns, for each applied root, the packets that passed it and the packets that left its device
/// or, for an IFB, arrived at the device in front of it.
///
/// Some drivers refresh the device's counters only once in a second or more, so a refresh adds
/// packets from before the look. A single refresh cannot be in both of two looks. The one with
/// fewer packets beside the queue counts.
async fn looked(applied: &State) -> Result<Vec<Passage>, Failure> {
    let kernel = Kernel::open()?;
    let first = kernel.overview().await?;
    tokio::time::sleep(LOOK).await;
    let second = kernel.overview().await?;
    tokio::time::sleep(LOOK).await;
    let third = kernel.overview().await?;
    let gates = applied.devices.iter().filter(|(_, one)| one.root.is_some());
    let passages = gates.filter_map(|(gate, _)| {
        let looks = [(&first, &second), (&second, &third)];
        let device = in_front(applied, gate);
        let passages = looks
            .into_iter()
            .filter_map(|two| passage(gate, device, two));
        passages.min_by_key(|one| one.seen.saturating_sub(one.passed))
    });
    Ok(passages.collect())
}

/// Returns the device whose arriving packets go to an IFB.
fn in_front<'a>(applied: &'a State, ifb: &DeviceName) -> Option<&'a DeviceName> {
    let chains = applied.tables.iter().flat_map(|table| &table.chains);
    let mut hooks = chains.map(|chain| &chain.hook);
    hooks.find_map(|hook| match hook {
        Hook::Ingress {
            device,
            redirect_to,
        } if redirect_to == ifb => Some(device),
        _ => None,
    })
}

/// Returns what passed a gate's root between two readings, and what left its device, or arrived at
/// the device in front of it.
fn passage(
    gate: &DeviceName,
    in_front: Option<&DeviceName>,
    (before, after): (&Vec<DeviceOverview>, &Vec<DeviceOverview>),
) -> Option<Passage> {
    let of = |all: &[DeviceOverview]| {
        let named = |name: &DeviceName| all.iter().find(|one| one.name == name.as_str());
        let device = named(gate)?;
        let mut qdiscs = device.counters.qdiscs.iter();
        let root = qdiscs.find(|qdisc| qdisc.parent.is_none())?;
        let held = ["htb", "cake"].contains(&&*root.kind);
        let held = held.then_some(u64::from(root.overlimits));
        let sent = root.packets;
        let Some(in_front) = in_front else {
            return Some((device.sent.packets, sent, sent, held));
        };
        let device = named(in_front)?;
        // Filters may drop packets before they come to the IFB (`clsact` counts them).
        let filters = device.counters.qdiscs.iter();
        let filters = filters.filter(|one| ["clsact", "ingress"].contains(&&*one.kind));
        let filtered: u64 = filters.map(|one| u64::from(one.drops)).sum();
        let kept = u64::from(root.drops) + u64::from(root.queued_packets);
        Some((device.received.packets, sent + kept + filtered, sent, held))
    };
    let ((seen, passed, ..), (seen_now, passed_now, all, held)) = of(before).zip(of(after))?;
    Some(Passage {
        device: in_front.unwrap_or(gate).clone(),
        ifb: in_front.map(|_| gate.clone()),
        looked: Span::from_nanos(u64::try_from(LOOK.as_nanos()).ok()?),
        seen: seen_now.saturating_sub(seen),
        passed: passed_now.saturating_sub(passed),
        all,
        held,
    })
}

/// Returns the devices that can carry a site's packets: those that are up, without loopback and ifb
/// devices.
fn ordinary(machine: &Machine) -> BTreeSet<DeviceName> {
    let devices = machine.devices.iter();
    devices
        .filter(|(name, device)| {
            name.as_str() != "lo" && device.up && device.kind.as_deref() != Some("ifb")
        })
        .map(|(name, _)| name.clone())
        .inserted()
}

/// The stored data of weirgate, as far as this user may read it.
#[derive(Default)]
struct Stored {
    applied: Option<State>,
    differences: Vec<String>,
    damages: Vec<Damage>,
    /// Damaged files of circuits.
    circuits: Vec<String>,
    loaded: Option<policy::Loaded>,
    /// Whether the kernel has refused the programs of receive windows since it started.
    windows_refused: bool,
}

impl Stored {
    async fn read(state: &Path, unread: &mut Vec<String>) -> Self {
        match Self::try_read(state).await {
            Ok(stored) => stored,
            Err(failure) => {
                let text = failure.text();
                unread.push(format!(
                    "what weirgate has applied: {}",
                    text.trim_start_matches("weirgate: ")
                ));
                Self::default()
            }
        }
    }

    async fn try_read(state: &Path) -> Result<Self, Failure> {
        let site = Site::open(state, PathBuf::new())?;
        let damages = site.history.damages()?;
        let answers = site.stored_capabilities();
        let windows_refused = answers.is_some_and(|found| found.windows_refused);
        let circuits = Circuits::damages(&site.folders)?;
        let entry = site.in_force()?;
        let loaded = entry.and_then(|entry| policy::again(&entry.sources).ok());
        let Some(memory) = Memory::read(&site.folders)? else {
            return Ok(Self {
                damages,
                circuits,
                loaded,
                windows_refused,
                ..Self::default()
            });
        };
        let observed = site.kernel.observe(&Scope::of([&memory.applied])).await?;
        let differences = verify(&observed, &memory.applied);
        Ok(Self {
            differences: differences.iter().map(ToString::to_string).collect(),
            applied: Some(memory.applied),
            damages,
            circuits,
            loaded,
            windows_refused,
        })
    }
}

fn text(machine: &Machine, findings: &[Finding], has_policy: bool) -> String {
    let mut text = String::new();
    let privileges = machine.privileges;
    let may = |has, what: &str| {
        if has {
            what.to_owned()
        } else {
            format!("no {what}")
        }
    };
    let _ = writeln!(
        text,
        "kernel {}; user {} with {}, {}{}\n",
        machine.release,
        privileges.user,
        may(privileges.net_admin, "CAP_NET_ADMIN"),
        may(privileges.bpf, "CAP_BPF"),
        if privileges.first_namespace {
            ""
        } else {
            "; a network namespace of its own"
        }
    );
    for (presence, title) in [
        (Presence::Here, "has      "),
        (Presence::Loadable, "loads    "),
        (Presence::Absent, "lacks    "),
        (Presence::Unknown, "unknown  "),
    ] {
        let abilities = machine.abilities.iter();
        let names: Vec<&str> = abilities
            .filter(|(_, found)| **found == presence)
            .map(|(ability, _)| ability.name())
            .collect();
        if !names.is_empty() {
            let _ = writeln!(text, "{title} {}", names.join(", "));
        }
    }
    for finding in findings {
        let _ = writeln!(text, "\n{finding}");
    }
    for unread in &machine.unread {
        let _ = writeln!(text, "\nnot seen: {unread}");
    }
    let count = |severity, name| {
        let found = findings.iter().filter(|one| one.severity == severity);
        output::count(found.count(), name)
    };
    let _ = writeln!(
        text,
        "\n{}, {}, {}{}",
        count(Severity::Fault, "fault"),
        count(Severity::Warning, "warning"),
        count(Severity::Note, "note"),
        if has_policy {
            ""
        } else {
            "; without a policy, figures are for a line of 10 Mbit/s"
        }
    );
    text
}

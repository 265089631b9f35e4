// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy of one port: the domain's classes as classes of one link, in the language of all
//! policies.

use crate::{Behaviour, Class, Domain, Port};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use weirgate_compile::{Scheduler, misfit, scheduler};
use weirgate_policy::{Direction, Policy};
use weirgate_units::Arrange as _;

/// A port whose policy weirgate refuses, because the domain requires something that no port can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    /// The port's router.
    pub router: String,
    /// Its device.
    pub device: String,
    /// What is wrong and what would be right, one line for each problem.
    pub problems: Vec<String>,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            router,
            device,
            problems,
        } = self;
        write!(f, "{device} of {router}: {}", problems.join("; "))
    }
}

impl std::error::Error for NodeError {}

/// Full packets from which on packets of low drop precedence may go, at least:
/// those of high precedence then have three.
const WRED_PACKETS: u64 = 27;

/// Full packets that DRT's queue holds at least: two for each importance.
const DRT_PACKETS: u64 = 12;

/// Whether a port is shaped by the kit.
fn kit(domain: &Domain, port: &Port) -> bool {
    let router = domain.routers.get(&port.router);
    router.is_some_and(|router| router.kit)
}

/// A share for a class that has none: the least that HTB can state.
const NO_SHARE: &str = "1kbit";

/// The policy of a port as text. `bursts` holds, for each class in which
/// something was promised, the wire bytes that may come at once; such a class
/// has a queue with room for them and for as much again as arrives while they
/// wait, the others the usual one.
#[must_use]
pub fn policy_text(domain: &Domain, port: &Port, bursts: &BTreeMap<String, u64>) -> String {
    // What the router's other devices bring must not come merged.
    let others = domain.ports().into_iter();
    let others = others.filter(|one| one.router == port.router && one.device != port.device);
    let others: Vec<String> = others.map(|one| format!("\"{}\"", one.device)).collect();
    let lan = if others.is_empty() {
        String::new()
    } else {
        format!("lan = [{}]\n", others.join(", "))
    };
    let engine = if kit(domain, port) {
        "engine = \"kit\"\n"
    } else {
        ""
    };
    let mut text = format!(
        "# {} of {}, towards {}.\nversion = 1\n\n[link]\ndevice = \"{}\"\n{lan}up = \"{}bit\"\n\
         layer = \"{}\"\n{engine}",
        port.device,
        port.router,
        port.towards,
        port.device,
        port.rate.as_bits_per_second(),
        port.layer.name
    );
    let mut classes: Vec<(&String, &Class)> = domain.classes.iter().collect();
    classes.arrange_by_key(|(_, class)| class.behaviour);
    for (name, class) in &classes {
        write_class(&mut text, domain, port, (name, class), bursts.get(*name));
    }
    for (name, class) in &classes {
        if *name == default_class(domain) {
            continue;
        }
        let points = class.behaviour.code_points();
        let points: Vec<String> = points.iter().map(|point| format!("\"{point}\"")).collect();
        let points = points.join(", ");
        let _ = write!(text, "\n[[rule]]\nclass = \"{name}\"\ndscp = [{points}]\n");
    }
    text
}

fn write_class(
    text: &mut String,
    domain: &Domain,
    port: &Port,
    (name, class): (&str, &Class),
    burst: Option<&u64>,
) {
    let behaviour = class.behaviour;
    let _ = write!(text, "\n[[class]]\nname = \"{name}\" # {behaviour}\n");
    let _ = match class.share {
        Some(share) => writeln!(text, "share = \"{share}\""),
        None => writeln!(text, "rate = \"{NO_SHARE}\""),
    };
    let _ = writeln!(text, "priority = {}", behaviour.priority());
    if let (true, Some(share)) = (behaviour.bounded(), class.share) {
        let _ = writeln!(text, "ceiling = \"{share}\"");
    }
    let full = u64::from(port.layer.layer.wire_bytes(1500));
    let assured = matches!(behaviour, Behaviour::Af(_)) && kit(domain, port);
    let levelled = matches!(behaviour, Behaviour::Drt { .. }) && kit(domain, port);
    let _ = match burst {
        Some(burst) if assured => {
            // What is within its contract finds room for what may come at once
            // after all else is dropped: middle precedence goes from a third of
            // that on, high from a ninth.
            let low = burst.saturating_mul(6).max(full * WRED_PACKETS);
            writeln!(
                text,
                "queue = {{ kind = \"wred\", min_bytes = {low}, max_bytes = {}, limit_bytes = {}, \
                 measure = \"wire\" }}\nburst = {burst}",
                low.saturating_mul(2),
                low.saturating_mul(4),
            )
        }
        Some(burst) if levelled => {
            // The uppermost level is for what keeps to its nominal rate, of
            // importance 6: it has room for what may come at once.
            let limit = burst.saturating_mul(6).max(full * DRT_PACKETS);
            writeln!(
                text,
                "queue = {{ kind = \"drt\", limit_bytes = {limit} }}\nburst = {burst}"
            )
        }
        Some(burst) => {
            let room = burst.saturating_mul(2).max(full * 2);
            writeln!(text, "queue = \"bfifo {room}\"\nburst = {burst}")
        }
        None if assured => writeln!(text, "queue = \"wred\""),
        None if levelled => writeln!(text, "queue = \"drt\""),
        // Flows in turn, by what the router's kernel has for it.
        None => Ok(()),
    };
    if *name == *default_class(domain) {
        text.push_str("default = true\n");
    }
}

/// The class of the default behaviour, which the reader makes sure is there.
fn default_class(domain: &Domain) -> &str {
    let default = domain
        .classes
        .iter()
        .find(|(_, class)| class.behaviour == Behaviour::Default);
    default.map_or("", |(name, _)| name)
}

/// The policy of a port as crate `policy` reads it, and its scheduler.
pub(crate) fn scheduled(
    domain: &Domain,
    port: &Port,
    bursts: &BTreeMap<String, u64>,
) -> Result<(Policy, Scheduler), NodeError> {
    let refused = |problems| NodeError {
        router: port.router.clone(),
        device: port.device.clone(),
        problems,
    };
    let (policy, problems) = weirgate_policy::parse(&policy_text(domain, port, bursts));
    let Some(policy) = policy else {
        let lines = problems.iter().map(|problem| {
            let hint = match problem.hint.as_str() {
                "" => String::new(),
                hint => format!(": {hint}"),
            };
            format!("{}{hint}", problem.message)
        });
        return Err(refused(lines.collect()));
    };
    if let Some((wrong, right)) = misfit(&policy).filter(|_| kit(domain, port)) {
        return Err(refused(vec![format!("the kit's shaper: {wrong}: {right}")]));
    }
    let found = scheduler(&policy, Direction::Up);
    let scheduler = found.ok_or_else(|| refused(vec!["its link has no rate".to_owned()]))?;
    Ok((policy, scheduler))
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy of one port: the domain's classes as classes of a single link.

use crate::{Behaviour, Class, Domain, Port};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use weirgate_compile::{Scheduler, misfit, scheduler};
use weirgate_policy::{Direction, Policy};
use weirgate_units::Arrange as _;

/// The error of a port whose policy is invalid, because the domain requires something
/// impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    /// The router of the port.
    pub router: String,
    /// Its device.
    pub device: String,
    /// The problems with corrections, one per line.
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

/// The smallest threshold, in full packets, for packets of low drop precedence; those of high
/// precedence then have three.
const WRED_PACKETS: u64 = 27;

/// The smallest limit of DRT's queue in full packets: two for each importance.
const DRT_PACKETS: u64 = 12;

/// Returns whether the kit shapes a port.
fn kit(domain: &Domain, port: &Port) -> bool {
    let router = domain.routers.get(&port.router);
    router.is_some_and(|router| router.kit)
}

/// The share of a class without one: the smallest that HTB can express.
const NO_SHARE: &str = "1kbit";

/// Returns the policy of a port as text. `bursts` has, for each class with promises, the bytes
/// on the wire that may arrive at once. Such a class gets a queue for these and for the same
/// amount that arrives while they wait; the others get the default queue.
#[must_use]
pub fn policy_text(domain: &Domain, port: &Port, bursts: &BTreeMap<String, u64>) -> String {
    // Packets from the router's other devices must not arrive merged.
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
            // Packets within their contract find room for the burst after all others are
            // dropped: middle precedence is dropped from a third of that on, high precedence
            // from a ninth.
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
            // The uppermost level, importance 6, is for packets within their nominal rate: it
            // has room for the burst.
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
        // The default is a queue that serves flows in turn, depending on the router's kernel.
        None => Ok(()),
    };
    if *name == *default_class(domain) {
        text.push_str("default = true\n");
    }
}

/// Returns the class with the default behaviour, whose existence the parser has checked.
fn default_class(domain: &Domain) -> &str {
    let default = domain
        .classes
        .iter()
        .find(|(_, class)| class.behaviour == Behaviour::Default);
    default.map_or("", |(name, _)| name)
}

/// Parses the policy of a port, and returns it with its scheduler.
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

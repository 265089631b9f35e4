// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles a policy to the state that a kernel should have, given the kernel's capabilities,
//! and derives what that state promises.
//!
//! * [`compile`] makes the [`State`]: two HTB qdiscs for each direction (`tree`), queues
//!   (`tree::leaf`), nftables rules (`classify`), devices.
//! * [`bounds`] derives the worst-case waits, and from them the token buckets that `tree` gives
//!   to classes, so that both result from one calculation.
//! * [`setups`] compares the exact set-up with the naive one.
//! * [`check_report`] returns what `weirgate check` prints.
//!
//! ```
//! use weirgate_compile::{check_report, compile};
//! use weirgate_state::Capabilities;
//!
//! let text = r#"
//! version = 1
//! [link]
//! device = "wan"
//! up = "40mbit"
//! layer = "vdsl2:pppoe"
//! [[class]]
//! name = "all"
//! share = "100%"
//! default = true
//! "#;
//! let (policy, problems) = weirgate_policy::parse(text);
//! let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
//! let (state, _) = compile(&policy, &Capabilities::all());
//! assert!(state.is_some_and(|state| state.devices.len() == 1));
//! assert_eq!(check_report(&policy).directions.len(), 1);
//! ```
//!
//! This crate neither sees the present state of a kernel, which crate `plan` compares, nor
//! accesses files.

mod check;
mod classify;
mod codes;
mod cut;
mod engine;
mod inbound;
mod report;
mod scheduler;
mod tree;

pub use check::following::following;
pub use classify::ruleset_chain;
pub use codes::CODES;
pub use engine::kit::misfit;
pub use report::objective::ObjectiveReport;
pub use report::setup::{OfSize, Setup, setups};
pub use report::{
    Bound, CheckReport, ClassReport, Cost, DirectionReport, FullQueue, Step, Wire, check_report,
    check_report_for, check_waits_for,
};
pub use scheduler::parts::{CappedHost, OverAll, Parent};
pub use scheduler::{Member, Scheduler, bounds};

use std::borrow::Cow;
use std::collections::BTreeMap;
use weirgate_document::{Problem, Problems};
use weirgate_policy::{Direction, Engine, Inbound, Policy};
use weirgate_state::{
    Capabilities, Device, DeviceName, Hook, Offloads, Origin, Qdisc, State, Table,
};

/// The name of the nftables tables.
pub const TABLE: &str = "weirgate";

/// Returns the state that a policy describes, with errors and warnings. There is no state if one
/// of the problems is an error.
///
/// The spans of problems refer to the policy's text, and their codes are in [`CODES`]. The same
/// policy and capabilities always give the same state.
#[must_use]
pub fn compile(policy: &Policy, kernel: &Capabilities) -> (Option<State>, Vec<Problem>) {
    let problems = Problems::default();
    let release = check::release(kernel);
    let automatic = inbound::automatic::settled(policy, kernel, &release, &problems);
    let automatic = engine::rows::settled(automatic, kernel);
    let dual = engine::l4s::settled(automatic, kernel, &problems);
    let settled = check::default_queue::settled(&dual, kernel, &problems);
    let settled = scheduler::acks::settled(settled, kernel, &problems);
    let policy = settled.as_ref();
    check::kernel(policy, kernel, &problems);
    check::doubts(policy, kernel, &problems);
    classify::segments::doubts(policy, &problems);
    let shaped: Vec<Shaped> = Direction::BOTH
        .into_iter()
        .filter_map(|direction| {
            let policy = engine::direction::policy_in(policy, direction);
            Some(Shaped {
                scheduler: scheduler::of(&policy, direction, &problems)?,
                engine: engine::chosen(&policy, Some(kernel)),
                policy,
            })
        })
        .collect();
    let restored = inbound::restores(policy, kernel);
    let state = state(policy, &shaped, restored);
    let usable = !problems.has_errors();
    (usable.then_some(state), problems.into_sorted())
}

/// Returns the scheduler of a direction, which contains its classes with their numbers; `None`
/// if the policy does not shape it.
#[must_use]
pub fn scheduler(policy: &Policy, direction: Direction) -> Option<Scheduler> {
    scheduler::of(policy, direction, &Problems::default())
}

/// A direction that is shaped.
struct Shaped<'p> {
    scheduler: Scheduler,
    engine: Engine,
    /// The policy as this direction has it.
    policy: Cow<'p, Policy>,
}

fn state(policy: &Policy, shaped: &[Shaped<'_>], restored: bool) -> State {
    let link = &policy.link;
    let mut state = State::default();
    let table = |netdev| Table {
        netdev,
        name: TABLE.to_owned(),
        ..Table::default()
    };
    let (mut inet, mut netdev) = (table(false), table(true));
    let mut roots: BTreeMap<DeviceName, Qdisc> = BTreeMap::new();
    for own in shaped {
        let (scheduler, policy) = (&own.scheduler, own.policy.as_ref());
        let device = match (scheduler.direction, link.inbound.value) {
            (Direction::Up, _) => &link.device.value,
            (Direction::Down, Inbound::Lan) => match link.lan.first() {
                Some(lan) => &lan.value,
                None => continue,
            },
            (Direction::Down, _) => &link.ifb.value,
        };
        let root = match own.engine {
            Engine::Cake => engine::cake(policy, scheduler),
            Engine::Kit => engine::kit::root(policy, scheduler),
            Engine::Rows => engine::rows::root(policy, scheduler),
            Engine::Htb | Engine::Auto => tree::root(policy, scheduler),
        };
        roots.insert(device.clone(), root);
        let arriving = scheduler.direction == Direction::Down && link.inbound.value == Inbound::Ifb;
        let device = device.clone();
        let (table, hook) = if link.bridge {
            (&mut netdev, Hook::Egress { device })
        } else if arriving {
            let hook = Hook::Ingress {
                device: link.device.value.clone(),
                redirect_to: device,
            };
            (&mut netdev, hook)
        } else {
            (&mut inet, Hook::Postrouting { device })
        };
        let chains = classify::chains(policy, scheduler, hook, &mut table.sets, restored);
        table.chains.extend(chains);
        if arriving && restored {
            for (number, lan) in link.lan.iter().enumerate() {
                let numbered = (&lan.value, number);
                let learnt = classify::learning(policy, scheduler, numbered, &mut inet.sets);
                inet.chains.extend(learnt);
            }
        }
    }
    inet.chains.extend(inbound::receive::refusing(policy));
    let helpers = classify::condition::helpers(policy, &mut inet.sets);
    inet.chains.extend(helpers);
    for table in [&mut inet, &mut netdev] {
        classify::condition::complete(&mut table.sets, &table.chains);
    }
    state.tables = [inet, netdev]
        .into_iter()
        .filter(|table| !table.chains.is_empty())
        .collect();
    devices(policy, &mut roots, &mut state);
    state.hooks = inbound::hooks(policy, &state.tables);
    cut::add(policy, &mut state);
    state
}

/// The offloads of devices that pass on one segment at a time.
const NO_OFFLOADS: Option<Offloads> = Some(Offloads {
    tso: false,
    gso: false,
    gro: false,
    segments: Some(1),
});

/// Adds every device that the policy names: those that shape, and those that must not pass on
/// merged packets (GRO, GSO, TSO).
fn devices(policy: &Policy, roots: &mut BTreeMap<DeviceName, Qdisc>, state: &mut State) {
    let link = &policy.link;
    let wan = (
        &link.device.value,
        link.device.line,
        "leaves for the outside",
    );
    let lan = link
        .lan
        .iter()
        .map(|lan| (&lan.value, lan.line, "brings what goes outside"));
    for (name, line, role) in std::iter::once(wan).chain(lan) {
        let reason = format!(
            "{name} {role}; tso, gso and gro off, because the gate must see one packet at a time: \
             a merged one would hold the link for as long as all its parts"
        );
        let device = Device {
            owned_ifb: false,
            offloads: NO_OFFLOADS,
            root: roots.remove(name),
            origin: Origin::new(line, reason),
        };
        state.devices.insert(name.clone(), device);
    }
    if let Some(root) = roots.remove(&link.ifb.value) {
        let reason = format!(
            "{} is where what arrives on {} is shaped",
            link.ifb.value, wan.0
        );
        let device = Device {
            owned_ifb: true,
            offloads: None,
            root: Some(root),
            origin: Origin::new(link.inbound.line, reason),
        };
        state.devices.insert(link.ifb.value.clone(), device);
    }
}

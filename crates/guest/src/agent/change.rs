// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policies that replace another one while traffic runs.
//!
//! A change does what a user's `weirgate apply` does: it compiles the policy's text to a state,
//! observes the gateway, makes a plan, carries it out and reads the result back. It runs in a
//! separate thread that yields to everything else, as a command on a router yields to packet
//! processing. The hosts' traffic is in user space here, and must not wait while a plan is
//! computed. Parts of the kernel that cannot be preempted delay it nevertheless.

use super::clock::since;
use super::nodes::Nodes;
use super::recorder::Recorder;
use super::session::Session;
use super::shaper::{Known, Shaper, desired, list, write_plan};
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use weirgate_experiment::{Change, Changed, Node, Written};
use weirgate_kernel::{Kernel, Scope};
use weirgate_plan::{Action, Options, Plan, QdiscParent, plan_with, with_former};
use weirgate_state::State;

use super::nodes::WAN;

/// The policy in force, shared between the run and its changes.
pub type InForce = Rc<RefCell<Option<Shaper>>>;

/// The input of a change.
struct Order {
    policy: String,
    text: String,
    known: Option<Known>,
    gateway: OwnedFd,
    zero_ns: u64,
}

/// The result of a change.
struct Done {
    changed: Changed,
    report: String,
    /// The state in force afterwards; unchanged if the change failed.
    known: Option<Known>,
}

/// Starts the arm's changes, each at its time. `files` has the policies' texts.
pub fn start(session: &Session, files: &BTreeMap<String, String>, shaper: &InForce) -> Result<()> {
    let arm = Rc::clone(&session.arm);
    if arm.then.is_empty() {
        return Ok(());
    }
    let mut orders = Vec::new();
    for change in &arm.then {
        let text = files.get(&change.policy).with_context(|| {
            format!(
                "policy {}: its text did not come with the job",
                change.policy
            )
        })?;
        orders.push((change.clone(), text.clone()));
    }
    let task = run(session.clone(), orders, Rc::clone(shaper));
    session.spawn("change the policy".to_owned(), task);
    Ok(())
}

async fn run(session: Session, orders: Vec<(Change, String)>, shaper: InForce) -> Result<()> {
    for (change, text) in orders {
        session.clock.until(change.at.as_nanos()).await?;
        let known = shaper.borrow().as_ref().map(Shaper::known);
        let gateway = session.nodes.space(Node::Gateway)?;
        let order = Order {
            policy: change.policy.clone(),
            text,
            known,
            gateway: gateway.try_clone_to_owned()?,
            zero_ns: session.clock.zero_ns(),
        };
        let done = elsewhere(order)
            .await
            .with_context(|| format!("apply the policy {} at {}", change.policy, change.at))?;
        note(&session.nodes, &session.recorder, &shaper, done)?;
    }
    Ok(())
}

/// Records the result of a change.
fn note(nodes: &Nodes, recorder: &Recorder, shaper: &InForce, done: Done) -> Result<()> {
    let what = format!("gateway: policy {}", done.changed.policy);
    let status = i32::from(done.changed.failure.is_some());
    recorder.transcript(what, done.report, status);
    if let (None, Some(known)) = (&done.changed.failure, done.known) {
        let next = Shaper::taken_over(&done.changed.policy, known, nodes)?;
        *shaper.borrow_mut() = Some(next);
    }
    recorder.changed(done.changed);
    Ok(())
}

/// Carries out a change in a separate thread, without blocking this one.
async fn elsewhere(order: Order) -> Result<Done> {
    let (tell, applied) = oneshot::channel();
    let work = move || {
        let result = yielding().and_then(|()| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(carry_out(order))
        });
        // Nobody receives the result if the run has ended.
        let _ = tell.send(result);
    };
    thread::Builder::new()
        .name("change".to_owned())
        .spawn(work)?;
    applied
        .await
        .context("the run was over before the change")?
}

/// Lets this thread run only when no other is runnable.
#[expect(
    unsafe_code,
    reason = "rustix has no call for a thread's scheduling policy"
)]
pub(super) fn yielding() -> Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread, and `none` lives through the call.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
    if set == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(error).context("let a change yield to the packets")
}

async fn carry_out(order: Order) -> Result<Done> {
    let now = || since(order.zero_ns);
    let began_ns = now();
    let mut report = String::new();
    let kernel = Kernel::open_in(order.gateway.as_fd())?;
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, zero_ns) = (Arc::clone(&requests), order.zero_ns);
    kernel.witness(Box::new(move |what| {
        if let Ok(mut seen) = seen.lock() {
            seen.push(Written {
                at_ns: since(zero_ns),
                what: what.to_owned(),
            });
        }
    }));
    let desired = desired(&kernel, &order.policy, &order.text, &mut report).await?;
    let plan = planned(&kernel, order.known.as_ref(), &desired).await?;
    let planned_ns = now();
    let applied = kernel.apply(&plan.0).await;
    let ended_ns = now();
    let (plan, former) = plan;
    write_plan(&mut report, &plan);
    let requests = requests.lock().map(|list| list.clone()).unwrap_or_default();
    let shaped_ns = shaped_ns(&plan, &requests, began_ns);
    let failure = applied.err().map(|error| error.to_string());
    Ok(Done {
        changed: Changed {
            policy: order.policy,
            began_ns,
            planned_ns,
            ended_ns,
            shaped_ns,
            steps: u32::try_from(plan.steps.len()).unwrap_or(u32::MAX),
            requests,
            failure,
        },
        report,
        known: Some(Known { former, desired }),
    })
}

/// Returns the plan from the observed to the desired state, and the state before any policy.
async fn planned(kernel: &Kernel, known: Option<&Known>, desired: &State) -> Result<(Plan, State)> {
    let states = known
        .into_iter()
        .flat_map(|known| [&known.former, &known.desired]);
    let scope = Scope::of(states.chain([desired]));
    let observed = kernel.observe(&scope).await?;
    let mut former = known.map_or_else(|| observed.clone(), |known| known.former.clone());
    // Devices that no policy has changed so far are in their former state.
    for (name, device) in observed.devices.iter().filter(|entry| !entry.1.owned_ifb) {
        let entry = former.devices.entry(name.clone());
        entry.or_insert_with(|| device.clone());
    }
    for (name, programs) in &observed.hooks {
        let touched = known.is_some_and(|known| known.desired.hooks.contains_key(name));
        if !touched {
            let entry = former.hooks.entry(name.clone());
            entry.or_insert_with(|| programs.clone());
        }
    }
    let wanted = match known {
        Some(_) => with_former(desired, &former),
        None => desired.clone(),
    };
    let options = Options {
        previous: known.map(|known| &known.desired),
        ..Options::default()
    };
    let plan = plan_with(&observed, &wanted, &options)
        .map_err(|problems| anyhow::anyhow!("there is no plan: {}", list(&problems)))?;
    Ok((plan, former))
}

/// Returns when the request for the first root qdisc on the line's device was sent. If there is
/// a root already, or none is created, it is when the change began.
fn shaped_ns(plan: &Plan, requests: &[Written], began_ns: u64) -> u64 {
    let line = |name: &weirgate_state::DeviceName| name.as_str() == WAN;
    let shaped = plan
        .before
        .devices
        .iter()
        .any(|(name, device)| line(name) && device.root.is_some());
    if shaped {
        return began_ns;
    }
    let first = plan.steps.iter().find(|step| match &step.action {
        Action::AddQdisc { device, parent, .. } => line(device) && *parent == QdiscParent::Root,
        _ => false,
    });
    let what = first.map(|step| step.action.to_string());
    let made = requests
        .iter()
        .find(|request| Some(&request.what) == what.as_ref());
    made.map_or(began_ns, |request| request.at_ns)
}

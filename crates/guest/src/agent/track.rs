// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy that follows the line's rate on the gateway, as `weirgate keep` does on a router.
//!
//! The controller and its measurements are those of the service. Rates are set in a thread that
//! yields to packet processing, as in a policy change, and only one at a time: the newest first.

use super::change::yielding;
use super::nodes::Nodes;
use super::recorder::Recorder;
use super::session::Session;
use super::shaper::Shaper;
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weirgate_compile::{compile, following};
use weirgate_experiment::Node;
use weirgate_keep::Tracker;
use weirgate_kernel::{Kernel, Scope, Since};
use weirgate_plan::{Options, plan_with};
use weirgate_policy::Policy;
use weirgate_state::{Capabilities, State};
use weirgate_track::{Decided, Direction};
use weirgate_units::Rate;

/// The record so far. It is added to the transcript when the run ends.
pub type Written = Rc<RefCell<String>>;

/// Rates to set, upstream and downstream.
pub(super) type Rates = [Option<Rate>; 2];

/// Starts to follow the line's rate if the policy has `[track]`.
pub fn start(session: &Session, shaper: &Shaper, text: &str) -> Result<Option<Written>> {
    let (policy, _) = weirgate_policy::parse(text);
    let Some(policy) = policy else {
        return Ok(None);
    };
    let Some(setup) = following(&policy) else {
        return Ok(None);
    };
    ensure!(
        session.arm.then.is_empty(),
        "a policy that follows the line's rate cannot be exchanged while traffic runs: leave \
         `then` out of the arm"
    );
    let kernel = Kernel::open_in(session.nodes.space(Node::Gateway)?)?;
    let open = || Tracker::open(setup, kernel).map_err(std::io::Error::other);
    let tracker = session.nodes.enter(Node::Gateway, open);
    let tracker = tracker.context("follow the line's rate")?;
    let applier = Applier::new(&session.nodes, policy, shaper)?;
    let written = Written::default();
    let task = run(tracker, applier, Rc::clone(&written));
    session.spawn("follow the line's rate".to_owned(), task);
    Ok(Some(written))
}

/// Adds the record to the run's transcript.
pub fn note(recorder: &Recorder, written: &Written) {
    let text = written.borrow_mut().split_off(0);
    recorder.transcript("gateway: the record of the rate".to_owned(), text, 0);
}

async fn run(mut tracker: Tracker, mut applier: Applier, written: Written) -> Result<()> {
    let (mut busy, mut wanted): (bool, Option<Rates>) = (false, None);
    loop {
        tokio::select! {
            decisions = tracker.next() => {
                for decision in decisions? {
                    if let Decided::Rate { .. } = decision.what {
                        let rate = |direction| tracker.controller().rate(direction).map(Rate::bits_per_second);
                        wanted = Some(Direction::BOTH.map(rate));
                    }
                }
                written.borrow_mut().push_str(&tracker.written());
            }
            done = applier.done(), if busy => {
                done?;
                busy = false;
            }
        }
        if !busy && let Some(rates) = wanted.take() {
            applier.send(rates)?;
            busy = true;
        }
    }
}

/// The thread that sets rates.
pub(super) struct Applier {
    orders: UnboundedSender<Rates>,
    done: UnboundedReceiver<Result<()>>,
}

impl Applier {
    /// Returns an applier for the policy in force.
    pub(super) fn new(nodes: &Nodes, policy: Policy, shaper: &Shaper) -> Result<Self> {
        let (orders, given) = unbounded_channel();
        let (tell, done) = unbounded_channel();
        let gateway = nodes.space(Node::Gateway)?.try_clone_to_owned()?;
        let desired = shaper.known().desired;
        let work = move || {
            let result = yielding().and_then(|()| {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    use std::os::fd::AsFd as _;
                    let kernel = Kernel::open_in(gateway.as_fd())?;
                    apply_all(&kernel, &policy, desired, given, &tell).await
                })
            });
            // Nobody receives the result if the run has ended.
            let _ = tell.send(result);
        };
        thread::Builder::new()
            .name("rates".to_owned())
            .spawn(work)?;
        Ok(Self { orders, done })
    }

    /// Sets rates after those that were sent before.
    pub(super) fn send(&self, rates: Rates) -> Result<()> {
        self.orders.send(rates).context("the rates' thread is gone")
    }

    /// Waits until the sent rates are in force.
    pub(super) async fn done(&mut self) -> Result<()> {
        self.done
            .recv()
            .await
            .context("the rates' thread is gone")?
    }
}

async fn apply_all(
    kernel: &Kernel,
    policy: &Policy,
    mut desired: State,
    mut orders: UnboundedReceiver<Rates>,
    tell: &UnboundedSender<Result<()>>,
) -> Result<()> {
    let mut capabilities = kernel.capabilities().await?;
    capabilities.payload &= !policy.needs_programs() || weirgate_kernel::can_look();
    let observed = kernel.observe_knowing(&Scope::of([&desired]), None).await?;
    let mut there = observed.state;
    let mut since = Since {
        generation: observed.generation,
        handles: observed.handles,
    };
    while let Some([up, down]) = orders.recv().await {
        let wanted = at_rates(policy, &capabilities, up, down)?;
        let options = Options {
            previous: Some(&desired),
            ..Options::default()
        };
        let plan = plan_with(&there, &wanted, &options);
        let plan = plan.map_err(|problems| {
            anyhow::anyhow!("there is no plan: {}", super::shaper::list(&problems))
        })?;
        let applied = kernel.apply_since(&plan, &since).await?;
        (there, desired) = (applied.after, wanted);
        since = Since {
            generation: applied.generation,
            handles: applied.handles,
        };
        let _ = tell.send(Ok(()));
    }
    Ok(())
}

fn at_rates(
    policy: &Policy,
    capabilities: &Capabilities,
    up: Option<Rate>,
    down: Option<Rate>,
) -> Result<State> {
    let (state, problems) = compile(&policy.at_rates(up, down), capabilities);
    let first = || problems.first().map(|problem| problem.message.clone());
    state.with_context(|| format!("at {up:?} and {down:?}: {}", first().unwrap_or_default()))
}

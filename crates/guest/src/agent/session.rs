// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that every task of a run shares, and the start of tasks.

use super::clock::Clock;
use super::kit::Loaded;
use super::nodes::Nodes;
use super::recorder::Recorder;
use anyhow::{Context, Error, Result};
use std::future::Future;
use std::rc::Rc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weirgate_experiment::{Arm, Experiment};

/// The shared state of a run; clones share everything.
#[derive(Debug, Clone)]
pub struct Session {
    /// The experiment.
    pub experiment: Rc<Experiment>,
    /// The arm of this run.
    pub arm: Rc<Arm>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Time since the start of traffic.
    pub clock: Clock,
    /// The network namespaces.
    pub nodes: Rc<Nodes>,
    /// The recorder of observations.
    pub recorder: Recorder,
    /// The kit's discipline at the gateway, if the arm has one.
    pub kit: Option<Rc<Loaded>>,
    failures: UnboundedSender<Error>,
}

impl Session {
    /// Returns a session, and the receiver of its tasks' failures.
    #[must_use]
    pub fn new(
        experiment: Experiment,
        arm: Arm,
        seed: u64,
        clock: Clock,
        nodes: Nodes,
        recorder: Recorder,
    ) -> (Self, UnboundedReceiver<Error>) {
        let (failures, failed) = unbounded_channel();
        let session = Self {
            experiment: Rc::new(experiment),
            arm: Rc::new(arm),
            seed,
            clock,
            nodes: Rc::new(nodes),
            recorder,
            kit: None,
            failures,
        };
        (session, failed)
    }

    /// Starts a task that lives until it returns or the run ends. If it returns an error, the
    /// run fails with that error, prefixed with `step`. Must be called inside the run's
    /// `LocalSet`.
    pub fn spawn(&self, step: String, task: impl Future<Output = Result<()>> + 'static) {
        let failures = self.failures.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = task.await.context(step) {
                // The receiver is gone only if the run has ended already.
                let _ = failures.send(error);
            }
        });
    }
}

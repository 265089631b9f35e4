// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One sender of an experiment: a traffic entry and the sender's number in it.

use super::endpoint::Endpoint;
use super::ports::Ports;
use super::tcp::Listeners;
use crate::agent::nodes;
use crate::agent::sample::Senders;
use crate::agent::session::Session;
use anyhow::Result;
use std::future::Future;
use std::rc::Rc;
use weirgate_experiment::{Node, Traffic};

/// State that all flows of a run share.
#[derive(Debug)]
pub struct Shared {
    /// Port numbers.
    pub ports: Ports,
    /// Listening sockets.
    pub listeners: Listeners,
    /// Sockets whose TCP state is sampled.
    pub senders: Senders,
}

/// A flow; clones share all state.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The run.
    pub session: Session,
    /// The state that all flows share.
    pub shared: Rc<Shared>,
    /// Its entry in the experiment.
    pub entry: Rc<Traffic>,
    /// The sender's number within the entry's `count`, from 0.
    pub instance: u16,
    /// Its index in the recording.
    pub index: u16,
    /// The port at the far end.
    pub port: u16,
}

impl Flow {
    /// Returns its runs in nanoseconds of the run's clock, delayed by its stagger. A run that
    /// the stagger exceeds is left out.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let late_ns = self.entry.stagger.as_nanos();
        let late_ns = late_ns.saturating_mul(u64::from(self.instance));
        let runs = self.entry.runs.clone().into_iter();
        runs.map(move |(start, end)| (start.as_nanos().saturating_add(late_ns), end.as_nanos()))
            .filter(|(start, end)| start < end)
    }

    /// Returns the connecting side and the other one. The connecting side is the one behind the
    /// gateway, if only one is.
    pub fn ends(&self) -> (Node, Node) {
        ends(&self.entry)
    }

    /// Returns whether data goes to the accepting side.
    pub fn is_sent_to_far(&self) -> bool {
        self.ends().1 == self.entry.to
    }

    /// Starts a task of this flow. `doing` describes it in errors.
    pub fn spawn(&self, doing: &str, task: impl Future<Output = Result<()>> + 'static) {
        let step = format!(
            "traffic `{}` number {}: {doing}",
            self.entry.name, self.instance
        );
        self.session.spawn(step, task);
    }

    /// Assigns packets between these ports to this flow.
    pub fn label(&self, protocol: u8, near_port: u16) {
        self.session
            .recorder
            .label(protocol, self.port, Some(near_port), self.index);
    }

    /// Samples the TCP state of a socket for this flow.
    pub fn sample(&self, endpoint: &Rc<Endpoint>) {
        self.shared.senders.add(self.index, endpoint);
    }
}

/// Returns the connecting side and the other one, as [`Flow::ends`] does.
pub fn ends(entry: &Traffic) -> (Node, Node) {
    let inside = nodes::is_behind_gateway;
    if inside(entry.to) && !inside(entry.from) {
        (entry.to, entry.from)
    } else {
        (entry.from, entry.to)
    }
}

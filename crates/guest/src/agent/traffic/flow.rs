// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One sender of an experiment: a traffic entry and which of its `count`.

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

/// What all flows of a run share.
#[derive(Debug)]
pub struct Shared {
    /// Port numbers.
    pub ports: Ports,
    /// Listening sockets.
    pub listeners: Listeners,
    /// Sockets whose TCP state is sampled.
    pub senders: Senders,
}

/// A flow; clones share everything.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The run.
    pub session: Session,
    /// What all flows share.
    pub shared: Rc<Shared>,
    /// Its entry in the experiment.
    pub entry: Rc<Traffic>,
    /// Which of the entry's `count` it is, from 0.
    pub instance: u16,
    /// Its index in the recording.
    pub index: u16,
    /// The port at the far end.
    pub port: u16,
}

impl Flow {
    /// Its runs by the run's clock, in nanoseconds, moved by its stagger. A run
    /// that the stagger leaves nothing of is not in them.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let late_ns = self.entry.stagger.as_nanos();
        let late_ns = late_ns.saturating_mul(u64::from(self.instance));
        let runs = self.entry.runs.clone().into_iter();
        runs.map(move |(start, end)| (start.as_nanos().saturating_add(late_ns), end.as_nanos()))
            .filter(|(start, end)| start < end)
    }

    /// The side that connects (behind the gateway where only one side is),
    /// and the other one.
    pub fn ends(&self) -> (Node, Node) {
        ends(&self.entry)
    }

    /// True if data goes to the side that accepts.
    pub fn is_sent_to_far(&self) -> bool {
        self.ends().1 == self.entry.to
    }

    /// Starts a task of this flow; `doing` says what it does in errors.
    pub fn spawn(&self, doing: &str, task: impl Future<Output = Result<()>> + 'static) {
        let step = format!(
            "traffic `{}` number {}: {doing}",
            self.entry.name, self.instance
        );
        self.session.spawn(step, task);
    }

    /// Has the line know packets between these ports as this flow's.
    pub fn label(&self, protocol: u8, near_port: u16) {
        self.session
            .recorder
            .label(protocol, self.port, Some(near_port), self.index);
    }

    /// Has the TCP state of a socket sampled for this flow.
    pub fn sample(&self, endpoint: &Rc<Endpoint>) {
        self.shared.senders.add(self.index, endpoint);
    }
}

/// See [`Flow::ends`].
pub fn ends(entry: &Traffic) -> (Node, Node) {
    let inside = nodes::is_behind_gateway;
    if inside(entry.to) && !inside(entry.from) {
        (entry.to, entry.from)
    } else {
        (entry.from, entry.to)
    }
}

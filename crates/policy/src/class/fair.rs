// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Between whom a class is shared: `fair` of a class, or of the link for the
//! classes that do not say.

use crate::class::Class;
use crate::codes;
use crate::field::words;
use crate::link::Link;
use crate::policy::Policy;
use crate::queue::Queue;
use weirgate_document::{Problems, Value};

/// Between whom the packets of a class are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fair {
    /// Between flows, whoever they belong to.
    Flows,
    /// Between inside hosts, and for each host between its flows.
    Hosts,
    /// Between inside hosts alone: all flows of a host are in one queue
    /// upstream. Downstream as [`Fair::Hosts`].
    HostsOnly,
}

impl Fair {
    /// Whether it needs a queue that knows hosts.
    #[must_use]
    pub const fn knows_hosts(self) -> bool {
        matches!(self, Self::Hosts | Self::HostsOnly)
    }
}

words!(Fair:
    "flows" => Self::Flows,
    "hosts" => Self::Hosts,
    "hosts-only" => Self::HostsOnly,
);

/// What a class says, or the link for it.
pub(crate) fn of(stated: Option<&Value<Fair>>, link: &Link) -> Option<Fair> {
    stated.or(link.fair.as_ref()).map(|fair| fair.value)
}

/// Whether queues can do what classes ask for. What the link asks for is a
/// default, which a queue of the class's own overrides.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    let asked = |class: &&Class| {
        class
            .fair
            .as_ref()
            .is_some_and(|fair| fair.value.knows_hosts())
    };
    for class in policy.classes.iter().filter(asked) {
        let (Some(queue), Some(fair)) = (&class.queue, &class.fair) else {
            continue;
        };
        if !matches!(queue.value, Queue::Cake(_)) {
            problems.error(
                codes::FAIR,
                fair.span.clone(),
                format!(
                    "a queue `{}` does not know hosts, so that `{}` cannot be shared between them",
                    queue.value.kind(),
                    class.name.value
                ),
                "leave `queue` out, or write `queue = \"cake\"`",
            );
        }
    }
}

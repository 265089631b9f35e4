// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that each class's queue can share the class as its `fair` requires.

use crate::class::Class;
use crate::codes;
use crate::policy::Policy;
use crate::queue::Queue;
use weirgate_document::Problems;

/// Checks `fair` of each class. `fair` of the link is a default, which a class's own queue
/// overrides.
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
                    "a queue `{}` does not distinguish hosts, so that `{}` cannot be shared \
                     between them",
                    queue.value.kind(),
                    class.name.value
                ),
                "leave `queue` out, or write `queue = \"cake\"`",
            );
        }
    }
}

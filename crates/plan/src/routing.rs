// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps from one routing over several links to another.
//!
//! New parts are created before old ones are removed, so that no packet is looked up in a table
//! that does not exist yet. The way back is a plan from the state that is observed then to the
//! former one.

use std::fmt;
use weirgate_state::{LinkRoute, MARKS_TABLE, Marking, Routing, RoutingRule};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutingStep {
    /// Creates a route, or replaces the one of its table and IP version.
    SetRoute(LinkRoute),
    /// Creates a rule.
    AddRule(RoutingRule),
    /// Creates or replaces the table of marks.
    SetMarks(Marking),
    /// Removes a rule.
    RemoveRule(RoutingRule),
    /// Removes a route.
    RemoveRoute(LinkRoute),
    /// Removes the table of marks.
    RemoveMarks,
}

/// Returns the steps, in order; none if both are equal.
#[must_use]
pub fn plan_routing(observed: &Routing, desired: &Routing) -> Vec<RoutingStep> {
    let mut steps = Vec::new();
    let routes = desired.routes.difference(&observed.routes);
    steps.extend(routes.cloned().map(RoutingStep::SetRoute));
    let rules = desired.rules.difference(&observed.rules);
    steps.extend(rules.cloned().map(RoutingStep::AddRule));
    match (&observed.marks, &desired.marks) {
        (before, Some(after)) if before.as_ref() != Some(after) => {
            steps.push(RoutingStep::SetMarks(after.clone()));
        }
        (Some(_), None) => steps.push(RoutingStep::RemoveMarks),
        _ => {}
    }
    let rules = observed.rules.difference(&desired.rules);
    steps.extend(rules.cloned().map(RoutingStep::RemoveRule));
    let kept = |gone: &LinkRoute| {
        let same = |one: &LinkRoute| (one.table, one.version) == (gone.table, gone.version);
        desired.routes.iter().any(same)
    };
    let routes = observed.routes.difference(&desired.routes);
    let gone = routes.filter(|gone| !kept(gone)).cloned();
    steps.extend(gone.map(RoutingStep::RemoveRoute));
    steps
}

impl fmt::Display for RoutingStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetRoute(route) => write!(f, "set {route}"),
            Self::AddRule(rule) => write!(f, "add {rule}"),
            Self::SetMarks(marking) => {
                write!(f, "set table inet {MARKS_TABLE}")?;
                let lines = marking.lines();
                lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
            }
            Self::RemoveRule(rule) => write!(f, "remove {rule}"),
            Self::RemoveRoute(route) => write!(f, "remove {route}"),
            Self::RemoveMarks => write!(f, "remove table inet {MARKS_TABLE}"),
        }
    }
}

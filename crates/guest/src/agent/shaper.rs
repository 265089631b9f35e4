// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arm's policy: applied on the gateway before traffic, removed after it.
//!
//! It uses the same crates as a user's policy (policy, compile, plan, kernel), so that every run
//! also tests them. It also checks that removal leaves nothing behind.

use super::nodes::Nodes;
use super::recorder::Recorder;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::{Display, Write};
use weirgate_document::{Problem, Severity};
use weirgate_experiment::{Node, Tracked};
use weirgate_kernel::{Kernel, Scope};
use weirgate_plan::{Options, Plan, plan, plan_with, verify, with_former};
use weirgate_state::State;

/// A policy in force.
pub struct Shaper {
    kernel: Kernel,
    name: String,
    former: State,
    desired: State,
}

/// The gateway's state before any policy, and the desired state of the policy in force.
#[derive(Debug, Clone)]
pub struct Known {
    /// The state before any policy.
    pub former: State,
    /// The desired state of the policy in force.
    pub desired: State,
}

impl Shaper {
    /// Applies the policy `text` on the gateway; `name` is its path.
    pub async fn apply(name: &str, text: &str, nodes: &Nodes, recorder: &Recorder) -> Result<Self> {
        let mut report = String::new();
        let kernel = Kernel::open_in(nodes.space(Node::Gateway)?)?;
        let desired = desired(&kernel, name, text, &mut report).await?;
        let former = kernel.observe(&Scope::of([&desired])).await?;
        let plan = plan(&former, &desired)
            .map_err(|problems| anyhow::anyhow!("there is no plan: {}", list(&problems)))?;
        write_plan(&mut report, &plan);
        recorder.transcript(format!("gateway: policy {name}"), report, 0);
        kernel.apply(&plan).await?;
        Ok(Self {
            kernel,
            name: name.to_owned(),
            former,
            desired,
        })
    }

    /// Returns a policy that a change has applied, for removal at the end.
    pub fn taken_over(name: &str, known: Known, nodes: &Nodes) -> Result<Self> {
        Ok(Self {
            kernel: Kernel::open_in(nodes.space(Node::Gateway)?)?,
            name: name.to_owned(),
            former: known.former,
            desired: known.desired,
        })
    }

    /// Returns the states that a change needs.
    pub fn known(&self) -> Known {
        Known {
            former: self.former.clone(),
            desired: self.desired.clone(),
        }
    }

    /// Returns the connections that the gateway tracks.
    pub async fn tracked(&self) -> Result<Vec<Tracked>> {
        let connections = self.kernel.connections().await?;
        let tracked = connections.iter().map(|connection| Tracked {
            protocol: connection.original.protocol,
            port: connection.original.destination_port,
            answered: connection.answered,
            mark: connection.mark,
        });
        Ok(tracked.collect())
    }

    /// Removes the policy, and verifies that the gateway is in its former state.
    pub async fn remove(self, recorder: &Recorder) -> Result<()> {
        let scope = Scope::of([&self.former, &self.desired]);
        let observed = self.kernel.observe(&scope).await?;
        let options = Options {
            previous: Some(&self.desired),
            ..Options::default()
        };
        let wanted = with_former(&State::default(), &self.former);
        let plan = plan_with(&observed, &wanted, &options)
            .map_err(|problems| anyhow::anyhow!("there is no plan back: {}", list(&problems)))?;
        let mut report = String::new();
        write_plan(&mut report, &plan);
        recorder.transcript(format!("gateway: remove {}", self.name), report, 0);
        self.kernel.apply(&plan).await?;
        let after = self.kernel.observe(&scope).await?;
        let differences = verify(&after, &wanted);
        ensure!(
            differences.is_empty(),
            "something is left after removing {}: {}",
            self.name,
            list(&differences)
        );
        Ok(())
    }
}

/// Compiles a policy for a kernel. Errors in it fail; warnings are added to the report.
pub(super) async fn desired(
    kernel: &Kernel,
    name: &str,
    text: &str,
    report: &mut String,
) -> Result<State> {
    let (policy, problems) = weirgate_policy::parse(text);
    note(report, &problems, name, text)?;
    let policy = policy.with_context(|| format!("{name} cannot be used"))?;
    let mut capabilities = kernel.capabilities().await?;
    capabilities.payload &= !policy.needs_programs() || weirgate_kernel::can_look();
    let (desired, problems) = weirgate_compile::compile(&policy, &capabilities);
    note(report, &problems, name, text)?;
    desired.with_context(|| format!("{name} cannot be compiled"))
}

/// Adds warnings and notes to the report, and fails if there are errors.
fn note(report: &mut String, problems: &[Problem], name: &str, text: &str) -> Result<()> {
    let mut wrong = String::new();
    for problem in problems {
        let into = match problem.severity {
            Severity::Error => &mut wrong,
            Severity::Warning | Severity::Note => &mut *report,
        };
        into.push_str(&problem.render(name, text));
        into.push('\n');
    }
    if !wrong.is_empty() {
        bail!("{name} has mistakes:\n{wrong}");
    }
    Ok(())
}

pub(super) fn write_plan(report: &mut String, plan: &Plan) {
    for step in &plan.steps {
        // Writing to a string cannot fail.
        let _ = writeln!(report, "# {step}\n{}", step.action.command());
    }
}

pub(super) fn list(items: &[impl Display]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

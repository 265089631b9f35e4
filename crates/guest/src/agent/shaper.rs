// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arm's policy: applied on the gateway before traffic, removed after it.
//!
//! It takes the way that a user's policy takes (policy, compile, plan,
//! kernel), so that every run also tests that way; and it checks that removal
//! leaves nothing behind.

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

/// The gateway before a change: its state before any policy, and the desired state of the policy in
/// force.
#[derive(Debug, Clone)]
pub struct Known {
    /// Before any policy.
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

    /// A policy that was applied by another's doing, to remove in the end.
    pub fn taken_over(name: &str, known: Known, nodes: &Nodes) -> Result<Self> {
        Ok(Self {
            kernel: Kernel::open_in(nodes.space(Node::Gateway)?)?,
            name: name.to_owned(),
            former: known.former,
            desired: known.desired,
        })
    }

    /// What a change has to know.
    pub fn known(&self) -> Known {
        Known {
            former: self.former.clone(),
            desired: self.desired.clone(),
        }
    }

    /// The connections that the gateway tracks.
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

    /// Removes the policy, and verifies that the gateway is as it was before.
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

/// What a policy asks of a kernel. Mistakes in it are an error, warnings go to
/// the report.
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

/// Keeps warnings and notes for the record; errors end the run.
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

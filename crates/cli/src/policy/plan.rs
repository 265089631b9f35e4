// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate plan`: shows what applying a policy would change.

use crate::policy::apply::{asked, describe, refused, site, wanted};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::json::{Document, documented};
use weirgate_console::output;
use weirgate_console::policy::{Loaded, SITE};
use weirgate_console::runtime::in_runtime;
use weirgate_keep::PlannedLinks;
use weirgate_plan::Plan;

/// What to plan, and how to print it.
#[derive(clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Arguments {
    /// The policy file.
    #[arg(default_value = SITE)]
    policy: PathBuf,
    /// Plan as if a root qdisc that weirgate did not make may be replaced.
    #[arg(long)]
    adopt: bool,
    /// Print the closest command lines of ip, tc, ethtool and nft.
    #[arg(long, conflicts_with = "json")]
    commands: bool,
    /// Also print the set-up of each direction, beside a naive set-up.
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Prints the plan. The exit status is 1 if something would change.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    documented(arguments.json, |document| {
        planned(state, arguments, document)
    })
}

fn planned(state: &Path, arguments: &Arguments, document: &Document) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let wanted = wanted(&site, &arguments.policy).await;
        let (wanted, loaded) = wanted.map_err(asked)?;
        let planned = site.plan(&wanted, arguments.adopt).await;
        let plan = planned.map_err(|error| asked(refused(error)))?.plan;
        let mark = if arguments.commands { "# " } else { "" };
        if arguments.json {
            put(document, None, Some(&plan));
        } else {
            if let count @ 1.. = plan.steps.len() {
                let plural = if count == 1 { "" } else { "s" };
                output::data(&format!("{mark}{count} change{plural}"))?;
            }
            describe(&plan, arguments.commands)?;
        }
        if arguments.all {
            set_ups(&loaded, mark)?;
        }
        Ok(if plan.steps.is_empty() {
            Status::Done
        } else {
            Status::Differs
        })
    })
}

fn set_ups(loaded: &Loaded, mark: &str) -> std::io::Result<()> {
    let all = loaded.policies().iter();
    for setup in all.flat_map(weirgate_compile::setups) {
        let text = setup.to_string();
        let lines = text.lines().map(|line| format!("{mark}{line}"));
        let lines: Vec<String> = lines.collect();
        output::data(&format!("\n{}", lines.join("\n")))?;
    }
    Ok(())
}

/// Puts a change into a document: the steps of its links and of its plan, and the losses that no
/// other plan can undo.
pub fn put(document: &Document, links: Option<&PlannedLinks>, plan: Option<&Plan>) {
    if !document.is_wanted() {
        return;
    }
    let routing = links.iter().flat_map(|links| &links.steps);
    let routing = routing.map(|step| json!({ "text": step.to_string() }));
    let own = |plan: &Plan| -> Vec<Value> {
        let steps = plan.steps.iter();
        let steps = steps.map(|step| {
            json!({
                "text": step.to_string(),
                "command": step.action.command(),
                "line": step.origin.line,
                "reason": step.origin.reason,
                "empties": plan.empties(&step.action),
            })
        });
        steps.collect()
    };
    let steps = routing.chain(plan.map(own).unwrap_or_default());
    document.put("steps", steps.collect());
    let losses = plan.map(Plan::losses).unwrap_or_default();
    let losses = losses.iter().map(ToString::to_string);
    document.put("losses", losses.collect());
}

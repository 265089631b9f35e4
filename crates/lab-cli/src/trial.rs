// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate try`: runs an experiment that is part of the program.

use crate::lines::{self, TrialLine};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weirgate_campaign::result::ExperimentResult;
use weirgate_campaign::{bundled, saved};
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_measure::JudgedExpectation;
use weirgate_report::html::Section;
use weirgate_report::{missed, try_summary};

/// Arguments of `try`.
#[derive(Args)]
pub struct Arguments {
    /// The kind of line.
    #[arg(long, value_parser = lines::parser(), default_value = lines::LINES[0].key)]
    line: &'static TrialLine,
    /// The HTML report to write.
    #[arg(long, default_value = "weirgate-try.html", value_name = "FILE")]
    report: PathBuf,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules.
    #[arg(long)]
    kernel: Option<weirgate_lab::KernelChoice>,
}

/// Runs the experiment, prints the comparison and writes the report.
pub fn run(arguments: &Arguments) -> Outcome {
    let line = arguments.line;
    let (name, text) = line.experiment;
    let experiment = weirgate_console::source::parse(
        std::path::Path::new(name),
        text,
        weirgate_experiment::parse,
    )?;
    saved::can_write_report(&arguments.report)?;
    let (policy, rules) = line.policy;
    let files = BTreeMap::from([(policy.to_owned(), rules.to_owned())]);
    output::note(&format!(
        "Emulating {}, on a stock kernel in two\n\
         virtual machines: as the provider delivers it, and under weirgate. {}.",
        line.about, line.takes
    ));
    let result: ExperimentResult = bundled(
        std::path::Path::new(name),
        text,
        experiment,
        files,
        arguments.kernel.clone(),
    )?;
    let figures = |arm: &str| {
        let found = result.figures.get(arm);
        found.ok_or_else(|| anyhow::anyhow!("the arm `{arm}` gave no figures"))
    };
    let (before, after) = (figures("modem-only")?, figures("weirgate")?);
    output::data(&try_summary(&result.experiment, before, after))?;
    let missed = missed(&result.verdicts);
    if !missed.is_empty() {
        output::data(&missed)?;
    }
    let section = result.findings(Section::new);
    saved::write_report(
        "weirgate: before and after",
        &[section],
        &[],
        &arguments.report,
    )?;
    let as_known = |one: &JudgedExpectation| one.kept() || one.has_mechanism(&result.verdicts);
    Ok(if result.verdicts.iter().all(as_known) {
        Status::Done
    } else {
        Status::Differs
    })
}

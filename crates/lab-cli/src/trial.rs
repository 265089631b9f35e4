// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate try`: an experiment that comes with the program.

use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weirgate_campaign::bundled;
use weirgate_campaign::result::ExperimentResult;
use weirgate_campaign::saved;
use weirgate_console::exit::Outcome;
use weirgate_console::output;
use weirgate_report::html::Section;
use weirgate_report::try_summary;

/// The experiment, and the policy that it names.
const EXPERIMENT: &str = include_str!("../../../experiments/try.toml");
const POLICY: (&str, &str) = (
    "../policies/default.toml",
    include_str!("../../../policies/default.toml"),
);

/// Arguments of `try`.
#[derive(Args)]
pub struct Arguments {
    /// The HTML report to write.
    #[arg(long, default_value = "weirgate-try.html", value_name = "FILE")]
    report: PathBuf,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules.
    #[arg(long)]
    kernel: Option<weirgate_lab::KernelChoice>,
}

/// Runs it, prints the comparison, writes the report.
pub fn run(arguments: &Arguments) -> Outcome {
    let experiment = weirgate_console::source::parse(
        std::path::Path::new("try.toml"),
        EXPERIMENT,
        weirgate_experiment::parse,
    )?;
    saved::can_write_report(&arguments.report)?;
    let files = BTreeMap::from([(POLICY.0.to_owned(), POLICY.1.to_owned())]);
    output::note(
        "Emulating an ADSL line, 2 Mbit/s down and 512 kbit/s up, on a stock kernel in two\n\
         virtual machines: as the provider delivers it, and under weirgate. About a minute.",
    );
    let result: ExperimentResult =
        bundled(EXPERIMENT, experiment, files, arguments.kernel.clone())?;
    let figures = |arm: &str| {
        let found = result.figures.get(arm);
        found.ok_or_else(|| anyhow::anyhow!("the arm `{arm}` gave no figures"))
    };
    let (before, after) = (figures("modem-only")?, figures("weirgate")?);
    output::data(&try_summary(&result.experiment, before, after))?;
    let section = result.findings(Section::new);
    saved::write_report(
        "weirgate: before and after",
        &[section],
        &[],
        &arguments.report,
    )?;
    Ok(result.status())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inbound campaign: short runs of every method that controls arriving traffic, over several
//! lines and loads, and one page with the results.
//!
//! Each run has one file of figures in the folder. A run whose file exists is not repeated, so that
//! an interrupted campaign can continue. The page shows the completed runs, and names the missing
//! ones.

mod drawn;
mod drawn_page;
mod figures;
mod list;
mod page;
mod plot;
mod text;

use crate::files::program;
use anyhow::{Context, Result};
use drawn::Ranges;
use figures::{Run, figures};
use list::Campaign;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The time limit of a run in seconds of wall-clock time, sufficient for a fast line on a busy
/// machine.
const LONGEST_SECONDS: &str = "3600";

/// Makes the missing runs, unless `page_only`, then writes the page. `weirgate` is the program with
/// the lab; the default is this workspace's.
pub fn run(
    root: &Path,
    folder: Option<&Path>,
    weirgate: Option<&Path>,
    page_only: bool,
) -> Result<()> {
    let campaign = Campaign::read(root)?;
    go(root, &campaign, folder, weirgate, page_only, &|runs| {
        put(
            &root.join("docs/inbound-campaign.md"),
            page::text(&campaign.lines, runs),
        )?;
        put(&root.join("docs/inbound-campaign.svg"), plot::svg(runs))
    })
}

/// Makes the missing runs of lines and loads that a seed draws, with cake as the only rival.
pub fn random(
    root: &Path,
    (seed, rows): (u64, u64),
    folder: Option<&Path>,
    weirgate: Option<&Path>,
    page_only: bool,
) -> Result<()> {
    let ranges = Ranges::read(root)?;
    let campaign = ranges.campaign(seed, rows);
    go(root, &campaign, folder, weirgate, page_only, &|runs| {
        put(
            &root.join("docs/inbound-drawn.md"),
            drawn_page::text(seed, &ranges.about, runs),
        )
    })
}

/// Makes the missing runs, and shows the progress after each.
fn go(
    root: &Path,
    campaign: &Campaign,
    folder: Option<&Path>,
    weirgate: Option<&Path>,
    page_only: bool,
    show: &dyn Fn(&[Run<'_>]) -> Result<()>,
) -> Result<()> {
    let folder = folder.map_or_else(|| root.join("target/inbound-campaign"), Path::to_owned);
    let weirgate = weirgate.map_or_else(|| program(root, "weirgate"), Path::to_owned);
    write(campaign, &folder)?;
    if !page_only {
        for run in runs(campaign, &folder)? {
            if run.figures.is_none() {
                make(&weirgate, &folder, &run)?;
                show(&runs(campaign, &folder)?)?;
            }
        }
    }
    show(&runs(campaign, &folder)?)
}

fn put(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}", path.display()))
}

/// Writes experiments and policies, for the lab and for readers.
fn write(campaign: &Campaign, folder: &Path) -> Result<()> {
    let policies = folder.join("policies");
    fs::create_dir_all(&policies).with_context(|| format!("{}", policies.display()))?;
    for runs in campaign.runs()? {
        let name = format!("{}-{}.toml", runs.line.name, runs.load.name);
        put(&folder.join(name), text::experiment(&runs))?;
    }
    for line in &campaign.lines {
        for arm in &campaign.arms {
            if let Some(policy) = text::policy(line, arm) {
                let name = format!("{}-{}.toml", line.name, arm.name);
                put(&policies.join(name), policy)?;
            }
        }
    }
    Ok(())
}

/// Returns the whole list, with the figures of completed runs.
fn runs<'c>(campaign: &'c Campaign, folder: &Path) -> Result<Vec<Run<'c>>> {
    let mut all = Vec::new();
    for runs in campaign.runs()? {
        for arm in runs.arms {
            let mut run = Run {
                line: runs.line,
                load: runs.load,
                arm: &arm.name,
                figures: None,
            };
            let text = fs::read_to_string(folder.join(run.name() + ".json"));
            run.figures = text.ok().and_then(|text| figures(&run, &text));
            all.push(run);
        }
    }
    Ok(all)
}

/// Makes one run. A failed run leaves a file of messages, and no figures.
fn make(weirgate: &Path, folder: &Path, run: &Run<'_>) -> Result<()> {
    let name = run.name();
    let experiment = folder.join(format!("{}-{}.toml", run.line.name, run.load.name));
    let messages = folder.join(format!("{name}.messages"));
    let file = fs::File::create(&messages).with_context(|| format!("{}", messages.display()))?;
    let mut command = Command::new(weirgate);
    command.args(["lab", "run"]).arg(experiment);
    command.args(["--arm", run.arm, "--seed", "1", "--seeds", "1"]);
    command.args(["--jobs", "1", "--json", "--limit", LONGEST_SECONDS]);
    let output = command.stdin(Stdio::null()).stderr(file).output();
    let output = output.with_context(|| format!("{}", weirgate.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if figures(run, &text).is_some() {
        let path = folder.join(format!("{name}.json"));
        fs::write(&path, &output.stdout).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

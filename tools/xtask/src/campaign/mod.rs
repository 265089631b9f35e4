// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inbound campaign: every way to hold what arrives, over several lines and
//! loads, each run short, and one page of what was measured.
//!
//! One run is one file of figures in the folder; a run whose file is there is
//! not made again, so that the campaign goes on where it was left. The page
//! shows what is there and says what is not.

mod drawn;
mod drawn_page;
mod list;
mod page;
mod plot;
mod text;

use anyhow::{Context, Result};
use list::{Campaign, Line, Load};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The longest that a run may take, in seconds of wall time: a fast line on a
/// busy machine.
const LONGEST_SECONDS: &str = "3600";

/// The figures of a run that the page shows.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// The probe's round trips, in milliseconds: mean, 95th and 99th percentile,
    /// longest.
    pub delay: [f64; 4],
    /// What TCP's receivers got downstream of what the line carries of payload,
    /// 1 for all of it. Datagrams that were asked for count in the run with an
    /// even stream of them.
    pub kept: f64,
    /// Mean completion of short flows, in seconds, where there are any.
    pub mice: Option<f64>,
}

/// One run of the list.
#[derive(Debug)]
pub struct Run<'c> {
    pub line: &'c Line,
    pub load: &'c Load,
    pub arm: &'c str,
    /// `None` where it was not made yet, or failed.
    pub figures: Option<Figures>,
}

impl Run<'_> {
    /// The name of its file, and of its experiment with the load's.
    fn name(&self) -> String {
        format!("{}-{}-{}", self.line.name, self.load.name, self.arm)
    }
}

/// Makes the runs that are missing, unless `page_only`, then writes the page.
/// `weirgate` is the program with the lab, this workspace's unless told.
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

/// The same for lines and loads that a seed draws, beside cake alone.
pub fn random(
    root: &Path,
    (seed, rows): (u64, u64),
    folder: Option<&Path>,
    weirgate: Option<&Path>,
    page_only: bool,
) -> Result<()> {
    let campaign = drawn::campaign(seed, rows);
    go(root, &campaign, folder, weirgate, page_only, &|runs| {
        put(
            &root.join("docs/inbound-drawn.md"),
            drawn_page::text(seed, runs),
        )
    })
}

/// Makes the runs that are missing, and shows what is there after each.
fn go(
    root: &Path,
    campaign: &Campaign,
    folder: Option<&Path>,
    weirgate: Option<&Path>,
    page_only: bool,
    show: &dyn Fn(&[Run<'_>]) -> Result<()>,
) -> Result<()> {
    let folder = folder.map_or_else(|| root.join("target/inbound-campaign"), Path::to_owned);
    let weirgate = weirgate.map_or_else(|| root.join("target/release/weirgate"), Path::to_owned);
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

/// Experiments and policies, for the lab and for whoever looks.
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

/// The whole list, with what is there of figures.
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

/// Makes one run. One that fails leaves its messages beside, and no figures.
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

/// What the page shows of the lab's figures; `None` where there are none.
fn figures(run: &Run<'_>, text: &str) -> Option<Figures> {
    let document: Value = serde_json::from_str(text).ok()?;
    let metrics = &document["arms"][run.arm]["metrics"];
    let number = |name: &str| metrics[format!("full.{name}")].as_f64();
    let delay =
        ["mean", "p95", "p99", "max"].map(|which| number(&format!("rtt.interactive.{which}_ms")));
    let [Some(mean), Some(late), Some(latest), Some(longest)] = delay else {
        return None;
    };
    let wanted = ["down", "stream"].map(|name| number(&format!("goodput.{name}.mean_kbit")));
    Some(Figures {
        delay: [mean, late, latest, longest],
        kept: wanted.iter().flatten().sum::<f64>() / run.line.payload(),
        mice: number("response.mice.mean_s"),
    })
}

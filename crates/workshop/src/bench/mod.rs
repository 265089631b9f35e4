// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm bench`: measures the cost of a packet in the lab's kernel.

pub mod circuits;
mod devices;
mod inside;
mod rivals;
mod tree;

use inside::{self as inside_of, Figure, Pacing, all, is_named};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::time::Duration;
use weirgate_console::discipline::{self as own, Built};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_lab::{KernelChoice, Lab, Limits, Options};
use weirgate_units::Rate;

/// The goals: the largest cost of a packet with drop tail, and with meredt in a shaper with
/// classes, the latter relative to cake's cost.
const DROPTAIL: (&str, f64) = ("droptail", 1_600.0);
const CLASSES: (&str, &str, f64) = ("meredt+classes", "kernel-cake+tins", 0.5);

/// The range of rates. At the upper rate, sending a packet takes its whole interval; at the lower
/// rate, the run reaches the lab's time limit.
const SLOWEST: Rate = Rate::kbit(20_000);
const FASTEST: Rate = Rate::kbit(500_000);

/// The JSON output.
#[derive(Serialize)]
struct Report<'a> {
    kernel: &'a str,
    figures: &'a [Figure],
}

/// How to measure.
#[derive(clap::Args)]
pub struct Run {
    /// Packets of the shorter of two runs; the longer one has three times as many. With a rate, a
    /// quarter of them.
    #[arg(long, default_value_t = 25_600, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    packets: u64,
    /// The rate of shapers, from 20mbit to 500mbit: the time of a packet of 1,250 bytes must
    /// suffice to send it.
    #[arg(long, default_value = "250mbit", value_name = "RATE")]
    rate: Rate,
    /// Also report the instructions of each program of a BPF qdisc, by a further run for each.
    #[arg(long)]
    programs: bool,
}

/// Implements `weirgate aqm bench`.
pub fn bench(
    words: &[String],
    run: &Run,
    kernel: Option<&KernelChoice>,
    json: bool,
    inside: bool,
) -> Outcome {
    let all = all();
    let mut own = Vec::new();
    for word in words.iter().filter(|_| !inside) {
        if all.iter().any(|(name, _)| is_named(name, word)) {
            continue;
        }
        own.push(own::file(word)?.ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
            wrong(format!(
                "there is nothing called `{word}` to measure; there are {}, and your own by its \
                 folder",
                names.join(", ")
            ))
        })?);
    }
    if !(SLOWEST..=FASTEST).contains(&run.rate) {
        let rate = run.rate;
        return Err(wrong(format!(
            "{rate} cannot be measured: write from {SLOWEST} to {FASTEST}"
        )));
    }
    if inside {
        return inside_of::run(words, run.packets, run.rate, run.programs);
    }
    let bare = |name: &str| name.starts_with("noqueue");
    let named = |name: &str| words.is_empty() || words.iter().any(|word| is_named(name, word));
    let mut chosen: Vec<String> = all
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| bare(name) || named(name))
        .collect();
    chosen.extend(own.iter().flat_map(|built| inside_of::own(&built.path)));
    let (kernel, figures) = in_the_lab(&chosen, &own, run, kernel)?;
    if json {
        let report = Report {
            kernel: &kernel,
            figures: &figures,
        };
        let text = serde_json::to_string_pretty(&report).map_err(anyhow::Error::from)?;
        output::data(&format!("{text}\n"))?;
    } else {
        output::data(&format!(
            "kernel {kernel}, instructions for a packet\n{}",
            table(&figures, run.rate)
        ))?;
    }
    Ok(Status::Done)
}

fn table(figures: &[Figure], rate: Rate) -> String {
    // A figure with lost packets is invalid: dropping them costs less.
    let cost = |name: &str| {
        let found = figures.iter().find(|it| it.name == name && it.lost == 0);
        found.map(|it| it.cost)
    };
    let mut text = String::new();
    for (pacing, what) in [
        (
            Pacing::Bursts,
            "no rate; bursts of 32 and 96 into a device that takes 16".to_owned(),
        ),
        (Pacing::Paced, format!("held to {rate}")),
    ] {
        let mut rows = figures.iter().filter(|it| it.pacing == pacing).peekable();
        if rows.peek().is_none() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what}:");
        for one in rows {
            let _ = write!(text, "  {:<22}{:>8.0}", one.name, one.cost);
            if one.name.starts_with("noqueue") {
                let _ = write!(
                    text,
                    "  of {:.0}, which the others exceed by theirs",
                    one.whole
                );
            }
            if one.lost > 0 {
                let _ = write!(text, "  ({} packets lost)", one.lost);
            }
            text.push('\n');
            for (name, program) in &one.programs {
                let _ = writeln!(
                    text,
                    "    {name:<20}{:>8.0}, {:.2} times",
                    program.instructions, program.runs
                );
            }
        }
    }
    if let Some(cost) = cost(DROPTAIL.0) {
        let _ = writeln!(
            text,
            "goal: {} at most {:.0}: {}",
            DROPTAIL.0,
            DROPTAIL.1,
            met(cost <= DROPTAIL.1)
        );
    }
    if let (Some(own), Some(cake)) = (cost(CLASSES.0), cost(CLASSES.1)) {
        let _ = writeln!(
            text,
            "goal: {} at most {} of {}: {:.2}, {}",
            CLASSES.0,
            CLASSES.2,
            CLASSES.1,
            own / cake,
            met(own <= CLASSES.2 * cake)
        );
    }
    text
}

fn met(is: bool) -> &'static str {
    if is { "met" } else { "missed" }
}

/// Returns the kernel's release and the figures that a command prints in the lab's machine: a line
/// of JSON after its status.
fn figures_of<T: DeserializeOwned>(
    lab: &Lab,
    line: &[&str],
    limits: Limits,
) -> Result<(String, Vec<T>), Failure> {
    let output = lab
        .execute(line, &[], (1, limits), &mut |_| ())
        .map_err(anyhow::Error::from)?;
    let text = String::from_utf8_lossy(&output.result).into_owned();
    let (status, message) = text.split_once('\n').unwrap_or((&text, ""));
    if status != "status: 0" {
        return Err(Failure::Refused(message.trim_end().to_owned()));
    }
    let figures = message
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    let figures =
        figures.ok_or_else(|| Failure::Refused(format!("no figures in its output: {message}")))?;
    Ok((output.kernel, figures))
}

/// Runs this program in the lab's kernel, with a new boot for each subject. Otherwise the state
/// that one left, above all memory that is still being freed, would count for the next.
fn in_the_lab(
    words: &[String],
    files: &[Built],
    run: &Run,
    kernel: Option<&KernelChoice>,
) -> Result<(String, Vec<Figure>), Failure> {
    let own = std::env::current_exe()?;
    let base = own.file_name().unwrap_or_default().to_string_lossy();
    let options = Options {
        kernel: kernel.cloned(),
        programs: files
            .iter()
            .map(|built| &built.path)
            .chain([&own])
            .map(|path| path.to_string_lossy().into_owned())
            .collect(),
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).map_err(anyhow::Error::from)?;
    let packets = run.packets.to_string();
    let rate = run.rate.to_string();
    let mut all = (String::new(), Vec::new());
    for (number, word) in (1..).zip(words) {
        let progress = format!("{number} of {}", words.len());
        output::note(&format!("measuring {word} ({progress})"));
        let mut line = vec![
            &*base,
            "aqm",
            "bench",
            "--inside",
            "--packets",
            &packets,
            "--rate",
            &rate,
        ];
        if run.programs {
            line.push("--programs");
        }
        line.push(word);
        let limits = Limits {
            wall: Duration::from_mins(30),
            ..Limits::default()
        };
        let (kernel, figures) = figures_of(&lab, &line, limits)?;
        all.0 = kernel;
        all.1.extend(figures.into_iter().map(inside_of::shown));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn figure(name: &str, pacing: Pacing, cost: f64) -> Figure {
        Figure {
            name: name.to_owned(),
            pacing,
            whole: cost,
            cost,
            lost: 0,
            programs: BTreeMap::new(),
        }
    }

    #[test]
    fn goals_are_judged() {
        let text = table(
            &[
                figure("droptail", Pacing::Bursts, 1_601.0),
                figure("kernel-cake+tins", Pacing::Paced, 10_000.0),
                figure("meredt+classes", Pacing::Paced, 5_000.0),
            ],
            FASTEST,
        );
        assert!(text.contains("droptail at most 1600: missed"), "{text}");
        assert!(
            text.contains("0.5 of kernel-cake+tins: 0.50, met"),
            "{text}"
        );
    }

    #[test]
    fn a_discipline_names_all_that_it_is_in() {
        assert!(is_named("meredt+classes", "meredt"));
        assert!(is_named("kernel-cake", "cake"));
        assert!(!is_named("mered", "meredt"));
    }
}

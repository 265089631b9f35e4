// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate top`: shows the present traffic in a terminal.

mod circuits;
mod connections;
mod details;
pub mod format;
mod lines;
mod screen;

use crate::metrics::legend::{legend, sources, tracked};
use crate::whole::flows::sorter;
use crate::whole::links;
use crate::whole::watch::{every, wrong};
use lines::{Look, View, lines};
use screen::Screen;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_history::Event;
use weirgate_keep::Folders;
use weirgate_watch::{Legend, Step, Steps, Target, target};

/// The most events that are kept for the screen.
const EVENTS: usize = 200;
/// The time between the first two samples of a screen, so that rates appear soon.
const FIRST: Duration = Duration::from_millis(200);

/// The reason why a single sample has no hosts.
const WITHOUT_PACKETS: &str = "`--packets` shows packets";

/// The arguments of `weirgate top`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The time between two samples.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    every: Duration,
    /// Take two samples, print what happened between them, and exit.
    #[arg(long)]
    once: bool,
    /// With --once, also measure packets: hosts, delays and round trips. Loading the programs for
    /// this takes seconds.
    #[arg(long, requires = "once")]
    packets: bool,
    /// Print JSON, one object for each sample.
    #[arg(long)]
    json: bool,
    /// The policy that names classes and their promises; without it, the applied one if it can be
    /// read.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Send this host an ICMP echo request at every sample, with a code point of 0 to 63; may be
    /// repeated.
    #[arg(long, value_name = "NAME=ADDRESS[,DSCP]", value_parser = target)]
    probe: Vec<Target>,
}

/// `weirgate top`.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    in_runtime(async {
        let here = Folders::here(state).ok();
        let policy = arguments.policy.as_deref();
        let mut sources = sources(here.as_ref(), policy);
        let mut known = legend(state, policy, sorter)?;
        let mut steps = Steps::open(known.clone())?;
        steps.come_every(arguments.every);
        steps.probe(&arguments.probe).map_err(wrong)?;
        let plain = arguments.once || arguments.json || !std::io::stdout().is_terminal();
        let mut screen = if plain { None } else { Some(Screen::open()?) };
        if let Some(screen) = &mut screen {
            begin(&mut steps, &known, screen).await?;
        }
        let without_packets = arguments.once && !arguments.packets;
        if !without_packets {
            steps.look_at_packets();
        }
        let mut ticks = tokio::time::interval(arguments.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut events = VecDeque::new();
        loop {
            match &mut screen {
                None => {
                    ticks.tick().await;
                }
                Some(screen) => {
                    if !screen.until(&known, ticks.tick()).await? {
                        return Ok(Status::Done);
                    }
                }
            }
            // A file may be invalid for a moment while it is written. Then the old legend stays.
            if sources.have_changed()
                && let Ok(again) = legend(state, policy, sorter)
            {
                known = again;
                steps.set_legend(known.clone());
            }
            steps.set_lines(here.as_ref().map(tracked).unwrap_or_default());
            steps.set_links(here.as_ref().map(links::held).unwrap_or_default());
            let step = steps.step(wall(), Instant::now()).await?;
            let new = steps.events();
            events.extend(new.iter().cloned());
            events.drain(..events.len().saturating_sub(EVENTS));
            let Some(step) = step else {
                continue;
            };
            let blind = if without_packets {
                Some(WITHOUT_PACKETS)
            } else {
                steps.blind()
            };
            let blind = blind.map(str::to_owned);
            if arguments.json {
                output::data(&json(&step, &known, blind, &new).to_string())?;
            } else {
                let look = Look {
                    step,
                    blind,
                    events: events.clone(),
                };
                show(look, &known, screen.as_mut())?;
            }
            if arguments.once {
                return Ok(Status::Done);
            }
        }
    })
}

/// Returns the time in milliseconds since 1970.
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as i64
}

/// Shows the kernel's counters at once. The programs that measure packets take seconds to load.
async fn begin(steps: &mut Steps, legend: &Legend, screen: &mut Screen) -> Result<(), Failure> {
    steps.step(wall(), Instant::now()).await?;
    tokio::time::sleep(FIRST).await;
    if let Some(step) = steps.step(wall(), Instant::now()).await? {
        let look = Look {
            step,
            blind: None,
            events: VecDeque::new(),
        };
        screen.draw(look, legend)?;
    }
    Ok(())
}

/// Returns a sample as JSON, with the reason if packets are not measured, and the events since the
/// previous sample.
fn json(step: &Step, legend: &Legend, blind: Option<String>, events: &[Event]) -> Value {
    let event = |one: &Event| json!({ "time_ms": one.time, "kind": one.kind, "text": one.text });
    let mut value = step.json(legend);
    value["without_packets"] = blind.into();
    value["events"] = events.iter().map(event).collect();
    value
}

fn show(look: Look, legend: &Legend, screen: Option<&mut Screen>) -> std::io::Result<()> {
    match screen {
        None => output::data(&lines(&look, legend, View::default(), 80).join("\n")),
        Some(screen) => screen.draw(look, legend),
    }
}

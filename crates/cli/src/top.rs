// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate top`: what goes on now, in a terminal.

use crate::exit::{Outcome, Status};
use crate::legend::{legend, tracked};
use crate::output;
use crate::shape::in_runtime;
use crate::top_lines::{View, lines};
use crate::top_screen::Screen;
use crate::watch::every;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weirgate_keep::Place;
use weirgate_watch::{Legend, Step, Steps};

/// What `weirgate top` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Look this often.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    every: Duration,
    /// Look twice, print what went on in between, and end.
    #[arg(long)]
    once: bool,
    /// Print JSON, an object for each look.
    #[arg(long)]
    json: bool,
    /// The policy that names classes and their promises, else the one that is applied, where it
    /// can be read.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// `weirgate top`.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    in_runtime(async {
        let legend = legend(state, arguments.policy.as_deref())?;
        let mut steps = Steps::open(legend.clone())?;
        steps.look_at_packets();
        let here = Place::here(state).ok();
        let plain = arguments.once || arguments.json || !std::io::stdout().is_terminal();
        let mut screen = if plain { None } else { Some(Screen::open()?) };
        let mut ticks = tokio::time::interval(arguments.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            match &mut screen {
                None => {
                    ticks.tick().await;
                }
                Some(screen) => {
                    if !screen.until(&legend, ticks.tick()).await? {
                        return Ok(Status::Done);
                    }
                }
            }
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            steps.set_lines(here.as_ref().map(tracked).unwrap_or_default());
            let Some(step) = steps.step(now.as_millis() as i64, Instant::now()).await? else {
                continue;
            };
            show(step, &steps, &legend, arguments.json, screen.as_mut())?;
            if arguments.once {
                return Ok(Status::Done);
            }
        }
    })
}

fn show(
    step: Step,
    steps: &Steps,
    legend: &Legend,
    json: bool,
    screen: Option<&mut Screen>,
) -> std::io::Result<()> {
    let blind = steps.blind();
    if json {
        let mut value = step.json(legend);
        // Why there are no hosts, waits and round trips.
        value["without_packets"] = blind.into();
        return output::data(&value.to_string());
    }
    match screen {
        None => output::data(&lines(&step, legend, blind, View::default(), 80).join("\n")),
        Some(screen) => screen.draw(step, legend, blind),
    }
}

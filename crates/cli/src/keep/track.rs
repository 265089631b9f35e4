// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate track`: shows how the rate of a line is followed, and replays records.

use crate::policy::apply::{refused, site};
use clap::Subcommand;
use serde_json::json;
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::{Document, documented};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::runtime::in_runtime;
use weirgate_console::source;
use weirgate_keep::{Entry, Following, KeepError, RatesNow, Site, record_file};
use weirgate_policy::Policy;
use weirgate_track::{Decided, replay};
use weirgate_units::Rate;

/// The size limit of a record to replay, in bytes. Records of `weirgate keep` are far shorter.
const LONGEST: u64 = 256 << 20;

/// The subcommand of `weirgate track`.
#[derive(Subcommand)]
pub enum What {
    /// Show the present rates and the reasons for them.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Repeat the decisions of a record and compare them.
    ///
    /// Changes nothing. Exit status 1 if a decision is now different.
    Replay {
        /// A record that `weirgate keep` wrote.
        file: PathBuf,
        /// Print every decision.
        #[arg(long)]
        decisions: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(state: &Path, what: &What) -> Outcome {
    match what {
        What::Status { json } => status(state, *json),
        What::Replay {
            file,
            decisions,
            json,
        } => documented(*json, |document| again(file, *decisions, document)),
    }
}

fn status(state: &Path, json: bool) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let now = RatesNow::read(&site.folders).map_err(refused)?;
        if json {
            let text = serde_json::to_string_pretty(&now);
            output::data(&text.map_err(anyhow::Error::from)?)?;
            return Ok(Status::Done);
        }
        let Some(now) = now else {
            output::note("no rate is followed");
            return Ok(Status::Done);
        };
        for line in lines(&now) {
            output::data(&line)?;
        }
        let record = record_file(&site.folders).display().to_string();
        output::note(&format!("weirgate: the record is {record}"));
        Ok(Status::Done)
    })
}

/// Returns the present rates as lines of text.
pub fn lines(now: &RatesNow) -> Vec<String> {
    let mut lines = Vec::new();
    for one in &now.directions {
        lines.push(format!(
            "{}: {} ({}; between {} and {})",
            one.direction,
            shown(one.rate),
            one.reason,
            shown(one.floor),
            shown(one.ceiling)
        ));
    }
    if now.blind {
        let silent = if now.probes {
            "no reflector replies"
        } else {
            "no round trip of the traffic can be measured"
        };
        lines.push(format!("blind: {silent}, so the rate is the floor"));
    }
    if now.idle && !now.blind {
        lines.push("no load: nothing can be measured, the rates stay".to_owned());
    }
    for (name, trouble) in &now.troubled {
        lines.push(format!("{name} is not counted: {trouble}"));
    }
    lines
}

fn shown(rate: u64) -> String {
    let kbit = Rate::kbit(rate / 1_000);
    if rate < 1_000 {
        Rate::bits_per_second(rate).to_string()
    } else {
        kbit.to_string()
    }
}

fn again(file: &Path, decisions: bool, document: &Document) -> Outcome {
    let text = source::read_up_to(file, LONGEST)?;
    let name = file.display();
    let replayed =
        replay(&text).map_err(|wrong| Failure::Input(format!("weirgate: {name}: {wrong}")))?;
    if decisions {
        for decision in &replayed.decisions {
            let text = decision.to_string();
            if document.is_wanted() {
                document.add("decisions", text.into());
            } else {
                output::data(&text)?;
            }
        }
    }
    let rates = replayed
        .decisions
        .iter()
        .filter(|decision| matches!(decision.what, Decided::Rate { .. }))
        .count();
    document.put("inputs", replayed.inputs.into());
    document.put("rates", rates.into());
    let other = replayed.other.as_ref();
    let other =
        other.map(|(line, there, now)| json!({"line": line, "recorded": there, "now": now}));
    document.put("differs", other.into());
    if let Some((line, there, now)) = &replayed.other {
        document.note(&format!(
            "weirgate: {name}: line {line} has `{there}`, and now it is `{now}`"
        ));
        return Ok(Status::Differs);
    }
    document.note(&format!(
        "weirgate: {} inputs, {rates} rates: every decision is the same",
        replayed.inputs
    ));
    Ok(Status::Done)
}

/// Returns how `weirgate keep` follows the rate of the line in an entry's policy.
pub async fn following(site: &Site, entry: &Entry) -> Result<Option<Following>, KeepError> {
    // An entry without policy texts, or of another version, has nothing to follow.
    let Ok(loaded) = policy::again(&entry.sources) else {
        return Ok(None);
    };
    // More than one link with `[track]` is refused.
    let policies: Vec<Policy> = loaded.policies().to_vec();
    let mut all = policies.iter().enumerate();
    let found = all.find_map(|(at, policy)| Some((at, weirgate_compile::following(policy)?)));
    let Some((tracked, mut setup)) = found else {
        return Ok(None);
    };
    setup.bound = policies.len() > 1;
    let mut capabilities = site.capabilities().await?;
    let needs = policies.iter().any(Policy::needs_programs);
    capabilities.payload &= !needs || weirgate_kernel::can_look();
    let at = move |rates: [Option<u64>; 2]| {
        let [up, down] = rates.map(|rate| rate.map(Rate::bits_per_second));
        let mut states = Vec::new();
        for (number, policy) in policies.iter().enumerate() {
            let (state, problems) = if number == tracked {
                weirgate_compile::compile(&policy.at_rates(up, down), &capabilities)
            } else {
                weirgate_compile::compile(policy, &capabilities)
            };
            let state = state.ok_or_else(|| {
                let first = problems.first().map(|problem| problem.message.clone());
                first.unwrap_or_default()
            })?;
            states.push((policy.link.device.value.clone(), state));
        }
        weirgate_domain::together(states).map_err(|problems| problems.join("; "))
    };
    Ok(Some(Following {
        setup,
        at: Box::new(at),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blind_tracker_says_what_it_waits_for() {
        let mut now = RatesNow {
            number: 1,
            device: "wan".to_owned(),
            time: 0,
            blind: true,
            probes: false,
            idle: false,
            directions: Vec::new(),
            troubled: Vec::new(),
        };
        let passive = lines(&now);
        assert!(
            passive[0].starts_with("blind: no round trip of the traffic"),
            "{passive:?}"
        );
        assert!(!passive[0].contains("reflector"), "{passive:?}");
        now.probes = true;
        assert!(lines(&now)[0].contains("no reflector replies"));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab aqm circuits`: compares the cost of a packet in the engine and in HTB with the
//! same tree. Many circuits are below 50 sites, which are below a root.

use super::figures_of;
use super::tree::{self, PACKET};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_lab::{Lab, Limits, Options};

/// What limits the rate of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Limiting {
    /// Nothing: ceilings are never reached.
    Free,
    /// The ceiling of each circuit.
    Circuits,
    /// The ceiling of each site.
    Sites,
    /// The ceiling of each circuit, with a thousand backlogged circuits at different rates. This
    /// measures the accuracy of rates.
    Rates,
}

/// The scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Scheduler {
    #[serde(rename = "engine")]
    Engine,
    /// The engine with fairness between hosts, by address, before flows.
    #[serde(rename = "engine+hosts")]
    EngineHosts,
    #[serde(rename = "htb+fq_codel")]
    HtbFqCodel,
    #[serde(rename = "htb+cake")]
    HtbCake,
}

/// What is measured in one boot of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    pub scheduler: Scheduler,
    pub circuits: u32,
    #[serde(rename = "way")]
    pub limiting: Limiting,
}

/// The results. Times are the guest's, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    #[serde(flatten)]
    pub subject: Subject,
    /// Instructions for a packet, without the cost of no qdisc; and the latter.
    pub instructions: Option<f64>,
    pub noqueue: Option<f64>,
    /// The packets that left while a hundred arrived.
    pub left_of_100: Option<f64>,
    /// Times: to load the programs and create their maps; to write all rows for the first time, and
    /// again; to change 10,000 rows; to put the qdisc on the device, and to remove it with its
    /// backlog.
    pub load_ms: Option<f64>,
    pub rows_ms: Option<f64>,
    pub again_ms: Option<f64>,
    pub some_ms: Option<f64>,
    pub put_ms: f64,
    pub off_ms: f64,
    /// The memory of the loaded engine, its rows and the empty qdisc, in MiB.
    pub memory_mib: f64,
    /// The packets that were queued when the qdisc was removed.
    pub queued: u64,
    /// The error of a circuit's rate in packets per second, the largest and the mean; and the
    /// number of circuits.
    pub most_wrong: Option<f64>,
    pub mean_wrong: Option<f64>,
    pub sampled: u32,
}

/// The subjects that are measured if none is named.
const SUBJECTS: [&str; 19] = [
    "engine:1000:free",
    "engine:10000:free",
    "engine:100000:free",
    "engine:1000000:free",
    "engine:1000:circuits",
    "engine:10000:circuits",
    "engine:100000:circuits",
    "engine:1000000:circuits",
    "engine:1000:sites",
    "engine:10000:sites",
    "engine:100000:sites",
    "engine:1000000:sites",
    "engine:1000000:rates",
    "engine+hosts:1000:free",
    "htb+fq_codel:1000:free",
    "htb+fq_codel:1000:circuits",
    "htb+fq_codel:1000:sites",
    "htb+cake:200:free",
    "htb+cake:200:circuits",
];

impl Subject {
    /// Parses `SCHEDULER:CIRCUITS:WAY`.
    fn read(word: &str) -> Option<Self> {
        let mut parts = word.split(':');
        let quoted = |part: &str| format!("\"{part}\"");
        let scheduler = serde_json::from_str(&quoted(parts.next()?)).ok()?;
        let circuits = parts.next()?.parse().ok()?;
        let limiting = serde_json::from_str(&quoted(parts.next()?)).ok()?;
        let of_htb = matches!(scheduler, Scheduler::HtbCake | Scheduler::HtbFqCodel);
        let most = if of_htb { 60_000 } else { 2_000_000 };
        let known = (50..=most).contains(&circuits) && parts.next().is_none();
        (known && !(of_htb && limiting == Limiting::Rates)).then_some(Self {
            scheduler,
            circuits,
            limiting,
        })
    }
}

/// How to measure.
#[derive(clap::Args)]
pub struct Run {
    /// What to measure, as `SCHEDULER:CIRCUITS:WAY`: engine, engine+hosts, htb+fq_codel or
    /// htb+cake; the number of circuits; and what holds packets back: free, circuits, sites or
    /// rates. Without it, a list of nineteen.
    #[arg(value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Measure here: what the lab's kernel is asked to run.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Implements `weirgate-lab aqm circuits`.
pub fn circuits(run: &Run) -> Outcome {
    let words: Vec<String> = if run.subjects.is_empty() {
        SUBJECTS.map(str::to_owned).into()
    } else {
        run.subjects.clone()
    };
    let mut subjects = Vec::new();
    for word in &words {
        subjects.push(Subject::read(word).ok_or_else(|| {
            wrong(format!(
                "`{word}` cannot be measured: write SCHEDULER:CIRCUITS:WAY, such as {}; HTB has \
                 at most 60000 circuits, and no rates",
                SUBJECTS[0]
            ))
        })?);
    }
    if run.inside {
        return in_runtime(async {
            let mut found = Vec::new();
            for subject in subjects {
                found.push(tree::measure(subject).await?);
            }
            let text = serde_json::to_string(&found).map_err(anyhow::Error::from)?;
            output::data(&format!("{text}\n"))?;
            Ok(Status::Done)
        });
    }
    let mut found = Vec::new();
    let mut kernel = String::new();
    for (word, subject) in words.iter().zip(&subjects) {
        output::note(&format!("measuring {word}"));
        let (version, one) = in_the_lab(word, *subject)?;
        kernel = version;
        found.push(one);
    }
    let text = if run.json {
        serde_json::to_string_pretty(&found).map_err(anyhow::Error::from)? + "\n"
    } else {
        format!(
            "kernel {kernel}, packets of {PACKET} bytes\n{}",
            table(&found)
        )
    };
    output::data(&text)?;
    Ok(Status::Done)
}

fn table(found: &[Found]) -> String {
    let mut text = String::new();
    let of = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |it| format!("{it:.digits$}"))
    };
    for one in found {
        let Subject {
            scheduler,
            circuits,
            limiting,
        } = one.subject;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{scheduler:?} {circuits} {limiting:?}: {} instructions over {} without a qdisc, {} left \
             of 100; loaded in {} ms, rows in {} ms, again in {}, 10,000 in {}; put on in {:.1} \
             ms, off in {:.1} with {} packets; {:.0} MiB; {} packets/s wrong at most, {} in the \
             mean, of {}",
            of(one.instructions, 0),
            of(one.noqueue, 0),
            of(one.left_of_100, 1),
            of(one.load_ms, 0),
            of(one.rows_ms, 1),
            of(one.again_ms, 1),
            of(one.some_ms, 2),
            one.put_ms,
            one.off_ms,
            one.queued,
            one.memory_mib,
            of(one.most_wrong, 2),
            of(one.mean_wrong, 3),
            one.sampled,
        );
    }
    text
}

/// Runs this program in a new boot of the lab's kernel. Otherwise the state that another run left,
/// above all memory that is still being freed, would count too.
fn in_the_lab(word: &str, subject: Subject) -> Result<(String, Found), Failure> {
    let own = std::env::current_exe()?;
    let base = own.file_name().unwrap_or_default().to_string_lossy();
    let options = Options {
        programs: [own.to_string_lossy().into_owned()].into(),
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).map_err(anyhow::Error::from)?;
    // Memory for the rows, and for up to three packets of each circuit with 1.3 kB each.
    let each = if subject.limiting == Limiting::Free {
        1_000
    } else {
        5_000
    };
    let limits = Limits {
        wall: Duration::from_mins(30),
        memory_mib: 1_024 + subject.circuits / 1_000 * each / 1_000,
        ..Limits::default()
    };
    let line = [&*base, "aqm", "circuits", "--inside", word];
    let (kernel, all) = figures_of::<Found>(&lab, &line, limits)?;
    let found = all.into_iter().next();
    let found = found.ok_or_else(|| Failure::Refused("it printed no figures".to_owned()))?;
    Ok((kernel, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_is_known() {
        for word in SUBJECTS {
            assert!(Subject::read(word).is_some(), "{word}");
        }
        for word in [
            "engine",
            "engine:10:free",
            "htb+cake:200:rates",
            "sfq:100:free",
        ] {
            assert!(Subject::read(word).is_none(), "{word}");
        }
    }
}

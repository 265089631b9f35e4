// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results in sentences.

use crate::format::{number, percent};
use crate::terminal::{aligned, wrapped};
use crate::{Findings, Run};
use weirgate_experiment::{Experiment, Metric, Node, Quantity, Statistic, Traffic, TrafficKind};
use weirgate_measure::ArmFigures;
use weirgate_measure::emodel::Category;
use weirgate_measure::predict::ip_ceiling_kbit;

/// Returns `All 12 expectations are kept.`, or how many are not.
pub(crate) fn score(kept: usize, all: usize) -> String {
    match (kept, all) {
        (_, 0) => "Nothing was expected.".to_owned(),
        (1, 1) => "The expectation is kept.".to_owned(),
        (0, 1) => "The expectation is not kept.".to_owned(),
        (kept, all) if kept == all => format!("All {all} expectations are kept."),
        (0, all) => format!("None of {all} expectations is kept."),
        (kept, all) => format!("{kept} of {all} expectations are kept, {} not.", all - kept),
    }
}

/// Returns the text with its first letter in upper case.
pub(crate) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// Names, for each arm, the phases in which the laboratory's machine had next to no idle time;
/// `None` if there are none.
pub(crate) fn overloaded<'a>(arms: impl Iterator<Item = &'a ArmFigures>) -> Option<String> {
    let all = arms.filter_map(|arm| {
        let phases = arm.overloaded().join(", ");
        (!phases.is_empty()).then(|| format!("{} ({phases})", arm.arm))
    });
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| {
        format!(
            "The laboratory's machine had less than 5 % of its time to spare in {}: figures there \
             may be what the machine can carry, not what the line does.",
            all.join(" and in ")
        )
    })
}

/// Says what each call was worth in each arm, by the E-model, one sentence for a phase and a call.
pub(crate) fn calls(findings: &Findings) -> Vec<String> {
    let experiment = findings.experiment;
    let phases = experiment.phases.iter().map(|phase| phase.name.as_str());
    let mut windows: Vec<Option<&str>> = phases.map(Some).collect();
    if windows.is_empty() {
        windows.push(None);
    }
    let entries = || experiment.traffic.iter();
    let pairs = windows
        .iter()
        .flat_map(|phase| entries().map(move |entry| (*phase, entry)));
    let sentence = |(phase, entry): (Option<&str>, &Traffic)| {
        let arms: Vec<String> = findings
            .runs
            .iter()
            .filter_map(|run| worth(run, phase, &entry.name))
            .collect();
        let during = phase.map_or(String::new(), |phase| format!(" in {phase}"));
        (!arms.is_empty()).then(|| format!("{}{during}: {}.", entry.name, arms.join("; ")))
    };
    pairs.filter_map(sentence).collect()
}

/// Returns `R 93.2, MOS 4.41 with weirgate, which is best (users very satisfied)`.
fn worth(run: &Run, phase: Option<&str>, call: &str) -> Option<String> {
    let value = |quantity| {
        let metric = Metric::new(quantity, call, Statistic::Only);
        let metric = match phase {
            Some(phase) => metric.in_phase(phase),
            None => metric,
        };
        run.figures.metrics.get(&metric.to_string()).copied()
    };
    let (rating, opinion) = (value(Quantity::Rating)?, value(Quantity::Opinion)?);
    let category = Category::of(rating);
    Some(format!(
        "R {}, MOS {} with {}, which is {} (users {})",
        number(rating),
        number(opinion),
        run.figures.arm,
        category.name,
        category.users
    ))
}

/// Describes the change of the interactive round trip, the download and the upload from `before`
/// (the modem alone) to `after` (under the policy).
///
/// The round trip is the first probe's. Download and upload are the first TCP transfers towards the
/// hosts and from them. The phase is the one with the most uploads beside the download. What cannot
/// be determined is left out.
#[must_use]
pub fn try_summary(experiment: &Experiment, before: &ArmFigures, after: &ArmFigures) -> String {
    let roles = Roles::new(experiment, before, after);
    let mut out = String::new();
    for sentence in roles.sentences() {
        for line in wrapped(&sentence, 78, "") {
            out += &line;
            out.push('\n');
        }
        out.push('\n');
    }
    out += &roles.table();
    out
}

/// Returns the same sentences, for the HTML report.
pub(crate) fn sentences(
    experiment: &Experiment,
    before: &ArmFigures,
    after: &ArmFigures,
) -> Vec<String> {
    Roles::new(experiment, before, after).sentences()
}

fn near(node: Node) -> bool {
    matches!(node, Node::Host(_) | Node::Gateway)
}

fn download(traffic: &Traffic) -> bool {
    matches!(traffic.kind, TrafficKind::Tcp(_) | TrafficKind::Quic(_))
        && !near(traffic.from)
        && near(traffic.to)
}

fn upload(traffic: &Traffic) -> bool {
    matches!(traffic.kind, TrafficKind::Tcp(_) | TrafficKind::Quic(_))
        && near(traffic.from)
        && !near(traffic.to)
}

/// The experiment's names by their roles in the sentences.
struct Roles<'a> {
    before: &'a ArmFigures,
    after: &'a ArmFigures,
    probe: Option<&'a str>,
    down: Option<&'a str>,
    up: Option<&'a str>,
    /// The phase in which uploads run beside the download.
    busy: Option<&'a str>,
    /// Whether several uploads run in that phase.
    several: bool,
    /// A phase without uploads.
    quiet: Option<&'a str>,
    down_ceiling: f64,
    up_ceiling: f64,
    /// Whether the line's rates change.
    varies: bool,
}

impl<'a> Roles<'a> {
    fn new(experiment: &'a Experiment, before: &'a ArmFigures, after: &'a ArmFigures) -> Self {
        let line = &experiment.topology.line;
        let name = |kind: fn(&Traffic) -> bool| {
            experiment
                .traffic
                .iter()
                .find(|t| kind(t))
                .map(|traffic| traffic.name.as_str())
        };
        let running = |phase: &weirgate_experiment::Phase, kind: fn(&Traffic) -> bool| -> u32 {
            let covers = |t: &&Traffic| {
                t.runs
                    .iter()
                    .any(|run| run.0 <= phase.start + experiment.settle && run.1 >= phase.end)
            };
            let running = experiment.traffic.iter().filter(|t| kind(t)).filter(covers);
            running.map(|traffic| u32::from(traffic.count)).sum()
        };
        let mut busy: Option<(&str, u32)> = None;
        for phase in &experiment.phases {
            let (ups, downs) = (running(phase, upload), running(phase, download));
            let more = busy.is_none_or(|(_, most)| ups > most);
            if ups > 0 && (downs > 0 || name(download).is_none()) && more {
                busy = Some((&phase.name, ups));
            }
        }
        let quiet = |phase: &&weirgate_experiment::Phase| {
            running(phase, upload) == 0 && running(phase, download) > 0
        };
        Self {
            before,
            after,
            probe: experiment.probes.first().map(|probe| probe.name.as_str()),
            down: name(download),
            up: name(upload),
            busy: busy.map(|(name, _)| name),
            several: busy.is_some_and(|(_, count)| count > 1),
            quiet: experiment
                .phases
                .iter()
                .find(quiet)
                .map(|phase| phase.name.as_str()),
            down_ceiling: ip_ceiling_kbit(line, line.down.rate),
            up_ceiling: ip_ceiling_kbit(line, line.up.rate),
            varies: !line.then.is_empty() || line.varies.is_some(),
        }
    }

    fn both(&self, phase: Option<&str>, rest: &str) -> Option<(f64, f64)> {
        let name = format!("{}.{rest}", phase?);
        Some((
            *self.before.metrics.get(&name)?,
            *self.after.metrics.get(&name)?,
        ))
    }

    fn round_trip(&self, phase: Option<&str>, statistic: &str) -> Option<(f64, f64)> {
        self.both(phase, &format!("rtt.{}.{statistic}_ms", self.probe?))
    }

    fn rate(&self, phase: Option<&str>, flow: Option<&str>) -> Option<(f64, f64)> {
        self.both(phase, &format!("iprate.{}.mean_kbit", flow?))
    }

    fn sentences(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let (Some(mean), Some(max)) = (
            self.round_trip(self.busy, "mean"),
            self.round_trip(self.busy, "max"),
        ) {
            found.push(format!(
                "While {} ran, an interactive packet and its answer took {} ms on average with \
                 the modem alone, {} ms at worst. Under the policy they took {} ms, {} ms at \
                 worst: {}.",
                if self.several { "uploads" } else { "an upload" },
                number(mean.0),
                number(max.0),
                number(mean.1),
                number(max.1),
                times(mean.0, mean.1, "shorter", "longer")
            ));
        }
        let down = self.rate(self.busy, self.down);
        if let Some(rate) = down.filter(|_| self.varies) {
            found.push(format!(
                "The download beside it got {} kbit/s; under the policy it got {} kbit/s. The line \
                 carries now more, now less.",
                number(rate.0),
                number(rate.1),
            ));
        } else if let Some(rate) = down {
            let part = |kbit: f64| percent(kbit / self.down_ceiling);
            found.push(format!(
                "The download beside it got {} kbit/s, {} of what the line carries; under the \
                 policy it got {} kbit/s, {}.",
                number(rate.0),
                part(rate.0),
                number(rate.1),
                part(rate.1)
            ));
        }
        if let Some(rate) = self.rate(self.busy, self.up) {
            let part = |kbit: f64| percent(kbit / self.up_ceiling);
            // More data down means more acknowledgements up.
            let gave_way = rate.1 < rate.0 && down.is_some_and(|down| down.1 > down.0);
            found.push(format!(
                "The {} went from {} kbit/s ({} of the line) to {} kbit/s ({}){}.",
                if self.several {
                    "uploads together"
                } else {
                    "upload itself"
                },
                number(rate.0),
                part(rate.0),
                number(rate.1),
                part(rate.1),
                if gave_way {
                    "; the difference carries the acknowledgements of the faster download"
                } else {
                    ""
                }
            ));
        }
        found.extend(overloaded([self.before, self.after].into_iter()));
        found
    }

    fn table(&self) -> String {
        let header = |title: &str| {
            vec![
                title.to_owned(),
                self.before.arm.clone(),
                self.after.arm.clone(),
            ]
        };
        let mut rows = Vec::new();
        for (phase, title) in [
            (self.busy, "while uploads run"),
            (self.quiet, "download alone"),
        ] {
            let mut block = Vec::new();
            let mut add = |label: &str, unit: &str, values: Option<(f64, f64)>| {
                if let Some((before, after)) = values {
                    let cell = |value| format!("{} {unit}", number(value));
                    block.push(vec![format!("  {label}"), cell(before), cell(after)]);
                }
            };
            add("round trip, mean", "ms", self.round_trip(phase, "mean"));
            add(
                "round trip, 99 of 100 within",
                "ms",
                self.round_trip(phase, "p99"),
            );
            add("round trip, longest", "ms", self.round_trip(phase, "max"));
            add("download", "kbit/s", self.rate(phase, self.down));
            add("upload", "kbit/s", self.rate(phase, self.up));
            if !block.is_empty() {
                rows.push(header(title));
                rows.extend(block);
            }
        }
        aligned(&rows)
    }
}

/// Returns `76 times shorter`, `1.4 times longer`, or `the same`.
fn times(before: f64, after: f64, less: &str, more: &str) -> String {
    if before <= 0.0 || after <= 0.0 {
        return "not to be compared".to_owned();
    }
    let (factor, word) = if before >= after {
        (before / after, less)
    } else {
        (after / before, more)
    };
    if factor < 1.005 {
        return "the same".to_owned();
    }
    format!("{} times {word}", number(factor))
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recordings of one experiment, and their figures and verdicts.

use crate::promises;
use anyhow::Context as _;
use std::collections::BTreeMap;
use weirgate_compile::check_report;
use weirgate_console::exit::Status;
use weirgate_experiment::{Arm, Experiment, Outcome, Recording};
use weirgate_ledger::Digest;
use weirgate_measure::predict::{Counting, Prediction, Shaper, ShaperClass, predict};
use weirgate_measure::repeat::{Intervals, combine, judge_each, margin};
use weirgate_measure::{ArmFigures, JudgedExpectation, best, calculate, judge, measure, outcome};
use weirgate_policy::Direction;
use weirgate_report::{Findings, Tried};

/// The result of one run of one arm.
#[derive(Clone)]
pub struct ArmResult {
    /// The arm.
    pub arm: String,
    /// The sweep's choice; empty without a sweep.
    pub parameters: BTreeMap<String, String>,
    /// The recording.
    pub recording: Recording,
    /// The digest of the recording's bytes.
    pub digest: Digest,
    /// The wall-clock time of the run.
    pub wall_seconds: f64,
    /// The wall-clock time until the agent started.
    pub boot_seconds: f64,
    /// The wall-clock time until traffic began, in a virtual machine.
    pub traffic_seconds: Option<f64>,
    /// The peak memory of the virtual machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// The virtual machine's command line.
    pub command: String,
}

/// The result of a whole experiment, measured and judged.
pub struct ExperimentResult {
    /// The experiment file's text.
    pub text: String,
    /// The experiment.
    pub experiment: Experiment,
    /// The seed that was used.
    pub seed: u64,
    /// The policies, by the path written in the experiment.
    pub files: BTreeMap<String, String>,
    /// The run of each arm; for a sweep, the best run.
    pub arms: Vec<ArmResult>,
    /// The figures for each value of a sweep.
    pub tried: Vec<Tried>,
    /// Figures by arm.
    pub figures: BTreeMap<String, ArmFigures>,
    /// Calculated figures by arm.
    pub predictions: BTreeMap<String, Vec<Prediction>>,
    /// The figures of every run by arm, if there were several seeds; otherwise empty.
    pub runs: Vec<BTreeMap<String, ArmFigures>>,
    /// Half the width of the confidence intervals over these runs.
    pub intervals: Intervals,
    /// The judged expectations.
    pub verdicts: Vec<JudgedExpectation>,
    /// The document of `--json`.
    pub outcome: Outcome,
}

impl ExperimentResult {
    /// Measures and judges recordings.
    pub fn new(
        text: String,
        experiment: Experiment,
        seed: u64,
        files: BTreeMap<String, String>,
        runs: &[ArmResult],
    ) -> anyhow::Result<Self> {
        let mut arms = Vec::new();
        let mut tried = Vec::new();
        let mut figures = BTreeMap::new();
        for arm in &experiment.arms {
            let of_arm: Vec<&ArmResult> = runs.iter().filter(|run| run.arm == arm.name).collect();
            let measured = of_arm
                .iter()
                .map(|run| measure(&experiment, &run.recording))
                .collect::<Result<Vec<_>, _>>()?;
            let chosen = match &arm.sweep {
                None => 0,
                Some(sweep) => {
                    for (run, figures) in of_arm.iter().zip(&measured) {
                        let value = run.parameters.values().next().cloned().unwrap_or_default();
                        let figure = figures.metrics.get(&sweep.best).copied();
                        tried.push(Tried {
                            arm: arm.name.clone(),
                            value,
                            figure,
                        });
                    }
                    best(sweep, &measured).unwrap_or(0)
                }
            };
            if let (Some(run), Some(measured)) = (of_arm.get(chosen), measured.get(chosen)) {
                arms.push((*run).clone());
                figures.insert(arm.name.clone(), measured.clone());
            }
        }
        let mut result = Self::of_figures(text, experiment, seed, files, figures);
        let recordings: Vec<&Recording> = arms.iter().map(|arm| &arm.recording).collect();
        result.outcome = outcome(&result.experiment, seed, &recordings, &result.figures);
        result.arms = arms;
        result.tried = tried;
        Ok(result)
    }

    /// Makes the result from the figures of runs, without recordings.
    ///
    /// # Errors
    ///
    /// Fails if there is no run.
    pub fn of_runs(
        text: String,
        experiment: Experiment,
        seed: u64,
        files: BTreeMap<String, String>,
        runs: Vec<BTreeMap<String, ArmFigures>>,
    ) -> anyhow::Result<Self> {
        let first = runs.first().cloned().context("there is no run")?;
        let mut result = Self::of_figures(text, experiment, seed, files, first);
        if runs.len() > 1 {
            result.repeat(runs);
        }
        Ok(result)
    }

    /// Judges the figures of one run.
    fn of_figures(
        text: String,
        mut experiment: Experiment,
        seed: u64,
        files: BTreeMap<String, String>,
        mut figures: BTreeMap<String, ArmFigures>,
    ) -> Self {
        let predictions: BTreeMap<String, Vec<Prediction>> = experiment
            .arms
            .iter()
            .filter(|arm| figures.contains_key(&arm.name))
            .map(|arm| {
                let shaper = shaper(arm, &files);
                (arm.name.clone(), predict(&experiment, arm, shaper.as_ref()))
            })
            .collect();
        for arm in experiment.arms.clone() {
            let Some(figures) = figures.get_mut(&arm.name) else {
                continue;
            };
            let texts = arm.policies().filter_map(|path| files.get(path));
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            let promised = promises::of(&experiment, &arm, &texts, figures);
            experiment.expectations.extend(promised);
        }
        let verdicts = judge(&experiment, &figures, &predictions);
        Self {
            outcome: outcome(&experiment, seed, &[], &figures),
            text,
            experiment,
            seed,
            files,
            arms: Vec::new(),
            tried: Vec::new(),
            figures,
            predictions,
            runs: Vec::new(),
            intervals: Intervals::new(),
            verdicts,
        }
    }

    /// Extends the result of the first run to several runs: figures become means, which are judged
    /// again.
    pub fn repeat(&mut self, runs: Vec<BTreeMap<String, ArmFigures>>) {
        let (figures, intervals) = combine(&runs);
        self.verdicts = judge(&self.experiment, &figures, &self.predictions);
        for verdict in &mut self.verdicts {
            verdict.margin = margin(verdict, &runs);
            judge_each(verdict, &runs);
        }
        let recordings: Vec<&Recording> = self.arms.iter().map(|arm| &arm.recording).collect();
        self.outcome = outcome(&self.experiment, self.seed, &recordings, &figures);
        self.outcome.seeds = u16::try_from(runs.len()).unwrap_or(u16::MAX);
        for (arm, own) in &mut self.outcome.arms {
            own.interval = intervals.get(arm).cloned().unwrap_or_default();
        }
        self.figures = figures;
        self.intervals = intervals;
        self.runs = runs;
    }

    /// Makes the result of an experiment that is calculated, not run.
    pub fn calculated(text: String, experiment: Experiment, seed: u64) -> anyhow::Result<Self> {
        let arm = calculate(&experiment)?;
        let figures = BTreeMap::from([(arm.arm.clone(), arm)]);
        let files = BTreeMap::new();
        Ok(Self::of_figures(text, experiment, seed, files, figures))
    }

    /// Returns whether every expectation was kept.
    pub fn kept(&self) -> bool {
        self.verdicts.iter().all(JudgedExpectation::kept)
    }
}

/// Returns the upstream shaper of an arm, for predictions.
fn shaper(arm: &Arm, files: &BTreeMap<String, String>) -> Option<Shaper> {
    if let Some(path) = &arm.policy {
        return policy_shaper(files.get(path)?);
    }
    let commands = arm.commands.iter().map(|command| command.argv.clone());
    Shaper::from_commands(&commands.collect::<Vec<_>>())
}

impl ExperimentResult {
    /// Passes the result to `show` in the form for reports.
    pub fn findings<T>(&self, show: impl FnOnce(&Findings<'_>) -> T) -> T {
        let none = BTreeMap::new();
        let runs: Vec<weirgate_report::Run<'_>> = self
            .experiment
            .arms
            .iter()
            .filter_map(|arm| {
                let figures = self.figures.get(&arm.name)?;
                let run = self.arms.iter().find(|run| run.arm == arm.name);
                Some(weirgate_report::Run {
                    figures,
                    recording: run.map(|run| &run.recording),
                    parameters: run.map_or(&none, |run| &run.parameters),
                })
            })
            .collect();
        show(&Findings {
            experiment: &self.experiment,
            seed: self.seed,
            seeds: self.outcome.seeds,
            intervals: &self.intervals,
            runs: &runs,
            verdicts: &self.verdicts,
            calculated: &self.predictions,
            tried: &self.tried,
            policies: &self.files,
        })
    }

    /// Returns the exit status: whether all expectations were kept.
    pub fn status(&self) -> Status {
        if self.kept() {
            Status::Done
        } else {
            Status::Differs
        }
    }
}

/// Returns the policy's upstream gate and classes, for predictions.
fn policy_shaper(text: &str) -> Option<Shaper> {
    let policy = weirgate_policy::parse(text).0?;
    let report = check_report(&policy);
    let up = report
        .directions
        .iter()
        .find(|one| one.direction == Direction::Up)?;
    let class = |class: &weirgate_compile::ClassReport| ShaperClass {
        name: class.name.clone(),
        rate_bits: class.guaranteed.wire.as_bits_per_second() as f64,
        priority: u32::from(class.priority),
    };
    Some(Shaper {
        rate_bits: up.gate.as_bits_per_second() as f64,
        counting: Counting::Wire,
        classes: up.classes.iter().map(class).collect(),
    })
}

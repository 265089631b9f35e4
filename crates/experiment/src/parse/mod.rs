// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From an experiment file's text to a checked [`Experiment`].
//!
//! Sections are read in the order topology, phases, traffic, probes, arms,
//! expectations, each checked against what [`Scope`] knows of the earlier
//! ones. All problems of a file are found in one run. Reading the files that
//! an experiment names is the caller's business.

mod arm;
mod calculation;
mod change;
mod codes;
mod expect;
mod field;
mod impairments;
mod kit;
mod quic;
mod schedule;
mod scope;
mod topology;
mod traffic;

pub use codes::CODES;

use crate::{Experiment, KernelName, Machine, Sampling, Topology};
use scope::Scope;
use weirgate_document::{Problem, Problems, Reader};
use weirgate_units::Span;

/// The only version of the format so far.
const VERSION: i64 = 1;

/// The most runs of an arm with seeds of their own.
pub(crate) const MOST_SEEDS: i64 = 1000;

/// Reads an experiment file. The experiment is there if no problem is an
/// error; warnings may accompany it.
#[must_use]
pub fn parse(source: &str) -> (Option<Experiment>, Vec<Problem>) {
    let problems = Problems::default();
    let experiment = weirgate_document::parse_with_parameters(source, &problems, |mut root| {
        // Their values stand where they are named.
        root.table("parameters").map(|mut table| table.keys());
        read(&mut root)
    });
    let experiment = experiment.filter(|_| !problems.has_errors());
    (experiment, problems.into_sorted())
}

fn read(root: &mut Reader<'_, '_>) -> Option<Experiment> {
    version(root);
    let name = root.text("name").or_else(|| {
        root.missing(
            "name",
            "name the experiment as its file: `name = \"adsl-3.2\"`",
        )
    });
    if let Some(name) = &name {
        field::experiment_name(root, name);
    }
    let title = root
        .text("title")
        .or_else(|| root.missing("title", "say in a line what is shown"));
    let source = root.text("source");
    let about = root.text("about");
    let covers = root.text_list("covers").unwrap_or_default();
    for other in &covers {
        field::experiment_name(root, other);
    }
    let seed = root.integer("seed", 0..=i64::MAX);
    let seeds = root.integer("seeds", 1..=MOST_SEEDS);
    let settle = field::span(root, "settle", Span::ZERO, field::LONGEST);

    let seed = seed.map_or(1, |seed| seed.value as u64);
    let settle = settle.unwrap_or(Span::from_secs(5));
    let body = body(root, settle);
    Some(Experiment {
        name: name?.value,
        title: title?.value,
        source: source.map(|text| text.value).unwrap_or_default(),
        about: about.map(|text| text.value).unwrap_or_default(),
        covers: covers.into_iter().map(|other| other.value).collect(),
        seed,
        seeds: seeds.map_or(1, |seeds| seeds.value as u16),
        settle,
        ..body?
    })
}

/// All that follows the file's head.
fn body(root: &mut Reader<'_, '_>, settle: Span) -> Option<Experiment> {
    let mut empty = Experiment {
        name: String::new(),
        title: String::new(),
        source: String::new(),
        about: String::new(),
        covers: Vec::new(),
        seed: 0,
        seeds: 1,
        machine: Machine::default(),
        topology: Topology::NONE,
        phases: Vec::new(),
        settle,
        traffic: Vec::new(),
        probes: Vec::new(),
        sampling: Sampling::default(),
        arms: Vec::new(),
        expectations: Vec::new(),
        figures: Vec::new(),
    };
    if root.has("figure") {
        let mut scope = Scope::new(None);
        empty.figures = calculation::figures(root, &mut scope);
        empty.arms = vec![calculation::arm()];
        empty.expectations = expect::expectations(root, &scope);
        return Some(empty);
    }
    empty.machine = machine(root);
    let topology = topology::read(root);
    let mut scope = Scope::new(topology.as_ref());
    empty.phases = schedule::phases(root, &mut scope);
    schedule::settled(root, &scope, settle);
    empty.traffic = traffic::traffic(root, &mut scope);
    empty.probes = traffic::probes(root, &mut scope);
    if !root.has("traffic") && !root.has("probe") {
        let hint = "add a `[[traffic]]` or a `[[probe]]`";
        let message = "nothing is sent in this experiment";
        root.problems()
            .error(codes::EMPTY, field::TOP, message, hint);
    }
    scope.check_load(root);
    empty.arms = arm::arms(root, &mut scope);
    if let Some(topology) = &topology {
        topology::is_possible_for_netem(root, &scope, topology);
    }
    empty.sampling = sampling(root, &mut scope);
    empty.expectations = expect::expectations(root, &scope);
    empty.topology = topology?;
    Some(empty)
}

fn version(root: &mut Reader<'_, '_>) {
    let hint = "write `version = 1`";
    let Some(version) = root.integer("version", 0..=i64::MAX).or_else(|| {
        if root.has("version") {
            None
        } else {
            root.missing("version", hint)
        }
    }) else {
        return;
    };
    if version.value != VERSION {
        let message = format!(
            "version {} of the format is not known to this weirgate",
            version.value
        );
        root.problems()
            .error(codes::VERSION, version.span, message, hint);
    }
}

fn machine(root: &mut Reader<'_, '_>) -> Machine {
    let Some(mut table) = root.table("machine") else {
        return Machine::default();
    };
    let kernel = table.has("kernel").then(|| {
        let words = KernelName::ALL;
        field::word(&mut table, "kernel", &words)
    });
    Machine {
        kernel: kernel.flatten(),
    }
}

fn sampling(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Sampling {
    let mut sampling = Sampling::default();
    let Some(mut table) = root.table("sampling") else {
        return sampling;
    };
    let (shortest, longest) = (Span::from_millis(1), Span::from_secs(60));
    if let Some(interval) = field::span(&mut table, "queues", shortest, longest) {
        sampling.queues = interval;
    }
    if let Some(interval) = field::span(&mut table, "tcp", shortest, longest) {
        sampling.tcp = interval;
    }
    if let Some(segments) = table.boolean("segments") {
        sampling.segments = segments.value;
        if segments.value {
            scope.classes.insert("ack".to_owned());
        }
    }
    if let Some(capture) = table.boolean("capture") {
        sampling.capture = capture.value;
        if let Some(arm) = scope.netem.first().filter(|_| capture.value) {
            let message = format!("nothing is captured in the arm `{arm}`");
            let hint = "its line is the kernel's netem; only the lab's own line captures";
            let problems = table.problems();
            problems.warning(codes::ARM, capture.span, message, hint);
        }
    }
    sampling
}

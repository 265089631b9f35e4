// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses and checks the text of an experiment file.
//!
//! Sections are read in the order topology, phases, traffic, probes, arms, expectations. Each is
//! checked against the names that [`Scope`] has of earlier ones. One pass finds all problems of
//! a file. The caller reads the files that an experiment names.

mod arm;
mod autorate;
mod calculation;
mod change;
mod codes;
mod command;
mod expect;
mod field;
mod impairments;
mod kit;
mod quic;
mod registry;
mod schedule;
mod scope;
mod topology;
mod traffic;

pub use codes::CODES;

use crate::{Experiment, KernelName, Machine, Sampling, Topology};
use registry::{Field, Integer, Own, Switch, Table, Text, Texts, Within, Word, time};
use scope::Scope;
use traffic::{kind, probe};
use weirgate_document::{Problem, Problems, Reader};
use weirgate_units::Span;

/// The only version of the format.
const VERSION: i64 = 1;

/// The largest number of runs of an arm, each with its own seed.
pub(crate) const MOST_SEEDS: i64 = 1000;

const FORMAT: Field<Own> =
    Field::new("version", Own("1"), "The version of this format").required("write `version = 1`");
const NAME: Field<Text> = Field::new(
    "name",
    Text,
    "The name of the experiment, as of its file: small letters, digits, hyphens and points, a \
     letter first, at most 64 characters",
)
.required("name the experiment as its file: `name = \"adsl-3.2\"`");
const TITLE: Field<Text> = Field::new("title", Text, "One line for lists and reports")
    .required("say in a line what is shown");
const SOURCE: Field<Text> = Field::new("source", Text, "Where the experiment comes from");
const ABOUT: Field<Text> = Field::new("about", Text, "What the experiment shows, in a paragraph");
const COVERS: Field<Texts> = Field::new(
    "covers",
    Texts("experiments' names"),
    "Other experiments (figures of the source) that the same run reproduces",
);
const SEEDS: Field<Integer> = Field::new(
    "seeds",
    Integer(1, MOST_SEEDS),
    "Runs of each arm, with seeds from `seed` on; `--seeds` replaces it",
)
.default("1");
const SEED: Field<Integer> = Field::new(
    "seed",
    Integer(0, i64::MAX),
    "The seed of everything random; `--seed` replaces it. Equal seeds give equal results, byte \
     for byte",
)
.default("1");
const SETTLE: Field<Within<Span>> = Field::new(
    "settle",
    time(Span::ZERO, field::LONGEST),
    "How long after a phase's start its measurement begins",
)
.default("`\"5s\"`");
const PARAMETERS: Field<Own> = Field::new(
    "parameters",
    Own("table of texts, numbers, `true` and `false`"),
    "Values that other fields use as `{NAME}`",
);
const MACHINE: Field<Own> = Field::new("machine", Own("table"), "The machine of every arm");
const SAMPLING: Field<Own> = Field::new(
    "sampling",
    Own("table"),
    "What is read and recorded during the run",
);

/// The top level of the file.
const FILE: Table = Table::new(
    "the file",
    "The head of the file, and its tables",
    &[
        &FORMAT,
        &NAME,
        &TITLE,
        &SOURCE,
        &ABOUT,
        &COVERS,
        &SEEDS,
        &SEED,
        &SETTLE,
        &PARAMETERS,
        &MACHINE,
        &topology::TOPOLOGY,
        &schedule::PHASE,
        &traffic::TRAFFIC,
        &probe::PROBE,
        &SAMPLING,
        &arm::ARM,
        &expect::EXPECT,
        &calculation::FIGURE,
    ],
);

const KERNEL: Field<Word<KernelName>> = Field::new(
    "kernel",
    Word(&KernelName::ALL),
    "The kernel of every arm's machine; `--kernel` overrides it",
)
.default("the lab's default, `cloud`");

const OF_MACHINE: Table = Table::new("[machine]", "The machine that runs each arm", &[&KERNEL]);

const SHORTEST: Span = Span::from_millis(1);
const LONGEST: Span = Span::from_secs(60);
const QUEUES: Field<Within<Span>> = Field::new(
    "queues",
    time(SHORTEST, LONGEST),
    "How often the gateway's queues are read",
)
.default("`\"100ms\"`");
const TCP: Field<Within<Span>> = Field::new(
    "tcp",
    time(SHORTEST, LONGEST),
    "How often the state of TCP senders is read",
)
.default("`\"100ms\"`");
const SEGMENTS: Field<Switch> = Field::new(
    "segments",
    Switch,
    "Whether to record how long TCP segments from the hosts wait in the gateway: acknowledgements \
     without data as class `ack` (`sojourn.ack-up.max_ms`), others as the `class` of their entry. \
     Not behind address translation",
)
.default("false");
const CAPTURE: Field<Switch> = Field::new(
    "capture",
    Switch,
    "Whether to store the beginning of every packet at the line, for wireshark and tcpdump",
)
.default("false");

const OF_SAMPLING: Table = Table::new(
    "[sampling]",
    "What is read and recorded while an arm runs",
    &[&QUEUES, &TCP, &SEGMENTS, &CAPTURE],
);

/// Every table, in the order of the reference.
pub const TABLES: &[Table] = &[
    FILE,
    OF_MACHINE,
    topology::TABLE,
    topology::LINE,
    topology::STEP,
    topology::SIDE,
    impairments::REORDERING,
    schedule::TABLE,
    traffic::TABLE,
    kind::OF_TCP,
    quic::TABLE,
    kind::OF_UDP,
    kind::OF_REQUESTS,
    kind::OF_SHORT_FLOWS,
    kind::OF_SYNS,
    kind::OF_VOICE,
    probe::TABLE,
    OF_SAMPLING,
    arm::TABLE,
    kit::TABLE,
    autorate::TABLE,
    autorate::SIDE,
    change::TABLE,
    arm::SWEEP_TABLE,
    expect::TABLE,
    calculation::TABLE,
];

/// Parses an experiment file. Returns the experiment if no problem is an error; there may be
/// warnings.
#[must_use]
pub fn parse(source: &str) -> (Option<Experiment>, Vec<Problem>) {
    let problems = Problems::default();
    let experiment = weirgate_document::parse_with_parameters(source, &problems, |mut root| {
        // Accept every key: parameters are substituted where other fields name them.
        root.table(PARAMETERS.name).map(|mut table| table.keys());
        read(&mut root)
    });
    let experiment = experiment.filter(|_| !problems.has_errors());
    (experiment, problems.into_sorted())
}

fn read(root: &mut Reader<'_, '_>) -> Option<Experiment> {
    version(root);
    let name = NAME.get(root);
    if let Some(name) = &name {
        field::experiment_name(root, name);
    }
    let title = TITLE.get(root);
    let source = SOURCE.get(root);
    let about = ABOUT.get(root);
    let covers = COVERS.get(root).unwrap_or_default();
    for other in &covers {
        field::experiment_name(root, other);
    }
    let seed = SEED.get(root);
    let seeds = SEEDS.get(root);
    let settle = SETTLE.get(root);

    let seed = seed.map_or(1, |seed| seed as u64);
    let settle = settle.unwrap_or(Span::from_secs(5));
    let body = body(root, settle);
    Some(Experiment {
        name: name?.value,
        title: title?.value,
        source: source.map(|text| text.value).unwrap_or_default(),
        about: about.map(|text| text.value).unwrap_or_default(),
        covers: covers.into_iter().map(|other| other.value).collect(),
        seed,
        seeds: seeds.map_or(1, |seeds| seeds as u16),
        settle,
        ..body?
    })
}

/// Reads everything after the file's head.
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
    if calculation::FIGURE.is_in(root) {
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
    empty.probes = probe::probes(root, &mut scope);
    if !traffic::TRAFFIC.is_in(root) && !probe::PROBE.is_in(root) {
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
    if !FORMAT.is_there(root) {
        return;
    }
    let Some(version) = root.integer(FORMAT.name, 0..=i64::MAX) else {
        return;
    };
    if version.value != VERSION {
        let message = format!(
            "version {} of the format is not known to this weirgate",
            version.value
        );
        root.problems()
            .error(codes::VERSION, version.span, message, "write `version = 1`");
    }
}

fn machine(root: &mut Reader<'_, '_>) -> Machine {
    let Some(mut table) = root.table(MACHINE.name) else {
        return Machine::default();
    };
    let kernel = KERNEL.is_in(&mut table).then(|| KERNEL.get(&mut table));
    Machine {
        kernel: kernel.flatten(),
    }
}

fn sampling(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Sampling {
    let mut sampling = Sampling::default();
    let Some(mut table) = root.table(SAMPLING.name) else {
        return sampling;
    };
    if let Some(interval) = QUEUES.get(&mut table) {
        sampling.queues = interval;
    }
    if let Some(interval) = TCP.get(&mut table) {
        sampling.tcp = interval;
    }
    if let Some(segments) = SEGMENTS.get(&mut table) {
        sampling.segments = segments.value;
        if segments.value {
            scope.classes.insert("ack".to_owned());
        }
    }
    if let Some(capture) = CAPTURE.get(&mut table) {
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compared cases: an arm with the laboratory's own generators, one with other programs, and
//! the figures that both have.

use super::flent;
use super::inside::{Output, Part, Program, place};
use super::python::{PYTHON, SETTINGS};
use std::slice;

/// One load, produced by both generators.
pub struct Case {
    pub title: &'static str,
    experiment: &'static str,
    /// The arm with the laboratory's own generators.
    ours: &'static str,
    programs: fn() -> Vec<Program>,
    rows: &'static [&'static [Row]],
}

/// A figure that both have, by its name on each side. If a name has an `N` for the numbers 1 to 3,
/// it is their mean.
pub struct Row {
    pub figure: &'static str,
    pub unit: &'static str,
    pub ours: &'static str,
    pub theirs: &'static str,
}

const fn row(
    figure: &'static str,
    unit: &'static str,
    ours: &'static str,
    theirs: &'static str,
) -> Row {
    Row {
        figure,
        unit,
        ours,
        theirs,
    }
}

const IRTT: &str = include_str!("irtt.toml");
const FLENT: &str = include_str!("flent.toml");

/// The address of the server in every case.
const SERVER: &str = "192.0.2.11";

/// The irtt server. By default, it would drop packets that a queue has moved closer together than
/// it permits.
const IRTT_SERVER: &str = "irtt server -i 0";

/// Figures of the line's log, whatever the generator.
const USED: [Row; 2] = [
    row(
        "line used, down",
        "",
        "full.util.down.ratio",
        "full.util.down.ratio",
    ),
    row(
        "line used, up",
        "",
        "full.util.up.ratio",
        "full.util.up.ratio",
    ),
];

const RATES: [Row; 2] = [
    row(
        "downloads",
        "kbit/s",
        "full.goodput.down.mean_kbit",
        "flent.down_kbit",
    ),
    row(
        "uploads",
        "kbit/s",
        "full.goodput.up.mean_kbit",
        "flent.up_kbit",
    ),
];

const PINGS: [Row; 4] = [
    row(
        "ping, mean",
        "ms",
        "full.rtt.ping.mean_ms",
        "flent.ping.mean_ms",
    ),
    row(
        "ping, p50",
        "ms",
        "full.rtt.ping.p50_ms",
        "flent.ping.p50_ms",
    ),
    row(
        "ping, p99",
        "ms",
        "full.rtt.ping.p99_ms",
        "flent.ping.p99_ms",
    ),
    row("ping, loss", "", "full.loss.ping.ratio", "flent.ping.loss"),
];

const DATAGRAMS: [Row; 4] = [
    row(
        "UDP, mean",
        "ms",
        "full.rtt.udpN.mean_ms",
        "flent.udpN.mean_ms",
    ),
    row(
        "UDP, p50",
        "ms",
        "full.rtt.udpN.p50_ms",
        "flent.udpN.p50_ms",
    ),
    row(
        "UDP, p99",
        "ms",
        "full.rtt.udpN.p99_ms",
        "flent.udpN.p99_ms",
    ),
    row("UDP, loss", "", "full.loss.udpN.ratio", "flent.udpN.loss"),
];

pub static CASES: [Case; 6] = [
    Case {
        title: "irtt, idle line",
        experiment: IRTT,
        ours: "ours",
        programs: echoing,
        rows: &[&[
            row("mean", "ms", "idle.rtt.echo.mean_ms", "idle.mean_ms"),
            row("p50", "ms", "idle.rtt.echo.p50_ms", "idle.p50_ms"),
            row("p99", "ms", "idle.rtt.echo.p99_ms", "idle.p99_ms"),
            row("variation", "ms", "idle.ipdv.echo.mean_ms", "idle.ipdv_ms"),
            row("loss", "", "idle.loss.echo.ratio", "idle.loss"),
        ]],
    },
    Case {
        title: "irtt, two uploads",
        experiment: IRTT,
        ours: "ours",
        programs: echoing,
        rows: &[
            &[
                row("mean", "ms", "full.rtt.echo.mean_ms", "full.mean_ms"),
                row("p50", "ms", "full.rtt.echo.p50_ms", "full.p50_ms"),
                row("p99", "ms", "full.rtt.echo.p99_ms", "full.p99_ms"),
                row("variation", "ms", "full.ipdv.echo.mean_ms", "full.ipdv_ms"),
                row("loss", "", "full.loss.echo.ratio", "full.loss"),
            ],
            slice::from_ref(&USED[1]),
        ],
    },
    Case {
        title: "`weirgate probe --irtt` with irtt's server, idle line",
        experiment: IRTT,
        ours: THEIRS,
        programs: echoing,
        rows: &[&[
            row("least", "ms", "probe.min_ms", "idle.min_ms"),
            row("mean", "ms", "probe.mean_ms", "idle.mean_ms"),
            row("p50", "ms", "probe.p50_ms", "idle.p50_ms"),
            row("loss", "", "probe.loss", "idle.loss"),
        ]],
    },
    Case {
        title: "flent `tcp_ndown`, four downloads",
        experiment: FLENT,
        ours: "downloads",
        programs: downloads,
        rows: &[
            slice::from_ref(&RATES[0]),
            slice::from_ref(&USED[0]),
            &PINGS,
        ],
    },
    Case {
        title: "flent `tcp_nup`, four uploads",
        experiment: FLENT,
        ours: "uploads",
        programs: uploads,
        rows: &[
            slice::from_ref(&RATES[1]),
            slice::from_ref(&USED[1]),
            &PINGS,
        ],
    },
    Case {
        title: "flent `rrul_be`, four each way",
        experiment: FLENT,
        ours: "both",
        programs: both,
        rows: &[&RATES, &USED, &PINGS, &DATAGRAMS],
    },
];

impl Case {
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.rows.iter().copied().flatten()
    }

    /// Returns the part with the laboratory's own generators. A case that compares weirgate's own
    /// client needs the programs, too.
    pub fn ours(&self, seed: u64) -> Part {
        if self.ours == THEIRS {
            return self.theirs(seed);
        }
        self.part(self.ours, seed, Vec::new())
    }

    /// Returns the part with the other programs.
    pub fn theirs(&self, seed: u64) -> Part {
        self.part(THEIRS, seed, (self.programs)())
    }

    fn part(&self, arm: &str, seed: u64, programs: Vec<Program>) -> Part {
        Part {
            experiment: self.experiment.to_owned(),
            arm: arm.to_owned(),
            seed,
            programs,
        }
    }
}

/// The arm of every experiment in which other programs send.
const THEIRS: &str = "theirs";

fn program(name: &str, node: &str, after: u64, line: &str, output: Option<Output>) -> Program {
    Program {
        name: name.to_owned(),
        node: node.to_owned(),
        after,
        words: line.split(' ').map(str::to_owned).collect(),
        output,
    }
}

/// Returns irtt in both phases of its experiment, and weirgate's own client before.
fn echoing() -> Vec<Program> {
    let client = |name: &str, after, seconds: u64| {
        let place = place(name);
        let line = format!("irtt client -i 10ms -d {seconds}s -l 60 -Q -o {place}.json {SERVER}");
        program(name, "host1", after, &line, Some(Output::Irtt))
    };
    let folder = place("probe");
    let probe = format!("weirgate probe --irtt {SERVER} --write {folder}");
    vec![
        program("server", "server1", 0, IRTT_SERVER, None),
        program("probe", "host1", 1, &probe, Some(Output::Echoes)),
        client("idle", 5, 20),
        client("full", 35, 40),
    ]
}

fn downloads() -> Vec<Program> {
    flent("tcp_ndown --test-parameter download_streams=4")
}

fn uploads() -> Vec<Program> {
    flent("tcp_nup --test-parameter upload_streams=4")
}

fn both() -> Vec<Program> {
    flent("rrul_be")
}

/// Returns flent with one of its tests, and the servers that it needs.
fn flent(test: &str) -> Vec<Program> {
    let settings = SETTINGS.join(" ");
    let (folder, length) = (place("flent"), flent::LENGTH);
    let line = format!(
        "env {settings} {PYTHON} -S -m flent {test} -H {SERVER} -l {length} -s 0.05 -D {folder}"
    );
    vec![
        program("netserver", "server1", 0, "netserver -D -4", None),
        program("server", "server1", 0, IRTT_SERVER, None),
        program("flent", "host1", 0, &line, Some(Output::Flent)),
    ]
}

#[cfg(test)]
mod tests {
    use super::CASES;

    #[test]
    fn experiments_have_the_arms_and_nodes_that_cases_name() {
        for case in &CASES {
            let (experiment, problems) = weirgate_experiment::parse(case.experiment);
            assert_eq!(problems, [], "{}", case.title);
            let experiment = experiment.unwrap();
            for part in [case.ours(1), case.theirs(1)] {
                assert!(experiment.arm(&part.arm).is_some(), "{}", part.arm);
                for program in part.programs {
                    assert!(program.node.parse::<weirgate_experiment::Node>().is_ok());
                }
            }
        }
    }
}

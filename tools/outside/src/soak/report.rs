// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a soak: faults, promises of every class, what is left over, and what grows.

use super::growth::{Growth, LEAK, Point};
use super::inside::{END, REMOVE, Round};
use super::look::{Counts, Memory, Process};
use super::promises::CLASSES;
use super::steps::STEPS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the report of all runs.
pub fn text(runs: &[Vec<Round>]) -> String {
    let seconds: f64 = runs
        .iter()
        .filter_map(|rounds| Some(rounds.last()?.at))
        .sum();
    let rounds: usize = runs.iter().map(Vec::len).sum();
    let faults: usize = runs.iter().map(|rounds| faults(rounds).len()).sum();
    let leaks: usize = runs.iter().map(|rounds| leaks(rounds)).sum();
    let mut out = format!(
        "{} runs, {:.1} virtual hours, {rounds} rounds: {faults} faults, {leaks} leaks of \
         memory.\n\n",
        runs.len(),
        seconds / 3_600.0,
    );
    out += &promises(runs);
    for (number, rounds) in runs.iter().enumerate() {
        out += &run(number, rounds);
    }
    out
}

/// Returns the number of faults and leaks of all runs.
pub fn wrong(runs: &[Vec<Round>]) -> usize {
    let of = |rounds: &Vec<Round>| faults(rounds).len() + leaks(rounds);
    runs.iter().map(of).sum()
}

/// Returns the deviations of a run, and promises that were not kept.
fn faults(rounds: &[Round]) -> Vec<String> {
    let of = |round: &Round| -> Vec<String> {
        let late = round.waited.iter().filter(|one| one.longest > one.bound);
        let late = late.map(|one| {
            format!(
                "`{}` waited {:.1} ms, {:.1} promised",
                one.class, one.longest, one.bound
            )
        });
        let all = round.faults.iter().cloned().chain(late);
        all.map(|fault| format!("{}: {}", round.step, fault.replace('\n', " ")))
            .collect()
    };
    rounds.iter().flat_map(of).collect()
}

/// Returns the table of promises.
fn promises(runs: &[Vec<Round>]) -> String {
    let mut out = String::from(
        "| class | rounds | packets | longest wait, ms | longest part of the promise | late \
         |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for (name, _) in CLASSES {
        let waited = runs.iter().flatten().flat_map(|round| &round.waited);
        let own: Vec<_> = waited.filter(|one| one.class == name).collect();
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {:.1} | {:.0} % | {} |",
            own.len(),
            own.iter().map(|one| u64::from(one.packets)).sum::<u64>(),
            most(&mut own.iter().map(|one| one.longest)),
            100.0 * most(&mut own.iter().map(|one| one.longest / one.bound)),
            own.iter().filter(|one| one.longest > one.bound).count(),
        );
    }
    out.push('\n');
    out
}

/// Returns the report of a run.
fn run(number: usize, rounds: &[Round]) -> String {
    let seconds = rounds.last().map_or(0.0, |round| round.at);
    let found = faults(rounds);
    let mut out = format!(
        "Run {}: {} rounds, {:.2} virtual hours, {} faults.\n\n",
        number + 1,
        rounds.len(),
        seconds / 3_600.0,
        found.len(),
    );
    for fault in &found {
        let _ = writeln!(out, "- {fault}");
    }
    if !found.is_empty() {
        out.push('\n');
    }
    out += &left_over(rounds);
    out += &growth(rounds);
    out
}

/// Returns the table of what there is after each turn, and after the end of all services.
fn left_over(rounds: &[Round]) -> String {
    let mut out = format!(
        "| after | {} | files of keep, watch, web |\n|---|",
        Counts::NAMES.join(" | ")
    );
    out.push_str(&"--:|".repeat(Counts::NAMES.len() + 1));
    out.push('\n');
    let mut turn = 0;
    for round in rounds {
        let after = match &*round.step {
            REMOVE => {
                turn += 1;
                format!("`remove` {turn}")
            }
            END => END.to_owned(),
            _ => continue,
        };
        let services = round.processes.iter().take(3);
        let files: Vec<String> = services.map(|one| one.files.to_string()).collect();
        let _ = writeln!(
            out,
            "| {after} | {} | {} |",
            round
                .counts
                .listed()
                .map(|count| count.to_string())
                .join(" | "),
            files.join(", "),
        );
    }
    out.push('\n');
    out
}

/// How a process's use of memory is read.
type Quantity = fn(&Process) -> u64;

/// A quantity of memory, and its values.
type Series<'a> = (String, Vec<Point<'a>>);

/// Returns the memory of each process: of the one that lived longest, after its first turn. A
/// process that a step starts is another one in each turn, so all of them count.
fn processes(rounds: &[Round]) -> Vec<Series<'_>> {
    let mut lives: BTreeMap<(&str, u32), Vec<(&Round, &Process)>> = BTreeMap::new();
    for round in rounds {
        for (place, process) in round.processes.iter().enumerate() {
            let number = if place < SERVICES { process.number } else { 0 };
            let life = lives.entry((&process.name, number)).or_default();
            life.push((round, process));
        }
    }
    let mut longest: BTreeMap<&str, Vec<(&Round, &Process)>> = BTreeMap::new();
    for ((name, number), life) in lives {
        let warm = if number == 0 { 0 } else { STEPS.len() };
        let life: Vec<_> = life.into_iter().skip(warm).collect();
        let known = longest.entry(name).or_default();
        if life.len() > known.len() {
            *known = life;
        }
    }
    let quantities: [(&str, Quantity); 3] = [
        ("RSS", |one| one.resident),
        ("PSS", |one| one.proportional),
        ("heap and stacks", |one| one.anonymous),
    ];
    let mut all = Vec::new();
    for (name, life) in longest {
        for (quantity, of) in quantities {
            let points = life.iter().map(|(round, process)| Point {
                step: &round.step,
                hours: round.at / 3_600.0,
                value: of(process) as f64,
            });
            all.push((format!("{name}, {quantity}"), points.collect()));
        }
    }
    all
}

/// The number of processes that live beyond a step: they come first.
const SERVICES: usize = 3;

/// Returns the memory of the machine after the first turn.
fn machine(rounds: &[Round]) -> Vec<Series<'_>> {
    let series = |(number, name): (usize, &&str)| {
        let rounds = rounds.iter().filter(|round| round.step != END);
        let points = rounds.skip(STEPS.len()).map(|round| Point {
            step: &round.step,
            hours: round.at / 3_600.0,
            value: round.memory.listed()[number] as f64,
        });
        (format!("machine, {name}"), points.collect())
    };
    Memory::NAMES.iter().enumerate().map(series).collect()
}

/// Returns the number of leaks: quantities of processes that certainly grow.
fn leaks(rounds: &[Round]) -> usize {
    let series = processes(rounds);
    let grown = series.iter().filter_map(|(_, points)| Growth::of(points));
    grown.filter(Growth::leaks).count()
}

/// Returns the table of growth.
fn growth(rounds: &[Round]) -> String {
    let mut out = String::from(
        "| memory | values | first and last, KiB | growth, KiB/h | standard error | leak \
         |\n|---|--:|--:|--:|--:|---|\n",
    );
    let judged = processes(rounds).into_iter().map(|series| (series, true));
    let others = machine(rounds).into_iter().map(|series| (series, false));
    for ((name, points), judged) in judged.chain(others) {
        let shown = |point: Option<&Point>| point.map_or(0.0, |point| point.value);
        let (first, last) = (shown(points.first()), shown(points.last()));
        let _ = match Growth::of(&points) {
            None => writeln!(
                out,
                "| {name} | {} | {first:.0}, {last:.0} | too few values | | |",
                points.len()
            ),
            Some(found) => writeln!(
                out,
                "| {name} | {} | {first:.0}, {last:.0} | {:.1} | {:.1} | {} |",
                found.points,
                found.hourly,
                found.error,
                match (judged, found.leaks()) {
                    (false, _) => "not judged",
                    (true, false) => "no",
                    (true, true) => "**yes**",
                },
            ),
        };
    }
    let _ = writeln!(
        out,
        "\nA process leaks if it grows by more than {LEAK:.0} KiB in an hour (1 MiB in a day) \
         beyond three standard errors.\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Waited;
    use super::*;

    /// Four turns of all steps, a minute each. `keep` begins with 9,000 KiB.
    fn run(grows: f64) -> Vec<Round> {
        let rounds = STEPS.iter().cycle().take(4 * STEPS.len()).enumerate();
        rounds
            .map(|(number, step)| {
                let at = 60.0 * number as f64;
                let memory = 9_000 + (grows * at / 3_600.0) as u64;
                Round {
                    step: step.name.to_owned(),
                    at,
                    faults: Vec::new(),
                    counts: Counts::default(),
                    memory: Memory::default(),
                    processes: vec![Process {
                        name: "keep".to_owned(),
                        number: 7,
                        files: 21,
                        resident: memory,
                        proportional: memory,
                        anonymous: 900,
                    }],
                    waited: CLASSES
                        .iter()
                        .map(|(name, _)| Waited {
                            class: (*name).to_owned(),
                            packets: 30,
                            longest: 10.0,
                            bound: 100.0,
                        })
                        .collect(),
                }
            })
            .collect()
    }

    #[test]
    fn a_process_that_grows_leaks_and_no_other() {
        assert_eq!([wrong(&[run(0.0)]), wrong(&[run(500.0)])], [0, 2]);
        let text = text(&[run(0.0)]);
        assert!(
            text.contains("88 rounds: 0 faults, 0 leaks of memory."),
            "{text}"
        );
        assert!(
            text.contains("| `last` | 88 | 2640 | 10.0 | 10 % | 0 |"),
            "{text}"
        );
        let text = super::text(&[run(500.0)]);
        assert!(text.contains("0 faults, 2 leaks of memory."), "{text}");
        assert!(text.contains("| keep, PSS | 66 |"), "{text}");
        assert!(text.contains("| keep, heap and stacks | 66 | 900, 900 | 0.0 | 0.0 | no |"));
    }

    #[test]
    fn a_wait_beyond_the_promise_of_any_class_is_a_fault() {
        let mut rounds = run(0.0);
        rounds[3].waited[2].longest = 101.0;
        rounds[4].faults.push("maps: 6, 4 before".to_owned());
        let rounds = [rounds];
        assert_eq!(wrong(&rounds), 2);
        let text = text(&rounds);
        assert!(
            text.contains("0 leaks") && text.contains(" 2 faults, "),
            "{text}"
        );
        assert!(text.contains(": `bulk` waited 101.0 ms, 100.0 promised\n"));
        assert!(text.contains(": maps: 6, 4 before\n"));
    }
}

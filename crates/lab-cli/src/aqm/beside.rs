// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm try`: compares a discipline with others as the queue of a bottleneck in the
//! laboratory, under a real kernel's TCP. This module writes the experiment, and prints its figures
//! flow by flow.

use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weirgate_campaign::bundled;
use weirgate_campaign::result::ExperimentResult;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::{output, source};
use weirgate_lab::KernelChoice;
use weirgate_measure::ArmFigures;
use weirgate_units::{Rate, Span};

/// The length of the flood's IP packets, in bytes.
const DATAGRAM: u64 = 1_200;

/// The fields of an arm whose TCP requests ECN; the server accepts every request.
const ASK_FOR_ECN: &str = "commands = [\"host1: sysctl -q -w net.ipv4.tcp_ecn=1\"]\n\
                           programs = [\"sysctl\"]\n";

/// Arguments of `aqm try`.
#[derive(Args)]
pub struct Arguments {
    /// Its folder or file, or the name of one that comes with weirgate.
    discipline: String,
    /// Parameters of it, as `name=value`.
    #[arg(value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Disciplines for comparison behind the same gate, with their defaults.
    #[arg(long, value_delimiter = ',', default_value = "fq_codel,droptail")]
    beside: Vec<String>,
    /// The rate of the bottleneck.
    #[arg(long, default_value = "10mbit")]
    rate: Rate,
    /// The round trip without a queue.
    #[arg(long, default_value = "40ms")]
    rtt: Span,
    /// TCP flows.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    flows: u16,
    /// The congestion control of the flows.
    #[arg(long, default_value = "cubic", value_parser = ["cubic", "reno", "bbr"])]
    congestion: String,
    /// Let the flows negotiate ECN.
    #[arg(long)]
    ecn: bool,
    /// Also send datagrams at this rate, which respond to no loss or mark.
    #[arg(long, value_name = "RATE")]
    flood: Option<Rate>,
    /// Seconds of virtual time; the first five are not measured.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(6..=600))]
    seconds: u16,
    /// The seed of random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// A kernel for the lab: cloud, generic, a bzImage, or a folder with `vmlinuz` and modules.
    #[arg(long)]
    kernel: Option<KernelChoice>,
    /// Print JSON: figures by discipline and metric.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Outcome {
    let text = arguments.experiment()?;
    // Paths of disciplines are relative to the current folder.
    let here = Path::new("aqm-try.toml");
    let experiment = source::parse(here, &text, weirgate_experiment::parse)?;
    let files = BTreeMap::new();
    let result = bundled(here, &text, experiment, files, arguments.kernel.clone())?;
    let shown = if arguments.json {
        arguments.json(&result)?
    } else {
        arguments.table(&result)
    };
    output::data(&shown)?;
    Ok(Status::Done)
}

impl Arguments {
    /// Returns the disciplines in the order of the table, with their settings.
    fn disciplines(&self) -> Vec<(&str, &[String])> {
        let own = std::iter::once((self.discipline.as_str(), self.settings.as_slice()));
        let beside = self.beside.iter().map(|name| (name.as_str(), &[][..]));
        own.chain(beside).collect()
    }

    /// Returns the experiment file. The line has twice the rate, so that packets wait in the
    /// discipline.
    fn experiment(&self) -> Result<String, Failure> {
        let bits = self.rate.as_bits_per_second();
        let delay = Span::from_nanos(self.rtt.as_nanos() / 2);
        let mut text = format!(
            "version = 1\nname = \"aqm-try\"\ntitle = \"A discipline beside others\"\n\
             seed = {}\n[topology]\n[topology.line]\noverhead = 14\n",
            self.seed
        );
        for side in ["up", "down"] {
            let rate = Rate::bits_per_second(bits.saturating_mul(2));
            let _ = writeln!(
                text,
                "{side} = {{ rate = \"{rate}\", delay = \"{delay}\", buffer = \"1000 packets\" }}"
            );
        }
        let _ = writeln!(
            text,
            "[[phase]]\nname = \"load\"\nend = \"{}s\"\n[[probe]]\nname = \"ping\"\n\
             from = \"host1\"\nto = \"server1\"\ninterval = \"100ms\"",
            self.seconds
        );
        for flow in self.tcp() {
            let _ = writeln!(
                text,
                "[[traffic]]\nname = \"{flow}\"\nkind = \"tcp\"\nfrom = \"host1\"\n\
                 to = \"server1\"\ncongestion = \"{}\"",
                self.congestion
            );
        }
        if let Some(rate) = self.flood {
            let gap = DATAGRAM * 8 * 1_000_000_000 / rate.as_bits_per_second().max(1);
            let gap = Span::from_nanos(gap);
            let _ = writeln!(
                text,
                "[[traffic]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"host1\"\n\
                 to = \"server1\"\ninterval = \"{gap}\"\npacket = {DATAGRAM}"
            );
        }
        for (number, (discipline, settings)) in self.disciplines().into_iter().enumerate() {
            let kit = serde_json::to_string(discipline).map_err(anyhow::Error::from)?;
            let set = serde_json::to_string(settings).map_err(anyhow::Error::from)?;
            let _ = writeln!(
                text,
                "[[arm]]\nname = \"{}\"\nkit = {{ discipline = {kit}, rate = \"{}\", set = {set} }}",
                arm(number),
                self.rate
            );
            if self.ecn {
                text.push_str(ASK_FOR_ECN);
            }
        }
        Ok(text)
    }

    fn tcp(&self) -> impl Iterator<Item = String> {
        (1..=self.flows).map(|number| format!("tcp{number}"))
    }

    /// Returns the printed blocks: a heading, and rows of a label and a metric.
    fn rows(&self) -> Vec<(&'static str, Vec<(String, String)>)> {
        let of = |quantity: &str, ending: &str| -> Vec<(String, String)> {
            let row = |flow: String| {
                let metric = format!("load.{quantity}.{flow}.{ending}");
                (flow, metric)
            };
            self.tcp().map(row).collect()
        };
        let row = |label: &str, metric: &str| (label.to_owned(), format!("load.{metric}"));
        let flood = self.flood.is_some();
        let mut goodput = of("goodput", "mean_kbit");
        let mut lost = of("retransmitted", "segments");
        if flood {
            goodput.push(row("flood", "goodput.flood.mean_kbit"));
            lost.push(row("flood, part lost", "loss.flood.ratio"));
        }
        vec![
            ("goodput, kbit/s", goodput),
            (
                "round trip, ms",
                vec![
                    row("probe, mean", "rtt.ping.mean_ms"),
                    row("probe, 99 %", "rtt.ping.p99_ms"),
                ]
                .into_iter()
                .chain(of("srtt", "mean_ms"))
                .collect(),
            ),
            ("segments sent again", lost),
            (
                "at the queue",
                vec![
                    row("dropped, packets", "drops.wan.packets"),
                    row("marked, packets", "marks.wan.packets"),
                    row("queued in the mean, bytes", "queue.wan.mean_bytes"),
                ],
            ),
        ]
    }

    fn table(&self, result: &ExperimentResult) -> String {
        let disciplines = self.disciplines();
        let figure = |number: usize, metric: &str| -> String {
            let arm = result.figures.get(&arm(number));
            arm.and_then(|figures| value(figures, metric))
                .map_or_else(|| "-".to_owned(), shown)
        };
        let mut text = format!(
            "{} TCP flows ({}{}){} over {}, a round trip of {} without a queue; {} s, of which 5 \
             settle; kernel {}\n\n{:<28}",
            self.flows,
            self.congestion,
            if self.ecn { ", ECN" } else { "" },
            self.flood
                .map_or_else(String::new, |rate| format!(" and a flood of {rate}")),
            self.rate,
            self.rtt,
            self.seconds,
            result.outcome.kernel,
            ""
        );
        for (name, _) in &disciplines {
            let _ = write!(text, "{:>14}", last(name));
        }
        text.push('\n');
        for (heading, rows) in self.rows() {
            let _ = writeln!(text, "{heading}");
            for (label, metric) in rows {
                let _ = write!(text, "  {label:<26}");
                for number in 0..disciplines.len() {
                    let _ = write!(text, "{:>14}", figure(number, &metric));
                }
                text.push('\n');
            }
        }
        text
    }

    fn json(&self, result: &ExperimentResult) -> Result<String, Failure> {
        let mut by_name = serde_json::Map::new();
        for (number, (name, _)) in self.disciplines().into_iter().enumerate() {
            if let Some(figures) = result.figures.get(&arm(number)) {
                by_name.insert(name.to_owned(), serde_json::json!(figures.metrics));
            }
        }
        Ok(serde_json::to_string_pretty(&by_name).map_err(anyhow::Error::from)?)
    }
}

/// Returns the name of a discipline's arm, by its index.
fn arm(number: usize) -> String {
    format!("queue{number}")
}

/// Returns the name of a discipline, or the last part of its path.
fn last(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    let name = name.rsplit('/').next().unwrap_or(name);
    name.trim_end_matches(".so").trim_end_matches(".c")
}

fn value(figures: &ArmFigures, metric: &str) -> Option<f64> {
    figures.metrics.get(metric).copied()
}

fn shown(value: f64) -> String {
    if value >= 1_000.0 {
        format!("{value:.0}")
    } else if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        own: Arguments,
    }

    fn arguments(words: &str) -> Arguments {
        Whole::parse_from(words.split(' ')).own
    }

    #[test]
    fn what_is_asked_makes_an_experiment() {
        let asked = arguments(
            "try ../own/mean limit_packets=50 --flows 2 --ecn --flood 5mbit --rate 20mbit \
             --beside droptail",
        );
        let text = asked.experiment().expect("an experiment");
        let (experiment, problems) = weirgate_experiment::parse(&text);
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        let experiment = experiment.expect("one");
        let kits: Vec<String> = experiment
            .arms
            .iter()
            .filter_map(|arm| Some(arm.kit.as_ref()?.discipline.clone()))
            .collect();
        assert_eq!(kits, ["../own/mean", "droptail"]);
        let names: Vec<&str> = experiment.traffic.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["tcp1", "tcp2", "flood"]);
        // The gate has 20 Mbit/s, and the line is no bottleneck.
        assert_eq!(
            experiment.topology.line.up.rate.as_bits_per_second(),
            40_000_000
        );
    }

    #[test]
    fn a_column_has_the_name_of_a_path() {
        assert_eq!(last("../own/mean/"), "mean");
        assert_eq!(last("mean/mean.so"), "mean");
        assert_eq!(last("fq_codel"), "fq_codel");
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_numbers_are_short() {
        assert_eq!(shown(12_345.6), "12346");
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(41.256), "41.26");
        assert_eq!(value(&ArmFigures::default(), "load.rtt.ping.mean_ms"), None);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether an experiment's traffic conforms to its class's guarantee, which is the condition
//! of some bounds of `weirgate check`.
//!
//! The check uses only the experiment and the policy, before any measurement. It succeeds only if
//! everything is known: every sender states its class, and the senders of the class send at fixed
//! intervals.

use weirgate_compile::{ClassReport, Cost, DirectionReport};
use weirgate_experiment::{Arm, Buffer, Experiment, Line, LineSide, LineStep, Node, TrafficKind};
use weirgate_policy::Direction;
use weirgate_units::{Rate, Span};

/// How the traffic of a class conforms to its guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It does not conform, or this cannot be decided.
    Unknown,
    /// It conforms to the rate and the burst.
    Within,
    /// It conforms, and every packet leaves before the next one arrives.
    Alone,
}

/// Packets of one size that arrive at an interval, with a delay of up to `late`.
struct Stream {
    wire_bytes: f64,
    interval: f64,
    late: f64,
}

/// Returns how the traffic of a class conforms to its guarantee from the start until `end`.
///
/// In any time t, a stream has at most `(t + late) / interval + 1` packets. The streams conform to
/// rate r and burst b, plus the packet by which HTB may overdraw, if `sum of L / interval <= r` and
/// `sum of L (1 + late / interval) <= b + L`.
pub fn keeping(
    experiment: &Experiment,
    arm: &Arm,
    directions: &[DirectionReport],
    class: &ClassReport,
    direction: &DirectionReport,
    end: Span,
) -> Keeping {
    let known = Known {
        experiment,
        arm,
        directions,
        end,
    };
    let Some(streams) = known.streams(class, direction) else {
        return Keeping::Unknown;
    };
    let largest = streams.iter().map(|s| s.wire_bytes).fold(0.0, f64::max);
    let rate: f64 = streams
        .iter()
        .map(|s| s.wire_bytes * 8.0 / s.interval)
        .sum();
    let at_once: f64 = streams
        .iter()
        .map(|s| s.wire_bytes * (1.0 + s.late / s.interval))
        .sum();
    let guaranteed = class.guaranteed.wire.as_bits_per_second() as f64;
    if streams.is_empty() || rate > guaranteed || at_once > class.burst.as_bytes() as f64 + largest
    {
        return Keeping::Unknown;
    }
    match streams.as_slice() {
        [one]
            if class
                .lone
                .as_ref()
                .is_some_and(|lone| one.interval - one.late > lone.wait.as_secs_f64()) =>
        {
            Keeping::Alone
        }
        _ => Keeping::Within,
    }
}

struct Known<'a> {
    experiment: &'a Experiment,
    arm: &'a Arm,
    directions: &'a [DirectionReport],
    end: Span,
}

impl Known<'_> {
    /// Returns the streams of the class; `None` if they are unknown.
    fn streams(&self, class: &ClassReport, direction: &DirectionReport) -> Option<Vec<Stream>> {
        let mut streams = Vec::new();
        let stream = |packet: u16, interval: Span, late: f64| Stream {
            wire_bytes: f64::from(direction.layer.wire_bytes(u32::from(packet))),
            interval: interval.as_secs_f64(),
            late,
        };
        let here = direction.direction;
        for traffic in &self.experiment.traffic {
            let begins = traffic.runs.iter().any(|run| run.0 < self.end);
            if !begins || self.arm.without.contains(&traffic.name) {
                continue;
            }
            if traffic.class.as_ref()? != &class.name {
                continue;
            }
            let sent = direction_from(traffic.from);
            match &traffic.kind {
                TrafficKind::Udp {
                    interval, packet, ..
                } => {
                    if sent == here {
                        let late = self.late_first(here)?;
                        separate(&traffic.runs, *interval)?;
                        for _ in 0..traffic.count {
                            streams.push(stream(*packet, *interval, late));
                        }
                    }
                }
                TrafficKind::Voice { interval, packet } => {
                    let late = self.late_first(here)?;
                    separate(&traffic.runs, *interval)?;
                    for _ in 0..traffic.count {
                        streams.push(stream(*packet, *interval, late));
                    }
                }
                _ => return None,
            }
        }
        for probe in &self.experiment.probes {
            let begins = probe.runs.iter().any(|run| run.0 < self.end);
            if !begins || self.arm.without.contains(&probe.name) {
                continue;
            }
            if probe.class.as_ref()? != &class.name {
                continue;
            }
            separate(&probe.runs, probe.interval)?;
            let late = match (direction_from(probe.from), here) {
                (from, here) if from == here => self.late_first(here)?,
                (Direction::Up, Direction::Down) => self.late_answers(&class.name)?,
                _ => return None,
            };
            streams.push(stream(probe.packet, probe.interval, late));
        }
        Some(streams)
    }

    /// Returns the largest delay before the gateway of a packet that was sent on time; `None` if
    /// it is unknown.
    fn late_first(&self, direction: Direction) -> Option<f64> {
        match direction {
            Direction::Up => Some(0.0),
            Direction::Down => self.exchange(),
        }
    }

    /// Returns the largest delay of an answer. Its request waited upstream in the gateway, and for
    /// at most one packet in the modem.
    fn late_answers(&self, class: &str) -> Option<f64> {
        let up = self
            .directions
            .iter()
            .find(|one| one.direction == Direction::Up)?;
        let class = up.classes.iter().find(|one| one.name == class)?;
        let wait = match keeping(
            self.experiment,
            self.arm,
            self.directions,
            class,
            up,
            self.end,
        ) {
            Keeping::Alone => class.lone.as_ref()?.wait,
            Keeping::Within if class.in_order => class.within.as_ref()?.wait,
            Keeping::Within | Keeping::Unknown => return None,
        };
        let packet = up.costs.iter().map(|cost| cost.time).max()?;
        let line = &self.experiment.topology.line;
        let crossing = impaired(&line.up) + self.exchange()?;
        Some(wait.as_secs_f64() + packet.as_secs_f64() + crossing)
    }

    /// Returns the longest wait in the exchange and by the impairments behind it; `None` if the
    /// line does not keep its rates.
    fn exchange(&self) -> Option<f64> {
        let line = &self.experiment.topology.line;
        if !keeps_rates(line, self.end) {
            return None;
        }
        let down = self
            .directions
            .iter()
            .find(|one| one.direction == Direction::Down);
        let Some(down) = down else {
            return Some(0.0);
        };
        let full = down.costs.iter().map(|cost| cost.time).max();
        let full = full.unwrap_or_default().as_secs_f64();
        let waiting = match line.down.buffer {
            // Small packets occupy the line longest for their bytes.
            Buffer::Bytes(size) => {
                let each = |cost: &Cost| cost.time.as_secs_f64() / f64::from(cost.ip);
                size.as_bytes() as f64 * down.costs.iter().map(each).fold(0.0, f64::max)
            }
            Buffer::Packets(packets) => f64::from(packets) * full,
        };
        Some(waiting + full + impaired(&line.down))
    }
}

/// Returns whether the line has at least its first rates until `end`.
fn keeps_rates(line: &Line, end: Span) -> bool {
    let lower = |rate: Option<Rate>, first| rate.is_some_and(|rate| rate < first);
    let slower = |step: &LineStep| lower(step.up, line.up.rate) || lower(step.down, line.down.rate);
    let mut steps = line.then.iter().filter(|step| step.at < end);
    line.varies.is_none() && !line.half_duplex && !steps.any(slower)
}

/// Returns the largest delay by the impairments of a direction, in seconds.
fn impaired(side: &LineSide) -> f64 {
    let own = side.impairments;
    let spans = [own.jitter, own.bursts, own.reordering.by];
    spans.map(Span::as_secs_f64).into_iter().sum()
}

fn direction_from(from: Node) -> Direction {
    match from {
        Node::Host(_) | Node::Gateway => Direction::Up,
        Node::Provider | Node::Server(_) => Direction::Down,
    }
}

/// Requires that consecutive runs are at least an interval apart; otherwise two packets could be
/// sent at once.
fn separate(runs: &[(Span, Span)], interval: Span) -> Option<()> {
    let apart = |pair: &[(Span, Span)]| pair[1].0.saturating_sub(pair[0].1) >= interval;
    runs.windows(2).all(apart).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_compile::check_report;

    const POLICY: &str =
        include_str!("../../../experiments/bounds/policies/adsl-three-classes-both.toml");

    const LINE: &str = "version = 1\nname = \"t\"\ntitle = \"T\"\n[topology]\n[topology.line]\n\
        framing = \"atm\"\noverhead = 28\nup = { rate = \"512kbit\", buffer = \"187kB\" }\n\
        down = { rate = \"2000kbit\", buffer = \"40kB\" }\n\
        [[phase]]\nname = \"a\"\nend = \"20s\"\n[[phase]]\nname = \"b\"\nend = \"40s\"\n\
        [[arm]]\nname = \"weirgate\"\npolicy = \"p.toml\"\n";

    /// Returns the conformance with a probe of the class `interactive`, and with the additional
    /// tables in `more`.
    fn of(class: &str, direction: Direction, interval: &str, more: &str, end: u64) -> Keeping {
        on(LINE, class, direction, interval, more, end)
    }

    fn on(
        head: &str,
        class: &str,
        direction: Direction,
        interval: &str,
        more: &str,
        end: u64,
    ) -> Keeping {
        let text = format!(
            "{head}[[probe]]\nname = \"p\"\nfrom = \"host1\"\nto = \"provider\"\n\
             interval = \"{interval}\"\nclass = \"interactive\"\n{more}"
        );
        let (experiment, problems) = weirgate_experiment::parse(&text);
        let experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
        let report = check_report(&weirgate_policy::parse(POLICY).0.unwrap());
        let shaped = &report.directions;
        let direction = shaped
            .iter()
            .find(|one| one.direction == direction)
            .unwrap();
        let named = |one: &&ClassReport| one.name == class;
        let class = direction.classes.iter().find(named).unwrap();
        let (arm, end) = (&experiment.arms[0], Span::from_secs(end));
        keeping(&experiment, arm, shaped, class, direction, end)
    }

    fn stream(class: &str, interval: &str, phase: &str) -> String {
        format!(
            "[[traffic]]\nname = \"s{phase}\"\nkind = \"udp\"\nfrom = \"host1\"\nto = \"server1\"\n\
             packet = 40\ninterval = \"{interval}\"\nduring = \"{phase}\"\n{class}"
        )
    }

    #[test]
    fn a_probe_slower_than_its_bound_is_alone() {
        let of = |direction, interval| of("interactive", direction, interval, "", 40);
        assert_eq!(of(Direction::Up, "61ms"), Keeping::Alone);
        // 159 bytes every 20 ms are 63.6 of 102 kbit/s, but a packet may arrive before the gate is
        // free.
        assert_eq!(of(Direction::Up, "20ms"), Keeping::Within);
        assert_eq!(of(Direction::Up, "10ms"), Keeping::Unknown);
        // Answers may leave a full exchange together.
        assert_eq!(of(Direction::Down, "100ms"), Keeping::Within);
        assert_eq!(of(Direction::Down, "30ms"), Keeping::Unknown);
    }

    #[test]
    fn answers_over_an_impaired_or_changing_line_may_come_together() {
        let of = |from: &str, to: &str, end| {
            assert!(LINE.contains(from), "{from}");
            let head = LINE.replace(from, to);
            let of = |direction| on(&head, "interactive", direction, "100ms", "", end);
            // What a host sends reaches the gateway before the line.
            assert_eq!(of(Direction::Up), Keeping::Alone, "{to}");
            of(Direction::Down)
        };
        let (up, down) = ("buffer = \"187kB\"", "buffer = \"40kB\"");
        assert_eq!(of(down, down, 40), Keeping::Within);
        for field in [
            "bursts = \"1s\"",
            "jitter = \"1s\"",
            "reordering = { part = \"1%\", by = \"1s\" }",
        ] {
            for side in [up, down] {
                let impaired = format!("{side}, {field}");
                assert_eq!(of(side, &impaired, 40), Keeping::Unknown, "{impaired}");
            }
        }
        let line = "overhead = 28\n";
        for field in [
            "half-duplex = true",
            "varies = \"lte\"",
            "then = [{ at = \"30s\", down = \"1500kbit\" }]",
            "then = [{ at = \"30s\", up = \"256kbit\" }]",
        ] {
            let changed = format!("{line}{field}\n");
            assert_eq!(of(line, &changed, 40), Keeping::Unknown, "{field}");
        }
        let later = format!("{line}then = [{{ at = \"30s\", down = \"1500kbit\" }}]\n");
        assert_eq!(of(line, &later, 30), Keeping::Within);
        let faster = format!("{line}then = [{{ at = \"30s\", down = \"9Mbit\" }}]\n");
        assert_eq!(of(line, &faster, 40), Keeping::Within);
    }

    #[test]
    fn a_sender_without_a_class_may_be_in_any() {
        let more = stream("", "1s", "b");
        let up = |more: &str, end| of("interactive", Direction::Up, "61ms", more, end);
        assert_eq!(up(&more, 40), Keeping::Unknown);
        assert_eq!(up(&more, 20), Keeping::Alone);
        let more = stream("class = \"stream\"\n", "1ms", "b");
        assert_eq!(up(&more, 40), Keeping::Alone);
    }

    #[test]
    fn what_was_beyond_stays_so() {
        // 848 kbit/s in the first phase leave a backlog for the second.
        let class = "class = \"stream\"\n";
        let more = stream(class, "1ms", "a") + &stream(class, "10ms", "b");
        let ends = |more: &str, end| of("stream", Direction::Up, "61ms", more, end);
        assert_eq!(ends(&more, 20), Keeping::Unknown);
        assert_eq!(ends(&more, 40), Keeping::Unknown);
        let more = stream(class, "10ms", "a") + &stream(class, "1ms", "b");
        assert_eq!(ends(&more, 20), Keeping::Within);
        assert_eq!(ends(&more, 40), Keeping::Unknown);
    }

    #[test]
    fn tcp_keeps_to_nothing() {
        let more = "[[traffic]]\nname = \"t\"\nkind = \"tcp\"\nfrom = \"server1\"\nto = \"host1\"\n\
                    class = \"interactive\"\n";
        for direction in Direction::BOTH {
            assert_eq!(
                of("interactive", direction, "61ms", more, 40),
                Keeping::Unknown
            );
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of policy changes during traffic.

use crate::figures::Figures;
use crate::metric::gap;
use crate::run::Run;
use crate::window::{SECOND, Window};
use weirgate_experiment::{Changed, Quantity, Statistic};

/// Stores `change` for the whole run; the effects show in the phases.
pub(crate) fn figures(run: &Run, figures: &mut Figures) {
    if figures.phase.is_some() {
        return;
    }
    for (index, change) in run.recording.changes.iter().enumerate() {
        let number = (index + 1).to_string();
        let mut put = |statistic, value: Option<f64>| {
            figures.put(Quantity::Change, &number, statistic, value);
        };
        let ms = |from: u64| change.ended_ns.saturating_sub(from) as f64 / 1e6;
        put(Statistic::Only, Some(ms(change.began_ns)));
        put(Statistic::Writing, Some(ms(change.planned_ns)));
        put(Statistic::Writes, Some(change.requests.len() as f64));
        put(Statistic::Steps, Some(f64::from(change.steps)));
        let failed = u8::from(change.failure.is_some());
        put(Statistic::Failures, Some(f64::from(failed)));
        let unshaped = gap::unshaped(run, &around(change, run.recording.duration_ns));
        put(Statistic::Unshaped, unshaped.map(|count| count as f64));
    }
}

/// Returns the window from the time when all packets pass a gate until a second after the change.
fn around(change: &Changed, duration_ns: u64) -> Window<'static> {
    Window {
        phase: None,
        begin_ns: change.shaped_ns,
        start_ns: change.shaped_ns,
        end_ns: (change.ended_ns.saturating_add(SECOND)).min(duration_ns),
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::{MS, experiment, recording, sent};
    use weirgate_experiment::{Changed, Direction, Written};

    #[test]
    fn a_change_is_told_with_what_passed_meanwhile() {
        let experiment = experiment(&[("only", 0, 4)]);
        let mut recording = recording(4, &[("udp", 0)]);
        recording.flows.clear();
        // A full packet takes 26.5 ms. Three arrive at once before the gate exists, and one is too
        // early after it.
        let times = [10, 10, 10, 1_100, 1_127, 1_128, 1_154];
        let line = times.map(|at| {
            let mut packet = sent(Direction::Up, (at, at, at + 26), 1500, 0);
            packet.flow = None;
            packet.wire_bytes = 1696;
            packet
        });
        recording.line = line.to_vec();
        recording.changes = vec![Changed {
            policy: "x.toml".into(),
            began_ns: 1_000 * MS,
            planned_ns: 1_002 * MS,
            ended_ns: 1_005 * MS,
            shaped_ns: 1_003 * MS,
            steps: 2,
            requests: vec![
                Written {
                    at_ns: 1_003 * MS,
                    what: "wan: add htb 1: at root".into(),
                };
                3
            ],
            failure: None,
        }];
        let metrics = crate::measure(&experiment, &recording).unwrap().metrics;
        let figure = |name: &str| metrics.get(&format!("change.1.{name}")).copied();
        assert_eq!(figure("ms"), Some(5.0));
        assert_eq!(figure("writing_ms"), Some(3.0));
        assert_eq!(figure("writes"), Some(3.0));
        assert_eq!(figure("steps"), Some(2.0));
        assert_eq!(figure("failures"), Some(0.0));
        assert_eq!(figure("unshaped_packets"), Some(1.0));
        assert_eq!(metrics.get("unshaped.up.packets"), Some(&3.0));
        assert_eq!(metrics.get("only.change.1.ms"), None);
    }
}

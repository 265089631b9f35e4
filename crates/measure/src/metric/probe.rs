// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round-trip figures of probes.

use crate::figures::Figures;
use crate::run::Run;
use crate::stats::Sorted;
use crate::window::{SECOND, Window};
use weirgate_experiment::{ProbeReply, Quantity, Statistic};

/// The number of answers that p99.9 needs (Brouer 10.2).
pub(crate) const ENOUGH: usize = 1000;

/// Probes of one name that were sent in one window.
pub(crate) struct Answers {
    /// Round-trip times in nanoseconds.
    pub(crate) rtts: Sorted,
    /// Unanswered probes that count as lost.
    pub(crate) lost: usize,
    /// The times that the other unanswered probes waited until the run ended.
    pub(crate) open_ns: Vec<u64>,
}

/// Sorts the probes sent between two times into answered, lost and open.
pub(crate) fn answers(run: &Run, probe: usize, start_ns: u64, end_ns: u64) -> Answers {
    let own = || {
        run.recording
            .probes
            .iter()
            .filter(move |reply| usize::from(reply.probe) == probe)
    };
    // A probe that was open when the run ended may still have been in a queue. It counts as lost
    // only if it waited longer than a second and longer than any answer of the run took.
    let patience = own()
        .filter_map(|reply| reply.rtt_ns)
        .max()
        .unwrap_or(0)
        .max(SECOND);
    let duration = run.recording.duration_ns;
    let waited = |reply: &ProbeReply| duration.saturating_sub(reply.sent_ns);
    let (mut rtts, mut lost, mut open_ns) = (Vec::new(), 0, Vec::new());
    for reply in own().filter(|reply| (start_ns..end_ns).contains(&reply.sent_ns)) {
        match reply.rtt_ns {
            Some(rtt) => rtts.push(rtt),
            None if waited(reply) > patience => lost += 1,
            None => open_ns.push(waited(reply)),
        }
    }
    Answers {
        rtts: Sorted::new(rtts),
        lost,
        open_ns,
    }
}

/// Stores `rtt`, `loss`, `pps` and `recovery` of every probe.
pub(crate) fn figures(run: &Run, window: &Window, figures: &mut Figures) {
    for (index, probe) in run.experiment.probes.iter().enumerate() {
        let answers = answers(run, index, window.start_ns, window.end_ns);
        let rtts = &answers.rtts;
        let mut rtt = |statistic, ns: Option<f64>| {
            figures.put(Quantity::Rtt, &probe.name, statistic, ns.map(|ns| ns / 1e6));
        };
        let exact = |ns: Option<u64>| ns.map(|ns| ns as f64);
        rtt(Statistic::Min, exact(rtts.min()));
        rtt(Statistic::Mean, rtts.mean());
        rtt(Statistic::P50, exact(rtts.per_mille(500)));
        rtt(Statistic::P95, exact(rtts.per_mille(950)));
        rtt(Statistic::P99, exact(rtts.per_mille(990)));
        rtt(Statistic::P999, exact(rtts.per_mille(999)));
        rtt(Statistic::Max, exact(rtts.max()));
        rtt(Statistic::Variation, exact(variation(rtts)));
        for &bound_ms in &probe.within_ms {
            let bound = u64::from(bound_ms) * 1_000_000;
            // An open probe that waited longer than the bound has exceeded it.
            let missed = answers
                .open_ns
                .iter()
                .filter(|&&waited| waited > bound)
                .count();
            let sent = rtts.len() + answers.lost + missed;
            let share = (sent > 0).then(|| rtts.at_most(bound) as f64 / sent as f64);
            figures.put(
                Quantity::Rtt,
                &probe.name,
                Statistic::WithinMs(bound_ms),
                share,
            );
        }
        let sent = rtts.len() + answers.lost;
        let loss = (sent > 0).then(|| answers.lost as f64 / sent as f64);
        figures.put(Quantity::Loss, &probe.name, Statistic::Only, loss);
        let seconds = (window.end_ns - window.start_ns) as f64 / SECOND as f64;
        let asked = sent + answers.open_ns.len();
        // As for flows, only beside the line's log.
        let logged = asked > 0 && !run.recording.line.is_empty();
        let rate = logged.then(|| asked as f64 / seconds);
        figures.put(Quantity::PacketRate, &probe.name, Statistic::Only, rate);
        if window.phase.is_some() {
            let recovery = recovery(run, index, window).map(|ns| ns as f64 / SECOND as f64);
            figures.put(Quantity::Recovery, &probe.name, Statistic::Only, recovery);
        }
    }
}

/// Returns p99.9 minus minimum, for at least 1000 samples.
pub(crate) fn variation(rtts: &Sorted) -> Option<u64> {
    let enough = rtts.len() >= ENOUGH;
    let high = rtts.per_mille(999).filter(|_| enough)?;
    Some(high - rtts.min()?)
}

/// Returns the time from the phase's start to the last answer above minimum + 10 % of the range.
/// Returns `None` unless the phase begins above that (its first answers within two seconds) and
/// ends below (its last tenth).
fn recovery(run: &Run, probe: usize, window: &Window) -> Option<u64> {
    let answered: Vec<(u64, u64)> = run
        .recording
        .probes
        .iter()
        .filter(|reply| usize::from(reply.probe) == probe)
        .filter(|reply| (window.begin_ns..window.end_ns).contains(&reply.sent_ns))
        .filter_map(|reply| Some((reply.sent_ns, reply.rtt_ns?)))
        .collect();
    let low = answered.iter().map(|answer| answer.1).min()?;
    let high = answered.iter().map(|answer| answer.1).max()?;
    let threshold = low + (high - low) / 10;
    let first_until = window.begin_ns.saturating_add(2 * SECOND);
    let last_from = window.end_ns - (window.end_ns - window.begin_ns) / 10;
    let begins_above = answered
        .iter()
        .any(|&(sent, rtt)| sent < first_until && rtt > threshold);
    let ends_below = answered
        .iter()
        .all(|&(sent, rtt)| sent < last_from || rtt <= threshold);
    if !begins_above || !ends_below {
        return None;
    }
    let last = answered
        .iter()
        .filter(|answer| answer.1 > threshold)
        .map(|answer| answer.0)
        .max()?;
    Some(last - window.begin_ns)
}

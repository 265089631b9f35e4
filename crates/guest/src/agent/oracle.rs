// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy whose rates are those that the line had a given time earlier: the best that a
//! controller following the line could achieve.

use super::session::Session;
use super::shaper::Shaper;
use super::track::{Applier, Rates};
use anyhow::{Result, ensure};
use weirgate_experiment::{Direction, Line};
use weirgate_units::{Rate, Span};

/// Starts to set the rates, if the arm has an oracle.
pub fn start(session: &Session, shaper: &Shaper, text: &str) -> Result<()> {
    let Some(late) = session.arm.oracle else {
        return Ok(());
    };
    let (policy, _) = weirgate_policy::parse(text);
    let Some(policy) = policy else {
        return Ok(());
    };
    ensure!(
        policy.track.is_none(),
        "an oracle and `[track]` would both set the rates: leave one of them out"
    );
    let all = told(&session.experiment.topology.line, late);
    let applier = Applier::new(&session.nodes, policy, shaper)?;
    let task = tell(session.clone(), applier, all);
    session.spawn("tell the line's rates".to_owned(), task);
    Ok(())
}

/// Sets each rate at its time. If several are overdue, only the last one is set.
async fn tell(session: Session, mut applier: Applier, all: Vec<(Span, Rates)>) -> Result<()> {
    let mut all = all.into_iter().peekable();
    while let Some((at, mut rates)) = all.next() {
        session.clock.until(at.as_nanos()).await?;
        while let Some((_, newer)) = all.next_if(|(at, _)| at.as_nanos() <= session.clock.now_ns())
        {
            rates = newer;
        }
        applier.send(rates)?;
        applier.done().await?;
    }
    Ok(())
}

/// Returns the times and rates to set. While the line transmits nothing, the rates do not
/// change.
fn told(line: &Line, late: Span) -> Vec<(Span, Rates)> {
    let [up, down] = [Direction::Up, Direction::Down].map(|direction| line.stretches(direction));
    let ups = up.iter().map(|one| (one.after, 0, one.rate));
    let downs = down.iter().map(|one| (one.after, 1, one.rate));
    let mut changes: Vec<(Span, usize, Rate)> = ups.chain(downs).collect();
    changes.sort_unstable();
    let mut rates = [None, None];
    let mut all: Vec<(Span, Rates)> = Vec::new();
    for (after, direction, rate) in changes {
        if rate == Rate::ZERO {
            continue;
        }
        rates[direction] = Some(rate);
        let at = after + late;
        match all.last_mut() {
            Some((same, last)) if *same == at => *last = rates,
            _ => all.push((at, rates)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::told;
    use weirgate_experiment::{LineStep, Topology};
    use weirgate_units::{Rate, Span};

    #[test]
    fn a_silent_line_keeps_its_rates() {
        let mut line = Topology::NONE.line;
        (line.up.rate, line.down.rate) = (Rate::kbit(1), Rate::kbit(10));
        let step = |at, up, down| LineStep {
            at: Span::from_millis(at),
            up: Some(Rate::kbit(up)),
            down: Some(Rate::kbit(down)),
            later: None,
        };
        line.then = vec![step(100, 2, 20), step(200, 0, 0), step(250, 3, 20)];
        let kbit = |up, down| [up, down].map(|rate| Some(Rate::kbit(rate)));
        let at = |ms| Span::from_millis(ms);
        assert_eq!(
            told(&line, at(40)),
            [
                (at(40), kbit(1, 10)),
                (at(140), kbit(2, 20)),
                (at(290), kbit(3, 20)),
            ]
        );
    }
}

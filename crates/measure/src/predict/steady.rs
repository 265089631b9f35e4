// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line without a shaper: windows fill the queues.
//!
//! A transfer whose window exceeds its path keeps the rest of the window in the queue at the
//! bottleneck, at any rate. The mean queue is therefore the sum of the windows less the segments in
//! flight. A segment that waits for the second one that its ACK needs is in no queue. Segments
//! travel in the pairs that an ACK releases, so on average half a pair is missing, for all
//! transfers together. A transfer whose ACKs wait in the other direction's queue gets its window
//! per round trip.

use super::situation::{Asked, DELAYED, DELAYED_IN_BURSTS, DirectionLoad, Prediction, Situation};

/// Rounds of the fixed-point iteration between downloads and the capacity that their ACKs leave to
/// uploads. Each round goes half the way: a download whose ACKs alone fill the upstream would
/// otherwise oscillate between all and nothing.
const ROUNDS: usize = 80;

/// A wait in seconds that is too short to matter.
const NEGLIGIBLE: f64 = 1e-4;

/// The steady state of a phase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steady {
    pub(super) up: Queue,
    pub(super) down: Queue,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Queue {
    /// The wire bit/s that other traffic leaves to transfers.
    pub(super) room: f64,
    /// The mean wait before transmission, in seconds.
    pub(super) wait: f64,
    /// The rate of all transfers, in full packets per second.
    pub(super) packets: f64,
    /// Whether the windows exceed the buffer, so that losses limit the rate.
    pub(super) full: bool,
    /// Whether transfers use the whole remaining rate.
    pub(super) saturated: bool,
}

impl Steady {
    pub(super) fn new(situation: &Situation) -> Self {
        let mut steady = Self::default();
        for _ in 0..ROUNDS {
            let before = steady;
            let up_acks = ack_bits(&situation.down, &before.down, before.up.wait);
            let down_acks = ack_bits(&situation.up, &before.up, before.down.wait);
            let up = queue(situation, &situation.up, up_acks, before.down.wait);
            let down = queue(situation, &situation.down, down_acks, before.up.wait);
            steady = Self {
                up: up.halfway(&before.up),
                down: down.halfway(&before.down),
            };
        }
        steady
    }
}

impl Queue {
    fn halfway(self, before: &Self) -> Self {
        Self {
            wait: f64::midpoint(self.wait, before.wait),
            packets: f64::midpoint(self.packets, before.packets),
            ..self
        }
    }
}

/// Returns the wire bit/s of the ACKs of one direction's data, whose queueing delay is `wait`.
fn ack_bits(data: &DirectionLoad, queue: &Queue, wait: f64) -> f64 {
    // Data becomes bursty if its ACKs wait for many data packets.
    let bursts = wait > 0.0 && !queue.saturated;
    let per_ack = if bursts { DELAYED_IN_BURSTS } else { DELAYED };
    data.transfers.first().map_or(0.0, |transfers| {
        queue.packets / per_ack * transfers.ack_bits
    })
}

/// Returns one direction's queue, given the delay of its ACKs in the other direction.
fn queue(situation: &Situation, load: &DirectionLoad, ack_bits: f64, other_wait: f64) -> Queue {
    let room = load.rate - situation.probe_bits() - load.datagram_bits() - ack_bits;
    if load.transfers.is_empty() || room <= 0.0 {
        return Queue {
            room,
            ..Queue::default()
        };
    }
    let time = situation.full_bits / room;
    let away = situation.propagation() + other_wait;
    let capacity = room / situation.full_bits;
    // The mean length of a full queue is unknown; this is its maximum.
    let longest = load.buffer_packets() * time;
    let Some(segments) = load.segments() else {
        return Queue {
            room,
            wait: longest,
            packets: capacity,
            full: true,
            saturated: true,
        };
    };
    let by_window = segments / (away + situation.full_bits / load.rate);
    let wait = ((segments - DELAYED / 2.0) * time - away).max(0.0);
    let full = wait > longest;
    let packets = by_window.min(capacity);
    Queue {
        room,
        wait: wait.min(longest),
        packets,
        full,
        saturated: by_window >= capacity,
    }
}

/// Predicts round trips and rates of a phase without a shaper.
pub(super) fn unshaped(situation: &Situation, predictions: &mut Vec<Prediction>) {
    let steady = Steady::new(situation);
    // A line that datagrams alone overload has no prediction.
    if steady.up.room <= 0.0 || steady.down.room <= 0.0 {
        return;
    }
    for asked in &situation.probes {
        round_trip(situation, &steady, asked, predictions);
    }
    if !reachable(&situation.up, &steady.down) || !reachable(&situation.down, &steady.up) {
        return;
    }
    for (load, queue, other) in [
        (&situation.up, &steady.up, &steady.down),
        (&situation.down, &steady.down, &steady.up),
    ] {
        // The wait in the other direction's queue is unknown if that overflows.
        if !other.full {
            rates(situation, load, queue, other, predictions);
        }
    }
}

/// Returns whether transfers can send their windows although their ACKs wait in the other
/// direction. ACKs that arrive together release up to a window at once, and losses keep cutting a
/// window of more than two buffers (Brouer 3.13).
fn reachable(load: &DirectionLoad, other: &Queue) -> bool {
    let most = 2.0 * (load.buffer_packets() + 1.0);
    let fits = |segments: Option<f64>| segments.is_some_and(|segments| segments <= most);
    other.wait <= NEGLIGIBLE || load.transfers.iter().all(|t| fits(t.segments))
}

fn round_trip(
    situation: &Situation,
    steady: &Steady,
    asked: &Asked,
    predictions: &mut Vec<Prediction>,
) {
    let idle = situation.idle(asked);
    let name = &asked.probe.name;
    let mut push = |statistic: &str, seconds: f64, derivation: String| {
        let metric = situation.name(&format!("rtt.{name}.{statistic}_ms"));
        predictions.push(Prediction {
            metric,
            value: seconds * 1e3,
            derivation,
        });
    };
    let base = format!(
        "serialisation {:.2} + {:.2} ms and fixed delay {:.2} ms",
        asked.wire_bits / situation.up.rate * 1e3,
        asked.wire_bits / situation.down.rate * 1e3,
        situation.propagation() * 1e3
    );
    let loads = [
        ("upstream", &situation.up, &steady.up),
        ("downstream", &situation.down, &steady.down),
    ];
    if loads
        .iter()
        .all(|(_, load, _)| load.transfers.is_empty() && load.datagrams.is_empty())
    {
        for statistic in ["min", "mean", "p50"] {
            push(statistic, idle, base.clone());
        }
        return;
    }
    let known = reachable(&situation.up, &steady.down) && reachable(&situation.down, &steady.up);
    if known && !steady.up.full && !steady.down.full {
        let wait = steady.up.wait + steady.down.wait;
        let mut parts: Vec<String> = loads
            .iter()
            .filter(|(_, _, queue)| queue.wait > NEGLIGIBLE)
            .map(|(direction, load, queue)| {
                format!("{direction} {}", waits(situation, load, queue))
            })
            .collect();
        // If no transfer fills a queue, its length is random.
        if wait > NEGLIGIBLE {
            parts.push(base);
            push("mean", idle + wait, parts.join("; "));
        }
        return;
    }
    for (direction, load, queue) in loads {
        let other_idle = loads
            .iter()
            .all(|(name, other, _)| *name == direction || other.transfers.is_empty());
        if queue.full && other_idle {
            let held = load.buffer_packets() + 1.0;
            let wait = held * situation.full_bits / load.rate;
            let text = format!(
                "a full {direction} buffer holds {:.0} packets and one is in transmission: \
                 {held:.0} * {:.2} ms = {:.0} ms; {base}",
                held - 1.0,
                situation.full_bits / load.rate * 1e3,
                wait * 1e3
            );
            push("max", idle + wait, text);
        }
    }
}

fn waits(situation: &Situation, load: &DirectionLoad, queue: &Queue) -> String {
    format!(
        "the windows hold {:.0} full packets, less one for delayed ACKs; each takes \
         {:.2} ms of the {:.0} kbit/s that other packets leave; less what is on its way the wait \
         is {:.0} ms",
        load.segments().unwrap_or_default(),
        situation.full_bits / queue.room * 1e3,
        queue.room / 1e3,
        queue.wait * 1e3
    )
}

fn rates(
    situation: &Situation,
    load: &DirectionLoad,
    queue: &Queue,
    other: &Queue,
    predictions: &mut Vec<Prediction>,
) {
    let [transfers] = load.transfers.as_slice() else {
        return;
    };
    let segments = load.segments().unwrap_or(f64::INFINITY);
    // Windows that exceed their own queue lost packets before, and grow back when the other
    // direction slows them. CUBIC takes seconds, which a median excludes. NewReno grows by a
    // segment per round trip, which is too slow unless the phase lasts twice as long.
    let lossy = segments > load.buffer_packets() + 1.0;
    let path = situation.propagation() + other.wait + situation.full_bits / load.rate;
    let regrown = transfers.segments.unwrap_or(f64::INFINITY) * path * 2.0 < situation.seconds;
    let statistic = match (queue.saturated, lossy) {
        (true, _) | (false, false) => "mean",
        (false, true) if regrown || !transfers.reno => "p50",
        (false, true) => return,
    };
    let kbit = queue.packets * super::wire::MTU as f64 * 8.0 / 1e3;
    let derivation = if queue.saturated {
        format!(
            "{:.0} kbit/s of the wire are left to full packets: * 1500 * 8 / {:.0} bit",
            queue.room / 1e3,
            situation.full_bits
        )
    } else {
        format!(
            "the windows hold {segments:.0} full packets per round trip of {:.0} ms",
            path * 1e3
        )
    };
    let name =
        |quantity: &str| situation.name(&format!("{quantity}.{}.{statistic}_kbit", transfers.name));
    let payload = format!("{derivation}; payload is {:.4} of it", transfers.payload);
    predictions.push(Prediction {
        metric: name("iprate"),
        value: kbit,
        derivation,
    });
    // Retransmissions are not payload.
    if !queue.full {
        predictions.push(Prediction {
            metric: name("goodput"),
            value: kbit * transfers.payload,
            derivation: payload,
        });
    }
}

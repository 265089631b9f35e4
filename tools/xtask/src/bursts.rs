// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the additional capacity of a queue that does not distinguish mice from elephants
//! (Braithwaite 2006, section 2.3, after Addie and others).
//!
//! The source is a Poisson Pareto burst process. Bursts begin at random (Poisson), have Pareto
//! durations, and send at a fixed rate while they last. The queue is a fluid queue without a limit.
//! A flow counts as delayed if its last bit leaves more than a fifth of the flow's duration after
//! it came. The result is the capacity at which at most one flow in twenty is delayed, first come,
//! first served. It is relative to the capacity with priority for the beginning of every flow, up
//! to a threshold.
//!
//! Units: a burst sends 1 per time unit, and its mean duration is 1, so the load is the mean number
//! of active bursts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The ratio of delay to duration from which a flow counts as delayed.
const LATE: f64 = 0.2;
/// The permitted share of delayed flows.
const MAY_BE_LATE: f64 = 0.05;

/// `SplitMix64`, as in the lab's traffic.
struct Random(u64);

impl Random {
    /// Returns a number above 0, up to 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// A burst, with its start and its duration.
#[derive(Debug, Clone, Copy)]
struct Burst {
    start: f64,
    lasts: f64,
}

/// Returns bursts of mean duration 1, with `load` of them active on average.
fn bursts(count: usize, load: f64, shape: f64, seed: u64) -> Vec<Burst> {
    let mut random = Random(seed);
    let least = (shape - 1.0) / shape;
    let mut at = 0.0;
    let one = |_| {
        at -= random.unit().ln() / load;
        Burst {
            start: at,
            lasts: least / random.unit().powf(1.0 / shape),
        }
    };
    (0..count).map(one).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start,
    Grown,
    End,
}

/// A time that is never NaN, with an order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct At(f64);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A fluid queue with two classes, of which the first has priority.
#[derive(Debug, Default)]
struct Queue {
    capacity: f64,
    mice: f64,
    elephants: f64,
    waiting_mice: f64,
    waiting_elephants: f64,
    /// The arrivals and departures of the second class.
    came: f64,
    left: f64,
    /// The last bits that wait: the departures needed before each, its arrival, and its flow's
    /// duration.
    last_bits: VecDeque<(f64, f64, f64)>,
    late: usize,
}

impl Queue {
    /// Advances the time from `at` by `time`, during which the sources do not change.
    fn pass(&mut self, mut at: f64, mut time: f64) {
        while time > 0.0 {
            let spare = (self.capacity - self.mice).max(0.0);
            let step = if self.waiting_mice > 0.0 || self.mice > self.capacity {
                let drain = self.capacity - self.mice;
                let step = if drain > 0.0 {
                    time.min(self.waiting_mice / drain)
                } else {
                    time
                };
                self.waiting_mice = (self.waiting_mice - drain * step).max(0.0);
                // Avoid an endless loop due to a rounding remainder.
                if step < time {
                    self.waiting_mice = 0.0;
                }
                self.serve(step, 0.0, at);
                step
            } else if self.waiting_elephants > 0.0 && spare > self.elephants {
                let empty = self.waiting_elephants / (spare - self.elephants);
                let step = time.min(empty);
                self.serve(step, spare, at);
                if empty <= time {
                    self.waiting_elephants = 0.0;
                }
                step
            } else {
                let rate = if self.waiting_elephants > 0.0 {
                    spare
                } else {
                    spare.min(self.elephants)
                };
                self.serve(time, rate, at);
                time
            };
            at += step;
            time -= step;
        }
    }

    /// Serves the second class at a rate for `step`.
    fn serve(&mut self, step: f64, served: f64, at: f64) {
        while let Some((due, came, lasted)) = self.last_bits.front().copied() {
            let needed = due - self.left;
            if needed > served * step {
                break;
            }
            let gone = at
                + if served > 0.0 {
                    needed.max(0.0) / served
                } else {
                    0.0
                };
            self.late += usize::from(gone - came > LATE * lasted);
            self.last_bits.pop_front();
        }
        self.came += self.elephants * step;
        self.left += served * step;
        self.waiting_elephants =
            (self.waiting_elephants + (self.elephants - served) * step).max(0.0);
    }
}

/// Returns the share of flows that a queue of this capacity delays. Flows have priority until they
/// have lasted for `threshold`.
fn delayed(bursts: &[Burst], capacity: f64, threshold: f64) -> f64 {
    let mut queue = Queue {
        capacity,
        ..Queue::default()
    };
    let mut events = BinaryHeap::new();
    let mut next = 0;
    let mut now = 0.0;
    let end = bursts.last().map_or(0.0, |burst| burst.start);
    let mut ended = 0_usize;
    loop {
        let start = bursts
            .get(next)
            .map(|burst| (At(burst.start), Event::Start, next));
        let other = events.peek().map(|Reverse(event)| *event);
        let next_event = [start, other].into_iter().flatten().min();
        // After the last start, the traffic is no longer the process.
        let Some((at, event, number)) = next_event.filter(|event| event.0.0 <= end) else {
            break;
        };
        if event == Event::Start {
            next += 1;
        } else {
            events.pop();
        }
        queue.pass(now, at.0 - now);
        now = at.0;
        let lasts = bursts.get(number).map_or(0.0, |burst| burst.lasts);
        let grows = lasts > threshold;
        match event {
            Event::Start => {
                queue.mice += 1.0;
                if grows {
                    events.push(Reverse((At(now + threshold), Event::Grown, number)));
                }
                events.push(Reverse((At(now + lasts), Event::End, number)));
            }
            Event::Grown => {
                queue.mice -= 1.0;
                queue.elephants += 1.0;
            }
            Event::End if grows => {
                ended += 1;
                queue.elephants -= 1.0;
                queue.last_bits.push_back((queue.came, now, lasts));
            }
            Event::End => {
                ended += 1;
                queue.mice -= 1.0;
                queue.late += usize::from(queue.waiting_mice / capacity > LATE * lasts);
            }
        }
    }
    (queue.late + queue.last_bits.len()) as f64 / ended.max(1) as f64
}

/// Returns the average number of active bursts until the last start. With heavy tails, a sample's
/// mean differs from its distribution's, so each sample is compared with its own.
fn load_of(bursts: &[Burst]) -> f64 {
    let end = bursts.last().map_or(0.0, |burst| burst.start);
    let lasted = bursts
        .iter()
        .map(|burst| burst.lasts.min(end - burst.start));
    lasted.sum::<f64>() / end.max(f64::MIN_POSITIVE)
}

/// Returns the smallest capacity, relative to the load, at which few enough flows are delayed.
fn needed(bursts: &[Burst], threshold: f64) -> f64 {
    let load = load_of(bursts);
    let (mut low, mut high) = (1.0, 8.0);
    while high - low > 0.0005 {
        let middle = f64::midpoint(low, high);
        if delayed(bursts, middle * load, threshold) > MAY_BE_LATE {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Prints the table, for `flows` flows with each of `seeds` seeds.
#[allow(
    clippy::print_stdout,
    reason = "the task's result goes to the terminal"
)]
pub fn run(flows: usize, seeds: u64) {
    println!("capacity over load for at most 5 % of flows delayed by more than 20 %;");
    println!("elephants are the longest 20 % (5 %) of flows; {seeds} seeds of {flows} flows\n");
    println!("shape   load    fifo   with 20 %   more   with 5 %   more");
    for shape in [1.4, 1.2] {
        for load in [10.0, 20.0, 50.0, 100.0, 200.0] {
            let least = (shape - 1.0) / shape;
            let longest = |share: f64| least / f64::powf(share, 1.0 / shape);
            let mut sums = [0.0; 3];
            for seed in 1..=seeds {
                let bursts = bursts(flows, load, shape, seed);
                let thresholds = [f64::INFINITY, longest(0.2), longest(0.05)];
                for (sum, threshold) in sums.iter_mut().zip(thresholds) {
                    *sum += needed(&bursts, threshold) / seeds as f64;
                }
            }
            let [fifo, fifth, twentieth] = sums;
            println!(
                "{shape:>5} {load:>6} {fifo:>7.3} {fifth:>11.3} {:>5.1}% {twentieth:>10.3} {:>5.1}%",
                (fifo / fifth - 1.0) * 100.0,
                (fifo / twentieth - 1.0) * 100.0
            );
        }
    }
    println!("\nthe thesis: 16 % more at shape 1.4, 40 % at 1.2");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_mean_and_shape() {
        let some = bursts(400_000, 10.0, 3.0, 7);
        let mean = some.iter().map(|burst| burst.lasts).sum::<f64>() / some.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        let longer = some
            .iter()
            .filter(|burst| burst.lasts > 2.0 / 3.0 * 2.0)
            .count();
        assert!(
            (longer as f64 / some.len() as f64 - 0.125).abs() < 0.003,
            "{longer}"
        );
        let last = some.last().map_or(0.0, |burst| burst.start);
        assert!((last / 40_000.0 - 1.0).abs() < 0.01, "{last}");
    }

    #[test]
    fn delays_are_those_that_a_hand_calculates() {
        // Two bursts of rate 1 at capacity 1: after 10 the queue holds 10, for which both flows'
        // last bits wait. A last burst of duration 0 ends the process.
        let last = Burst {
            start: 500.0,
            lasts: 0.0,
        };
        let two = [
            Burst {
                start: 0.0,
                lasts: 10.0,
            },
            Burst {
                start: 0.0,
                lasts: 10.0,
            },
            last,
        ];
        assert!((delayed(&two, 1.0, f64::INFINITY) - 2.0 / 3.0).abs() < 1e-9);
        assert!(delayed(&two, 1.7, f64::INFINITY) < 1e-9);
        // Capacity 1.6: 4 wait at the end, and leave within 2.5, which exceeds 2.
        assert!((delayed(&two, 1.6, f64::INFINITY) - 2.0 / 3.0).abs() < 1e-9);
        // A short flow beside a long one in the second class does not wait. The long one's last bit
        // waits for the capacity that the short one used.
        let both = [
            Burst {
                start: 0.0,
                lasts: 100.0,
            },
            Burst {
                start: 50.0,
                lasts: 1.0,
            },
            last,
        ];
        assert!((delayed(&both, 1.0, f64::INFINITY) - 1.0 / 3.0).abs() < 1e-9);
        assert!(delayed(&both, 1.0, 2.0) < 1e-9);
    }

    #[test]
    fn less_capacity_never_delays_fewer() {
        let some = bursts(3000, 20.0, 1.4, 3);
        let shares: Vec<f64> = [1.0, 1.1, 1.2, 1.4]
            .iter()
            .map(|over| delayed(&some, over * 20.0, 1.0))
            .collect();
        assert!(shares.is_sorted_by(|one, next| one >= next), "{shares:?}");
        assert!(needed(&some, f64::INFINITY) > needed(&some, 1.0));
    }
}

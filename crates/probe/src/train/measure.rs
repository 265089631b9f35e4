// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures one direction: rate, link layer, and buffer.

use crate::bound::within;
use crate::infer::{Inference, Timed, Timing, infer, sizes};
use crate::train::client::{Client, ProbeError};
use crate::train::message::{Seen, most_packets};
use std::time::Duration;
use weirgate_units::{Direction, Rate, Size, Span};

/// The duration on the line of each train in the sweep, in seconds, and its smallest and largest
/// number of packets.
const SWEPT_S: f64 = 0.25;
const FEWEST: u32 = 40;
const MOST: u32 = 4000;

/// By which factor packets are sent faster than the line can carry.
const FASTER: f64 = 1.4;

/// The number of packets in the first estimate.
const FIRST: u32 = 40;

/// Between packets that are sent one by one, the shortest gap.
const SHORTEST: Duration = Duration::from_micros(20);

/// The longest time of a full packet: about 45 kbit/s. On a slower line, the sweep would take
/// minutes.
const SLOWEST_NS: f64 = 250e6;

/// The size of full IP packets: below the MTU of any line, so that nothing is fragmented.
pub const FULL: u32 = 1400;

/// How long a buffer is filled at first, and at most.
const FILL_S: f64 = 2.0;
const FILL_MOST_S: f64 = 8.0;

/// The properties of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredLine {
    /// The rate of IP packets of 1400 bytes.
    pub ip_rate: Rate,
    /// The link layer and the rate on the wire, as far as they can be inferred.
    pub layer: Inference,
    /// The longest time that packets waited on the full line.
    pub queueing: Span,
    /// The buffer before the line in bytes of IP packets of 1400 bytes, including the packet in
    /// transmission; a lower bound if `full` is false.
    pub buffer: Size,
    /// Whether packets were lost, which means that the buffer was full.
    pub full: bool,
    /// Whether packets waited or were lost. If not, the line may be faster than `ip_rate`.
    pub busy: bool,
}

/// The progress of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Estimates the rate of the line.
    Look(Direction),
    /// Sends trains of different sizes: the number done, and the total.
    Sweep(Direction, usize, usize),
    /// Fills the buffer.
    Fill(Direction),
}

/// Measures one direction.
pub fn measure(
    client: &mut Client,
    direction: Direction,
    progress: &mut dyn FnMut(Progress),
) -> Result<MeasuredLine, ProbeError> {
    progress(Progress::Look(direction));
    let headers = client.headers();
    let payload = |size: u32| u16::try_from(size.saturating_sub(headers)).unwrap_or(u16::MAX);
    let full = look(client, direction, payload(FULL))?;
    let mut times = Vec::new();
    let all: Vec<u32> = sizes().chain([FULL]).collect();
    for (done, size) in all.iter().enumerate() {
        progress(Progress::Sweep(direction, done, all.len()));
        // Assume a large overhead, so that the guess is too slow rather than too fast.
        let guess = full * f64::from(size + 48) / f64::from(FULL + 48);
        let count = ((SWEPT_S / guess) as u32).clamp(FEWEST, MOST);
        let gap = Duration::from_secs_f64(guess / FASTER / FASTER);
        let seen = client.train(direction, payload(*size), count, gap)?;
        times.extend(timed(*size, &seen));
    }
    progress(Progress::Fill(direction));
    let (filled, lost) = fill(client, direction, payload(FULL), full)?;
    let time = if filled.gap_ns > 0.0 {
        filled.gap_ns * 1e-9
    } else {
        full
    };
    let bits = f64::from(FULL) * 8.0 / time;
    // The shortest delay of a train includes the time of that packet on the line. The longest
    // delay is therefore one packet less than the buffer holds.
    let held = filled.delay_ns as f64 * 1e-9 + time;
    Ok(MeasuredLine {
        ip_rate: Rate::bits_per_second(bits.round() as u64),
        layer: infer(&times, Timing::Busy),
        queueing: Span::from_nanos(filled.delay_ns),
        buffer: Size::bytes((held * bits / 8.0).round() as u64),
        full: lost,
        busy: lost || is_busy(&filled),
    })
}

/// Returns whether packets waited on the line, so that the train shows the line's rate.
fn is_busy(seen: &Seen) -> bool {
    seen.standing_ns as f64 > seen.gap_ns
}

/// Measures the time of a full packet on the line by packets that are sent back to back.
fn look(client: &mut Client, direction: Direction, payload: u16) -> Result<f64, ProbeError> {
    let mut seen = client.train(direction, payload, FIRST, Duration::ZERO)?;
    if seen.gap_ns == 0.0 {
        // So few packets arrived that the line has almost no buffer: send them one by one.
        let mut gap = Duration::from_millis(30);
        seen = client.train(direction, payload, FIRST, gap)?;
        // Each packet may arrive as slowly as it is sent. Send faster until packets wait or are
        // lost.
        while gap > SHORTEST && seen.received == FIRST && !is_busy(&seen) {
            gap /= 2;
            let faster = client.train(direction, payload, FIRST, gap)?;
            if faster.gap_ns == 0.0 {
                break;
            }
            seen = faster;
        }
    }
    let gap_ns = client.bounded(within("gap_ns", seen.gap_ns, 0.0..=SLOWEST_NS))?;
    Ok(gap_ns.max(1000.0) * 1e-9)
}

/// Returns the times of a train if there was a standing queue; otherwise nothing is known about
/// the line.
fn timed(size: u32, seen: &Seen) -> Option<Timed> {
    let gap = seen.gap_ns * 1e-9;
    (is_busy(seen) && gap > 0.0).then(|| Timed {
        size,
        time: gap,
        // Clocks have a resolution of at most a microsecond, once at each end of a train.
        error: (seen.gap_error_ns * 1e-9).max(1e-6 / f64::from(seen.received.max(1))),
    })
}

/// Sends full packets for increasing times, until some are lost.
fn fill(
    client: &mut Client,
    direction: Direction,
    payload: u16,
    full: f64,
) -> Result<(Seen, bool), ProbeError> {
    let mut length = FILL_S;
    let most = most_packets(payload);
    loop {
        let gap = full / FASTER / FASTER;
        let count = ((length / gap) as u32).clamp(FEWEST, most);
        let seen = client.train(direction, payload, count, Duration::from_secs_f64(gap))?;
        let lost = seen.received < count;
        if lost || length >= FILL_MOST_S || count == most {
            return Ok((seen, lost));
        }
        length *= 2.0;
    }
}

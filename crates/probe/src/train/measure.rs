// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A whole measurement of one direction: rate, link layer, buffer.

use crate::bound::within;
use crate::infer::{Inference, Timed, Timing, infer, sizes};
use crate::train::client::{Client, ProbeError};
use crate::train::message::{Seen, most_packets};
use std::time::Duration;
use weirgate_units::Direction;
use weirgate_units::{Rate, Size, Span};

/// Trains of the sweep last so long on the line, in seconds, and have so many
/// packets at least and at most.
const SWEPT_S: f64 = 0.25;
const FEWEST: u32 = 40;
const MOST: u32 = 4000;

/// Packets are sent faster than the line takes them by this factor.
const FASTER: f64 = 1.4;

/// Packets of the first look.
const FIRST: u32 = 40;

/// The longest time of a full packet on a line that is measured: about 45 kbit/s.
/// On a slower one the sweep would take minutes.
const SLOWEST_NS: f64 = 250e6;

/// The IP size of full packets: less than any line's largest, so that nothing
/// is fragmented.
pub const FULL: u32 = 1400;

/// How long a buffer is filled at first, and at most.
const FILL_S: f64 = 2.0;
const FILL_MOST_S: f64 = 8.0;

/// What was measured of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredLine {
    /// The rate of IP packets of 1400 bytes.
    pub ip_rate: Rate,
    /// The link layer and the rate on the wire, as far as they show.
    pub layer: Inference,
    /// The longest time that packets waited on the full line.
    pub queueing: Span,
    /// What the buffer before the line holds, in bytes of IP packets of 1400
    /// bytes, with the packet on the line; at least this, where `full` is false.
    pub buffer: Size,
    /// Whether packets were lost, so that the buffer was full.
    pub full: bool,
}

/// What a measurement is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Looks how fast the line is.
    Look(Direction),
    /// Sends trains of one size after the other: how many are done of how many.
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
        // An overhead that no line exceeds makes the guess too slow, never
        // too fast.
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
    // The least delay of a train has the time of that packet on the line in it, so the
    // longest is short of what the buffer holds by one packet.
    let held = filled.delay_ns as f64 * 1e-9 + time;
    Ok(MeasuredLine {
        ip_rate: Rate::bits_per_second(bits.round() as u64),
        layer: infer(&times, Timing::Busy),
        queueing: Span::from_nanos(filled.delay_ns),
        buffer: Size::bytes((held * bits / 8.0).round() as u64),
        full: lost,
    })
}

/// The time of a full packet on the line: of packets sent at once.
fn look(client: &mut Client, direction: Direction, payload: u16) -> Result<f64, ProbeError> {
    let mut seen = client.train(direction, payload, FIRST, Duration::ZERO)?;
    if seen.gap_ns == 0.0 {
        // So few came that the line's buffer holds next to nothing: one by one.
        seen = client.train(direction, payload, FIRST, Duration::from_millis(30))?;
    }
    let gap_ns = client.bounded(within("gap_ns", seen.gap_ns, 0.0..=SLOWEST_NS))?;
    Ok(gap_ns.max(1000.0) * 1e-9)
}

/// Times of a train during which a queue stood; of others nothing is known of
/// the line.
fn timed(size: u32, seen: &Seen) -> Option<Timed> {
    let gap = seen.gap_ns * 1e-9;
    let busy = seen.standing_ns as f64 * 1e-9 > gap;
    (busy && gap > 0.0).then(|| Timed {
        size,
        time: gap,
        // Clocks are read to a microsecond at best, once at each end of a train.
        error: (seen.gap_error_ns * 1e-9).max(1e-6 / f64::from(seen.received.max(1))),
    })
}

/// Sends full packets until some are lost, for longer and longer.
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

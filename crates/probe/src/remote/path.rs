// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Infers properties of a path from echoes of different sizes: the path MTU, and the link layer
//! as far as round trips show it.

use crate::infer::{Inference, Timed, Timing, infer, sizes};
use crate::remote::echo::{Echo, Reflector};
use crate::remote::error::RemoteError;
use std::time::Duration;
use weirgate_units::Arrange as _;

/// The time after which an echo on an idle line is lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// How often each size is sent to infer the link layer.
const ROUNDS: usize = 15;
/// The smallest error of a round trip in seconds, given a clock resolution of a microsecond.
const CLOCK_S: f64 = 2e-6;
/// How often a size is tried if no answer arrives, which may be chance.
const TRIES: u32 = 3;
/// The smallest packet that every link carries (RFC 791 section 3.2 requires 68 bytes, and 576
/// for hosts), and the largest that is tried.
pub(crate) const LEAST_MTU: u32 = 576;
const MOST_MTU: u32 = 9216;

/// The largest packet that passes the path in both directions, in IP bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mtu {
    /// A size that passes.
    pub bytes: u32,
    /// Whether larger packets are known not to pass; otherwise none was tried.
    pub exact: bool,
}

fn comes(
    reflector: &mut dyn Reflector,
    size: u32,
    patience: Duration,
) -> Result<bool, RemoteError> {
    for _ in 0..TRIES {
        match reflector.echo(size, patience)? {
            Echo::After(_) => return Ok(true),
            Echo::TooLong => return Ok(false),
            Echo::Lost => {}
        }
    }
    Ok(false)
}

/// Returns the largest packet that passes to a host and back; `None` if the host does not
/// answer, or answers only small packets.
pub fn largest_packet(reflector: &mut dyn Reflector) -> Result<Option<Mtu>, RemoteError> {
    let small = reflector.small();
    let Some(largest) = reflector.largest() else {
        return Ok(None);
    };
    if !comes(reflector, small, PATIENCE)? {
        return Ok(None);
    }
    mtu(reflector, largest, PATIENCE)
}

/// Finds the largest packet by bisection.
pub(crate) fn mtu(
    reflector: &mut dyn Reflector,
    largest: u32,
    patience: Duration,
) -> Result<Option<Mtu>, RemoteError> {
    let most = largest.min(MOST_MTU);
    if comes(reflector, most, patience)? {
        return Ok(Some(Mtu {
            bytes: most,
            exact: most == largest,
        }));
    }
    let (mut good, mut bad) = (LEAST_MTU, most);
    if !comes(reflector, good, patience)? {
        return Ok(None);
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if comes(reflector, middle, patience)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(Mtu {
        bytes: good,
        exact: true,
    }))
}

/// Infers the link layer from the shortest round trip of each size. The sizes take turns, so
/// that other traffic affects all of them equally.
pub(crate) fn layer(
    reflector: &mut dyn Reflector,
    most: u32,
    patience: Duration,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Inference, RemoteError> {
    let sizes: Vec<u32> = sizes().filter(|size| *size <= most).collect();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); sizes.len()];
    for round in 0..ROUNDS {
        progress(round, ROUNDS);
        for (size, times) in sizes.iter().zip(&mut times) {
            if let Echo::After(took) = reflector.echo(*size, patience)? {
                times.push(took);
            }
        }
    }
    Ok(infer(&shortest(&sizes, &mut times), Timing::RoundTrip))
}

/// Returns the shortest round trip of each size with at least three answers. The error follows
/// from the distance to the next shortest ones, over all sizes together. The variation is a
/// property of the path and not of a size, and three close values may be chance.
fn shortest(sizes: &[u32], times: &mut [Vec<Duration>]) -> Vec<Timed> {
    let measured = sizes.iter().zip(times).filter_map(|(size, times)| {
        times.arrange();
        let (first, third) = (times.first()?, times.get(2)?);
        Some((*size, first.as_secs_f64(), third.as_secs_f64()))
    });
    let measured: Vec<(u32, f64, f64)> = measured.collect();
    let squares: f64 = measured.iter().map(|one| (one.2 - one.1).powi(2)).sum();
    let error = (squares / measured.len().max(1) as f64).sqrt().max(CLOCK_S);
    let one = |(size, time, _)| Timed { size, time, error };
    measured.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::Cut;
    use crate::remote::echo::{Answer, Sent};
    use weirgate_linklayer::{Framing, LinkLayer};

    /// A simulated host behind a line of one kind.
    struct ReflectingLine {
        layer: LinkLayer,
        bits: f64,
        mtu: u32,
        /// The largest additional random delay in nanoseconds.
        noise: u64,
        state: u64,
        back: Option<Duration>,
    }

    impl Reflector for ReflectingLine {
        fn send(&mut self, size: u32) -> Result<Sent, RemoteError> {
            if size > self.mtu {
                return Ok(Sent::Lost);
            }
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let noise = (self.state >> 33) % self.noise.max(1);
            let wire = f64::from(self.layer.wire_bytes(size)) * 8.0 / self.bits;
            let took = 0.011 + 2.0 * wire + noise as f64 * 1e-9;
            self.back = Some(Duration::from_secs_f64(took));
            Ok(Sent::Number(0))
        }

        fn answer(&mut self, _patience: Duration) -> Result<Answer, RemoteError> {
            let back = self.back.take();
            Ok(back.map_or(Answer::Nothing, |took| Answer::Back(0, took)))
        }

        fn largest(&self) -> Option<u32> {
            Some(1500)
        }

        fn small(&self) -> u32 {
            64
        }
    }

    fn line(framing: Framing, overhead: i32, noise: u64) -> ReflectingLine {
        ReflectingLine {
            layer: LinkLayer::custom(overhead, 0, framing).unwrap(),
            bits: 1e6,
            mtu: 1492,
            noise,
            state: 7,
            back: None,
        }
    }

    fn found(line: &mut ReflectingLine) -> (Option<Mtu>, Inference) {
        let most = mtu(line, 1500, PATIENCE).unwrap();
        (most, layer(line, 1492, PATIENCE, &mut |_, _| ()).unwrap())
    }

    #[test]
    fn the_largest_packet_and_cells_are_found_and_never_wrongly() {
        let (most, layer) = found(&mut line(Framing::Atm, 28, 3_000));
        assert_eq!(
            most,
            Some(Mtu {
                bytes: 1492,
                exact: true
            })
        );
        assert_eq!(layer.cut, Some(Cut::Cells));
        assert_eq!(layer.overhead(), Some(28));
        let (_, layer) = found(&mut line(Framing::None, 22, 3_000));
        assert_eq!(layer.cut, Some(Cut::Bytes));
    }

    /// Returns a random additional delay: uniform, like queues, like retransmissions, or like a
    /// busy host.
    fn noise(kind: usize, size: f64, random: &mut impl FnMut() -> f64) -> f64 {
        match kind {
            0 => size * (random() + random()),
            1 => -size * random().max(1e-12).ln(),
            2 => size * (f64::from(u8::from(random() < 0.8)) + random() / 20.0),
            _ => (size * 5.0 + size * ((0..12).map(|_| random()).sum::<f64>() - 6.0)).max(0.0),
        }
    }

    /// Inference must never be wrong, however large the noise is compared with the time of a
    /// cell.
    #[test]
    fn noise_is_never_taken_for_cells_or_bytes() {
        let mut state = 11_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let sizes: Vec<u32> = sizes().collect();
        let (mut all, mut inferred) = (0, 0);
        for round in 0..12_000_usize {
            let framing = [Framing::Atm, Framing::None][round % 2];
            let overhead = 8 + (round % 41) as i32;
            let layer = LinkLayer::custom(overhead, 0, framing).unwrap();
            let [up, down] = [[128e3, 1024e3], [512e3, 2e6], [2e6, 20e6]][round / 2 % 3];
            let of = [1e-5, 1e-4, 1e-3, 5e-3, 2e-2][round / 6 % 5];
            let mut times: Vec<Vec<Duration>> = Vec::new();
            for size in &sizes {
                let line = f64::from(layer.wire_bytes(*size)) * 8.0 * (1.0 / up + 1.0 / down);
                let mut echo = || line + noise(round / 30 % 4, of, &mut random);
                times.push(
                    (0..ROUNDS)
                        .map(|_| Duration::from_secs_f64(echo()))
                        .collect(),
                );
            }
            let found = infer(&shortest(&sizes, &mut times), Timing::RoundTrip).cut;
            let right = match framing {
                Framing::Atm => Cut::Cells,
                _ => Cut::Bytes,
            };
            assert!(
                found.is_none_or(|found| found == right),
                "round {round}: {found:?}"
            );
            all += 1;
            inferred += usize::from(found.is_some());
        }
        assert!(inferred > all / 3, "{inferred} of {all}");
    }
}

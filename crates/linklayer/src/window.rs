// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Window, round trip and throughput of one connection, the parts of a delay, and the least share
//! of a line that one packet in flight gets.
//!
//! These are plain quotients. The caller decides whether bytes are of IP, payload or wire, and uses
//! the same kind for all arguments.

use weirgate_units::{Rate, Size, Span};

/// Returns `T = W / RTT` (Brouer formula 3.1), rounded down; `None` for no time.
#[must_use]
pub fn throughput(window: Size, rtt: Span) -> Option<Rate> {
    let bits = u128::from(window.as_bytes()) * 8_000_000_000;
    let rate = bits.checked_div(u128::from(rtt.as_nanos()))?;
    Some(Rate::bits_per_second(
        u64::try_from(rate).unwrap_or(u64::MAX),
    ))
}

/// Returns `RTT = W / T` (Brouer formula 3.2): the longest round trip at which the window still
/// gives that throughput, rounded up; `None` at a rate of 0.
#[must_use]
pub fn round_trip(window: Size, throughput: Rate) -> Option<Span> {
    throughput.time_for(window)
}

/// Returns `W = T * RTT` (Brouer formula 3.3), the bandwidth-delay product, rounded down to a byte.
#[must_use]
pub fn window(throughput: Rate, rtt: Span) -> Size {
    throughput.bytes_in(rtt)
}

/// The parts of one packet's delay (Brouer formula 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delay {
    /// The packet's wire bytes over the line's rate.
    pub transmit: Span,
    /// The backlog in front of it, over the same rate.
    pub queue: Span,
    /// The time in interleaver and equipment; 8 to 9 ms on the theses' modem.
    pub process: Span,
    /// The distance over the speed of light in the medium.
    pub propagation: Span,
}

impl Delay {
    /// Returns the sum of the parts.
    #[must_use]
    pub fn total(self) -> Span {
        self.transmit + self.queue + self.process + self.propagation
    }
}

/// Returns the share `t / (t + L)` of a line that a window of one packet gets: stop-and-wait (Shah
/// 6.5 and 6.7). No receive-side control can go below it.
///
/// `transmit` is the packet's time on the line, `latency` the round trip from
/// the end of its transmission to its acknowledgement. 0 for a packet that
/// takes no time.
#[must_use]
pub fn stop_and_wait_share(transmit: Span, latency: Span) -> f64 {
    if transmit == Span::ZERO {
        return 0.0;
    }
    transmit.as_secs_f64() / (transmit.as_secs_f64() + latency.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Size = Size::bytes(63_712);

    fn kbit(rate: Option<Rate>) -> f64 {
        rate.expect("some time").as_kbit()
    }

    fn ms(span: Option<Span>) -> f64 {
        span.expect("a rate above 0").as_millis_f64()
    }

    #[track_caller]
    fn close(found: f64, printed: f64, half_a_digit: f64) {
        assert!(
            (found - printed).abs() <= half_a_digit,
            "{found} is not {printed}"
        );
    }

    /// Experiments ADSL-3.2 to 3.4.
    #[test]
    fn windows_of_adsl_3_2() {
        close(
            kbit(throughput(WINDOW, Span::from_millis(1_150))),
            443.2,
            0.05,
        );
        close(ms(round_trip(WINDOW, Rate::kbit(2_000))), 254.0, 1.0);
        let full = window(Rate::kbit(1_800), Span::from_millis(1_150));
        assert_eq!(full, Size::bytes(258_750));
    }

    /// ADSL-3.1: the round trips behind 300 and 150 kbit/s.
    #[test]
    fn round_trips_of_adsl_3_1() {
        close(ms(round_trip(WINDOW, Rate::kbit(300))), 1_700.0, 5.0);
        close(ms(round_trip(WINDOW, Rate::kbit(150))), 3_400.0, 5.0);
    }

    /// ADSL-3.6: the window is 42.5 packets, so 43 of them at 454 kbit/s.
    #[test]
    fn queue_of_adsl_3_6() {
        let packet = ms(round_trip(Size::bytes(1_500), Rate::kbit(454)));
        close(packet, 26.43, 0.005);
        close(43.0 * packet, 1_136.0, 0.6);
    }

    /// ADSL-3.7 and 3.8: windows of 18750 bytes.
    #[test]
    fn reduced_windows() {
        let at = |bytes| ms(round_trip(Size::bytes(bytes), Rate::kbit(450)));
        close(at(16_583), 294.0, 1.0);
        close(at(12_773), 227.0, 0.5);
        close(at(20_273), 360.0, 0.5);
        // Eleven of them fill the modem; 3300 ms at 450 kbit/s are ten.
        close(at(11 * 18_750), 3_667.0, 0.5);
        close(
            window(Rate::kbit(454), Span::from_millis(3_300)).as_bytes() as f64,
            187e3,
            300.0,
        );
    }

    /// ADSL-3.9: three windows.
    #[test]
    fn three_downloads() {
        let three = Size::bytes(3 * 63_712);
        close(
            kbit(throughput(three, Span::from_millis(1_250))),
            1_223.0,
            0.5,
        );
        close(ms(round_trip(three, Rate::kbit(450))), 3_397.0, 1.0);
        // ADSL-3.13 chose its window for 3 s at 2 Mbit/s.
        assert_eq!(
            window(Rate::kbit(2_000), Span::from_secs(3)),
            Size::bytes(750_000)
        );
    }

    /// Experiment DS-2: one packet of 1470 bytes each 10-ms tick, in units
    /// of 2^20.
    #[test]
    fn one_packet_a_tick() {
        let per_tick = throughput(Size::bytes(1_470), Span::from_millis(10));
        close(kbit(per_tick) * 1e3 / f64::from(1 << 20), 1.12, 0.005);
        // DS-4.5: 50 packets at 5 Mbit/s.
        close(
            ms(round_trip(Size::bytes(50 * 1_514), Rate::kbit(5_000))),
            121.0,
            0.2,
        );
    }

    /// ADSL-3.6: propagation of 5 km is at most 0.025 ms.
    #[test]
    fn delay_is_the_sum_of_its_parts() {
        let delay = Delay {
            transmit: Span::from_micros(26_500),
            queue: Span::from_millis(1_110),
            process: Span::from_micros(8_500),
            propagation: Span::from_micros(25),
        };
        assert_eq!(delay.total(), Span::from_micros(1_145_025));
        assert_eq!(Delay::default().total(), Span::ZERO);
    }

    /// Experiments RATE-6.5, 6.7 and 6.8.
    #[test]
    fn floors_of_receive_side_control() {
        let share = |bytes, kbit, latency_us| {
            let transmit = Rate::kbit(kbit)
                .time_for(Size::bytes(bytes))
                .expect("a rate");
            stop_and_wait_share(transmit, Span::from_micros(latency_us))
        };
        // Shah takes the T1 for 1500 bit/ms and its round trip for 6 ms.
        let t1 = share(1_500, 1_500, 6_000);
        close(t1, 0.571, 0.000_5);
        close(t1 * 1.5, 0.857, 0.000_5);
        close(t1 * 1.14, 0.65, 0.005);
        close(share(1_500, 38, 70_000), 0.819, 0.000_5);
        let ppp = Rate::bits_per_second(38_800).time_for(Size::bytes(1_500));
        close(ms(ppp), 309.0, 0.5);
        close(
            stop_and_wait_share(ppp.expect("a rate"), Span::from_millis(70)),
            0.815,
            0.000_5,
        );
        close(share(1_460, 10_000, 300), 0.796, 0.000_5);
        for (mss, mbit) in [
            (1_460, 7.96),
            (1_000, 7.27),
            (800, 6.81),
            (600, 6.15),
            (400, 5.16),
            (200, 3.48),
            (100, 2.11),
        ] {
            close(10.0 * share(mss, 10_000, 300), mbit, 0.005);
        }
        assert_eq!(stop_and_wait_share(Span::ZERO, Span::ZERO), 0.0);
    }

    #[test]
    fn no_time_and_no_rate_have_no_quotient() {
        assert_eq!(throughput(WINDOW, Span::ZERO), None);
        assert_eq!(round_trip(WINDOW, Rate::kbit(0)), None);
        assert_eq!(window(Rate::kbit(0), Span::from_secs(1)), Size::bytes(0));
        let most = throughput(Size::bytes(u64::MAX), Span::from_nanos(1));
        assert_eq!(most, Some(Rate::bits_per_second(u64::MAX)));
    }
}

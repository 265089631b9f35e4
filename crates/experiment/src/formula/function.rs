// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of formulas. Most call crate `linklayer`.

use weirgate_linklayer::{LinkLayer, ack, naive};
use weirgate_units::Rate;

/// Every function: its name, its arguments, and its result.
pub const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("wire-bytes", "LAYER, IP-BYTES", "line bytes of a packet"),
    ("overhead", "LAYER", "bytes added to each IP packet"),
    (
        "ip-ceiling",
        "LAYER, KBIT, IP-BYTES",
        "kbit/s of IP that fill a line",
    ),
    (
        "packets-per-second",
        "LAYER, KBIT, IP-BYTES",
        "packets that fill a line",
    ),
    (
        "serialisation",
        "LAYER, KBIT, IP-BYTES",
        "ms that a packet takes",
    ),
    (
        "payload",
        "LAYER, KBIT",
        "kbit/s left after cells or codewords",
    ),
    ("bandwidth-ratio", "DOWN, UP, DATA, ACK", "k of Brouer 2.3"),
    (
        "atm-payload",
        "KBIT",
        "whole kbit/s, as Brouer's script divides",
    ),
    (
        "ack-reserve",
        "DOWN-KBIT",
        "whole kbit/s, as Brouer's script reserves",
    ),
    ("overhead-rate", "PACKETS/S, BYTES", "bit/s"),
    ("min", "A, B", "the smaller"),
    ("max", "A, B", "the larger"),
    ("floor", "A", "rounded down"),
    ("round", "A", "rounded to the nearest whole number"),
    ("ln", "A", "the natural logarithm"),
    ("power", "A, B", "A to the power of B"),
];

/// A function, by its index in [`FUNCTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function(usize);

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut names = FUNCTIONS.iter().map(|function| function.0);
        names.position(|known| known == name).map(Self)
    }

    pub(super) fn name(self) -> &'static str {
        FUNCTIONS[self.0].0
    }

    pub(super) fn arguments(self) -> &'static str {
        FUNCTIONS[self.0].1
    }

    pub(super) fn takes_layer(self) -> bool {
        self.arguments().starts_with("LAYER")
    }

    /// Returns the number of its numeric arguments.
    pub(super) fn numbers(self) -> usize {
        self.arguments().split(", ").count() - usize::from(self.takes_layer())
    }

    /// Returns the value, or NaN if there is none. The parser has checked the number of
    /// arguments.
    pub(super) fn value(self, layer: Option<&LinkLayer>, numbers: &[f64]) -> f64 {
        let number = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
        let (a, b) = (number(0), number(1));
        match layer {
            Some(layer) => self.of_layer(layer, a, b),
            None => match self.name() {
                "bandwidth-ratio" => {
                    let (data, ack_bytes) = (whole(number(2)), whole(number(3)));
                    ratio(rate(a), rate(b), data, ack_bytes)
                }
                "atm-payload" => some(kbit(a).and_then(naive::atm_payload_kbit)),
                "ack-reserve" => {
                    some(kbit(a).and_then(|down| ack::AckReserve::THESIS.script_kbit(down)))
                }
                "overhead-rate" => match (whole(a), whole(b)) {
                    (Some(packets), Some(bytes)) => {
                        naive::overhead_rate(packets, bytes).as_bits_per_second() as f64
                    }
                    _ => f64::NAN,
                },
                // `f64::min` and `f64::max` would return the other number.
                "min" | "max" if a.is_nan() || b.is_nan() => f64::NAN,
                "min" => a.min(b),
                "max" => a.max(b),
                "floor" => a.floor(),
                "round" => a.round(),
                "ln" => a.ln(),
                "power" => a.powf(b),
                _ => f64::NAN,
            },
        }
    }

    fn of_layer(self, layer: &LinkLayer, a: f64, b: f64) -> f64 {
        let size = |number| whole(number).filter(|size| *size > 0);
        let with_size = |f: &dyn Fn(Rate, u32) -> f64| match (rate(a), size(b)) {
            (Some(line), Some(size)) => f(line, size),
            _ => f64::NAN,
        };
        match self.name() {
            "wire-bytes" => size(a).map_or(f64::NAN, |size| f64::from(layer.wire_bytes(size))),
            "overhead" => f64::from(layer.overhead()),
            "ip-ceiling" => with_size(&|line, size| layer.ip_ceiling(line, size).as_kbit()),
            "packets-per-second" => with_size(&|line, size| layer.packets_per_second(line, size)),
            "serialisation" => with_size(&|line, size| {
                let time = layer.serialisation(line, size);
                time.map_or(f64::NAN, weirgate_units::Span::as_millis_f64)
            }),
            "payload" => rate(a).map_or(f64::NAN, |line| layer.payload_rate(line).as_kbit()),
            _ => f64::NAN,
        }
    }
}

fn ratio(down: Option<Rate>, up: Option<Rate>, data: Option<u32>, acks: Option<u32>) -> f64 {
    match (down, up, data, acks) {
        (Some(down), Some(up), Some(data), Some(acks)) => {
            ack::bandwidth_ratio(down, up, data, acks).unwrap_or(f64::NAN)
        }
        _ => f64::NAN,
    }
}

fn some(value: Option<u64>) -> f64 {
    value.map_or(f64::NAN, |value| value as f64)
}

/// Converts a whole number of bytes or packets; returns `None` for other numbers.
fn whole(number: f64) -> Option<u32> {
    let fits = number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0;
    fits.then_some(number as u32)
}

/// Converts whole kbit/s of at most 1 Tbit/s; returns `None` for other numbers.
fn kbit(number: f64) -> Option<u64> {
    let fits = (0.0..=1e9).contains(&number) && number.fract() == 0.0;
    fits.then_some(number as u64)
}

/// Converts a rate in kbit/s that may have a fraction.
fn rate(kbit: f64) -> Option<Rate> {
    let fits = (0.0..=1e9).contains(&kbit);
    fits.then(|| Rate::bits_per_second((kbit * 1e3).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `value` implements every function of the table.
    #[test]
    fn every_function_has_a_value() {
        let layer = LinkLayer::named("adsl:pppoa-vc").unwrap();
        for (name, _, _) in FUNCTIONS {
            let function = Function::named(name).unwrap();
            let layer = function.takes_layer().then_some(&layer);
            let numbers = match *name {
                "power" => [2.0, 10.0, 0.0, 0.0],
                _ => [1000.0, 500.0, 1500.0, 100.0],
            };
            let value = function.value(layer, &numbers);
            assert!(value.is_finite(), "{name}");
        }
    }

    #[test]
    fn numbers_that_no_link_has_give_none() {
        let layer = LinkLayer::named("adsl:pppoa-vc").unwrap();
        let of =
            |name, numbers: &[f64]| Function::named(name).unwrap().value(Some(&layer), numbers);
        assert!(of("wire-bytes", &[0.5]).is_nan());
        assert!(of("wire-bytes", &[-1.0]).is_nan());
        assert!(of("wire-bytes", &[1e12]).is_nan());
        assert!(of("serialisation", &[0.0, 1500.0]).is_nan());
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compresses the values of one series without loss. It uses Golomb-Rice codes whose parameter
//! adapts to the numbers, as in ITU-T T.87 (JPEG-LS) A.5, with runs of zeros as in its A.7. Of
//! two predictions, the minimum and the previous value, it uses the one with the shorter result.
//! If a series alternates between activity and pauses, zeros are stored separately as runs, so
//! that they cost little.

use crate::bits::{Bytes, Reader, Writer, put_varint, unzigzag, zigzag};

/// Marks an unknown value.
pub(crate) const ABSENT: i64 = i64::MIN;

const NOTHING: u8 = 0;
const CONSTANT: u8 = 1;
const ABOVE: u8 = 2;
const CHANGES: u8 = 3;
const WITH_GAPS: u8 = 4;
const WITH_ZEROS: u8 = 8;
/// Zeros are stored separately if at least one number in this many is zero.
const SOME_ZEROS: usize = 16;

/// After this many ones, a number is written with its width and all its bits.
const LONGEST: u32 = 16;
/// Below this mean (in sixteenths), zeros are coded as runs.
const QUIET: u64 = 5;

/// The moving mean of the numbers, in sixteenths.
struct Mean(u64);

impl Mean {
    fn of(first: u64) -> Self {
        Self(first.min(1 << 40) * 16)
    }

    fn saw(&mut self, value: u64) {
        self.0 = self.0 - self.0.div_ceil(16) + value.min(1 << 40);
    }

    fn quiet(&self) -> bool {
        self.0 < QUIET
    }

    /// Returns the number of low bits that are written uncoded.
    fn low(&self) -> u32 {
        let mean = self.0 * 11 / 256;
        64 - mean.leading_zeros()
    }
}

fn put(bits: &mut Writer, value: u64, low: u32) {
    let high = value >> low;
    if high < u64::from(LONGEST) {
        bits.unary(high as u32);
        bits.wide(value, low);
    } else {
        let width = 64 - value.leading_zeros();
        bits.unary(LONGEST);
        bits.put(u64::from(width - 1), 6);
        bits.wide(value, width);
    }
}

fn get(bits: &mut Reader<'_>, low: u32) -> Option<u64> {
    let high = bits.unary(LONGEST)?;
    if high == LONGEST {
        let width = bits.get(6)? as u32 + 1;
        return bits.wide(width);
    }
    Some((u64::from(high) << low) | bits.wide(low)?)
}

fn write(bits: &mut Writer, values: impl Iterator<Item = u64>) {
    let mut values = values.peekable();
    let mut mean = Mean::of(values.peek().copied().unwrap_or(0));
    put(bits, mean.0 / 16, 8);
    while let Some(mut value) = values.next() {
        if mean.quiet() {
            let mut run = 0;
            while value == 0 {
                run += 1;
                let Some(next) = values.next() else {
                    bits.gamma(run + 1);
                    return;
                };
                value = next;
            }
            bits.gamma(run + 1);
            put(bits, value - 1, mean.low());
        } else {
            put(bits, value, mean.low());
        }
        mean.saw(value);
    }
}

fn read(bits: &mut Reader<'_>, count: usize) -> Option<Vec<u64>> {
    let mut mean = Mean::of(get(bits, 8)?);
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let value = if mean.quiet() {
            let run = usize::try_from(bits.gamma()? - 1).ok()?;
            if run > count - values.len() {
                return None;
            }
            values.resize(values.len() + run, 0);
            if values.len() == count {
                return Some(values);
            }
            get(bits, mean.low())?.checked_add(1)?
        } else {
            get(bits, mean.low())?
        };
        mean.saw(value);
        values.push(value);
    }
    Some(values)
}

/// Compresses values; the reader must know their number.
pub(crate) fn encode(values: &[i64]) -> Vec<u8> {
    let present: Vec<i64> = values.iter().copied().filter(|v| *v != ABSENT).collect();
    let Some((first, least)) = present.first().zip(present.iter().min()) else {
        return vec![NOTHING];
    };
    let gaps = present.len() < values.len();
    let mut runs = Runs::default();
    if gaps {
        runs.add(WITH_GAPS, values.iter().map(|value| *value != ABSENT));
    }
    let together = shorter(&present, *least, &runs);
    let zeros = present.iter().filter(|value| **value == 0).count();
    if zeros * SOME_ZEROS < present.len() || present.iter().all(|value| value == first) {
        return together;
    }
    runs.add(WITH_ZEROS, present.iter().map(|value| *value != 0));
    let others: Vec<i64> = present.into_iter().filter(|value| *value != 0).collect();
    let least = others.iter().min().copied().unwrap_or_default();
    let apart = shorter(&others, least, &runs);
    if apart.len() < together.len() {
        apart
    } else {
        together
    }
}

/// The values that are omitted, as alternating run lengths.
#[derive(Default)]
struct Runs {
    flags: u8,
    lengths: Vec<u64>,
}

impl Runs {
    fn add(&mut self, flag: u8, there: impl Iterator<Item = bool>) {
        self.flags |= flag;
        let (mut now, mut run) = (true, 0);
        for one in there {
            if one == now {
                run += 1;
            } else {
                self.lengths.push(run);
                (now, run) = (one, 1);
            }
        }
        self.lengths.push(run);
    }

    fn put(&self, bits: &mut Writer) {
        for length in &self.lengths {
            bits.gamma(length + 1);
        }
    }
}

/// Returns the shorter encoding of both predictions, or a single number if all are equal.
fn shorter(numbers: &[i64], least: i64, runs: &Runs) -> Vec<u8> {
    let first = numbers.first().copied().unwrap_or_default();
    let coded = |mode: u8, base: i64, numbers: &mut dyn Iterator<Item = u64>| {
        let mut bytes = vec![mode | runs.flags];
        put_varint(&mut bytes, zigzag(base));
        let mut bits = Writer::default();
        runs.put(&mut bits);
        if mode != CONSTANT {
            write(&mut bits, numbers);
        }
        bytes.extend(bits.finish());
        bytes
    };
    if numbers.iter().all(|value| *value == first) {
        return coded(CONSTANT, first, &mut std::iter::empty());
    }
    let mut above = numbers.iter().map(|value| value.wrapping_sub(least) as u64);
    let above = coded(ABOVE, least, &mut above);
    let mut changes = numbers
        .windows(2)
        .map(|pair| zigzag(pair[1].wrapping_sub(pair[0])));
    let changes = coded(CHANGES, first, &mut changes);
    if changes.len() < above.len() {
        changes
    } else {
        above
    }
}

/// Reads alternating run lengths of values that are present and omitted.
fn get_runs(bits: &mut Reader<'_>, count: usize) -> Option<Vec<bool>> {
    let mut there = true;
    let mut known = Vec::with_capacity(count);
    while known.len() < count {
        let run = usize::try_from(bits.gamma()? - 1).ok()?;
        if run > count - known.len() || (run == 0 && !known.is_empty()) {
            return None;
        }
        known.resize(known.len() + run, there);
        there = !there;
    }
    Some(known)
}

/// Decompresses values; returns `None` if [`encode`] cannot have written the bytes.
pub(crate) fn decode(bytes: &[u8], count: usize) -> Option<Vec<i64>> {
    let mut bytes = Bytes(bytes);
    let head = bytes.byte()?;
    let mode = head & !(WITH_GAPS | WITH_ZEROS);
    if mode == NOTHING {
        return Some(vec![ABSENT; count]);
    }
    let base = bytes.signed()?;
    let mut bits = Reader::new(bytes.0);
    let mut left_out = Vec::new();
    let mut there = count;
    for (flag, value) in [(WITH_GAPS, ABSENT), (WITH_ZEROS, 0)] {
        if head & flag != 0 {
            let known = get_runs(&mut bits, there)?;
            there = known.iter().filter(|there| **there).count();
            left_out.push((known, value));
        }
    }
    let mut numbers: Vec<i64> = match mode {
        CONSTANT => vec![base; there],
        ABOVE => read(&mut bits, there)?
            .into_iter()
            .map(|number| base.wrapping_add(number as i64))
            .collect(),
        CHANGES => {
            let mut value = base;
            let mut values = Vec::with_capacity(there);
            values.push(value);
            for change in read(&mut bits, there.checked_sub(1)?)? {
                value = value.wrapping_add(unzigzag(change));
                values.push(value);
            }
            values
        }
        _ => return None,
    };
    // In reverse order, because zeros were removed from the known values.
    for (known, value) in left_out.into_iter().rev() {
        let mut present = numbers.into_iter();
        let mut next = |there: bool| if there { present.next() } else { Some(value) };
        numbers = known.into_iter().map(&mut next).collect::<Option<_>>()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => Just(0),
            2 => Just(ABSENT),
            4 => 0_i64..100,
            3 => -5_000_i64..2_000_000,
            1 => any::<i64>(),
        ]
    }

    proptest! {
        #[test]
        fn numbers_come_back(values in proptest::collection::vec(value(), 0..400)) {
            let bytes = encode(&values);
            prop_assert_eq!(decode(&bytes, values.len()), Some(values));
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..60), count in 0_usize..500) {
            if let Some(values) = decode(&bytes, count) {
                prop_assert_eq!(values.len(), count);
            }
        }
    }

    #[test]
    fn what_does_not_change_costs_nothing() {
        assert!(encode(&[0; 900]).len() <= 2);
        assert!(encode(&[1500; 900]).len() <= 4);
        assert_eq!(encode(&[ABSENT; 900]).len(), 1);
        let one: Vec<i64> = (0..900).map(|i| i64::from(i == 400) * 70).collect();
        assert!(encode(&one).len() <= 20, "{}", encode(&one).len());
    }

    /// Pauses of a series add almost nothing to its size.
    #[test]
    fn pauses_cost_next_to_nothing() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 48) as i64
        };
        let values: Vec<i64> = (0..900)
            .map(|second| if second % 18 < 6 { 1 + random() } else { 0 })
            .collect();
        let encoded = encode(&values);
        assert_eq!(decode(&encoded, 900), Some(values));
        // 300 numbers of sixteen bits, and fifty pauses of one or two bytes.
        let bits = encoded.len() * 8;
        assert!(bits < 300 * 17 + 50 * 16, "{bits}");
    }

    #[test]
    fn random_numbers_cost_little_more_than_their_bits() {
        // Values from 0 to 65,535 need sixteen bits each.
        let mut state = 1_u64;
        let values: Vec<i64> = (0..900)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 48) as i64
            })
            .collect();
        let bits = encode(&values).len() * 8;
        assert!(bits < 900 * 17 + 200, "{}", bits as f64 / 900.0);
    }
}

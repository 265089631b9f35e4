// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes numbers as bits and as bytes.

/// Writes bits, starting with the highest bit of the first byte.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Writer {
    /// Writes the lowest `width` bits of `value`, at most 32.
    pub(crate) fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 32);
        self.held = (self.held << width) | (value & ((1 << width) - 1));
        self.count += width;
        while self.count >= 8 {
            self.count -= 8;
            self.bytes.push((self.held >> self.count) as u8);
        }
    }

    pub(crate) fn wide(&mut self, value: u64, width: u32) {
        if width > 32 {
            self.put(value >> 32, width - 32);
        }
        self.put(value, width.min(32));
    }

    /// Writes this many ones and a zero.
    pub(crate) fn unary(&mut self, ones: u32) {
        for _ in 0..ones / 32 {
            self.put(u64::MAX, 32);
        }
        self.put(u64::MAX << 1, ones % 32 + 1);
    }

    /// Writes a number from 1 on in the Elias gamma code.
    pub(crate) fn gamma(&mut self, value: u64) {
        let bits = value.ilog2();
        self.unary(bits);
        self.wide(value & ((1 << bits) - 1), bits);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            let fill = 8 - self.count;
            self.put(0, fill);
        }
        self.bytes
    }
}

/// Reads the output of [`Writer`].
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    held: u64,
    count: u32,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            held: 0,
            count: 0,
        }
    }

    fn fill(&mut self) {
        while self.count <= 56 {
            let Some(byte) = self.bytes.get(self.at) else {
                return;
            };
            self.at += 1;
            self.held |= u64::from(*byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// Reads at most 32 bits; returns `None` beyond the end.
    pub(crate) fn get(&mut self, width: u32) -> Option<u64> {
        if width == 0 {
            return Some(0);
        }
        if self.count < width {
            self.fill();
        }
        let value = self.held >> (64 - width);
        self.count = self.count.checked_sub(width)?;
        self.held <<= width;
        Some(value)
    }

    pub(crate) fn wide(&mut self, width: u32) -> Option<u64> {
        let high = self.get(width.saturating_sub(32))?;
        Some((high << 32) | self.get(width.min(32))?)
    }

    /// Counts the ones before the next zero; returns `None` for more than `most`.
    pub(crate) fn unary(&mut self, most: u32) -> Option<u32> {
        let mut ones = 0;
        loop {
            if self.count == 0 {
                self.fill();
            }
            if self.count == 0 {
                return None;
            }
            let run = self.held.leading_ones().min(self.count);
            ones += run;
            if ones > most {
                return None;
            }
            if run < self.count {
                self.held = self.held.checked_shl(run + 1).unwrap_or(0);
                self.count -= run + 1;
                return Some(ones);
            }
            self.held = 0;
            self.count = 0;
        }
    }

    pub(crate) fn gamma(&mut self) -> Option<u64> {
        let bits = self.unary(63)?;
        Some((1 << bits) | self.wide(bits)?)
    }
}

/// Maps signed numbers to unsigned ones so that small absolute values stay small.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverts [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a number with seven bits in each byte.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends the number of bytes, followed by the bytes.
pub(crate) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Reads bytes from the front.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a count or a length of at most `most`.
    pub(crate) fn length(&mut self, most: usize) -> Option<usize> {
        let value = usize::try_from(self.varint()?).ok()?;
        (value <= most).then_some(value)
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.varint().map(unzigzag)
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn text(&mut self, most: usize) -> Option<String> {
        let length = self.length(most)?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

/// Reads four bytes at an offset in little-endian order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(four))
}

/// Reads eight bytes at an offset in little-endian order.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(eight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in proptest::collection::vec((any::<u64>(), 0_u32..64), 0..200)) {
            let mut writer = Writer::default();
            for (value, shift) in &values {
                let value = value >> shift;
                writer.gamma(value.max(1));
                writer.unary((value % 90) as u32);
                writer.wide(value, 64 - shift);
            }
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes);
            for (value, shift) in &values {
                let value = value >> shift;
                prop_assert_eq!(reader.gamma(), Some(value.max(1)));
                prop_assert_eq!(reader.unary(100), Some((value % 90) as u32));
                prop_assert_eq!(reader.wide(64 - shift), Some(value));
            }
        }

        #[test]
        fn varints_come_back(value: u64, signed: i64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            put_varint(&mut bytes, zigzag(signed));
            let mut reader = Bytes(&bytes);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert_eq!(reader.signed(), Some(signed));
            prop_assert_eq!(reader.byte(), None);
        }
    }
}

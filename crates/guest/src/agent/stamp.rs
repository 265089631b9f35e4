// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stamp at the start of the payload of probes and lab datagrams.
//!
//! A stamp has twelve bytes, because the smallest datagram of the experiments (40 bytes of IPv4)
//! has no more payload. It has two bytes of magic and flags, the flow, a sequence number, and
//! the time of sending. The time is in units of 64 ns and wraps after 274 s, longer than a
//! packet can be under way. The recorder knows the flow's class.

/// Length of a stamp in bytes. A shorter payload has no stamp.
pub const LEN: usize = 12;

/// The first two bytes, except for [`REPLY`].
pub const MAGIC: u16 = 0x5749;
/// The flag of a reply in these bytes.
pub const REPLY: u16 = 0x8000;
const UNIT_SHIFT: u32 = 6;

/// A stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The flow's index in the recorder.
    pub flow: u16,
    /// Sequence number within the flow and direction.
    pub seq: u32,
    /// When it was sent, in units of 64 ns, modulo 2^32.
    sent: u32,
    /// Whether it is a reply, which carries the request's time.
    pub reply: bool,
}

impl Stamp {
    /// Returns the stamp of a packet sent at `now_ns`.
    #[must_use]
    pub const fn new(flow: u16, seq: u32, now_ns: u64) -> Self {
        Self {
            flow,
            seq,
            sent: (now_ns >> UNIT_SHIFT) as u32,
            reply: false,
        }
    }

    /// Returns the stamp of the reply, with the request's time.
    #[must_use]
    pub const fn answer(self) -> Self {
        Self {
            reply: true,
            ..self
        }
    }

    /// Returns the nanoseconds since it was sent, in steps of 64 ns. For a reply, it is the time
    /// since the request was sent.
    #[must_use]
    pub const fn age_ns(&self, now_ns: u64) -> u64 {
        let now = (now_ns >> UNIT_SHIFT) as u32;
        (now.wrapping_sub(self.sent) as u64) << UNIT_SHIFT
    }

    /// Writes the stamp to the start of `payload`. Does nothing if it is too short.
    pub fn write(&self, payload: &mut [u8]) {
        let Some(start) = payload.first_chunk_mut::<LEN>() else {
            return;
        };
        let magic = if self.reply { MAGIC | REPLY } else { MAGIC };
        start[..2].copy_from_slice(&magic.to_be_bytes());
        start[2..4].copy_from_slice(&self.flow.to_be_bytes());
        start[4..8].copy_from_slice(&self.seq.to_be_bytes());
        start[8..].copy_from_slice(&self.sent.to_be_bytes());
    }

    /// Reads the stamp at the start of `payload`; returns `None` if there is none.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let [m0, m1, f0, f1, s0, s1, s2, s3, t0, t1, t2, t3] = *payload.first_chunk::<LEN>()?;
        let magic = u16::from_be_bytes([m0, m1]);
        (magic & !REPLY == MAGIC).then(|| Self {
            flow: u16::from_be_bytes([f0, f1]),
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            sent: u32::from_be_bytes([t0, t1, t2, t3]),
            reply: magic & REPLY != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LEN, Stamp};

    #[test]
    fn is_read_as_written() {
        let stamp = Stamp::new(513, 70_000, 5_000_000_000);
        for stamp in [stamp, stamp.answer()] {
            let mut payload = [0; LEN + 3];
            stamp.write(&mut payload);
            assert_eq!(Stamp::read(&payload), Some(stamp));
            assert_eq!(stamp.age_ns(5_000_640_000), 640_000);
        }
    }

    #[test]
    fn ages_over_the_wrap() {
        let sent = (u64::from(u32::MAX) << 6) - 64;
        assert_eq!(Stamp::new(0, 0, sent).age_ns(sent + 1_024_000), 1_024_000);
    }

    #[test]
    fn other_payload_has_none() {
        let mut short = [0; LEN - 1];
        Stamp::new(1, 1, 1).write(&mut short);
        assert_eq!(short, [0; LEN - 1]);
        assert_eq!(Stamp::read(&short), None);
        assert_eq!(Stamp::read(&[0; 40]), None);
    }
}

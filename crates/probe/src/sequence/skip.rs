// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and discards bytes of a connection.

use std::io::{self, BufRead, ErrorKind};

/// Reads this many bytes, or to the end; returns the number read.
pub(crate) fn skip(from: &mut dyn BufRead, bytes: u64) -> io::Result<u64> {
    let mut came = 0;
    while came < bytes {
        let there = match from.fill_buf() {
            Ok(there) => (bytes - came).min(there.len() as u64),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if there == 0 {
            break;
        }
        from.consume(there as usize);
        came += there;
    }
    Ok(came)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read as _};

    #[test]
    fn what_is_skipped_is_counted_and_no_more_is_taken() {
        let mut from = BufReader::with_capacity(3, &b"0123456789"[..]);
        assert_eq!(skip(&mut from, 7).unwrap(), 7);
        let mut next = [0];
        from.read_exact(&mut next).unwrap();
        assert_eq!(&next, b"7");
        assert_eq!(skip(&mut from, u64::MAX).unwrap(), 2);
    }
}

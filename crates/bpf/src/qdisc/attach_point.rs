// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a qdisc is: what tells instances apart.

use crate::error::BpfError;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// A place for a qdisc. Device numbers repeat in every network namespace, so
/// the namespace belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The cookie of the network namespace.
    pub netns: u64,
    /// The device's number.
    pub ifindex: u32,
    /// The transmit queue, from 1, for a qdisc under mq; 0 at the root.
    pub queue: u32,
}

/// Bytes of `struct aqm_place`.
pub(crate) const BYTES: usize = 16;

impl Place {
    /// The root of a device in the network namespace of this thread.
    pub fn root(ifindex: u32) -> Result<Self, BpfError> {
        Ok(Self {
            netns: own_namespace().map_err(BpfError::Namespace)?,
            ifindex,
            queue: 0,
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.netns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.ifindex.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.queue.to_ne_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            u32::from_ne_bytes(four.unwrap_or_default())
        };
        let eight = bytes.get(..8).and_then(|eight| eight.try_into().ok());
        Self {
            netns: u64::from_ne_bytes(eight.unwrap_or_default()),
            ifindex: word(8),
            queue: word(12),
        }
    }
}

/// A socket belongs to the namespace of the thread that made it, and can say
/// which that is (`SO_NETNS_COOKIE` of socket(7)).
pub(crate) fn own_namespace() -> io::Result<u64> {
    let socket = UnixDatagram::unbound()?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "std has no such socket option")]
    // SAFETY: the kernel writes at most `length` bytes, the size of `cookie`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(cookie)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_the_map() {
        let place = Place {
            netns: 0x0123_4567_89ab_cdef,
            ifindex: 7,
            queue: 3,
        };
        assert_eq!(Place::from_bytes(&place.to_bytes()), place);
    }
}

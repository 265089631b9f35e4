// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The location of a qdisc, which identifies its instance.

use crate::error::BpfError;
pub use crate::layout::aqm_attach_point as AttachPoint;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

impl AttachPoint {
    /// Returns the root of a device in the network namespace of this thread.
    pub fn root(ifindex: u32) -> Result<Self, BpfError> {
        Ok(Self {
            netns: own_namespace().map_err(BpfError::Namespace)?,
            ifindex,
            queue: 0,
        })
    }
}

/// Returns the cookie of this thread's network namespace. A socket belongs to the namespace of
/// the thread that made it (`SO_NETNS_COOKIE`, socket(7)).
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identifies network namespaces.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// Returns a number that identifies the calling thread's network namespace until the machine
/// reboots (`SO_NETNS_COOKIE`, Linux 5.14). The inode of `/proc/PID/ns/net` would not do, because
/// it is reused when a namespace is gone.
///
/// Fails with `Unsupported` or `ENOPROTOOPT` on older kernels.
pub fn namespace_cookie() -> io::Result<u64> {
    // A socket belongs to the namespace of the thread that creates it.
    cookie_of(&UnixDatagram::unbound()?)
}

/// Returns the number of a socket's namespace.
#[expect(unsafe_code, reason = "no crate in use has this socket option")]
pub(crate) fn cookie_of(socket: &impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes to `cookie`,
    // which has that size.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize != size_of::<u64>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(cookie)
}

/// Calls a function in a network namespace; `None` means that of this thread. It uses a thread of
/// its own, for system calls that depend on the caller's namespace.
pub(crate) fn within<T: Send>(
    netns: Option<&OwnedFd>,
    what: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let Some(netns) = netns else {
        return Ok(what());
    };
    let there = || {
        rustix::thread::move_into_link_name_space(
            netns.as_fd(),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )?;
        Ok(what())
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(there);
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_keeps_its_number() {
        let own = namespace_cookie().unwrap();
        assert_ne!(own, 0);
        let elsewhere = std::thread::spawn(|| namespace_cookie().unwrap());
        assert_eq!(elsewhere.join().unwrap(), own);
    }
}

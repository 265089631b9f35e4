// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's timestamps of sent and received packets. A program's own timestamps would be late
//! by its wait for the processor.
//!
//! Timestamps are of `CLOCK_REALTIME` (Documentation/networking/timestamping.rst), which may be set
//! between two of them: see [`took`]. The same call reads the octet with code point and ECN field.

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What was read from a socket, with its timestamp in nanoseconds of `CLOCK_REALTIME`; `None` if
/// the kernel made none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamped {
    /// Bytes read.
    pub length: usize,
    /// When the kernel received the packet; for a sent packet, when the kernel passed it to the
    /// device's queue.
    pub at_ns: Option<u64>,
    /// The octet with code point and ECN field of an arriving packet, if the socket requests it
    /// (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub octet: Option<u8>,
}

/// Makes the kernel timestamp each packet that a socket receives, for [`receive_timestamped`]. It
/// also timestamps each sent packet when that is passed to the device's queue, for
/// [`sent_timestamped`].
#[expect(unsafe_code, reason = "rustix does not have this socket option")]
pub fn enable_timestamps(socket: impl AsFd) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_TX_SCHED;
    // SAFETY: the option's value is an `unsigned int` that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads one datagram; waits for it if the socket is blocking.
pub fn receive_timestamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Timestamped> {
    receive(socket, buffer, 0)
}

/// Reads the timestamp of one sent packet, and the packet itself with all headers; never waits.
pub fn sent_timestamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Timestamped> {
    receive(socket, buffer, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
}

/// Returns how long a reply took, by the timestamps of both packets. If their difference exceeds
/// the time that passed for the program by a monotonic clock, returns that time instead.
#[must_use]
pub fn took(sent_ns: Option<u64>, came_ns: Option<u64>, passed: Duration) -> Duration {
    let noted = sent_ns.zip(came_ns);
    let noted = noted.and_then(|(sent, came)| came.checked_sub(sent));
    noted
        .map(Duration::from_nanos)
        .filter(|noted| *noted <= passed)
        .unwrap_or(passed)
}

#[expect(unsafe_code, reason = "rustix does not read these control messages")]
fn receive(socket: impl AsFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Timestamped> {
    /// Space for the control messages of a sent packet, aligned as they require.
    #[repr(C)]
    union Control {
        header: libc::cmsghdr,
        room: [u8; 256],
    }
    let mut control = MaybeUninit::<Control>::zeroed();
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the fields are integers and pointers, for which 0 is a valid value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `message` points to the buffer and the control space with their true lengths, and
    // both outlive the call.
    let length = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    let Ok(length) = usize::try_from(length) else {
        return Err(io::Error::last_os_error());
    };
    let (mut at_ns, mut octet) = (None, None);
    // SAFETY: the kernel left a list of control messages in `control` and its length in `message`;
    // the macros stay within that length. A timestamp begins with a `timespec`, read without
    // assuming its alignment. IPv4's octet is a byte (net/ipv4/ip_sockglue.c), IPv6's an `int`
    // (net/ipv6/datagram.c).
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let kind = (*header).cmsg_type;
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (kind == libc::SCM_TIMESTAMPNS || kind == libc::SCM_TIMESTAMPING)
            {
                let time = libc::CMSG_DATA(header)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                at_ns = (ns > 0).then_some(ns);
            } else if ((*header).cmsg_level, kind) == (libc::IPPROTO_IP, libc::IP_TOS) {
                octet = Some(libc::CMSG_DATA(header).read());
            } else if ((*header).cmsg_level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) {
                let class = libc::CMSG_DATA(header).cast::<[u8; 4]>().read();
                octet = Some(i32::from_ne_bytes(class) as u8);
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(Timestamped {
        length,
        at_ns,
        octet,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::thread::sleep;

    #[test]
    fn times_are_the_kernels_and_within_what_passed() {
        let ms = Duration::from_millis;
        let at = |ms: u64| Some(ms * 1_000_000);
        assert_eq!(took(at(5), at(25), ms(100)), ms(20));
        // The clock was set in between, or there was no timestamp.
        assert_eq!(took(at(5), at(3_600_025), ms(100)), ms(100));
        assert_eq!(took(at(3_600_005), at(25), ms(100)), ms(100));
        assert_eq!(took(None, at(25), ms(100)), ms(100));
        assert_eq!(took(at(5), None, ms(100)), ms(100));
    }

    #[test]
    fn a_late_reader_sees_when_packets_passed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        enable_timestamps(&socket).unwrap();
        // The first timestamp may be taken before the kernel timestamps arrivals everywhere.
        for number in 0..2 {
            socket.send(&[number; 100]).unwrap();
            sleep(Duration::from_millis(100));
            let mut bytes = [0; 200];
            let sent = sent_timestamped(&socket, &mut bytes).unwrap();
            assert!(bytes[..sent.length].ends_with(&[number; 100]), "{sent:?}");
            let came = receive_timestamped(&socket, &mut bytes).unwrap();
            assert_eq!((came.length, bytes[99]), (100, number));
            if number > 0 {
                let took = took(sent.at_ns, came.at_ns, Duration::MAX);
                assert!(took < Duration::from_millis(50), "{took:?}");
            }
            sent_timestamped(&socket, &mut bytes).unwrap_err();
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records when packets leave a device.

use super::net;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Packets that leave through a device, as the kernel passes them to its driver: time in
/// nanoseconds, and length.
pub struct Tap {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(u64, u64)>>,
}

impl Tap {
    pub fn new(device: &str) -> Self {
        let socket = tap(net::ifindex(device));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut seen = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                seen.extend(next(&socket));
            }
            seen
        });
        Self { stop, thread }
    }

    pub fn end(self) -> Vec<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the tap")
    }
}

/// Returns a packet socket on a device with the kernel's timestamps, which wakes up at least ten
/// times a second.
fn tap(ifindex: u32) -> OwnedFd {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    let option = |socket: &OwnedFd, name, value: &[u8]| {
        #[expect(unsafe_code, reason = "std has no packet sockets")]
        // SAFETY: the kernel reads as many bytes as the slice has.
        let status = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                value.as_ptr().cast(),
                value.len() as libc::socklen_t,
            )
        };
        assert_eq!(status, 0, "option {name}");
    };
    #[expect(unsafe_code, reason = "std has no packet sockets")]
    // SAFETY: a new descriptor belongs to this value; the address is of the right type, and zero
    // where nothing is set.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol));
        assert!(raw >= 0, "a packet socket");
        let mut address: libc::sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = ifindex as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let status = libc::bind(raw, (&raw const address).cast(), length);
        assert_eq!(status, 0, "bound to the device");
        OwnedFd::from_raw_fd(raw)
    };
    option(&socket, libc::SO_TIMESTAMPNS, &1_i32.to_ne_bytes());
    option(&socket, libc::SO_RCVBUFFORCE, &(32_i32 << 20).to_ne_bytes());
    let tenth = [0_i64.to_ne_bytes(), 100_000_i64.to_ne_bytes()].concat();
    option(&socket, libc::SO_RCVTIMEO, &tenth);
    socket
}

/// Returns the time and length of the next outgoing packet.
fn next(socket: &OwnedFd) -> Option<(u64, u64)> {
    let mut byte = [0_u8; 1];
    let mut control = [0_u64; 16];
    #[expect(unsafe_code, reason = "std has no packet sockets")]
    // SAFETY: every pointer is to memory of the given length that lives until the call returns.
    // Control data is read in the kernel's layout, after its level and type were checked.
    unsafe {
        let mut from: libc::sockaddr_ll = zeroed();
        let mut part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: byte.len(),
        };
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let length = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC);
        let length = u64::try_from(length).ok()?;
        if from.sll_pkttype != libc::PACKET_OUTGOING {
            return None;
        }
        let head = libc::CMSG_FIRSTHDR(&raw const message).as_ref()?;
        assert_eq!(head.cmsg_type, libc::SO_TIMESTAMPNS);
        let time: libc::timespec = libc::CMSG_DATA(head)
            .cast::<libc::timespec>()
            .read_unaligned();
        Some((
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
            length,
        ))
    }
}

/// Removes the first half second: until the kernel has enabled timestamps for sockets, a packet has
/// the time at which it was read (`net_enable_timestamp`, net/core/dev.c).
pub fn settled(mut seen: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let began = seen.first().expect("packets").0 + 500_000_000;
    seen.retain(|(at, _)| *at >= began);
    seen
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session's frames on the wire below it, captured by a packet socket.

#![allow(unsafe_code, reason = "sockets of a kind that rustix does not open")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::{Arc, Mutex};
use std::thread;

/// The length of Ethernet's header.
const ETHERNET: usize = 14;
/// The length of PPPoE's header (RFC 2516).
const PPPOE: usize = 6;
/// The length of PPP's protocol number (RFC 1661).
const PPP: usize = 2;
/// The length of all headers before an IP packet on the wire.
pub const HEADERS: usize = ETHERNET + PPPOE + PPP;

/// PPPoE frames with IP that left by the wire.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    /// The number of frames by session.
    pub count: BTreeMap<u16, u64>,
    /// The session of the last frame.
    pub last: Option<u16>,
    /// The lengths of frames, if they are recorded.
    pub lengths: Option<Vec<usize>>,
    /// The segment sizes that the last SYN of IPv4 and of IPv6 ask for.
    pub segments: [Option<u16>; 2],
}

pub fn socket(domain: i32, kind: i32, protocol: i32) -> File {
    // SAFETY: a plain call; nothing else owns the descriptor that it returns.
    let descriptor = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    let room: i32 = 64 << 20;
    // SAFETY: the value and its size are those of an int that outlives the call.
    let set = unsafe {
        let value = (&raw const room).cast();
        let size = size_of::<i32>() as u32;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        libc::setsockopt(descriptor, level, name, value, size)
    };
    assert_eq!(set, 0, "room for what is sent");
    // SAFETY: the descriptor was opened above.
    unsafe { File::from_raw_fd(descriptor) }
}

pub fn bind<T>(socket: &File, address: &T) {
    let size = u32::try_from(size_of::<T>()).unwrap();
    // SAFETY: the address and its size belong to one value that outlives the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const *address).cast(), size) };
    assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
}

/// Returns the kernel's number of a device in this namespace.
pub fn index(device: &str) -> Option<u32> {
    let name = CString::new(device).unwrap();
    // SAFETY: the text ends with a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    Some(index).filter(|index| *index > 0)
}

/// Returns the hardware address of a device in the calling thread's namespace.
pub fn address(device: &str) -> Vec<u8> {
    // `sysfs` shows the namespace of the process that mounted it; netlink uses that of the thread.
    let listing = crate::session::run(&format!("ip -o link show dev {device}"));
    let mut words = listing.split_whitespace();
    let address = words.find(|word| *word == "link/ether").and(words.next());
    let bytes = address.unwrap().split(':');
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// Opens a socket for all packets of a device in the calling thread's namespace.
fn packets(device: &str) -> File {
    let all = (libc::ETH_P_ALL as u16).to_be();
    let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(all));
    // SAFETY: every pattern of bits is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = all;
    address.sll_ifindex = i32::try_from(index(device).unwrap()).unwrap();
    bind(&socket, &address);
    socket
}

/// Sends a frame by a device of the calling thread's namespace.
pub fn send_frame(device: &str, frame: &[u8]) {
    packets(device).write_all(frame).unwrap();
}

/// Starts to record the frames that leave by a device.
pub fn capture(device: &str) -> Arc<Mutex<Frames>> {
    let mut socket = packets(device);
    let own = address(device);
    let frames = Arc::new(Mutex::new(Frames::default()));
    let shared = Arc::clone(&frames);
    thread::spawn(move || {
        let mut frame = [0; 4096];
        loop {
            // A device that is switched off causes one error.
            let Ok(length) = socket.read(&mut frame) else {
                continue;
            };
            let frame = &frame[..length];
            if length > HEADERS && frame[6..12] == own[..] {
                shared.lock().unwrap().add(frame);
            }
        }
    });
    frames
}

impl Frames {
    /// Returns a session other than the last one of `before`, and its frames since then. A
    /// restarted server assigns earlier numbers again.
    pub fn next(&self, before: &Self) -> Option<(u16, u64)> {
        let mut sessions = self.count.iter().filter_map(|(session, count)| {
            let since = count - before.count.get(session).unwrap_or(&0);
            (Some(*session) != before.last && since > 0).then_some((*session, since))
        });
        sessions.next()
    }

    fn add(&mut self, frame: &[u8]) {
        let two = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        // A session's frame (RFC 2516) with IPv4 (RFC 1332) or IPv6 (RFC 5072).
        let protocol = two(ETHERNET + PPPOE);
        if two(12) != 0x8864 || !matches!(protocol, 0x0021 | 0x0057) {
            return;
        }
        let session = two(ETHERNET + 2);
        *self.count.entry(session).or_default() += 1;
        self.last = Some(session);
        if let Some(lengths) = &mut self.lengths {
            lengths.push(frame.len());
        }
        let packet = &frame[HEADERS..];
        // The start of the TCP header; IPv6 packets here have no extension header.
        let (version, tcp, upper) = match protocol {
            0x0021 => (0, usize::from(packet[0] & 15) * 4, packet[9]),
            _ => (1, 40, packet[6]),
        };
        // A SYN whose first option is the segment size (RFC 9293).
        if upper == 6 && packet[tcp + 13] & 2 != 0 && packet[tcp + 20] == 2 {
            self.segments[version] = Some(two(HEADERS + tcp + 22));
        }
    }
}

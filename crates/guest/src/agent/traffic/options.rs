// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens sockets, with the socket calls that rustix lacks.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, ipproto, socket_with,
    sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ip_recvtos,
        set_ip_tos, set_ipv6_mtu_discover, set_ipv6_recvtclass, set_ipv6_tclass, set_ipv6_v6only,
        set_socket_recv_buffer_size_force, socket_error,
    },
};
use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use weirgate_units::Dscp;

/// Buffer for packets that are not yet read, in bytes: one second at 100 Mbit/s.
const PACKETS_BUFFER: usize = 16 << 20;

/// The instruction of a filter that accepts as many bytes as it says.
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The transport of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// ICMP echo through a ping socket. The kernel adds the checksum, and assigns replies by the
    /// identifier, which is the socket's port.
    Echo,
}

/// Opens a non-blocking socket in this thread's namespace.
pub fn open(transport: Transport, ipv6: bool, dscp: Dscp) -> io::Result<OwnedFd> {
    let family = if ipv6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let (kind, protocol) = match (transport, ipv6) {
        (Transport::Tcp, _) => (SocketType::STREAM, ipproto::TCP),
        (Transport::Udp, _) => (SocketType::DGRAM, ipproto::UDP),
        (Transport::Echo, false) => (SocketType::DGRAM, ipproto::ICMP),
        (Transport::Echo, true) => (SocketType::DGRAM, ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, kind, flags, Some(protocol))?;
    if ipv6 {
        set_ipv6_v6only(&socket, true)?;
    }
    set_dscp(&socket, ipv6, dscp)?;
    Ok(socket)
}

/// Opens a packet socket in this thread's namespace for packets that arrive through a device,
/// with timestamps. It does not see departing packets.
pub fn open_arrivals(device: &str) -> io::Result<OwnedFd> {
    let socket = open_packets()?;
    set_number(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    bind_to_device(&socket, device)?;
    Ok(socket)
}

/// Opens a packet socket in this thread's namespace for packets that leave through a device,
/// with the times at which its qdisc dequeued them. It does not see arriving packets.
pub fn open_departures(device: &str) -> io::Result<OwnedFd> {
    let socket = open_packets()?;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let kind = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    let outgoing = [
        step(load, 0, 0, kind),
        step(equal, 0, 1, libc::PACKET_OUTGOING.into()),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    set_filter(&socket, &outgoing)?;
    bind_to_device(&socket, device)?;
    Ok(socket)
}

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Opens a packet socket with timestamps. It receives nothing until it is bound to a device.
fn open_packets() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    note_arrivals(&socket)?;
    set_socket_recv_buffer_size_force(&socket, PACKETS_BUFFER)?;
    Ok(socket)
}

/// Binds a packet socket to a device, for packets of any protocol (packet(7)).
#[expect(unsafe_code, reason = "rustix has no address of packet sockets")]
fn bind_to_device(socket: &OwnedFd, device: &str) -> io::Result<()> {
    let index = rustix::net::netdevice::name_to_index(socket, device)?;
    // SAFETY: the fields are integers and an array of them, for which 0 is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the address lives through the call, and the length is its own.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // A device that is down is reported once as an error of the socket (packet(7)).
    match socket_error(socket)? {
        Ok(()) | Err(Errno::NETDOWN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets the code point of packets that the socket sends.
pub fn set_dscp(socket: impl AsFd, ipv6: bool, dscp: Dscp) -> io::Result<()> {
    // The code point is the upper six bits of the octet (RFC 2474 section 3).
    set_octet(socket, ipv6, dscp.value() << 2)
}

/// Sets the octet with code point and ECN field (RFC 3168 section 5) of sent packets. For a TCP
/// socket, the kernel uses only the code point.
pub fn set_octet(socket: impl AsFd, ipv6: bool, octet: u8) -> io::Result<()> {
    if ipv6 {
        set_ipv6_tclass(socket, u32::from(octet))?;
    } else {
        set_ip_tos(socket, octet)?;
    }
    Ok(())
}

/// Enables reporting of the octet of received packets, and disables fragmentation of sent ones.
/// QUIC needs both (RFC 9000 sections 13.4 and 14).
pub fn tell_octets_and_do_not_fragment(socket: impl AsFd, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        set_ipv6_recvtclass(&socket, true)?;
        set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
    } else {
        set_ip_recvtos(&socket, true)?;
        set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
    }
    Ok(())
}

/// Limits the window that the socket advertises, in bytes of payload.
pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// Sets how often an unanswered SYN is retransmitted.
pub fn set_syn_repeats(socket: impl AsFd, times: u32) -> io::Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_SYNCNT, times)
}

/// Limits the unsent data in the socket, in bytes.
pub fn set_unsent_limit(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Enables receive timestamps, for [`receive_stamped`].
pub fn note_arrivals(socket: impl AsFd) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Makes the socket drop every arriving packet.
pub fn drop_arrivals(socket: impl AsFd) -> io::Result<()> {
    set_filter(socket, &[step(RETURN, 0, 0, 0)])
}

/// Attaches a filter of classic BPF to the socket (socket(7)).
pub fn set_filter(socket: impl AsFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        // The kernel only reads it.
        filter: filter.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set_number(socket: impl AsFd, level: c_int, option: c_int, value: u32) -> io::Result<()> {
    let value = c_int::try_from(value).unwrap_or(c_int::MAX);
    set_option(socket, level, option, &value)
}

#[expect(unsafe_code, reason = "rustix does not have these socket options")]
fn set_option<T>(socket: impl AsFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the option's value and the data it points to are valid through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the state of a TCP socket (`TCP_INFO`). Fields that the kernel lacks are 0.
#[expect(unsafe_code, reason = "rustix does not have TCP_INFO")]
pub fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    // SAFETY: all fields are integers, for which 0 is a valid value.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(info)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads and discards at most `most` bytes of a TCP stream. With `MSG_TRUNC`, the kernel does
/// not copy them (tcp(7)).
#[expect(unsafe_code, reason = "rustix asks for a buffer")]
pub fn discard(socket: impl AsFd, most: usize) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: no buffer is passed. TCP does not access it with this flag; other sockets would
    // fail with EFAULT.
    let taken = unsafe { libc::recv(fd, std::ptr::null_mut(), most, libc::MSG_TRUNC) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Reads one datagram. Returns its length, and its receive timestamp in nanoseconds of
/// `CLOCK_REALTIME`.
pub fn receive_stamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let stamped = weirgate_kernel::receive_timestamped(socket, buffer)?;
    Ok((stamped.length, stamped.at_ns))
}

/// Reads one datagram. Returns its length and its ECN field. Needs
/// [`tell_octets_and_do_not_fragment`].
pub fn receive_with_ecn(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, u8)> {
    let read = weirgate_kernel::receive_timestamped(socket, buffer)?;
    Ok((read.length, read.octet.unwrap_or(0) & 3))
}

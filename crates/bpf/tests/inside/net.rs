// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two network namespaces of the guest, connected by veth pairs, and TCP between them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Runs a command line that must succeed, or sets a kernel parameter: `sysctl net/ipv4/tcp_ecn=1`.
pub fn run(line: &str) {
    if let Some((name, value)) = line
        .strip_prefix("sysctl ")
        .and_then(|setting| setting.split_once('='))
    {
        fs::write(format!("/proc/sys/{name}"), value)
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        return;
    }
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the index of a device in this namespace.
pub fn ifindex(device: &str) -> u32 {
    fs::read_to_string(format!("/sys/class/net/{device}/ifindex"))
        .expect("a device")
        .trim()
        .parse()
        .expect("a number")
}

/// Returns a device's link-layer address.
fn address(device: &str) -> String {
    let text = fs::read_to_string(format!("/sys/class/net/{device}/address"));
    text.expect("a device").trim().to_owned()
}

/// Adds a permanent neighbour. Neighbour requests and answers would wait in the measured queues, on
/// a slow line for so long that the kernel considers the neighbour gone.
fn known(neighbour: &str, address: &str, device: &str) {
    run(&format!(
        "ip neigh replace {neighbour} lladdr {address} dev {device} nud permanent"
    ));
}

/// A namespace with a thread in it that receives traffic.
///
/// Its devices are removed with it, because other tests in the guest may use their names.
pub struct Far {
    pairs: u8,
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Far {
    /// Makes devices `wan0`, `wan1` ... here, each with its peer there. The addresses are 10.0.N.1
    /// here and 10.0.N.2 there, where port 9 accepts anything and port 7 returns datagrams.
    pub fn new(pairs: u8) -> Self {
        Self::with(pairs, &[])
    }

    /// Makes them with command lines for the far side. Port 19 there sends endlessly,
    /// and accepts anything too.
    pub fn with(pairs: u8, commands: &'static [&'static str]) -> Self {
        Self::of_queues(pairs, 1, commands)
    }

    /// Makes devices with `queues` queues in each direction.
    pub fn of_queues(pairs: u8, queues: u8, commands: &'static [&'static str]) -> Self {
        let (end, ended) = channel();
        let (ready, wait) = channel();
        let (moved, go) = channel();
        let thread = thread::spawn(move || {
            #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
            // SAFETY: a separate network namespace affects no memory.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
                .expect("a namespace");
            ready
                .send(rustix::thread::gettid())
                .expect("the other thread");
            let near: Vec<String> = go.recv().expect("the other thread");
            run("ip link set lo up");
            for (pair, own) in near.iter().enumerate() {
                run(&format!("ip addr add 10.0.{pair}.2/24 dev far{pair}"));
                run(&format!("ip link set far{pair} up"));
                known(&format!("10.0.{pair}.1"), own, &format!("far{pair}"));
            }
            let listener = TcpListener::bind(("::", 9)).expect("a port");
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || drain(stream));
                }
            });
            for line in commands {
                run(line);
            }
            let source = TcpListener::bind(("0.0.0.0", 19)).expect("a port");
            thread::spawn(move || {
                for mut stream in source.incoming().flatten() {
                    if let Ok(other) = stream.try_clone() {
                        thread::spawn(move || drain(other));
                    }
                    thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
                }
            });
            let echo = UdpSocket::bind(("0.0.0.0", 7)).expect("a port");
            thread::spawn(move || {
                let mut space = [0; 2_048];
                while let Ok((count, from)) = echo.recv_from(&mut space) {
                    let _ = echo.send_to(&space[..count], from);
                }
            });
            ready
                .send(rustix::thread::gettid())
                .expect("the other thread");
            let _ = ended.recv();
        });
        let id = wait.recv().expect("the namespace").as_raw_nonzero();
        let mut near = Vec::new();
        for pair in 0..pairs {
            let count = format!("numtxqueues {queues} numrxqueues {queues}");
            run(&format!(
                "ip link add wan{pair} {count} type veth peer name far{pair} {count}"
            ));
            // One segment per packet, as on a line.
            run(&format!("ip link set wan{pair} gso_max_segs 1"));
            near.push(address(&format!("wan{pair}")));
            let far = address(&format!("far{pair}"));
            run(&format!("ip link set far{pair} netns {id}"));
            run(&format!("ip addr add 10.0.{pair}.1/24 dev wan{pair}"));
            run(&format!("ip link set wan{pair} up"));
            known(&format!("10.0.{pair}.2"), &far, &format!("wan{pair}"));
        }
        moved.send(near).expect("the namespace");
        wait.recv().expect("the namespace");
        Self {
            pairs,
            end,
            thread: Some(thread),
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        for pair in 0..self.pairs {
            // A test may have removed it itself.
            let _ = Command::new("ip")
                .args(["link", "del", &format!("wan{pair}")])
                .output();
        }
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn drain(mut stream: TcpStream) {
    let mut space = [0; 8_192];
    while stream.read(&mut space).is_ok_and(|count| count > 0) {}
}

/// Sends through a pair until the returned stream's clone is shut down.
pub fn bulk(pair: u8) -> TcpStream {
    let mut stream = TcpStream::connect((format!("10.0.{pair}.2"), 9)).expect("a connection");
    let handle = stream.try_clone().expect("a handle");
    thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
    handle
}

/// Sends endlessly, but at most at this rate in bytes a second: TCP paces its packets on its own,
/// on any device.
#[allow(dead_code, reason = "for the tests of crate cli")]
pub fn bulk_paced(pair: u8, bytes_s: u32) -> TcpStream {
    let mut stream = TcpStream::connect((format!("10.0.{pair}.2"), 9)).expect("a connection");
    option(&stream, libc::SO_MAX_PACING_RATE, bytes_s);
    let handle = stream.try_clone().expect("a handle");
    thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
    handle
}

/// Sets a socket's `skb->priority`, which selects a class.
pub fn classify(socket: &impl AsRawFd, class: u32) {
    option(socket, libc::SO_PRIORITY, class);
}

/// Sets a socket's DSCP and ECN byte.
#[allow(dead_code, reason = "for the tests of crate cli")]
pub fn code(socket: &impl AsRawFd, tos: u32) {
    set(socket, (libc::IPPROTO_IP, libc::IP_TOS), tos);
}

/// Sets a numeric socket option that std lacks.
fn option(socket: &impl AsRawFd, name: i32, value: u32) {
    set(socket, (libc::SOL_SOCKET, name), value);
}

fn set(socket: &impl AsRawFd, (level, name): (i32, i32), value: u32) {
    #[expect(unsafe_code, reason = "std has no such socket option")]
    // SAFETY: the kernel reads four bytes at the pointer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            4,
        )
    };
    assert_eq!(status, 0, "socket option {name}: {value:#x}");
}

/// Sends as [`bulk`] does, in a class.
pub fn bulk_in(pair: u8, class: u32) -> TcpStream {
    let stream = bulk(pair);
    classify(&stream, class);
    stream
}

/// Sends datagrams of a length, as many as the queue takes, until it is dropped.
pub struct Flood(Arc<AtomicBool>);

impl Flood {
    pub fn new(pair: u8, class: u32, bytes: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
        socket
            .connect((format!("10.0.{pair}.2"), 11))
            .expect("an address");
        classify(&socket, class);
        thread::spawn(move || {
            let data = vec![0; bytes];
            while !stopped.load(Ordering::Relaxed) {
                // Ignore errors: a full queue, or a refusal by the far side.
                let _ = socket.send(&data);
            }
        });
        Self(stop)
    }

    /// Sends bursts of 20 datagrams of a length, 100 times a second.
    pub fn paced(pair: u8, bytes: usize) -> Self {
        Self::bursts(pair, 0, bytes, 20)
    }

    /// Sends bursts with an ECN field.
    #[allow(dead_code, reason = "for the tests of crate bpf")]
    pub fn capable(pair: u8, bytes: usize, ecn: u32) -> Self {
        Self::marked(pair, 0, bytes, (20, ecn))
    }

    /// Sends bursts of `count` datagrams in a class, 100 times a second.
    pub fn bursts(pair: u8, class: u32, bytes: usize, count: usize) -> Self {
        Self::marked(pair, class, bytes, (count, 0))
    }

    fn marked(pair: u8, class: u32, bytes: usize, (count, ecn): (usize, u32)) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
        socket
            .connect((format!("10.0.{pair}.2"), 11))
            .expect("an address");
        if ecn != 0 {
            set(&socket, (libc::IPPROTO_IP, libc::IP_TOS), ecn);
        }
        classify(&socket, class);
        thread::spawn(move || {
            let data = vec![0; bytes];
            while !stopped.load(Ordering::Relaxed) {
                for _ in 0..count {
                    let _ = socket.send(&data);
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self(stop)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns round trips of a small datagram in a class, one every `gap`, for those that are answered
/// within a second.
pub fn probe(pair: u8, class: u32, count: usize, gap: Duration) -> Vec<Duration> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket
        .connect((format!("10.0.{pair}.2"), 7))
        .expect("an address");
    classify(&socket, class);
    // A queue may drop one.
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .expect("a socket");
    (0..count)
        .filter_map(|number| {
            thread::sleep(gap);
            let start = Instant::now();
            socket.send(&[number as u8; 56]).expect("a probe");
            let mut answer = [0; 64];
            while socket.recv(&mut answer).is_ok() {
                if answer[0] == number as u8 {
                    return Some(start.elapsed());
                }
            }
            None
        })
        .collect()
}

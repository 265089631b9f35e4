// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two network namespaces of the guest, joined by veth pairs, and TCP between
//! them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// Runs a command line that must succeed.
pub fn run(line: &str) {
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

/// The number of a device of this namespace.
pub fn ifindex(device: &str) -> u32 {
    fs::read_to_string(format!("/sys/class/net/{device}/ifindex"))
        .expect("a device")
        .trim()
        .parse()
        .expect("a number")
}

/// A namespace with a thread in it that counts what arrives.
pub struct Far {
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Far {
    /// Devices `wan0`, `wan1` ... here, each with its other end there; address
    /// 10.0.N.1 here and 10.0.N.2 there, where port 9 takes anything.
    pub fn new(pairs: u8) -> Self {
        let (end, ended) = channel();
        let (ready, wait) = channel();
        let (moved, go) = channel();
        let thread = thread::spawn(move || {
            #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
            // SAFETY: a network namespace of its own affects no memory.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
                .expect("a namespace");
            ready.send(rustix::thread::gettid()).expect("the other thread");
            go.recv().expect("the other thread");
            run("ip link set lo up");
            for pair in 0..pairs {
                run(&format!("ip addr add 10.0.{pair}.2/24 dev far{pair}"));
                run(&format!("ip link set far{pair} up"));
            }
            let listener = TcpListener::bind(("0.0.0.0", 9)).expect("a port");
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || drain(stream));
                }
            });
            ready.send(rustix::thread::gettid()).expect("the other thread");
            let _ = ended.recv();
        });
        let id = wait.recv().expect("the namespace").as_raw_nonzero();
        for pair in 0..pairs {
            run(&format!("ip link add wan{pair} type veth peer name far{pair}"));
            // One segment a packet, as on a line.
            run(&format!("ip link set wan{pair} gso_max_segs 1"));
            run(&format!("ip link set far{pair} netns {id}"));
            run(&format!("ip addr add 10.0.{pair}.1/24 dev wan{pair}"));
            run(&format!("ip link set wan{pair} up"));
        }
        moved.send(()).expect("the namespace");
        wait.recv().expect("the namespace");
        Self { end, thread: Some(thread) }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn drain(mut stream: TcpStream) {
    let mut space = [0; 65_536];
    while stream.read(&mut space).is_ok_and(|count| count > 0) {}
}

/// Sends through a pair until the returned stream's clone is shut down.
pub fn bulk(pair: u8) -> TcpStream {
    let mut stream = TcpStream::connect((format!("10.0.{pair}.2"), 9)).expect("a connection");
    let handle = stream.try_clone().expect("a handle");
    thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
    handle
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as everything that a client sends on a connection to `weirgate watch`.
//!
//! Besides "no panic", this must hold: the connection ends when the client has sent everything,
//! unless it requested the event stream, and each answer is valid HTTP.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Builder;
use weirgate_watch::{Config, EndWeb, Legend, Listen, Sending, Sources, serve, web};

/// The content type of an endless answer.
const LOOKS: &[u8] = b"text/event-stream";

/// The time limit of a connection.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn run(data: &[u8]) {
    static SERVICE: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        begin(folder.path(), &socket);
        (folder, socket)
    });
    let mut stream = UnixStream::connect(&SERVICE.1).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    // Ignore errors: the server may have closed the connection.
    let _ = stream.write_all(data);
    let _ = stream.shutdown(Shutdown::Write);
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    // Events are sent for as long as the client listens.
    while !answer.windows(LOOKS.len()).any(|words| words == LOOKS) {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend(&part[..length]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                panic!("the connection does not end");
            }
            Err(_) => break,
        }
    }
    planted(&answer);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1."),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
}

/// Runs the web process as a thread, so that the fuzzer sees its coverage. It drops only its own
/// privileges.
fn in_a_thread(channel: OwnedFd) -> io::Result<EndWeb> {
    let thread = thread::Builder::new().spawn(move || web(channel))?;
    Ok(Box::new(move || format!("{:?}", thread.join())))
}

/// Starts the service in a thread, which ends with this process.
fn begin(folder: &Path, socket: &Path) {
    let config = Config {
        listen: vec![Listen::Socket(socket.to_owned())],
        behind_proxy: false,
        tls: None,
        access: None,
        users: Vec::new(),
        begin_web: in_a_thread,
        sending: Sending::default(),
        history: folder.join("history"),
        size: 4_000_000,
        every: Duration::from_hours(1),
        probes: Vec::new(),
        sources: Sources::default(),
    };
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let served = serve(
            config,
            Legend::default(),
            || None,
            || (Vec::new(), Vec::new()),
            std::future::pending(),
            move |_| ready.send(()).expect("it is waited for"),
            |_| (),
        );
        runtime
            .expect("a runtime")
            .block_on(served)
            .expect("it serves");
    });
    is_ready.recv().expect("it listens");
}

/// The planted mistake: a request that no seed has.
#[cfg(feature = "planted")]
fn planted(answer: &[u8]) {
    assert!(
        !answer.starts_with(b"HTTP/1.0 405"),
        "the planted mistake: HTTP/1.0 with another method"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: &[u8]) {}

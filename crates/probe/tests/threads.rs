// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers on a machine that permits no further thread. A test of its own, because the limit is
//! that of the whole process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weirgate_probe::{BulkServer, Message, Server, Train};

/// Leaves too little address space for the stack of another thread (2 MiB), as a stand-in for a
/// limit of threads: both are EAGAIN (pthread_create(3)), but root has no limit of threads.
fn no_more_threads() -> Rlimit {
    let before = getrlimit(Resource::As);
    let status = std::fs::read_to_string("/proc/self/status").expect("a file");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.expect("a size").parse().expect("a number");
    let current = (kilobytes << 10) + (1 << 20);
    let limit = Rlimit {
        current: Some(current),
        ..before
    };
    setrlimit(Resource::As, limit).expect("a lower limit");
    std::thread::Builder::new()
        .spawn(|| ())
        .expect_err("no thread is permitted");
    before
}

/// Requests an upload, and returns the first line of the answer with the connection.
fn asked(server: SocketAddr) -> (String, TcpStream) {
    let mut client = TcpStream::connect(server).expect("a connection");
    let patience = Some(Duration::from_mins(1));
    client.set_read_timeout(patience).expect("a timeout");
    // It may be closed already.
    let _ = client.write_all(b"weirgate-load 2 take 0 - - -\n");
    let mut line = String::new();
    match BufReader::new(&client).read_line(&mut line) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        read => drop(read.expect("an answer")),
    }
    (line, client)
}

#[test]
fn servers_survive_a_limit_of_threads() {
    let here = "127.0.0.1:0".parse().expect("an address");
    let bulk = BulkServer::bind(here).expect("a socket");
    let address = bulk.address().expect("an address");
    std::thread::spawn(move || bulk.run());
    let mut trains = Server::bind(here).expect("a socket");
    let client = "127.0.0.1:9".parse().expect("an address");
    let welcome = trains.answer(&Message::Hello { nonce: 1 }, client, 0);
    let Some(Message::Welcome { cookie, .. }) = welcome else {
        panic!("no welcome");
    };
    let train = Train {
        id: 7,
        payload: 100,
        count: 2,
        gap_ns: 1,
    };
    let send = Message::Send { cookie, train };
    // While this connection is open, its thread's stack cannot be used again.
    let first = asked(address);
    assert_eq!(first.0, "yes\n");
    let before = no_more_threads();
    for _ in 0..200 {
        assert_eq!(asked(address).0, "", "the connection is closed");
        let answer = trains.answer(&send, client, 0);
        assert_eq!(answer, Some(Message::Refused { id: 7 }));
    }
    setrlimit(Resource::As, before).expect("the old limit");
    // No slot is lost.
    assert_eq!(asked(address).0, "yes\n");
    assert_eq!(trains.answer(&send, client, 0), None);
    drop(first);
}

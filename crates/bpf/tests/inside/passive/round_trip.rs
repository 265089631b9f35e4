// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Passive round trips of the traffic are those of the path, whatever the backlog on this side: for
//! downloads and uploads, with and without timestamps.

use super::shaped;
use crate::inside::net;
use std::fs;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::thread::{self, sleep};
use std::time::Duration;
use weirgate_bpf::RoundTrips;

const SLOW: u32 = 0x1_0020;

/// Starts a download, which runs until it is shut down.
pub fn download(from: &str) -> TcpStream {
    let mut stream = TcpStream::connect(from).expect("a connection");
    let handle = stream.try_clone().expect("a handle");
    thread::spawn(move || {
        let mut space = [0; 16_384];
        while stream.read(&mut space).is_ok_and(|bytes| bytes > 0) {}
    });
    handle
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn of_the_path_alone() {
    of_the_path(&[(true, "0", 20), (false, "1", 80)]);
}

/// The other kinds.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_other_paths_alone() {
    of_the_path(&[(false, "1", 20), (true, "1", 20)]);
}

/// Runs cases: whether it is an upload, whether it has timestamps, and the delay of the path.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn of_the_path(cases: &[(bool, &str, u128)]) {
    let far = "10.0.0.2".parse::<std::net::IpAddr>().expect("an address");
    for &(up, stamps, delay_ms) in cases {
        let _far = shaped(if delay_ms == 20 { "20ms" } else { "80ms" });
        fs::write("/proc/sys/net/ipv4/tcp_timestamps", stamps).expect("a setting");
        let trips = RoundTrips::open().unwrap_or_else(|error| panic!("{error}"));
        trips.watch(net::ifindex("wan0")).expect("a map");
        // The upload fills its queue here for about a second.
        let flow = if up {
            net::bulk_in(0, SLOW)
        } else {
            download("10.0.0.2:19")
        };
        sleep(Duration::from_secs(3));
        trips.take().expect("a map");
        for _ in 0..5 {
            sleep(Duration::from_millis(500));
            let heard = trips.take().expect("a map");
            assert_eq!(heard.len(), 1, "one end: {heard:?}");
            assert_eq!(heard[0].end, far);
            let least = heard[0].least.as_millis();
            println!(
                "{} with timestamps {stamps} over {delay_ms} ms: {least} ms, of {}",
                if up { "up" } else { "down" },
                heard[0].count
            );
            assert!(heard[0].count > 10);
            assert!((delay_ms..delay_ms + 10).contains(&least), "{least} ms");
        }
        let _ = flow.shutdown(Shutdown::Both);
        // Only the line's device is watched.
        trips.watch(0).expect("a map");
        sleep(Duration::from_millis(200));
        trips.take().expect("a map");
        sleep(Duration::from_millis(200));
        assert_eq!(trips.take().expect("a map"), []);
        drop(trips);
        net::run("ip link del wan0");
    }
    fs::write("/proc/sys/net/ipv4/tcp_timestamps", "1").expect("a setting");
}

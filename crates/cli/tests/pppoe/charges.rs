// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares what the gate on `ppp0` charges for a packet with the frame on the wire below, and with
//! what the emulated line takes for that frame.

use crate::SIZES;
use crate::daemons::{Daemon, PEER};
use crate::inside::{apply, dialled, kernel, passed, upstream};
use crate::line::{Emulated, Modem};
use crate::session::{say, set_up, until};
use crate::wire::{HEADERS, capture};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use weirgate_linklayer::LinkLayer;

/// Headers of IPv4 and UDP.
const UDP: usize = 28;
const MTU: usize = 1_492;
/// Much faster than a packet can be sent and read.
const GIGABIT: u64 = 1_000_000_000;

#[test]
#[ignore = "runs in the guest"]
fn charges() {
    // Of each layer, every size at this step is checked, with another first size for each layer.
    let step: usize = std::env::var(SIZES).unwrap().parse().unwrap();
    set_up("ppp0", 0);
    let (runtime, kernel) = kernel();
    let seen = capture("wire");
    let _server = Daemon::server();
    let _dialler = Daemon::dialler();
    dialled("ppp0", 0);
    // Wait until the kernel has sent its multicast reports for its own address.
    thread::sleep(Duration::from_secs(10));
    // The socket is not connected. On a connected one, the error of the closed port would fail the
    // next send.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let (mut compared, mut different) = (0, Vec::new());
    let all: Vec<LinkLayer> = LinkLayer::all().collect();
    for (number, layer) in all.iter().enumerate() {
        let modem = Modem::of(layer.name());
        let line = Emulated::new(modem, (GIGABIT, GIGABIT), 0, 1 << 20);
        apply(&upstream("ppp0", layer.name(), "100mbit"));
        let (mut bytes, mut packets) = passed(&runtime, &kernel, "ppp0").unwrap();
        // The session's control frames cross the line, too.
        let data = || {
            let mut log = line.log();
            log.retain(|one| !one.control);
            log
        };
        let mut logged = data().len();
        for length in (UDP + number % step..=MTU).step_by(step) {
            seen.lock().unwrap().lengths = Some(Vec::new());
            socket.send_to(&vec![0; length - UDP], (PEER, 9)).unwrap();
            let (now, log) = until("packet", || {
                let now = passed(&runtime, &kernel, "ppp0")?;
                let log = data();
                let frames = seen.lock().unwrap();
                let captured = frames.lengths.as_ref().is_some_and(|all| !all.is_empty());
                (captured && now.1 > packets && log.len() > logged).then_some((now, log))
            });
            let frames = seen.lock().unwrap().lengths.take().unwrap();
            let on_line = &log[logged..];
            assert_eq!((frames.len(), now.1), (1, packets + 1), "{layer}");
            assert_eq!(on_line.len(), 1, "{layer}: {on_line:?}");
            let (frame, on_line) = (frames[0], on_line[0]);
            assert_eq!(frame, HEADERS + length, "the wire carries another packet");
            assert_eq!(on_line.frame, frame, "the line was given another frame");
            let (charged, table) = (now.0 - bytes, layer.wire_bytes(length as u32));
            if (charged, on_line.line) != (u64::from(table), table) {
                different.push(format!(
                    "{layer}: {length} bytes: {charged} charged, {} on the line, {table} by \
                     the table",
                    on_line.line
                ));
            }
            compared += 1;
            (bytes, packets, logged) = (now.0, now.1, log.len());
        }
        let ends = different.len();
        say(&format!(
            "{layer}: {compared} packets so far, {ends} different"
        ));
    }
    assert!(different.is_empty(), "{different:#?}");
}

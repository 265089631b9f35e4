// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acknowledgements that wait upstream, in the guest. The tests check which of them the default
//! filter drops, and that it drops none with information that the later ones lack.

use crate::inside::{apply, outside, rt};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket,
};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;
use weirgate_compile::compile;
use weirgate_kernel::Kernel;
use weirgate_state::Capabilities;

/// Returns the policy of a line on which a full packet takes 190 ms, so all packets sent in that
/// time wait. The acknowledgements of a full downstream would exceed its upstream rate.
fn line(filter: &str) -> String {
    format!(
        r#"
version = 1
[link]
device = "wan0"
up = "64kbit"
down = "4mbit"
inbound = "none"
layer = "ethernet"
{filter}
[ack]
reserve = "20kbit"
direction = "up"
[[class]]
name = "rest"
share = "100%"
default = true
"#
    )
}

const FIN: u16 = 0x01;
const PSH: u16 = 0x08;
const ACK: u16 = 0x10;
const URG: u16 = 0x20;
const ECE: u16 = 0x40;
const CWR: u16 = 0x80;
const AE: u16 = 0x100;

/// A segment without data.
#[derive(Clone)]
struct Segment {
    ack: u32,
    flags: u16,
    window: u16,
    port: u16,
    options: Vec<u8>,
}

impl Segment {
    fn new(ack: u32) -> Self {
        Self {
            ack,
            flags: ACK,
            window: 500,
            port: 40_000,
            options: Vec::new(),
        }
    }

    fn flags(self, more: u16) -> Self {
        let flags = self.flags | more;
        Self { flags, ..self }
    }

    fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }

    /// Adds time stamps: its own, and the one that it echoes.
    fn stamped(mut self, own: u32, echoed: u32) -> Self {
        self.options.extend([1, 1, 8, 10]);
        self.options.extend(own.to_be_bytes());
        self.options.extend(echoed.to_be_bytes());
        self
    }

    /// Adds selective acknowledgements in one block or several.
    fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        let length = u8::try_from(blocks.len() * 8 + 2).unwrap();
        self.options.extend([1, 1, 5, length]);
        for (from, to) in blocks {
            self.options.extend(from.to_be_bytes());
            self.options.extend(to.to_be_bytes());
        }
        self
    }

    /// Builds the IPv4 packet, with the given identification.
    fn packet(&self, number: u16) -> Vec<u8> {
        let length = u16::try_from(40 + self.options.len()).unwrap();
        let mut bytes = vec![0x45, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend([0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(80_u16.to_be_bytes());
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        let words = u16::try_from(5 + self.options.len() / 4).unwrap();
        bytes.extend((words << 12 | self.flags).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.options);
        bytes
    }
}

/// Opens a socket that receives every packet that leaves or arrives.
fn tap() -> OwnedFd {
    let all = u32::from((libc::ETH_P_ALL as u16).to_be());
    let all = Protocol::from_raw(all.try_into().unwrap());
    let tap = socket(AddressFamily::PACKET, SocketType::RAW, Some(all)).unwrap();
    set_socket_timeout(&tap, Timeout::Recv, Some(Duration::from_millis(600))).unwrap();
    tap
}

/// Sends segments while the line is busy. Returns the indices of those that left, in the order in
/// which they left.
fn left(segments: &[Segment]) -> Vec<usize> {
    let tap = tap();
    let sender = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).unwrap();
    let filler = UdpSocket::bind("10.0.0.1:0").unwrap();
    filler.send_to(&[0; 1_400], "10.0.0.2:9").unwrap();
    filler.send_to(&[0; 1_400], "10.0.0.2:9").unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 0);
    for (number, segment) in (1..).zip(segments) {
        sendto(&sender, &segment.packet(number), SendFlags::empty(), &to).unwrap();
    }
    let mut seen = Vec::new();
    let mut space = [0_u8; 2_048];
    while let Ok((count, _)) = recv(&tap, &mut space[..], RecvFlags::empty()) {
        let frame = &space[..count];
        let ours = count >= 54 && frame[12..14] == [8, 0] && frame[23] == 6;
        if ours && frame[26..30] == [10, 0, 0, 1] {
            seen.push(usize::from(u16::from_be_bytes([frame[18], frame[19]])) - 1);
        }
    }
    seen
}

/// Runs a test on a line that an engine shapes.
fn shaped(engine: &str, filter: &str, test: impl FnOnce()) {
    outside();
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        let link = format!("engine = \"{engine}\"\n{filter}");
        let (policy, problems) = weirgate_policy::parse(&line(&link));
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
        let (state, problems) = compile(&policy, &Capabilities::all());
        let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
        apply(&kernel, &state, &state).await;
    });
    test();
}

fn rising() -> Vec<Segment> {
    let stamp = |at: u32| Segment::new(at * 3_000).stamped(at, at);
    (1..=10).map(stamp).collect()
}

fn every(segments: &[Segment]) -> Vec<usize> {
    (0..segments.len()).collect()
}

/// By default, only the newest acknowledgement of a connection waits, plus those with information
/// that it lacks.
fn superfluous(engine: &str) {
    shaped(engine, "", || {
        assert_eq!(left(&rising()), [9]);
        // Each connection keeps its own acknowledgement.
        let other = |segment: &Segment| Segment {
            port: 40_001,
            ..segment.clone()
        };
        let both: Vec<Segment> = rising()
            .iter()
            .flat_map(|one| [one.clone(), other(one)])
            .collect();
        let mut found = left(&both);
        found.sort_unstable();
        assert_eq!(found, [18, 19]);

        let at = Segment::new;
        let kept: [(&str, Vec<Segment>); 9] = [
            ("duplicates", vec![at(9_000); 4]),
            (
                "window updates",
                vec![at(9_000).window(0), at(9_000).window(300), at(9_000)],
            ),
            (
                "blocks that a later one lacks",
                vec![
                    at(9_000).sack(&[(12_000, 15_000)]),
                    at(9_000).sack(&[(18_000, 21_000)]),
                    at(12_000),
                ],
            ),
            (
                "a segment that came twice",
                vec![at(9_000).sack(&[(3_000, 6_000)]), at(12_000), at(12_000)],
            ),
            (
                "ECE and CWR that change",
                vec![
                    at(3_000),
                    at(6_000).flags(ECE),
                    at(9_000),
                    at(12_000).flags(CWR),
                ],
            ),
            (
                "a counter of AccECN that changes",
                vec![
                    at(3_000).flags(AE | ECE),
                    at(6_000).flags(AE | CWR),
                    at(9_000).flags(AE | CWR | ECE),
                    at(12_000),
                ],
            ),
            (
                "other flags",
                vec![at(3_000).flags(PSH), at(6_000).flags(URG), at(9_000)],
            ),
            (
                "a time stamp that is newer than the later one's",
                vec![at(3_000).stamped(20, 7), at(6_000).stamped(19, 7)],
            ),
            (
                "an option that nobody knows, AccECN's",
                (1..=3)
                    .map(|number| Segment {
                        options: vec![174, 5, 0, 0, number, 1, 1, 1],
                        ..at(u32::from(number) * 3_000)
                    })
                    .collect(),
            ),
        ];
        for (what, segments) in kept {
            assert_eq!(left(&segments), every(&segments), "{what}");
        }
        // A FIN is not a pure acknowledgement, and has another class.
        let mut found = left(&[at(3_000).flags(FIN), at(6_000).flags(FIN), at(9_000)]);
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2]);
    });
}

/// The filter of BPF engines drops nothing that a sender counts, even if a later acknowledgement
/// has all of its information.
fn careful(engine: &str) {
    shaped(engine, "", || {
        let at = Segment::new;
        let again = [at(9_000), at(9_000), at(9_000), at(9_000), at(12_000)];
        assert_eq!(left(&again), every(&again), "duplicates before a later one");
        let blocks = [
            at(9_000).sack(&[(12_000, 15_000)]),
            at(9_000).sack(&[(12_000, 18_000)]),
            at(18_000).sack(&[(21_000, 24_000)]),
        ];
        assert_eq!(left(&blocks), every(&blocks), "selective acknowledgements");
        // After them, it drops again.
        let after = [at(21_000), at(24_000), at(27_000), at(27_000), at(30_000)];
        assert_eq!(left(&after), [2, 3, 4], "a duplicate among others");
    });
}

/// The stated filter applies: two acknowledgements wait with `on`, all with `off`.
fn stated(engine: &str) {
    shaped(engine, "ack-filter = \"on\"", || {
        assert_eq!(left(&rising()), [8, 9]);
    });
}

fn off(engine: &str) {
    shaped(engine, "ack-filter = \"off\"", || {
        assert_eq!(left(&rising()), every(&rising()));
    });
}

#[test]
#[ignore = "runs in the guest"]
fn in_the_tree() {
    superfluous("htb");
    stated("htb");
    off("htb");
}

#[test]
#[ignore = "runs in the guest"]
fn in_the_shaper() {
    superfluous("kit");
    careful("kit");
    stated("kit");
    off("kit");
}

#[test]
#[ignore = "runs in the guest"]
fn in_the_engine() {
    superfluous("rows");
    careful("rows");
    stated("rows");
    off("rows");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest: two namespaces, a line between them, and the command at each
//! end. The kernel's own emulator (netem) provides lines of cells and of bytes; the lab provides
//! those of code words.

use super::words::Words;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use weirgate_testing::run;

/// The units in which a line carries packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Cells of 53 bytes, of which 48 are payload (ATM).
    Cells,
    /// One byte more for each 64 bytes or part of them (PTM).
    Words,
    /// Plain bytes (Ethernet).
    Bytes,
}

/// A line to measure.
#[derive(Debug, Clone, Copy)]
pub struct LineUnderTest {
    layer: Layer,
    /// Bytes besides the IP packet.
    pub overhead: i32,
    /// Rates on the wire, up and down.
    pub kbit: [u32; 2],
    /// Packets that the buffers hold.
    pub room: [u32; 2],
}

impl LineUnderTest {
    fn cells(&self) -> bool {
        self.layer == Layer::Cells
    }

    /// Returns the bits per second of the line, up (0) or down (1), of whole cells and code words.
    fn rate(&self, at: usize) -> f64 {
        f64::from(self.kbit[at]) * 1e3
    }
}

/// The two ends, the server at the far one, and a line of code words.
struct Ends {
    server: Child,
    _words: Option<Words>,
}

impl Ends {
    fn of(line: &LineUnderTest) -> Self {
        run("ip netns add near");
        run("ip netns add far");
        let words = (line.layer == Layer::Words).then(|| Words::begin(line));
        if words.is_some() {
            run("ip link set near0 netns near");
            run("ip link set far0 netns far");
        } else {
            run("ip link add near0 netns near type veth peer name far0 netns far");
        }
        for line in [
            "ip -n near addr add 10.0.0.1/24 dev near0",
            "ip -n far addr add 10.0.0.2/24 dev far0",
            "ip -n near link set near0 up",
            "ip -n far link set far0 up",
            "ip netns exec near sysctl -qw net.ipv4.ping_group_range=0\t2147483647",
        ] {
            run(line);
        }
        let mut server = Command::new("ip")
            .args(["netns", "exec", "far", "weirgate", "probe", "--serve"])
            .arg("10.0.0.2:7887")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let messages = server.stderr.as_mut().unwrap();
        BufReader::new(messages).read_line(&mut line).unwrap();
        assert!(line.contains("answers at 10.0.0.2:7887"), "{line}");
        Self {
            server,
            _words: words,
        }
    }

    /// Sets up the line if netem emulates it. `before` has netem's parameters for other effects on
    /// the path.
    fn lay(line: &LineUnderTest, before: &str) {
        if line.layer == Layer::Words {
            for place in ["near", "far"] {
                run(&format!(
                    "tc -n {place} qdisc replace dev {place}0 root netem{before} limit 1000"
                ));
            }
            return;
        }
        let cut = if line.cells() { " 48 5" } else { " 0 0" };
        for (place, rate, room) in [
            ("near", line.rate(0), line.room[0]),
            ("far", line.rate(1), line.room[1]),
        ] {
            // The device counts 14 bytes of Ethernet itself.
            run(&format!(
                "tc -n {place} qdisc replace dev {place}0 root netem{before} rate {rate:.0}bit \
                 {}{cut} limit {room}",
                line.overhead - 14
            ));
        }
    }

    fn measured(line: &LineUnderTest) -> Value {
        if line.layer != Layer::Words {
            Self::lay(line, "");
        }
        let text = run("ip netns exec near weirgate probe --json 10.0.0.2");
        serde_json::from_str(&text).unwrap()
    }

    /// Measures only by echoes of the kernel at the far end.
    fn echoed(line: &LineUnderTest, before: &str) -> Value {
        Self::lay(line, before);
        let text = run("ip netns exec near weirgate probe --json --icmp 10.0.0.2");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        run("ip netns del near");
        run("ip netns del far");
    }
}

/// The number of measured directions, and how many of them had each right result.
#[derive(Debug, Default)]
struct Score {
    cells: usize,
    overheads: usize,
    rates: usize,
    buffers: usize,
    all: usize,
    /// The largest relative errors of the wire rate, of the packet rate and of the buffer.
    worst: [f64; 3],
}

impl Score {
    /// Returns the wire bytes of an IP packet of 1400 bytes.
    fn full(line: &LineUnderTest) -> f64 {
        let frame = f64::from(1400 + line.overhead);
        match line.layer {
            Layer::Cells => (frame / 48.0).ceil() * 53.0,
            Layer::Words => frame + (frame / 64.0).ceil(),
            Layer::Bytes => frame,
        }
    }

    fn add(&mut self, line: &LineUnderTest, at: usize, found: &Value) {
        let mut close = |what: usize, value: &Value, true_one: f64, part: f64| {
            let off = (value.as_f64().unwrap_or(0.0) / true_one - 1.0).abs();
            self.worst[what] = self.worst[what].max(off);
            off <= part
        };
        let rate = line.rate(at);
        let ip_rate = rate * 1400.0 / Self::full(line);
        let rates = close(0, &found["wire_rate_bits"], rate, 0.02);
        let rates = close(1, &found["ip_rate_bits"], ip_rate, 0.02) && rates;
        let held = f64::from(line.room[at]) * 1400.0;
        let buffer = close(2, &found["buffer_bytes"], held, 0.1);
        self.all += 1;
        self.cells += usize::from(found["cells"] == line.cells());
        self.overheads += usize::from(found["overhead_bytes"] == line.overhead);
        self.rates += usize::from(rates);
        self.buffers += usize::from(buffer);
    }
}

fn score(lines: &[LineUnderTest]) -> Score {
    let mut score = Score::default();
    for line in lines {
        let _ends = Ends::of(line);
        let found = Ends::measured(line);
        println!("{line:?}: up {}, down {}", found["up"], found["down"]);
        assert_eq!(found["mtu_bytes"], 1500, "{found}");
        score.add(line, 0, &found["up"]);
        score.add(line, 1, &found["down"]);
    }
    println!("{score:?}");
    score
}

#[test]
#[ignore = "runs in the guest"]
fn two_lines() {
    let lines = [
        LineUnderTest {
            layer: Layer::Cells,
            overhead: 28,
            kbit: [512, 2000],
            room: [40, 60],
        },
        LineUnderTest {
            layer: Layer::Bytes,
            overhead: 22,
            kbit: [10_000, 50_000],
            room: [100, 200],
        },
    ];
    let score = score(&lines);
    assert_eq!(
        [score.cells, score.overheads, score.rates, score.buffers],
        [4; 4],
        "{score:?}"
    );
}

/// Returns forty lines with overheads from 8 to 48: half of them with cells, a quarter with code
/// words, a quarter with bytes.
fn kinds() -> Vec<LineUnderTest> {
    let rates = [
        [128, 1024],
        [512, 2000],
        [768, 8000],
        [2000, 20_000],
        [10_000, 50_000],
    ];
    let line = |number: usize| LineUnderTest {
        layer: [Layer::Cells, Layer::Bytes, Layer::Cells, Layer::Words][number % 4],
        overhead: 8 + number as i32 * 40 / 39,
        kbit: rates[number % rates.len()],
        room: [20 + number as u32, 30 + 2 * number as u32],
    };
    (0..40).map(line).collect()
}

/// Returns the lines of this part of the run.
fn part() -> Vec<LineUnderTest> {
    let stated = std::env::var(super::LINES).unwrap();
    let all = kinds();
    let numbers = stated.split('+').map(|one| one.parse::<usize>().unwrap());
    numbers.map(|number| all[number]).collect()
}

/// Cells and overheads must be right for every line. This exceeds the requirement, which is nine of
/// ten overheads.
#[test]
#[ignore = "runs in the guest, for long"]
fn forty_lines() {
    let score = score(&part());
    let all = score.all;
    assert_eq!((score.cells, score.overheads), (all, all), "{score:?}");
    assert_eq!((score.rates, score.buffers), (all, all), "{score:?}");
}

/// Delays besides the line: none, then delays whose variation is far below the time of a cell, up
/// to far above it.
const VARIED: [&str; 4] = ["", " delay 5ms 50us", " delay 10ms 1ms", " delay 30ms 10ms"];

/// Every report by echoes alone must be right. Without other delays, there must be a report.
#[test]
#[ignore = "runs in the guest, for long"]
fn forty_lines_by_echoes() {
    for line in part() {
        let _ends = Ends::of(&line);
        for before in VARIED {
            let found = Ends::echoed(&line, before);
            println!("{line:?},{before}: cells {}", found["cells"]);
            let right = found["cells"] == line.cells();
            assert!(right || found["cells"].is_null(), "{found}");
            assert!(right || !before.is_empty(), "{found}");
            assert_eq!(found["mtu_bytes"], 1500, "{found}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of the campaign: lines, loads on them, and for each the arms.

use std::fmt::Write as _;

/// A line of the campaign.
#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    pub about: &'static str,
    /// Kilobits a second on the wire; downstream, where the line begins.
    pub up: u64,
    pub down: u64,
    framing: &'static str,
    overhead: u32,
    minimum: u32,
    /// The same for weirgate, for cake and what a full packet of 1448 bytes of
    /// payload has on the wire.
    layer: &'static str,
    cake: &'static str,
    packet: f64,
    /// Bytes of the far end's queue.
    buffer: &'static str,
    /// When the run is looked at, and when it ends; seconds.
    pub from: u64,
    pub until: u64,
}

impl Line {
    /// Kilobits of TCP's payload that the downstream carries in a second of the
    /// time that is looked at, if nothing else is on it.
    pub fn payload(&self) -> f64 {
        let mut changes = self.changes();
        changes.insert(0, (0, self.down));
        let mut sum = 0;
        for (index, (at, rate)) in changes.iter().enumerate() {
            let next = changes.get(index + 1).map_or(self.until, |next| next.0);
            let seconds = next.min(self.until).saturating_sub((*at).max(self.from));
            sum += seconds * rate;
        }
        sum as f64 / (self.until - self.from) as f64 * 1448.0 / self.packet
    }

    /// Other rates of the downstream, and from which second on.
    fn changes(&self) -> Vec<(u64, u64)> {
        match self.name {
            "step" => vec![(10, 2_000), (20, 8_000)],
            // A triangle: 8 to 3 Mbit/s and back in 20 s, a step each second.
            "drift" => (1..=20u64)
                .map(|second| (4 + second, 3_000 + 500 * second.abs_diff(10)))
                .collect(),
            _ => Vec::new(),
        }
    }
}

const ADSL: Line = Line {
    name: "adsl-2000",
    about: "ADSL, 2000/512 kbit/s",
    up: 512,
    down: 2_000,
    framing: "atm",
    overhead: 28,
    minimum: 0,
    layer: "adsl:bridged-vc-fcs",
    cake: "atm overhead 28",
    packet: 1_696.0,
    buffer: "64kB",
    from: 4,
    until: 16,
};

const FASTER: Line = Line {
    name: "adsl-8000",
    about: "ADSL, 8000/768 kbit/s",
    up: 768,
    down: 8_000,
    buffer: "120kB",
    ..ADSL
};

/// The lines.
pub const LINES: [Line; 6] = [
    ADSL,
    FASTER,
    Line {
        name: "step",
        about: "ADSL, 8000/768 kbit/s, with 2000 kbit/s downstream from 10 to 20 s",
        until: 32,
        ..FASTER
    },
    Line {
        name: "drift",
        about: "ADSL, 8000/768 kbit/s, falling to 3000 kbit/s downstream and rising again in 20 s",
        until: 28,
        ..FASTER
    },
    Line {
        name: "vdsl2",
        about: "VDSL2, 50/10 Mbit/s",
        up: 10_000,
        down: 50_000,
        framing: "ptm",
        overhead: 22,
        minimum: 68,
        layer: "vdsl2",
        cake: "ptm overhead 22",
        packet: 1_546.0,
        buffer: "1MB",
        from: 3,
        until: 8,
    },
    Line {
        name: "docsis",
        about: "cable, 100/20 Mbit/s",
        up: 20_000,
        down: 100_000,
        framing: "none",
        overhead: 18,
        minimum: 64,
        layer: "docsis",
        cake: "overhead 18 mpu 64",
        packet: 1_518.0,
        buffer: "2MB",
        from: 3,
        until: 8,
    },
];

/// What is on a line: name, what it is, round trip in milliseconds, downloads,
/// their congestion control, and what is beside them.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    pub about: &'static str,
    round_trip: u64,
    downloads: u64,
    congestion: &'static str,
    beside: &'static [Beside],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Web,
    Upload,
    Voice,
    /// Datagrams at 1.25 times the line's rate, from someone who does not listen.
    Flood,
    /// Datagrams at half the line's rate.
    Stream,
}

const ONE: Load = load("one", "1 download, cubic, 20 ms", 20, 1, "cubic", &[]);
const FOUR: Load = load("four", "4 downloads, cubic, 20 ms", 20, 4, "cubic", &[]);
const FOUR_WEB: Load = load(
    "four-web",
    "4 downloads, cubic, 20 ms, and short flows",
    20,
    4,
    "cubic",
    &[Beside::Web],
);

const fn load(
    name: &'static str,
    about: &'static str,
    round_trip: u64,
    downloads: u64,
    congestion: &'static str,
    beside: &'static [Beside],
) -> Load {
    Load {
        name,
        about,
        round_trip,
        downloads,
        congestion,
        beside,
    }
}

/// Everything that holds a line of a known rate.
const ALL: &[&str] = &[
    "none",
    "ifb",
    "ifb-receive",
    "filter",
    "filter-receive",
    "receive",
    "police",
    "track",
    "cake-85",
    "cake-90",
    "cake-95",
    "cake-97",
    "cake-99",
    "sqm",
];

const FOLLOWING: &[&str] = &[
    "ifb",
    "track",
    "track-receive",
    "track-filter",
    "cake-95",
    "autorate",
];

/// A load and the arms that are run with it.
type With = (Load, &'static [&'static str]);

/// What is run on a line.
#[expect(clippy::too_many_lines, reason = "it is one table")]
pub fn loads(line: &Line) -> Vec<With> {
    use Beside::{Flood, Stream, Upload, Voice, Web};
    match line.name {
        "adsl-2000" => vec![
            (
                load(
                    "both",
                    "1 download and 1 upload, cubic, 20 ms",
                    20,
                    1,
                    "cubic",
                    &[Upload],
                ),
                ALL,
            ),
            (FOUR, ALL),
        ],
        "adsl-8000" => vec![
            (
                load(
                    "sixteen",
                    "16 downloads, cubic, 20 ms, and short flows",
                    20,
                    16,
                    "cubic",
                    &[Web],
                ),
                ALL,
            ),
            (
                ONE,
                &[
                    "none",
                    "ifb",
                    "ifb-receive",
                    "filter",
                    "filter-receive",
                    "receive",
                    "police",
                    "track",
                    "cake-95",
                    "sqm",
                ],
            ),
            (
                load(
                    "voice",
                    "4 downloads and 1 upload, cubic, 20 ms, and a call",
                    20,
                    4,
                    "cubic",
                    &[Upload, Voice],
                ),
                &[
                    "none",
                    "ifb",
                    "ifb-receive",
                    "filter-receive",
                    "cake-95",
                    "sqm",
                ],
            ),
            (
                load(
                    "flood",
                    "1 download, cubic, 20 ms, and datagrams at 1.25 times the line",
                    20,
                    1,
                    "cubic",
                    &[Flood],
                ),
                &[
                    "ifb",
                    "ifb-bucket",
                    "filter",
                    "filter-bucket",
                    "police",
                    "cake-95",
                ],
            ),
            (
                load(
                    "stream",
                    "2 downloads, cubic, 20 ms, and datagrams at half the line, evenly",
                    20,
                    2,
                    "cubic",
                    &[Stream],
                ),
                &["ifb", "filter", "filter-receive", "police", "cake-95"],
            ),
            (
                load("far", "4 downloads, cubic, 200 ms", 200, 4, "cubic", &[]),
                &[
                    "ifb",
                    "ifb-receive",
                    "filter",
                    "filter-receive",
                    "receive",
                    "track",
                    "cake-95",
                ],
            ),
            (
                load("near", "4 downloads, cubic, 10 ms", 10, 4, "cubic", &[]),
                &["ifb", "filter", "filter-receive", "cake-95"],
            ),
            (
                load("bbr", "4 downloads, bbr, 20 ms", 20, 4, "bbr", &[]),
                &[
                    "none",
                    "ifb",
                    "filter",
                    "filter-receive",
                    "police",
                    "cake-95",
                ],
            ),
            (
                load("reno", "4 downloads, reno, 20 ms", 20, 4, "reno", &[]),
                &["ifb", "filter", "filter-receive", "cake-95"],
            ),
            (
                load(
                    "sixty-four",
                    "64 downloads, cubic, 20 ms",
                    20,
                    64,
                    "cubic",
                    &[],
                ),
                &[
                    "ifb",
                    "ifb-receive",
                    "filter",
                    "filter-receive",
                    "receive",
                    "police",
                    "cake-95",
                    "sqm",
                ],
            ),
        ],
        "step" => vec![(FOUR, FOLLOWING), (ONE, FOLLOWING)],
        "drift" => vec![(FOUR, FOLLOWING)],
        "vdsl2" => vec![(
            FOUR_WEB,
            &[
                "none",
                "ifb",
                "ifb-receive",
                "filter",
                "filter-receive",
                "receive",
                "police",
                "track",
                "cake-85",
                "cake-95",
                "sqm",
            ],
        )],
        _ => vec![(
            FOUR_WEB,
            &[
                "none",
                "ifb",
                "filter",
                "filter-receive",
                "police",
                "track",
                "cake-95",
                "sqm",
            ],
        )],
    }
}

/// The experiment of a line and a load, with every arm that is run with it.
pub fn experiment(line: &Line, (load, arms): &With) -> String {
    let mut text = format!(
        "version = 1\nname = \"campaign-{0}-{1}\"\ntitle = \"{2}: {3}\"\nsettle = \"0s\"\n\n\
         [topology]\nkind = \"access-line\"\nhosts = 2\n\n[topology.line]\nframing = \"{4}\"\n\
         overhead = {5}\nmpu = {6}\n",
        line.name, load.name, line.about, load.about, line.framing, line.overhead, line.minimum,
    );
    let half = load.round_trip / 2;
    for (way, rate, buffer) in [("up", line.up, "64kB"), ("down", line.down, line.buffer)] {
        let _ = writeln!(
            text,
            "{way} = {{ rate = \"{rate}kbit\", delay = \"{half}ms\", buffer = \"{buffer}\" }}"
        );
    }
    let changes = line.changes();
    if !changes.is_empty() {
        text.push_str("then = [\n");
        for (at, rate) in changes {
            let _ = writeln!(text, "    {{ at = \"{at}s\", down = \"{rate}kbit\" }},");
        }
        text.push_str("]\n");
    }
    let _ = write!(
        text,
        "\n[[phase]]\nname = \"full\"\nstart = \"{}s\"\nend = \"{}s\"\n\n\
         [[probe]]\nname = \"interactive\"\nfrom = \"host2\"\nto = \"provider\"\n\
         interval = \"50ms\"\n\n\
         [[traffic]]\nname = \"down\"\nkind = \"tcp\"\nfrom = \"server1\"\nto = \"host1\"\n\
         count = {}\nstagger = \"20ms\"\ncongestion = \"{}\"\n",
        line.from, line.until, load.downloads, load.congestion,
    );
    for beside in load.beside {
        text.push_str(&traffic(line, *beside));
    }
    for arm in *arms {
        let _ = write!(text, "\n[[arm]]\nname = \"{arm}\"\n");
        text.push_str(
            &rival(line, arm)
                .unwrap_or_else(|| format!("policy = \"policies/{}-{arm}.toml\"\n", line.name)),
        );
    }
    text
}

fn traffic(line: &Line, beside: Beside) -> String {
    // Datagrams of 1000 bytes: microseconds between two at so many kilobits.
    let gap = |kbit: u64| 8_000_000 / kbit.max(1);
    let datagrams = |name: &str, kbit: u64| {
        format!(
            "\n[[traffic]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"server1\"\nto = \"host2\"\n\
             packet = 1000\ninterval = \"{}us\"\n",
            gap(kbit)
        )
    };
    match beside {
        Beside::Web => {
            "\n[[traffic]]\nname = \"mice\"\nkind = \"short-flows\"\nfrom = \"server1\"\n\
             to = \"host2\"\nmean-gap = \"500ms\"\nmean-length = 5000\nshape = 1.4\n\
             congestion = \"cubic\"\n"
                .to_owned()
        }
        Beside::Upload => "\n[[traffic]]\nname = \"up\"\nkind = \"tcp\"\nfrom = \"host1\"\n\
             to = \"server1\"\ncongestion = \"cubic\"\n"
            .to_owned(),
        Beside::Voice => "\n[[traffic]]\nname = \"call\"\nkind = \"voice\"\nfrom = \"host2\"\n\
             to = \"server1\"\ninterval = \"20ms\"\npacket = 200\ndscp = \"EF\"\n"
            .to_owned(),
        Beside::Flood => datagrams("flood", line.down * 5 / 4),
        Beside::Stream => datagrams("stream", line.down / 2),
    }
}

/// What an arm that is not weirgate's runs; `None` for weirgate's.
fn rival(line: &Line, arm: &str) -> Option<String> {
    let part = |kbit: u64, percent: u64| kbit * percent / 100;
    let commands = |all: &[String]| {
        let mut text = "programs = [\"tc\"]\ncommands = [\n".to_owned();
        for one in all {
            let _ = writeln!(text, "    \"gateway: {one}\",");
        }
        text + "]\n"
    };
    let cake = |percent: u64, more: &str| {
        commands(&[
            format!(
                "tc qdisc add dev wan root cake bandwidth {}kbit {}",
                part(line.up, 98),
                line.cake
            ),
            format!(
                "tc qdisc add dev lan root cake bandwidth {}kbit {more} {}",
                part(line.down, percent),
                line.cake
            ),
        ])
    };
    match arm {
        "none" => Some(String::new()),
        "autorate" => Some(cake(100, "autorate-ingress")),
        // sqm-scripts' simplest.qos as it is unless told otherwise: HTB, one class,
        // fq_codel, no link layer; nine tenths of the line, as it recommends.
        "sqm" => {
            let of = |device: &str, kbit: u64| {
                let rate = part(kbit, 90);
                [
                    format!("tc qdisc add dev {device} root handle 1: htb default 10"),
                    format!(
                        "tc class add dev {device} parent 1: classid 1:10 htb rate {rate}kbit \
                         ceil {rate}kbit"
                    ),
                    format!(
                        "tc qdisc add dev {device} parent 1:10 fq_codel limit 1001 flows 1024 ecn"
                    ),
                ]
            };
            let all = [of("wan", line.up), of("lan", line.down)];
            Some(commands(all.as_flattened()))
        }
        _ => arm
            .strip_prefix("cake-")
            .and_then(|percent| percent.parse().ok())
            .map(|percent| cake(percent, "ingress")),
    }
}

/// Weirgate's arms: how what arrives is held, and what is beside that.
pub const OWN: [&str; 12] = [
    "ifb",
    "ifb-receive",
    "ifb-bucket",
    "filter",
    "filter-receive",
    "filter-bucket",
    "receive",
    "police",
    "track",
    "track-receive",
    "track-filter",
    "none",
];

/// The policy of an arm on a line.
pub fn policy(line: &Line, arm: &str) -> String {
    let (inbound, margin) = match arm {
        "filter" | "filter-bucket" | "track-filter" => ("filter", "2.5%"),
        "filter-receive" => ("filter", "1.5%"),
        "receive" => ("none", "1.5%"),
        "police" => ("police", "3%"),
        _ => ("ifb", "3%"),
    };
    let mut text = format!(
        "version = 1\n\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{}kbit\"\n\
         down = \"{}kbit\"\nmargin-down = \"{margin}\"\ninbound = \"{inbound}\"\n\
         layer = \"{}\"\n",
        line.up, line.down, line.layer
    );
    if arm.starts_with("track") {
        let _ = write!(
            text,
            "\n[track]\nreflectors = [\"198.51.100.1\"]\ndown-floor = \"{}kbit\"\n\
             down-ceiling = \"{}kbit\"\n",
            line.down / 10,
            line.down * 3 / 2
        );
    }
    match arm {
        "filter-receive" | "receive" => text.push_str("\n[receive]\nrate = \"97.5%\"\n"),
        "ifb-receive" | "track-receive" => text.push_str("\n[receive]\nrate = \"96%\"\n"),
        "ifb-bucket" | "filter-bucket" => {
            let _ = write!(
                text,
                "\n[receive.udp]\nrate = \"{}kbit\"\nmode = \"bucket\"\n",
                line.down / 4
            );
        }
        _ => {}
    }
    text.push_str(
        "\n[[class]]\nname = \"interactive\"\nshare = \"30%\"\npriority = 0\n\n\
         [[class]]\nname = \"rest\"\nshare = \"70%\"\npriority = 4\ndefault = true\n\n\
         [[rule]]\nclass = \"interactive\"\nprotocol = [\"icmp\", \"icmpv6\"]\n\n\
         [[rule]]\nclass = \"interactive\"\ndscp = \"EF\"\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_most_150_runs_and_every_name_is_one() {
        let mut names = Vec::new();
        for line in &LINES {
            for (load, arms) in loads(line) {
                for arm in arms {
                    let own = OWN.contains(arm);
                    assert!(own || rival(line, arm).is_some(), "{arm}");
                    names.push(format!("{}-{}-{arm}", line.name, load.name));
                }
            }
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!((100..=150).contains(&all), "{all}");
    }

    #[test]
    fn the_payload_of_a_line_that_steps_is_that_of_its_mean_rate() {
        let step = &LINES[2];
        // 4 to 10 s and 20 to 32 s at 8000, 10 s at 2000.
        let mean = (18.0 * 8_000.0 + 10.0 * 2_000.0) / 28.0;
        assert!((step.payload() - mean * 1_448.0 / 1_696.0).abs() < 0.1);
    }
}

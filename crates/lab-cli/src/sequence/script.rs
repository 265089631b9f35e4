// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts an experiment of the lab to a sequence for real hosts. Whatever cannot be done between
//! this machine and one host is refused with its line.

use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::Failure;
use weirgate_document::{Problems, parse_with_parameters};
use weirgate_experiment::{
    Amount, Experiment, Node, ProbeKind, Random, ShortFlowSchedule, TcpSettings, Traffic,
    TrafficKind,
};
use weirgate_probe::{Direction, Doing, Manner, Ping, Play, Sequence, Short, Stream};
use weirgate_units::{Size, Span};

/// The line numbers of a file's table and of its fields, from 1.
struct TableLines {
    table: u32,
    fields: Vec<(&'static str, u32)>,
}

impl TableLines {
    fn line(&self, field: &str) -> u32 {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map_or(self.table, |(_, line)| *line)
    }
}

/// The fields that may be refused.
const FIELDS: [&str; 4] = ["from", "to", "hosts", "ipv6"];

fn table_lines(text: &str, kind: &'static str) -> Vec<TableLines> {
    let problems = Problems::default();
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u32;
    parse_with_parameters(text, &problems, |mut root| {
        root.table("parameters").map(|mut table| table.keys());
        let tables = root.tables(kind).into_iter();
        let lines = |mut table: weirgate_document::Reader<'_, '_>| {
            let fields = FIELDS.into_iter().filter(|field| table.has(field));
            let fields: Vec<&str> = fields.collect();
            TableLines {
                table: table.line(),
                fields: fields
                    .into_iter()
                    .map(|field| (field, line(table.span_of(field).start)))
                    .collect(),
            }
        };
        tables.map(lines).collect()
    })
}

fn time(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

fn runs(runs: &[(Span, Span)]) -> Vec<(Duration, Duration)> {
    runs.iter()
        .map(|(from, to)| (time(*from), time(*to)))
        .collect()
}

fn inside(node: Node) -> bool {
    matches!(node, Node::Host(_))
}

/// Collects what is refused.
struct Refusals<'a> {
    file: &'a Path,
    lines: Vec<(u32, String)>,
}

impl Refusals<'_> {
    fn add(&mut self, line: u32, text: impl std::fmt::Display) {
        let text = format!("{}:{line}: {text}", self.file.display());
        self.lines.push((line, text));
    }
}

/// Returns the sequence of an experiment's traffic and probes. The failure lists everything that
/// real hosts cannot do, in the order of the file.
pub fn sequence(
    file: &Path,
    text: &str,
    experiment: &Experiment,
    v4: bool,
) -> Result<Sequence, Failure> {
    let mut refused = Refusals {
        file,
        lines: Vec::new(),
    };
    if experiment.is_calculation() {
        refused.add(1, "it is a calculation: nothing is sent");
    }
    let own = table_lines(text, "traffic");
    let unknown = TableLines {
        table: 1,
        fields: Vec::new(),
    };
    let plays = experiment.traffic.iter().enumerate();
    let plays: Vec<Play> = plays
        .filter_map(|(at, one)| {
            let lines = own.get(at).unwrap_or(&unknown);
            play(one, lines, (v4, experiment.seed), &mut refused)
        })
        .collect();
    let own = table_lines(text, "probe");
    let pings = experiment.probes.iter().enumerate();
    let pings: Vec<Ping> = pings
        .map(|(at, probe)| {
            let lines = own.get(at).unwrap_or(&unknown);
            if !inside(probe.from) {
                let text = "probes are sent from here: a probe's `from` has to be a host";
                refused.add(lines.line("from"), text);
            }
            if !matches!(probe.to, Node::Server(_) | Node::Provider) {
                let text = "only the host of --to is asked: a probe's `to` has to be a server or \
                            `provider`";
                refused.add(lines.line("to"), text);
            }
            if probe.per_round_trip.is_some() {
                let text = "here probes leave at their interval: leave `per-round-trip` out";
                refused.add(lines.line("per-round-trip"), text);
            }
            family(probe.ipv6, v4, lines, &mut refused);
            Ping {
                name: probe.name.clone(),
                udp: matches!(probe.kind, ProbeKind::Udp { .. }),
                interval: time(probe.interval),
                size: u32::from(probe.packet),
                dscp: probe.dscp.value(),
                runs: runs(&probe.runs),
            }
        })
        .collect();
    if !refused.lines.is_empty() {
        refused.lines.sort();
        let lines: Vec<String> = refused.lines.into_iter().map(|(_, text)| text).collect();
        return Err(Failure::Input(lines.join("\n")));
    }
    Ok(Sequence {
        plays,
        pings,
        length: time(experiment.duration()),
    })
}

fn family(ipv6: bool, v4: bool, lines: &TableLines, refused: &mut Refusals<'_>) {
    if ipv6 == v4 {
        let (asked, named) = if ipv6 {
            ("IPv6", "IPv4")
        } else {
            ("IPv4", "IPv6")
        };
        let text = format!("this is {asked}, and the address of --to is {named}");
        refused.add(lines.line("ipv6"), text);
    }
}

/// Returns the direction of an entry's data.
fn direction(one: &Traffic, lines: &TableLines, refused: &mut Refusals<'_>) -> Direction {
    match (one.from, one.to) {
        (from, Node::Server(_) | Node::Provider) if inside(from) => Direction::Up,
        (Node::Server(_) | Node::Provider, to) if inside(to) => Direction::Down,
        _ => {
            let text = "it has to go between a host, which is this machine, and a server, which \
                        is the host of --to";
            refused.add(lines.line("from"), text);
            Direction::Down
        }
    }
}

/// Converts one entry; returns `None` if it is refused.
fn play(
    one: &Traffic,
    lines: &TableLines,
    (v4, seed): (bool, u64),
    refused: &mut Refusals<'_>,
) -> Option<Play> {
    let before = refused.lines.len();
    let direction = direction(one, lines, refused);
    if one.hosts > 1 {
        let text = "this one machine cannot be several hosts; leave `hosts` out, or play a part \
                    on each";
        refused.add(lines.line("hosts"), text);
    }
    family(one.ipv6, v4, lines, refused);
    let (doing, tcp) = match &one.kind {
        TrafficKind::Tcp(tcp) => {
            let bytes = tcp.amount.map(|Amount::Bytes(size)| size.as_bytes());
            (Doing::Transfer { direction, bytes }, Some(tcp))
        }
        TrafficKind::Quic(_) => {
            let text = "QUIC is sent in the laboratory only; write `kind = \"tcp\"`";
            refused.add(lines.line("kind"), text);
            (
                Doing::Transfer {
                    direction,
                    bytes: None,
                },
                None,
            )
        }
        TrafficKind::Requests {
            request,
            response,
            think,
            tcp,
        } => {
            if direction == Direction::Up {
                let text = "requests are made here and answered there: `from` has to be the server";
                refused.add(lines.line("from"), text);
            }
            let doing = Doing::Requests {
                request: request.as_bytes(),
                response: response.as_bytes(),
                think: time(*think),
            };
            (doing, Some(tcp))
        }
        TrafficKind::ShortFlows {
            mean_gap,
            mean_length,
            shape,
            drain,
            tcp,
            ..
        } => {
            let members = (0..one.count).map(|member| {
                let random = Random::of_flow(seed, &one.name, member);
                let means = (*mean_gap, *mean_length, *shape, *drain);
                shorts(one, member, random, means, tcp)
            });
            let flows = members.collect();
            (Doing::Short { direction, flows }, Some(tcp))
        }
        TrafficKind::Udp {
            interval,
            packet,
            packets,
        } => (
            datagrams(Some(direction), v4, (*interval, *packet), *packets),
            None,
        ),
        TrafficKind::Voice { interval, packet } => {
            (datagrams(None, v4, (*interval, *packet), None), None)
        }
        TrafficKind::Syns { interval } => {
            if direction == Direction::Down {
                let text = "the serving end opens no connections to here: SYNs have to go from a \
                            host to a server";
                refused.add(lines.line("from"), text);
            }
            (Doing::Syns(time(*interval)), None)
        }
    };
    if refused.lines.len() > before {
        return None;
    }
    let buffer =
        |size: Option<Size>| size.map(|size| u32::try_from(size.as_bytes()).unwrap_or(u32::MAX));
    Some(Play {
        name: one.name.clone(),
        doing,
        manner: Manner {
            dscp: one.dscp.value(),
            congestion: tcp.and_then(|tcp| tcp.congestion.clone()),
            window: buffer(tcp.and_then(|tcp| tcp.window.or(tcp.receive_buffer))),
            send_buffer: buffer(tcp.and_then(|tcp| tcp.send_buffer)),
        },
        runs: runs(&one.runs),
        count: one.count,
        stagger: time(one.stagger),
    })
}

/// Returns datagrams in IP packets of a length that includes headers.
fn datagrams(
    direction: Option<Direction>,
    v4: bool,
    (interval, packet): (Span, u16),
    count: Option<u64>,
) -> Doing {
    let headers = if v4 { 28 } else { 48 };
    let stream = Stream {
        interval: time(interval),
        payload: packet.saturating_sub(headers),
        count,
    };
    Doing::Datagrams { direction, stream }
}

/// Returns the short flows of one member, the same as in the lab with the experiment's seed.
fn shorts(
    one: &Traffic,
    member: u16,
    mut random: Random,
    (mean_gap, mean_length, shape, drain): (Span, Size, f64, Span),
    tcp: &TcpSettings,
) -> Vec<Short> {
    let mut flows = Vec::new();
    let stagger = one.stagger.as_nanos().saturating_mul(u64::from(member));
    for (from, to) in &one.runs {
        let end = to.as_nanos();
        let span = (
            from.as_nanos().saturating_add(stagger),
            end.saturating_sub(drain.as_nanos()),
        );
        let (gap, length) = (mean_gap.as_nanos(), mean_length.as_bytes());
        let mut schedule = ShortFlowSchedule::new(random, span, gap, length, shape);
        let mut left = tcp.amount.map(|Amount::Bytes(size)| size.as_bytes());
        for short in &mut schedule {
            flows.push(Short {
                begin: Duration::from_nanos(short.start_ns),
                end: Duration::from_nanos(end),
                bytes: short.bytes,
            });
            if let Some(left) = &mut left {
                *left = left.saturating_sub(short.bytes);
                if *left == 0 {
                    break;
                }
            }
        }
        random = schedule.into_random();
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = 1\nname = \"x\"\ntitle = \"t\"\nsource = \"s\"\nabout = \"a\"\n\
        [topology]\nkind = \"access-line\"\n[topology.line]\nframing = \"none\"\n\
        up = { rate = \"1mbit\", buffer = \"20kB\" }\ndown = { rate = \"2mbit\", buffer = \"20kB\" }\n\
        [[phase]]\nname = \"p\"\nend = \"10s\"\n[[arm]]\nname = \"as-is\"\n";

    fn read(rest: &str) -> Result<Sequence, String> {
        let text = format!("{HEAD}{rest}");
        let (experiment, problems) = weirgate_experiment::parse(&text);
        let experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
        sequence(Path::new("x.toml"), &text, &experiment, true).map_err(|error| error.text())
    }

    #[test]
    fn downloads_uploads_requests_and_echoes_are_played() {
        let rest = "[[traffic]]\nname = \"down\"\nkind = \"tcp\"\nfrom = \"server1\"\nto = \"host1\"\n\
            congestion = \"reno\"\nwindow = 63712\n[[traffic]]\nname = \"up\"\nkind = \"tcp\"\n\
            from = \"host1\"\nto = \"server1\"\ncount = 3\nbytes = \"1MB\"\n\
            [[probe]]\nname = \"ping\"\nfrom = \"host1\"\nto = \"provider\"\ninterval = \"100ms\"\n";
        let sequence = read(rest).unwrap();
        assert_eq!(sequence.length, Duration::from_secs(10));
        assert_eq!(sequence.plays[0].manner.window, Some(63_712));
        let bytes = Some(1_000_000);
        let direction = Direction::Up;
        assert_eq!(
            sequence.plays[1].doing,
            Doing::Transfer { direction, bytes }
        );
        assert_eq!(sequence.plays[1].count, 3);
        assert_eq!(sequence.pings[0].interval, Duration::from_millis(100));
    }

    #[test]
    fn datagrams_short_flows_and_syns_are_played() {
        let rest = "[[traffic]]\nname = \"a\"\nkind = \"udp\"\nfrom = \"server1\"\nto = \"host1\"\n\
            interval = \"10ms\"\npacket = 200\npackets = 7\n[[traffic]]\nname = \"b\"\n\
            kind = \"voice\"\nfrom = \"host1\"\nto = \"server1\"\ninterval = \"20ms\"\n\
            packet = 200\n[[traffic]]\nname = \"c\"\nkind = \"short-flows\"\nfrom = \"server1\"\n\
            to = \"host1\"\ncount = 2\nmean-gap = \"500ms\"\nmean-length = 5000\nshape = 1.4\n\
            drain = \"4s\"\n[[traffic]]\nname = \"d\"\nkind = \"syns\"\nfrom = \"host1\"\n\
            to = \"server1\"\ninterval = \"25ms\"\n[[probe]]\nname = \"ping\"\nkind = \"udp\"\n\
            from = \"host1\"\nto = \"server1\"\ninterval = \"100ms\"\npacket = 60\nport = 7\n";
        let sequence = read(rest).unwrap();
        let doing = |number: usize| &sequence.plays[number].doing;
        let stream = |ms, count| Stream {
            interval: Duration::from_millis(ms),
            payload: 172,
            count,
        };
        let down = Doing::Datagrams {
            direction: Some(Direction::Down),
            stream: stream(10, Some(7)),
        };
        assert_eq!(doing(0), &down);
        let both = Doing::Datagrams {
            direction: None,
            stream: stream(20, None),
        };
        assert_eq!(doing(1), &both);
        let Doing::Short { direction, flows } = doing(2) else {
            panic!("{:?}", doing(2));
        };
        assert_eq!((*direction, flows.len()), (Direction::Down, 2));
        assert_ne!(flows[0], flows[1]);
        let all = || flows.iter().flatten();
        assert!((6..50).contains(&all().count()), "{flows:?}");
        assert!(all().all(|one| one.begin < Duration::from_secs(6)));
        assert!(all().all(|one| one.end == Duration::from_secs(10)));
        assert_eq!(doing(3), &Doing::Syns(Duration::from_millis(25)));
        assert!(sequence.pings[0].udp);
    }

    #[test]
    fn what_real_hosts_cannot_play_is_named_with_its_line() {
        let rest = "[[traffic]]\nname = \"a\"\nkind = \"syns\"\nfrom = \"server1\"\nto = \"host1\"\n\
            interval = \"10ms\"\n[[traffic]]\nname = \"b\"\nkind = \"tcp\"\n\
            from = \"server1\"\nto = \"host1\"\nipv6 = true\n[[probe]]\nname = \"c\"\n\
            from = \"host1\"\nto = \"server1\"\ninterval = \"9ms\"\nper-round-trip = 4\n";
        let text = read(rest).unwrap_err();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[2].contains(": here probes leave at their interval"),
            "{text}"
        );
        assert!(lines[0].starts_with("x.toml:20: the serving end"), "{text}");
        assert!(lines[1].starts_with("x.toml:28: this is IPv6"), "{text}");
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment of the lab as a sequence for real hosts: what of it can be
//! played from here towards one host, and where it says what cannot.

use crate::exit::Failure;
use std::path::Path;
use std::time::Duration;
use weirgate_document::{Problems, parse_with_parameters};
use weirgate_experiment::{Amount, Experiment, Node, ProbeKind, Traffic, TrafficKind};
use weirgate_probe::{Doing, Manner, Ping, Play, Sequence, Way};
use weirgate_units::Span;

/// Lines of one table of a file.
struct Place {
    table: u32,
    fields: Vec<(&'static str, u32)>,
}

impl Place {
    fn line(&self, field: &str) -> u32 {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map_or(self.table, |(_, line)| *line)
    }
}

/// The fields that something may be wrong with.
const FIELDS: [&str; 6] = ["kind", "from", "to", "hosts", "send-buffer", "ipv6"];

fn places(text: &str, kind: &'static str) -> Vec<Place> {
    let problems = Problems::default();
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u32;
    parse_with_parameters(text, &problems, |mut root| {
        root.table("parameters").map(|mut table| table.keys());
        let tables = root.tables(kind).into_iter();
        let place = |mut table: weirgate_document::Reader<'_, '_>| {
            let fields = FIELDS.into_iter().filter(|field| table.has(field));
            let fields: Vec<&str> = fields.collect();
            Place {
                table: table.line(),
                fields: fields
                    .into_iter()
                    .map(|field| (field, line(table.place(field).start)))
                    .collect(),
            }
        };
        tables.map(place).collect()
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

/// Collects what cannot be done.
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

/// The sequence of an experiment's traffic and probes; the failure names every
/// place that real hosts cannot play, in the order of the file.
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
    let own = places(text, "traffic");
    let nowhere = Place {
        table: 1,
        fields: Vec::new(),
    };
    let plays = experiment.traffic.iter().enumerate();
    let plays: Vec<Play> = plays
        .filter_map(|(at, one)| {
            let place = own.get(at).unwrap_or(&nowhere);
            play(one, place, v4, &mut refused)
        })
        .collect();
    let own = places(text, "probe");
    let pings = experiment.probes.iter().enumerate();
    let pings: Vec<Ping> = pings
        .map(|(at, probe)| {
            let place = own.get(at).unwrap_or(&nowhere);
            if !inside(probe.from) {
                let text = "probes are sent from here: a probe's `from` has to be a host";
                refused.add(place.line("from"), text);
            }
            if !matches!(probe.to, Node::Server(_) | Node::Provider) {
                let text = "only the host of --to is asked: a probe's `to` has to be a server or \
                            `provider`";
                refused.add(place.line("to"), text);
            }
            if let ProbeKind::Udp { .. } = probe.kind {
                let text = "only ICMP echoes are sent to real hosts; write `kind = \"icmp\"`";
                refused.add(place.line("kind"), text);
            }
            family(probe.ipv6, v4, place, &mut refused);
            Ping {
                name: probe.name.clone(),
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

fn family(ipv6: bool, v4: bool, place: &Place, refused: &mut Refusals<'_>) {
    if ipv6 == v4 {
        let (asked, named) = if ipv6 {
            ("IPv6", "IPv4")
        } else {
            ("IPv4", "IPv6")
        };
        let text = format!("this is {asked}, and the address of --to is {named}");
        refused.add(place.line("ipv6"), text);
    }
}

/// One entry; `None` where it is refused.
fn play(one: &Traffic, place: &Place, v4: bool, refused: &mut Refusals<'_>) -> Option<Play> {
    let before = refused.lines.len();
    let way = match (one.from, one.to) {
        (from, Node::Server(_) | Node::Provider) if inside(from) => Some(Way::Up),
        (Node::Server(_) | Node::Provider, to) if inside(to) => Some(Way::Down),
        _ => {
            let text = "it has to go between a host, which is this machine, and a server, which \
                        is the host of --to";
            refused.add(place.line("from"), text);
            None
        }
    };
    if one.hosts > 1 {
        let text = "this one machine cannot be several hosts; leave `hosts` out, or play a part \
                    on each";
        refused.add(place.line("hosts"), text);
    }
    family(one.ipv6, v4, place, refused);
    let kind = place.line("kind");
    let (doing, tcp) = match &one.kind {
        TrafficKind::Tcp(tcp) => {
            let bytes = tcp.amount.map(|Amount::Bytes(size)| size.as_bytes());
            let doing = way.map(|way| Doing::Transfer { way, bytes });
            (doing, Some(tcp))
        }
        TrafficKind::Requests {
            request,
            response,
            think,
            tcp,
        } => {
            if way == Some(Way::Up) {
                let text = "requests are made here and answered there: `from` has to be the server";
                refused.add(place.line("from"), text);
            }
            let doing = Doing::Requests {
                request: request.as_bytes(),
                response: response.as_bytes(),
                think: time(*think),
            };
            (Some(doing), Some(tcp))
        }
        other => {
            let word = match other {
                TrafficKind::Udp { .. } => "udp",
                TrafficKind::ShortFlows { .. } => "short-flows",
                TrafficKind::Syns { .. } => "syns",
                _ => "voice",
            };
            let text = format!(
                "`{word}` needs the lab's clock and agents; real hosts play `tcp` and `requests`"
            );
            refused.add(kind, text);
            (None, None)
        }
    };
    if tcp.is_some_and(|tcp| tcp.send_buffer.is_some()) {
        let text = "a sender's buffer is not set on real hosts; leave `send-buffer` out";
        refused.add(place.line("send-buffer"), text);
    }
    let window = tcp.and_then(|tcp| tcp.window.or(tcp.receive_buffer));
    let window = window.map(|size| u32::try_from(size.as_bytes()).unwrap_or(u32::MAX));
    if refused.lines.len() > before {
        return None;
    }
    Some(Play {
        name: one.name.clone(),
        doing: doing?,
        manner: Manner {
            dscp: one.dscp.value(),
            congestion: tcp.and_then(|tcp| tcp.congestion.clone()),
            window,
        },
        runs: runs(&one.runs),
        count: one.count,
        stagger: time(one.stagger),
    })
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
        let way = Way::Up;
        assert_eq!(sequence.plays[1].doing, Doing::Transfer { way, bytes });
        assert_eq!(sequence.plays[1].count, 3);
        assert_eq!(sequence.pings[0].interval, Duration::from_millis(100));
    }

    #[test]
    fn what_real_hosts_cannot_play_is_named_with_its_line() {
        let rest = "[[traffic]]\nname = \"a\"\nkind = \"udp\"\nfrom = \"server1\"\nto = \"host1\"\n\
            interval = \"10ms\"\npacket = 200\n[[traffic]]\nname = \"b\"\nkind = \"tcp\"\n\
            from = \"server1\"\nto = \"host1\"\nipv6 = true\n";
        let text = read(rest).unwrap_err();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("x.toml:19: `udp` needs"), "{text}");
        assert!(lines[1].starts_with("x.toml:29: this is IPv6"), "{text}");
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate survey`: what passes a device, by protocol, port and size, when,
//! and how full it makes the line.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use weirgate_bpf::{SIZE_STEP, Spread, Survey, SurveyCount, SurveyLink, SurveyService, SurveyWay};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::measurement::RunFolder;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_kernel::Kernel;
use weirgate_linklayer::{Framing, LinkLayer};
use weirgate_state::DeviceName;
use weirgate_units::{ParseError, Rate, Span};

/// Lines of a table.
const MOST: usize = 15;
/// Protocols of IP that have ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// What to look at.
#[derive(clap::Args)]
pub struct Arguments {
    /// The device.
    #[arg(value_parser = device)]
    device: DeviceName,
    /// For how long; Ctrl-C ends it earlier and prints what was seen.
    #[arg(long = "for", value_name = "TIME", default_value = "1min", value_parser = length)]
    time: Duration,
    /// What the line carries, to say how full it was.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// The link's layer by its name in policies, such as `adsl:bridged-llc` or `ethernet`: how full
    /// the line was is then told with what the layer adds to each packet.
    #[arg(long, value_name = "LAYER", value_parser = layer)]
    link: Option<LinkLayer>,
    /// Keep what was asked, every second and the result in a new folder.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn device(text: &str) -> Result<DeviceName, String> {
    DeviceName::try_from(text.to_owned())
}

fn layer(text: &str) -> Result<LinkLayer, String> {
    LinkLayer::named(text).map_err(|error| error.to_string())
}

/// What the layer makes of packets.
fn link(layer: &LinkLayer) -> SurveyLink {
    let (piece, piece_wire, kept) = match layer.framing() {
        Framing::None => (0, 0, true),
        Framing::Atm => (48, 53, false),
        Framing::Ptm => (64, 1, true),
    };
    SurveyLink {
        overhead: layer.overhead(),
        smallest: layer.mpu(),
        piece,
        piece_wire,
        kept,
    }
}

fn length(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    let length = Duration::from_nanos(span.as_nanos());
    if length < Duration::from_secs(1) {
        return Err(String::from("1s at least"));
    }
    Ok(length)
}

/// What was seen.
struct Seen {
    device: String,
    time: Duration,
    rate: Option<Rate>,
    link: Option<LinkLayer>,
    ways: [SurveyWay; 2],
    protocols: BTreeMap<SurveyService, SurveyCount>,
    services: BTreeMap<SurveyService, SurveyCount>,
    /// Every second.
    seconds: Vec<Second>,
}

/// What passed from one look to the next, arriving and leaving.
struct Second {
    bytes: [u64; 2],
    /// The same on the wire.
    wire: [u64; 2],
    time: Duration,
}

/// `weirgate survey`.
pub fn run(arguments: &Arguments) -> Outcome {
    in_runtime(async {
        let device = arguments.device.to_string();
        let devices = Kernel::open()?.overview().await?;
        let number = devices.iter().find(|one| one.name == device);
        let number = number
            .map(|one| one.index)
            .ok_or_else(|| Failure::Input(format!("weirgate: there is no device `{device}`")))?;
        let link = arguments.link.as_ref().map_or(SurveyLink::NONE, link);
        let survey = Survey::open(number, &link).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let hint = "to look at packets takes CAP_BPF, CAP_PERFMON and a kernel with type \
                        information (CONFIG_DEBUG_INFO_BTF)";
            Failure::Input(format!("weirgate: {first}\n  {hint}"))
        })?;
        // Before anything is seen that could not be kept.
        let kept = arguments
            .write
            .as_deref()
            .map(RunFolder::make)
            .transpose()?;
        output::note(&format!(
            "weirgate: looks at {device} for {:.0} s; Ctrl-C ends it",
            arguments.time.as_secs_f64()
        ));
        let seen = look(&survey, arguments, device).await?;
        if let Some(kept) = kept {
            kept.result(&report(&seen), &document(&seen))?;
            kept.file("seconds.csv", &seconds(&seen))?;
            kept.file("gaps.csv", &gaps_csv(&seen.ways))?;
        }
        let text = if arguments.json {
            document(&seen).to_string()
        } else {
            report(&seen)
        };
        output::data(&text)?;
        Ok(Status::Done)
    })
}

/// Every second: bytes that arrived and that left.
fn seconds(seen: &Seen) -> String {
    let head = String::from("second,arrived_bytes,left_bytes\r\n");
    let lines = seen.seconds.iter().enumerate();
    lines.fold(head, |mut text, (second, one)| {
        let [arrived, left] = one.bytes;
        let _ = write!(text, "{second},{arrived},{left}\r\n");
        text
    })
}

/// Times from packet to packet by their steps, as narrow as they were counted:
/// how many of those that arrived, how many of those that left.
fn gaps(ways: &[SurveyWay; 2]) -> BTreeMap<(u64, u64), [u64; 2]> {
    let mut steps: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
    for (way, seen) in ways.iter().enumerate() {
        for (from, to, count) in seen.gaps.histogram() {
            steps.entry((from, to)).or_default()[way] += count;
        }
    }
    steps
}

fn gaps_csv(ways: &[SurveyWay; 2]) -> String {
    let head = String::from("from_ns,to_ns,arrived,left\r\n");
    let steps = gaps(ways).into_iter();
    steps.fold(head, |mut text, ((from, to), [arrived, left])| {
        let _ = write!(text, "{from},{to},{arrived},{left}\r\n");
        text
    })
}

/// The same in steps of two doublings, the widest of which ends at 17 s.
fn wide_gaps(ways: &[SurveyWay; 2]) -> Vec<(String, [u64; 2])> {
    let mut wide: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for ((_, to), counts) in gaps(ways) {
        // The first power of four, in ns, that is not below the step's end.
        let power = (to.max(1) - 1).checked_ilog2().map_or(0, |log| log / 2 + 1);
        let sum = wide.entry(power).or_default();
        sum[0] += counts[0];
        sum[1] += counts[1];
    }
    let named = wide.into_iter().map(|(power, counts)| {
        let end = 1_u64 << (2 * power);
        // Below this there is but one step.
        let name = if end <= 4096 {
            format!("under {}", span(end))
        } else {
            format!("{} to {}", span(end / 4), span(end))
        };
        (name, counts)
    });
    named.collect()
}

async fn look(survey: &Survey, arguments: &Arguments, device: String) -> Result<Seen, Failure> {
    let wrong = |error: weirgate_bpf::BpfError| Failure::Other(error.into());
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let start = Instant::now();
    let mut seconds = Vec::new();
    let mut before = ([0, 0], [0, 0], start);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    let rest = tokio::time::sleep(arguments.time);
    tokio::pin!(rest);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let ways = survey.ways().map_err(wrong)?;
                let bytes = [ways[0].all.bytes, ways[1].all.bytes];
                let wire = [ways[0].wire, ways[1].wire];
                let at = Instant::now();
                let since = |now: [u64; 2], then: [u64; 2]| [now[0] - then[0], now[1] - then[1]];
                seconds.push(Second {
                    bytes: since(bytes, before.0),
                    wire: since(wire, before.1),
                    time: at - before.2,
                });
                before = (bytes, wire, at);
            }
            () = &mut rest => break,
            _ = int.recv() => break,
            _ = term.recv() => break,
        }
    }
    Ok(Seen {
        device,
        time: start.elapsed(),
        rate: arguments.rate,
        link: arguments.link,
        ways: survey.ways().map_err(wrong)?,
        // First what is a part of the others.
        services: survey.services().map_err(wrong)?,
        protocols: survey.protocols().map_err(wrong)?,
        seconds,
    })
}

/// What packets are called by their protocol alone.
fn protocol(service: SurveyService) -> String {
    match (service.ethertype, service.protocol) {
        (0x0800 | 0x86dd, 1 | 58) => String::from("ICMP"),
        (0x0800 | 0x86dd, 6) => String::from("TCP"),
        (0x0800 | 0x86dd, 17) => String::from("UDP"),
        (0x0800 | 0x86dd, 0) => String::from("fragments, other IP"),
        (0x0800 | 0x86dd, other) => format!("IP protocol {other}"),
        (0x0806, _) => String::from("ARP"),
        (0x8863 | 0x8864, _) => String::from("PPPoE"),
        (0x8100 | 0x88a8, _) => String::from("VLAN"),
        (other, _) => format!("ethertype {other:#06x}"),
    }
}

/// Names and what is counted under them, arriving and leaving.
type Rows = Vec<(String, [SurveyCount; 2])>;

/// What is counted under one name, either way, those with most bytes first.
fn grouped(
    services: &BTreeMap<SurveyService, SurveyCount>,
    name: impl Fn(SurveyService) -> Option<String>,
) -> Rows {
    let mut groups: BTreeMap<String, [SurveyCount; 2]> = BTreeMap::new();
    for (service, count) in services {
        let Some(name) = name(*service) else { continue };
        let sum = &mut groups.entry(name).or_default()[usize::from(service.out)];
        sum.packets += count.packets;
        sum.bytes += count.bytes;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, [one, other])| std::cmp::Reverse(one.bytes + other.bytes));
    groups
}

/// By protocol and port, with what was forgotten of too many ports.
fn ports(seen: &Seen) -> Rows {
    let mut rows = grouped(&seen.services, |one| {
        (one.port > 0).then(|| format!("{} {}", protocol(one), one.port))
    });
    let mut rest = seen.protocols.clone();
    for (service, count) in &seen.services {
        let whole = SurveyService {
            port: 0,
            ..*service
        };
        if let Some(rest) = rest.get_mut(&whole) {
            rest.packets = rest.packets.saturating_sub(count.packets);
            rest.bytes = rest.bytes.saturating_sub(count.bytes);
        }
    }
    rest.retain(|one, count| WITH_PORTS.contains(&one.protocol) && count.packets > 0);
    rows.extend(grouped(&rest, |one| {
        Some(format!("{} other ports", protocol(one)))
    }));
    rows.sort_by_key(|(_, [one, other])| std::cmp::Reverse(one.bytes + other.bytes));
    rows
}

fn version(service: SurveyService) -> &'static str {
    match service.ethertype {
        0x0800 => "IPv4",
        0x86dd => "IPv6",
        _ => "not IP",
    }
}

/// The greatest of some rates; 0 without any.
fn peak(rates: impl Iterator<Item = u64>) -> f64 {
    rates.max().unwrap_or_default() as f64
}

impl Second {
    /// Bits by the second: a look may come late.
    fn rate(&self, bytes: [u64; 2], way: usize) -> u64 {
        (bytes[way] as f64 * 8.0 / self.time.as_secs_f64().max(1e-3)) as u64
    }
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 {
        0.0
    } else {
        of as f64 * 100.0 / all as f64
    }
}

/// How full the line was with so many bits by the second of packets, and on the wire.
fn full(seen: &Seen, [packets, wire]: [f64; 2]) -> String {
    let part = |bits: f64, rate: Rate| bits * 100.0 / rate.as_bits_per_second() as f64;
    match (seen.rate, &seen.link) {
        (Some(rate), None) => format!(
            ", {:.0} % of the line without its link layer",
            part(packets, rate)
        ),
        (Some(rate), Some(_)) => {
            format!(
                ", {} on the wire: {:.0} % of the line",
                bits(wire),
                part(wire, rate)
            )
        }
        (None, Some(_)) => format!(", {} on the wire", bits(wire)),
        (None, None) => String::new(),
    }
}

fn report(seen: &Seen) -> String {
    let mut text = format!(
        "{} for {:.0} s, in bytes of IP and of what else links carry\n",
        seen.device,
        seen.time.as_secs_f64()
    );
    for (way, name) in ["arrives", "leaves"].into_iter().enumerate() {
        let all = &seen.ways[way];
        let mean = |bytes: u64| bytes as f64 * 8.0 / seen.time.as_secs_f64();
        let seconds = || seen.seconds.iter();
        let peaks = [
            peak(seconds().map(|one| one.rate(one.bytes, way))),
            peak(seconds().map(|one| one.rate(one.wire, way))),
        ];
        let _ = writeln!(
            text,
            "{name}: {} packets, {}{}; the fullest second {}{}",
            all.all.packets,
            bits(mean(all.all.bytes)),
            full(seen, [mean(all.all.bytes), mean(all.wire)]),
            bits(peaks[0]),
            full(seen, peaks),
        );
        if let Some(gap) = all.gaps.mean_ns() {
            let at = |part| all.gaps.at_most_ns(part).unwrap_or_default();
            let _ = writeln!(
                text,
                "  from packet to packet: {} in the mean, half within {}, 95 % within {}",
                span(gap),
                span(at(500)),
                span(at(950))
            );
        }
    }
    let total = seen.ways[0].all.bytes + seen.ways[1].all.bytes;
    let tables: [(&str, Rows); 4] = [
        (
            "version",
            grouped(&seen.protocols, |one| Some(version(one).to_owned())),
        ),
        (
            "protocol",
            grouped(&seen.protocols, |one| Some(protocol(one))),
        ),
        ("port", ports(seen)),
        ("size", sizes(&seen.ways)),
    ];
    for (title, rows) in tables.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        let _ = writeln!(
            text,
            "\n{title:<22} {:>7} {:>11} {:>13} {:>11} {:>11}",
            "bytes", "arrives", "bytes", "leaves", "bytes"
        );
        for (name, [arrives, leaves]) in rows.iter().take(MOST) {
            let _ = writeln!(
                text,
                "{name:<22} {:>5.1} % {:>11} {:>13} {:>11} {:>11}",
                part(arrives.bytes + leaves.bytes, total),
                arrives.packets,
                arrives.bytes,
                leaves.packets,
                leaves.bytes
            );
        }
        if rows.len() > MOST {
            let _ = writeln!(text, "and {} more, in --json", rows.len() - MOST);
        }
    }
    text += &wide_text(&seen.ways);
    text.truncate(text.trim_end().len());
    text
}

/// The rows of long times between packets; nothing where there were none.
fn wide_text(ways: &[SurveyWay; 2]) -> String {
    let mut text = String::new();
    let wide = wide_gaps(ways);
    if !wide.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<22} {:>7} {:>11} {:>13} {:>11}",
            "packet to packet", "", "arrives", "", "leaves"
        );
    }
    for (name, [arrives, leaves]) in wide {
        let _ = writeln!(
            text,
            "{name:<22} {:>7} {arrives:>11} {:>13} {leaves:>11}",
            "", ""
        );
    }
    text
}

/// By size, those that there were.
fn sizes(ways: &[SurveyWay; 2]) -> Rows {
    let [arrives, leaves] = ways;
    let steps = arrives.sizes.iter().zip(&leaves.sizes).enumerate();
    let rows = steps.map(|(step, (one, other))| {
        let from = step as u32 * SIZE_STEP;
        let name = if step + 1 == arrives.sizes.len() {
            format!("{from} and more")
        } else {
            format!("{from} to {}", from + SIZE_STEP - 1)
        };
        (name, [*one, *other])
    });
    rows.filter(|(_, [one, other])| one.packets + other.packets > 0)
        .collect()
}

fn bits(rate: f64) -> String {
    match rate {
        ..1e4 => format!("{rate:.0} bit/s"),
        1e4..1e7 => format!("{:.0} kbit/s", rate / 1e3),
        _ => format!("{:.1} Mbit/s", rate / 1e6),
    }
}

fn span(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

fn counted(count: SurveyCount) -> Value {
    json!({ "packets": count.packets, "bytes": count.bytes })
}

fn document(seen: &Seen) -> Value {
    let table = |rows: Rows| -> Vec<Value> {
        let row = |(name, [arrives, leaves]): (String, [SurveyCount; 2])| json!({ "name": name, "arrives": counted(arrives), "leaves": counted(leaves) });
        rows.into_iter().map(row).collect()
    };
    let gaps = |gaps: &Spread| {
        let at = |part| gaps.at_most_ns(part);
        let step = |(from, to, count)| json!({ "from_ns": from, "to_ns": to, "count": count });
        let histogram: Vec<Value> = gaps.histogram().map(step).collect();
        json!({
            "mean_ns": gaps.mean_ns(),
            "half_ns": at(500),
            "p95_ns": at(950),
            "p99_ns": at(990),
            "histogram": histogram,
        })
    };
    let way = |way: usize| {
        let seconds = seen.seconds.iter();
        let rates: Vec<u64> = seconds.map(|one| one.rate(one.bytes, way)).collect();
        let mut found = json!({
            "all": counted(seen.ways[way].all),
            "gaps": gaps(&seen.ways[way].gaps),
            "bits_of_each_second": rates,
        });
        if seen.link.is_some() {
            let seconds = seen.seconds.iter();
            let rates: Vec<u64> = seconds.map(|one| one.rate(one.wire, way)).collect();
            found["wire_bytes"] = json!(seen.ways[way].wire);
            found["wire_bits_of_each_second"] = json!(rates);
        }
        found
    };
    json!({
        "device": seen.device,
        "seconds": seen.time.as_secs_f64(),
        "rate_bits": seen.rate.map(Rate::as_bits_per_second),
        "link": seen.link.as_ref().map(LinkLayer::name),
        "arrives": way(0),
        "leaves": way(1),
        "versions": table(grouped(&seen.protocols, |one| Some(version(one).to_owned()))),
        "protocols": table(grouped(&seen.protocols, |one| Some(protocol(one)))),
        "ports": table(ports(seen)),
        "sizes": table(sizes(&seen.ways)),
    })
}

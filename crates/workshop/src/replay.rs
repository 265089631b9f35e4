// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm replay`: runs a discipline on this machine with a recording as input.

use std::fmt::Write as _;
use std::path::Path;
use weirgate_aqm::{
    About, Chance, Discipline, EventKind, FlowInput, Link, Mirror, MirrorError, Packet, Queue,
    Recording, Settings, Taken, reasons,
};
use weirgate_console::discipline::{LinkArguments, discipline, known, set};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;

/// The largest recording that is read, in bytes: about 30 million events. The whole recording is
/// kept in memory.
const LARGEST: u64 = 2 << 30;

/// How often a discipline that holds packets is asked in vain. Then it counts as one that never
/// sends them.
const MOST_TRIES: u32 = 2_000;

/// Implements `weirgate aqm replay`.
pub fn run(
    name: &str,
    path: &Path,
    words: &[String],
    options: &LinkArguments,
    seed: u64,
) -> Outcome {
    let one = discipline(name)?;
    let at = |error: String| wrong(format!("{}: {error}", path.display()));
    let about = std::fs::metadata(path).map_err(|error| at(error.to_string()))?;
    if !about.is_file() || about.len() > LARGEST {
        return Err(at(format!(
            "no recording: a file of at most {} MiB",
            LARGEST >> 20
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| at(error.to_string()))?;
    let recording = Recording::read(&bytes).map_err(|error| at(error.to_string()))?;
    let same = recording.about.verdicts && recording.about.discipline == one.name();
    if same && words.is_empty() && options.rate.is_none() && options.layer.is_none() {
        return compare(one, &recording);
    }
    readable(one.name(), one.flow_input(), &recording.about)?;
    let begun = begun(one, &recording);
    let mut settings = begun.as_ref().filter(|_| same).map_or_else(
        || Settings::new(one),
        // Parameters that are not set again stay unchanged.
        Queue::settings,
    );
    set(&mut settings, words)?;
    let mut link = begun.as_ref().map(Queue::link).unwrap_or_default();
    link.room_packets = 0;
    let mut gate = link.rate_bytes_s;
    options.apply(&mut link, &mut gate)?;
    if gate == 0 {
        return Err(wrong(
            "say with --rate how fast packets leave: the recording does not have it",
        ));
    }
    link.rate_bytes_s = gate;
    let backlog = begun.map(|queue| queue.waiting()).unwrap_or_default();
    output::data(&simulate(&settings, link, &recording, (backlog, seed)))?;
    Ok(Status::Done)
}

/// Checks that the flows of a recording are what a discipline reads: hashes or code points. A
/// capture has hashes. A recording of an unknown discipline is taken to have them too.
pub fn readable(name: &str, input: FlowInput, about: &About) -> Result<(), Failure> {
    let recorded = &about.discipline;
    if recorded == name || input == FlowInput::Nothing {
        return Ok(());
    }
    let every = Discipline::every();
    let found = every.into_iter().find(|one| one.name() == recorded);
    let found = found.or_else(|| known(recorded));
    let codes = found.is_some_and(|found| found.flow_input() == FlowInput::Code);
    match input {
        FlowInput::Code if !codes => Err(wrong(format!(
            "{name} decides by DS code points, and the recording has hashes of flows; record a \
             discipline that decides by code points"
        ))),
        FlowInput::Hash if codes => Err(wrong(format!(
            "{name} decides by flows, and the recording of {recorded} has DS code points instead"
        ))),
        _ => Ok(()),
    }
}

/// Returns the queue at the beginning of the recording. Returns `None` if it is unknown, as for a
/// capture, or if this program lacks the discipline.
fn begun(one: Discipline, recording: &Recording<'_>) -> Option<Queue<()>> {
    let name = &recording.about.discipline;
    let recorded = if name == one.name() {
        one
    } else {
        Discipline::named(name)?
    };
    let mut mirror = Mirror::new(recorded);
    for bytes in &recording.records {
        if mirror.take(bytes).ok()? == Taken::Began {
            return mirror.into_queue();
        }
    }
    None
}

/// Compares the verdicts one by one.
fn compare(one: Discipline, recording: &Recording<'_>) -> Outcome {
    let mut mirror = Mirror::new(one);
    let (mut packets, mut events, mut states) = (0_u64, 0_u64, 0_u64);
    for bytes in &recording.records {
        match mirror.take(bytes) {
            Ok(Taken::Event(record)) => {
                events += 1;
                packets += u64::from(record.kind() == Some(EventKind::Arrive));
            }
            Ok(Taken::Compared) => states += 1,
            Ok(_) => {}
            Err(error @ MirrorError::Malformed { .. }) => return Err(wrong(error)),
            Err(error) => {
                output::data(&format!("differs: {error}"))?;
                return Ok(Status::Differs);
            }
        }
    }
    let about = &recording.about;
    output::data(&format!(
        "{packets} packets, {events} events of {} on {} (kernel {}): the same verdict for every \
         one, and the same state at {states} later times",
        about.discipline, about.device, about.kernel
    ))?;
    Ok(Status::Done)
}

/// Simulates the queue: packets arrive as recorded, behind the initial backlog, and leave one after
/// the other at the link's rate. Returns the result as text.
fn simulate(
    settings: &Settings,
    mut link: Link,
    recording: &Recording<'_>,
    (backlog, seed): (Vec<Packet>, u64),
) -> String {
    let arrivals = recording.arrivals();
    if link.mtu_bytes == 0 {
        link.mtu_bytes = arrivals.iter().map(|one| one.len).max().unwrap_or(1_514);
    }
    let mut queue = Queue::new(settings, &link);
    queue.seed(seed);
    let mut chance = Chance(seed);
    let mut free_ns = 0;
    let mut last_ns = 0;
    let mut waits = Vec::new();
    let mut send_until = |queue: &mut Queue<()>, now: u64, free: &mut u64| {
        let mut held = 0;
        while *free <= now && held < MOST_TRIES {
            // The discipline also learns that the queue is empty.
            let Some((_, packet, ())) = queue.depart(*free).sent else {
                if queue.packets() == 0 {
                    break;
                }
                // It holds packets. Ask again after 1 ms, as a host does; after a second, less
                // often.
                let wait = 1_000_000_u64 << u32::saturating_sub(held, 1_000).min(20);
                *free = (*free + wait).min(now + 1);
                held += 1;
                continue;
            };
            held = 0;
            waits.push(*free - packet.arrived_ns);
            *free += u64::from(packet.wire) * 1_000_000_000 / link.rate_bytes_s;
        }
    };
    for packet in &backlog {
        let wire = link.wire_bytes(packet.len);
        queue.arrive(&Packet { wire, ..*packet }, chance.word(), ());
    }
    free_ns = free_ns.max(arrivals.first().map_or(0, |first| first.now_ns));
    for arrival in &arrivals {
        // Timestamps of a capture may decrease; a queue's must not.
        last_ns = arrival.now_ns.max(last_ns);
        send_until(&mut queue, last_ns, &mut free_ns);
        free_ns = free_ns.max(last_ns);
        let packet = Packet {
            arrived_ns: last_ns,
            wire: link.wire_bytes(arrival.len),
            ..arrival.packet()
        };
        let random = match arrival.random {
            0 => chance.word(),
            random => random,
        };
        queue.arrive(&packet, random, ());
    }
    send_until(&mut queue, u64::MAX / 2, &mut free_ns);
    waits.sort_unstable();
    summary(settings, &queue, &waits)
}

fn summary(settings: &Settings, queue: &Queue<()>, waits: &[u64]) -> String {
    let mut text = format!("{}\n", settings.discipline().name());
    for row in Discipline::counters() {
        let value = row.format(queue.count(row.name).unwrap_or_default());
        let _ = writeln!(text, "  {:<22}{value:<22}{}", row.name, row.help);
    }
    for row in settings.discipline().stats() {
        let value = row.format(queue.stat(row.name).unwrap_or_default());
        let _ = writeln!(text, "  {:<22}{value:<22}{}", row.name, row.help);
    }
    for row in reasons() {
        let found = [
            ("drops", queue.drops(row.name)),
            ("marks", queue.marks(row.name)),
        ];
        for (what, count) in found {
            if let Some(count) = count.filter(|count| *count > 0) {
                let _ = writeln!(
                    text,
                    "  {:<22}{count:<22}{}",
                    format!("{what} {}", row.name),
                    row.help
                );
            }
        }
    }
    for (name, share) in [("p50", 50), ("p99", 99), ("p100", 100)] {
        let at = (waits.len() * share).div_ceil(100).saturating_sub(1);
        if let Some(wait) = waits.get(at) {
            let name = format!("wait {name}");
            let _ = writeln!(text, "  {name:<22}{:.3} ms", *wait as f64 / 1e6);
        }
    }
    text
}

/// Converts a failure to read a file.
pub fn unreadable(path: &Path, error: &impl std::fmt::Display) -> Failure {
    wrong(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_aqm::{Record, Writer};

    fn one(name: &str) -> Discipline {
        let every = Discipline::every();
        let found = every.into_iter().find(|one| one.name() == name);
        found.expect("a discipline")
    }

    /// Returns the file of a recording: three packets at one time, with this as their flow.
    fn file(discipline: &str, flow: u32) -> Vec<u8> {
        let mut writer = Writer::default();
        let mut bytes = writer.begin(&About {
            discipline: discipline.to_owned(),
            ..About::default()
        });
        for number in 0..3 {
            let packet = Packet {
                arrived_ns: 1_000_000_000,
                len: 1_500,
                wire: 1_500,
                flow,
                ecn: 0,
            };
            let record = Record::of_packet(&packet, 0, number);
            bytes.extend(writer.record(&record.to_bytes()));
        }
        bytes.extend(writer.end());
        bytes
    }

    fn at(rate: &str, layer: Option<&str>) -> LinkArguments {
        LinkArguments {
            rate: Some(rate.parse().expect("a rate")),
            layer: layer.map(str::to_owned),
            device_kind: "ethernet".to_owned(),
        }
    }

    /// Replays a file; returns what is wrong.
    fn refusal(name: &str, bytes: &[u8], options: &LinkArguments) -> Option<String> {
        let place = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(place.path(), bytes).expect("a file");
        match run(name, place.path(), &[], options, 1) {
            Ok(_) => None,
            Err(Failure::Input(message)) => Some(message),
            Err(other) => panic!("another failure: {other:?}"),
        }
    }

    #[test]
    fn hashes_are_no_code_points() {
        let options = at("2mbit", None);
        let refused = |name, of, flow| refusal(name, &file(of, flow), &options);
        let text = refused("wred", "", 0x1234_5678).expect("a capture has hashes");
        assert!(text.contains("wred decides by DS code points"), "{text}");
        assert!(refused("wred", "fq_codel", 0x1234_5678).is_some());
        assert_eq!(refused("wred", "drt", 46), None);
        let text = refused("fq_codel", "ef", 46).expect("code points");
        assert!(text.contains("the recording of ef has DS code"), "{text}");
        // It reads neither.
        assert_eq!(refused("codel", "ef", 46), None);
        assert_eq!(refused("fq_codel", "", 7), None);
    }

    #[test]
    fn held_packets_leave_later() {
        let mut settings = Settings::new(one("ef"));
        settings.set("early", 1).expect("a parameter");
        let bytes = file("ef", 46);
        let recording = Recording::read(&bytes).expect("a recording");
        let slow = Link {
            rate_bytes_s: 250_000,
            mtu_bytes: 1_514,
            ..Link::default()
        };
        let text = simulate(&settings, slow, &recording, (Vec::new(), 1));
        let value = |name: &str| {
            let line = text.lines().find(|line| line.contains(name));
            line.and_then(|line| line.split_whitespace().nth(1))
        };
        assert_eq!(value("sent_packets"), Some("3"), "{text}");
        // The third is due after two at a fifth of the rate: 60 ms.
        let line = text.lines().find(|line| line.contains("wait p100"));
        let wait = line.and_then(|line| line.split_whitespace().nth(2)?.parse::<f64>().ok());
        let wait = wait.expect("a wait");
        assert!((60.0..61.0).contains(&wait), "{text}");
    }

    #[test]
    fn another_link_layer_is_another_link() {
        let mut options = at("2mbit", Some("nonsense"));
        options.rate = None;
        let mut writer = Writer::default();
        let mut bytes = writer.begin(&About {
            discipline: "red".to_owned(),
            verdicts: true,
            ..About::default()
        });
        bytes.extend(writer.end());
        let text = refusal("red", &bytes, &options).expect("no such layer");
        assert!(text.contains("nonsense"), "{text}");
    }
}

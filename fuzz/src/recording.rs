// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as the file of a recording, and as records in one. What is written is read
//! again, a change is detected, and no state in a file makes a discipline access memory out of
//! bounds. The same bytes are also checked as the file of a user's discipline, before it is loaded.

use std::sync::LazyLock;
use weirgate_aqm::{
    About, Discipline, EventKind, Link, Mirror, Record, Recording, Settings, Writer, check_seal,
    seal,
};

/// The length of an event in the input: its kind, then the fields of a record.
const EVENT: usize = 16;

/// The length of a state change in the input: the offset, and the value.
const CHANGE: usize = 4;

pub fn run(data: &[u8]) {
    // The seal at the end of a user's discipline file.
    let _ = check_seal(data);
    let sealed = [data, &seal(data, data.len() as u64)].concat();
    assert_eq!(check_seal(&sealed), Ok(data.len() as u64));
    if let Ok(recording) = Recording::read(data) {
        let _ = recording.arrivals();
        replay(&recording);
    }
    static ALL: LazyLock<Vec<Discipline>> = LazyLock::new(Discipline::all);
    let Some((&[chosen, changes], rest)) = data.split_first_chunk() else {
        return;
    };
    let discipline = ALL[usize::from(chosen) % ALL.len()];
    let changes = usize::from(changes % 32) * CHANGE;
    let (changes, events) = rest.split_at(changes.min(rest.len()));
    let records = records(discipline, changes, events);
    follow(discipline, records.iter().map(Vec::as_slice));
    // Leave out the state, which is large and irrelevant for the file's format.
    let records = &records[2..];
    let file = file(discipline, records);
    let recording = Recording::read(&file).expect("what was written is read");
    assert_eq!(recording.records, records);
    assert!(recording.about.verdicts && recording.about.discipline == discipline.name());
    let cut = usize::from(chosen) * usize::from(data[1]) % file.len();
    assert!(Recording::read(&file[..cut]).is_err(), "cut off at {cut}");
    let mut changed = file.clone();
    changed[cut] ^= 1;
    assert!(
        Recording::read(&changed).ok().as_ref() != Some(&recording),
        "changed at {cut}"
    );
}

/// Replays a recording.
fn replay(recording: &Recording<'_>) {
    if let Some(discipline) = Discipline::named(&recording.about.discipline) {
        follow(discipline, recording.records.iter().copied());
    }
}

/// Replays records as `weirgate aqm replay` does, but continues after the first difference of a
/// verdict.
fn follow<'r>(discipline: Discipline, records: impl Iterator<Item = &'r [u8]>) {
    let mut mirror = Mirror::new(discipline);
    for bytes in records {
        let _ = mirror.take(bytes);
    }
    let _ = mirror.vars();
    if let Some(queue) = mirror.queue() {
        let _ = queue.packets();
    }
}

fn file(discipline: Discipline, records: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::default();
    let mut file = writer.begin(&About {
        discipline: discipline.name().to_owned(),
        verdicts: true,
        ..About::default()
    });
    for record in records {
        file.extend(writer.record(record));
    }
    file.extend(writer.end());
    file
}

/// Returns a state with default parameters and some changes, followed by events.
fn records(discipline: Discipline, changes: &[u8], events: &[u8]) -> Vec<Vec<u8>> {
    let layout = discipline.layout();
    let mut state = vec![0; layout.size];
    for (place, value) in layout
        .params
        .clone()
        .step_by(8)
        .zip(Settings::new(discipline).values())
    {
        state[place..place + 8].copy_from_slice(&value.to_ne_bytes());
    }
    // The link's rate is its first number, and the room its last one.
    state[layout.link.start..layout.link.start + 8].copy_from_slice(&125_000_u64.to_ne_bytes());
    let room = layout.link.start + size_of::<Link>() - 4;
    state[room..room + 4].copy_from_slice(&64_u32.to_ne_bytes());
    for change in changes.chunks_exact(CHANGE) {
        let at = usize::from(u16::from_ne_bytes([change[0], change[1]])) * 4 % layout.size;
        // Small numbers and huge ones.
        let value = i32::from(i16::from_ne_bytes([change[2], change[3]]));
        let end = (at + 4).min(layout.size);
        state[at..end].copy_from_slice(&value.to_ne_bytes()[..end - at]);
    }
    let begin = Record {
        event: EventKind::State as u32 + 1,
        len: layout.size as u32,
        ..Record::default()
    };
    let mut records = vec![begin.to_bytes().to_vec(), state];
    let mut now_ns = 0_u64;
    for (event, sequence) in events.chunks_exact(EVENT).zip(1_u32..) {
        let small = |at: usize| u32::from(u16::from_ne_bytes([event[at], event[at + 1]]));
        now_ns = now_ns.saturating_add(u64::from(small(2)) << (event[4] % 48));
        let record = Record {
            now_ns,
            // No state records, which would need further parts.
            event: 2 + u32::from(event[0]) % 4,
            sequence,
            slot: u32::from(event[1]),
            len: small(6),
            wire: small(8),
            flow: small(10) << 16 | small(10),
            ecn: u32::from(event[5]) % 4,
            random: small(12) << 16,
            action: u32::from(event[14]) % 5,
            reason: u32::from(event[15]) % 9,
            ..Record::default()
        };
        planted(&record);
        records.push(record.to_bytes().to_vec());
    }
    records
}

/// The planted mistake: a wire length that no seed has.
#[cfg(feature = "planted")]
fn planted(record: &Record) {
    assert!(record.wire != 53_717, "the planted mistake: 53717 bytes");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Record) {}

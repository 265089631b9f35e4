// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of entries that are kept, damaged or deleted.

use super::*;
use crate::links::AppliedLinks;
use weirgate_state::{Device, DeviceName, Origin};

fn history(folder: &std::path::Path) -> History {
    History {
        folder: folder.join("state"),
    }
}

fn lock(history: &History) -> Lock {
    let folders = Folders {
        run: history.folder.clone(),
        state: history.folder.clone(),
        boot: String::new(),
    };
    folders.lock().unwrap()
}

fn add(history: &History, head: &Head) -> Entry {
    let (entry, none) = (entry(), RawValue::from_string("[]".to_owned()).unwrap());
    let added = history.add(&lock(history), entry, head, &none).unwrap();
    assert_eq!(history.entry(added.number).unwrap(), added);
    assert!(history.is(added.number, &added.sources, &added.desired, &none));
    added
}

fn entry() -> Entry {
    Entry {
        number: 0,
        time: 1,
        version: "0".to_owned(),
        from: None,
        sources: Vec::new(),
        desired: State::default(),
        former: State::default(),
        links: None,
    }
}

fn shaped() -> Entry {
    let mut shaped = entry();
    shaped.desired.devices.insert(
        DeviceName::new("wan").unwrap(),
        Device {
            owned_ifb: false,
            offloads: None,
            root: None,
            origin: Origin::default(),
        },
    );
    shaped
}

#[test]
fn the_oldest_go_but_not_the_confirmed_one() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let mut head = history.head().unwrap();
    for expected in 1..=30 {
        let added = add(&history, &head);
        assert_eq!(added.number, expected);
        if expected == 3 {
            head.settle(3, Outcome::Confirmed);
        }
    }
    let numbers = history.numbers().unwrap();
    assert_eq!(numbers.len(), MOST_ENTRIES);
    assert_eq!((numbers[0], numbers[1]), (3, 12));
    assert_eq!(history.before(30, &head).unwrap(), Some(3));
    assert_eq!(history.entry(3).unwrap().number, 3);
}

#[test]
fn before_a_removal_is_what_was_in_force_then() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let mut head = Head::default();
    assert_eq!(history.earlier(&head).unwrap(), None);
    let (shaped, none) = (shaped(), RawValue::from_string("[]".to_owned()).unwrap());
    history
        .add(&lock(&history), shaped.clone(), &head, &none)
        .unwrap();
    head.settle(1, Outcome::Confirmed);
    assert_eq!(history.earlier(&head).unwrap(), None);
    // Earlier versions wrote no entry for a removal.
    head.confirmed = None;
    assert_eq!(history.earlier(&head).unwrap(), Some(1));
    add(&history, &head);
    head.settle(2, Outcome::Confirmed);
    head.confirmed = None;
    assert_eq!(history.earlier(&head).unwrap(), Some(1));
    history.add(&lock(&history), shaped, &head, &none).unwrap();
    head.settle(3, Outcome::Confirmed);
    assert_eq!(history.earlier(&head).unwrap(), Some(2));
    assert!(history.entry(2).unwrap().is_removal());
}

#[test]
fn a_head_that_knows_of_no_newer_change_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let lock = lock(&history);
    let (mut older, mut newer) = (Head::default(), Head::default());
    older.begin(1, "");
    newer.begin(2, "");
    history.set_head(&lock, &older).unwrap();
    history.set_head(&lock, &newer).unwrap();
    older.settle(1, Outcome::Returned);
    let error = history.set_head(&lock, &older).unwrap_err();
    assert!(matches!(error, KeepError::Fenced(2)), "{error}");
    assert_eq!(history.head().unwrap(), newer);
}

#[test]
fn whatever_bit_of_the_head_is_damaged_its_copy_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let lock = lock(&history);
    let mut head = Head::default();
    head.begin(1, "a boot");
    head.settle(1, Outcome::Confirmed);
    head.begin(2, "a boot");
    history.set_head(&lock, &head).unwrap();
    let path = history.folder.join(HEAD);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(history.head().unwrap(), head, "{at} {bit}");
        }
    }
    fs::write(&path, &whole[..7]).unwrap();
    history.mend_head(&lock).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    let aside = history.folder.join("head.damaged");
    assert_eq!(fs::read(aside).unwrap(), &whole[..7]);
    assert!(!history.damages().unwrap()[0].is_grave());
    // The newer change is also detected if only the copy is whole.
    fs::write(&path, "").unwrap();
    let error = history.set_head(&lock, &Head::default()).unwrap_err();
    assert!(matches!(error, KeepError::Fenced(2)), "{error}");
}

#[test]
fn the_newest_sound_confirmed_entry_serves_in_place_of_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let (mut head, shaped) = (Head::default(), shaped());
    let none = RawValue::from_string("[]".to_owned()).unwrap();
    for number in 1..=6 {
        let lock = lock(&history);
        history.add(&lock, shaped.clone(), &head, &none).unwrap();
        match number {
            3 => head.settle(3, Outcome::Returned),
            5 => head.settle(5, Outcome::Failed(String::new())),
            _ => head.settle(number, Outcome::Confirmed),
        }
    }
    let serves = |head: &Head| history.fallback(head).map(|entry| entry.number);
    assert_eq!(serves(&head), Some(4));
    fs::write(history.entry_file(4), "weirgate 1").unwrap();
    assert_eq!(serves(&head), Some(2));
    let entry = history.fallback(&head).unwrap();
    let another = history.go_on_with(&lock(&history), &mut head, &entry);
    assert!(another.unwrap());
    assert_eq!(history.head().unwrap().confirmed, Some(2));
    assert!(history.damages().unwrap()[0].is_grave());
    fs::remove_file(history.entry_file(1)).unwrap();
    assert_eq!(serves(&head), None);
}

#[test]
fn a_number_is_never_given_twice() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let mut head = Head::default();
    add(&history, &head);
    head.begin(2, "");
    // Also if the head is lost, and if the newest entry is lost.
    assert_eq!(add(&history, &head).number, 3);
    assert_eq!(add(&history, &Head::default()).number, 4);
}

#[test]
fn links_of_a_damaged_entry_are_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    let mut head = Head::default();
    let mut linked = entry();
    linked.links = Some(Source {
        path: "links.toml".to_owned(),
        text: "version = 1".to_owned(),
    });
    let none = RawValue::from_string("[]".to_owned()).unwrap();
    let lock = lock(&history);
    let added = history.add(&lock, linked, &head, &none).unwrap();
    head.settle(added.number, Outcome::Confirmed);
    history.set_head(&lock, &head).unwrap();
    let folders = Folders {
        run: history.folder.clone(),
        state: history.folder.clone(),
        boot: String::new(),
    };
    let applied = AppliedLinks::read(&folders).unwrap();
    assert!(applied.file == added.links && applied.lost.is_none());
    fs::write(history.entry_file(added.number), "weirgate 1").unwrap();
    let applied = AppliedLinks::read(&folders).unwrap();
    assert_eq!(applied.file, None);
    let lost = applied.lost.unwrap().to_string();
    assert!(lost.contains(HINT), "{lost}");
}

#[test]
fn a_damaged_entry_is_named_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path());
    for _ in 0..2 {
        add(&history, &Head::default());
    }
    let path = history.entry_file(1);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = history.entry(1).unwrap_err().to_string();
    assert!(error.contains("000001.state is damaged"), "{error}");
    assert_eq!(history.entry(2).unwrap().number, 2);
    // A temporary file that a crash left is not an entry.
    fs::write(folder.path().join("state/000003.state.new"), b"x").unwrap();
    assert_eq!(history.numbers().unwrap(), [1, 2]);
}

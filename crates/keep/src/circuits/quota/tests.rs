// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of what circuits have used of their quotas.

use super::*;
use std::path::Path;

/// Returns a circuit with a quota of 1,000 bytes.
fn metered(id: &str) -> Metered {
    Metered {
        id: id.to_owned(),
        row: 7,
        quota: 1_000,
    }
}

/// Counts, and writes the file.
fn counted(
    used: &mut Used,
    circuits: &[Metered],
    month: Month,
    engine: (&str, u32),
    sent: impl Fn(&Metered) -> Option<u64>,
) -> bool {
    let changed = used.count(circuits, month, engine, sent);
    used.is_written();
    changed
}

/// Returns folders below this one, with that of lists.
fn folders(folder: &Path) -> Folders {
    crate::store::folder::folder(&folder.join("circuits")).unwrap();
    Folders {
        run: folder.to_owned(),
        state: folder.to_owned(),
        boot: "a".to_owned(),
    }
}

/// The list has no quotas at first, so the file is read at a later look.
#[test]
fn what_was_stored_counts_where_quotas_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let folders = folders(folder.path());
    let device = DeviceName::new("access0").unwrap();
    let look = |meter: &mut Meter, sent| {
        let changed = meter.count(&folders, &device, ("a", 1), |_| Some(sent));
        meter.write(&folders, &device, changed.unwrap()).unwrap();
        Used::known(&folders, &device).bytes("1", clock::unix())
    };
    let mut before = Meter {
        circuits: vec![metered("1")],
        ..Meter::default()
    };
    assert_eq!(look(&mut before, 0), 0);
    assert_eq!(look(&mut before, 900), 0);
    before.written = 0;
    assert_eq!(look(&mut before, 900), 900);
    // What it sends without a quota does not count.
    let mut meter = Meter::default();
    assert_eq!(look(&mut meter, 920), 900);
    meter.circuits = vec![metered("1")];
    assert_eq!(look(&mut meter, 950), 900);
    meter.written = 0;
    assert_eq!(look(&mut meter, 960), 910);
    // A damaged file is not replaced.
    let path = path(&folders, &device);
    std::fs::write(&path, "no").unwrap();
    let mut meter = before;
    meter.used = None;
    for _ in 0..2 {
        let sent = meter.count(&folders, &device, ("a", 1), |_| Some(0));
        assert!(sent.is_err_and(|error| error.is_loss()));
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "no");
}

#[test]
fn counters_that_begin_again_are_added_up() {
    let (circuits, mut used) = ([metered("1")], Used::default());
    let november = Month(682);
    let mut count = |month, of, sent| {
        let changed = counted(&mut used, &circuits, month, of, |_| sent);
        (changed, used.bytes("1", month.end() - 1))
    };
    assert_eq!(count(november, ("a", 1), Some(0)), (false, 0));
    assert_eq!(count(november, ("a", 1), Some(400)), (false, 400));
    assert_eq!(count(november, ("a", 1), Some(900)), (false, 900));
    // A row that now belongs to another circuit counts nothing.
    assert_eq!(count(november, ("a", 1), None), (false, 900));
    // The circuit was removed and added again, so its counter began again.
    assert_eq!(count(november, ("a", 1), Some(50)), (false, 950));
    // Another engine of this boot, whose counter is beyond the former one.
    assert_eq!(count(november, ("a", 2), Some(60)), (true, 1_010));
    assert_eq!(count(november, ("a", 2), Some(70)), (false, 1_020));
    assert_eq!(count(november, ("b", 2), Some(80)), (false, 1_100));
    // At the first look of a month, everything since the last look counts for it.
    let december = Month(november.0 + 1);
    assert_eq!(count(december, ("b", 2), Some(90)), (true, 10));
    assert_eq!(used.bytes("1", december.end()), 0);
}

/// After a reboot, the clock is in an earlier month until the network sets it.
#[test]
fn a_clock_that_is_behind_erases_no_usage() {
    let (one, november) = ([metered("1")], Month(682));
    let mut used = Used::default();
    assert!(!counted(&mut used, &one, november, ("a", 1), |_| Some(0)));
    assert!(counted(&mut used, &one, november, ("a", 1), |_| Some(
        1_200
    )));
    let (wrong, right) = (Month(600), november);
    assert_eq!(used.bytes("1", wrong.end() - 1), 1_200);
    assert!(!counted(&mut used, &one, wrong, ("b", 1), |_| Some(30)));
    assert_eq!(used.bytes("1", wrong.end() - 1), 1_230);
    assert!(!counted(&mut used, &one, right, ("b", 1), |_| Some(50)));
    assert_eq!(used.bytes("1", right.end() - 1), 1_250);
    let december = Month(683);
    assert!(counted(&mut used, &one, december, ("b", 1), |_| Some(60)));
    assert_eq!(used.bytes("1", december.end() - 1), 10);
}

#[test]
fn a_circuit_that_was_absent_at_the_turn_of_the_month_begins_it_with_nothing() {
    let all = [metered("1"), metered("2")];
    let (november, december) = (Month(682), Month(683));
    let mut used = Used::default();
    let engine = ("a", 1);
    assert!(!counted(&mut used, &all, november, engine, |_| Some(0)));
    assert!(counted(&mut used, &all, november, engine, |_| Some(2_000)));
    // In November both stay, even if one is absent for a while.
    counted(&mut used, &all[..1], november, engine, |_| Some(2_000));
    assert_eq!(used.bytes("2", november.end() - 1), 2_000);
    assert!(counted(&mut used, &all[..1], december, engine, |_| Some(
        2_005
    )));
    assert_eq!(used.circuits.len(), 1);
    // It is added again, with a counter that begins again.
    assert!(!counted(&mut used, &all, december, engine, |_| Some(5)));
    assert!(!counted(&mut used, &all, december, engine, |_| Some(12)));
    assert_eq!(used.bytes("2", december.end() - 1), 7);
}

/// Its plan gets a quota when the engine has counted it for long.
#[test]
fn what_was_sent_without_a_quota_does_not_count() {
    let (all, november) = ([metered("1"), metered("2")], Month(682));
    let mut used = Used::default();
    let look = |used: &mut Used, circuits: &[Metered], second| {
        let sent = |one: &Metered| Some(if one.id == "2" { second } else { 10 });
        let changed = counted(used, circuits, november, ("a", 1), sent);
        (changed, used.bytes("2", november.end() - 1))
    };
    assert_eq!(look(&mut used, &all[..1], 0), (false, 0));
    assert_eq!(look(&mut used, &all, 5_000_000), (false, 0));
    assert_eq!(look(&mut used, &all, 5_000_007), (false, 7));
    // A new engine has counted nothing before.
    let mut used = Used::default();
    counted(&mut used, &all[..1], november, ("a", 1), |_| Some(10));
    counted(&mut used, &all, november, ("a", 2), |_| Some(20));
    assert_eq!(used.bytes("2", november.end() - 1), 20);
}

/// Nothing is known before the first look: the first quotas, or the file was removed.
#[test]
fn the_first_look_of_all_counts_nothing() {
    let (one, november) = ([metered("1")], Month(682));
    let mut used = Used::default();
    let mut look = |sent| {
        let changed = counted(&mut used, &one, november, ("a", 1), |_| Some(sent));
        (changed, used.bytes("1", november.end() - 1))
    };
    assert_eq!(look(5_000_000), (false, 0));
    assert_eq!(look(5_000_007), (false, 7));
}

/// It is on another plan for a while, and its row counts on.
#[test]
fn what_was_sent_between_two_quotas_does_not_count() {
    let (all, november) = ([metered("1"), metered("2")], Month(682));
    let mut used = Used::default();
    let look = |used: &mut Used, circuits: &[Metered], month, second| {
        let sent = |one: &Metered| Some(if one.id == "2" { second } else { 10 });
        let changed = counted(used, circuits, month, ("a", 1), sent);
        (changed, used.bytes("2", month.end() - 1))
    };
    assert_eq!(look(&mut used, &all, november, 0), (false, 0));
    assert_eq!(look(&mut used, &all, november, 10), (false, 10));
    assert_eq!(look(&mut used, &all[..1], november, 3_000_000), (false, 10));
    assert_eq!(look(&mut used, &all, november, 5_000_010), (false, 10));
    assert_eq!(look(&mut used, &all, november, 5_000_013), (false, 13));
    // For a while, no circuit has a quota; then it is another month.
    assert_eq!(look(&mut used, &[], november, 6_000_000), (false, 13));
    let december = Month(683);
    assert_eq!(look(&mut used, &[], december, 7_000_000), (false, 0));
    assert_eq!(look(&mut used, &all, december, 8_000_000), (false, 0));
    assert_eq!(look(&mut used, &all, december, 8_000_005), (false, 5));
}

/// The service ends while no circuit has a quota.
#[test]
fn the_file_says_that_no_circuit_has_a_quota() {
    let folder = tempfile::tempdir().unwrap();
    let folders = folders(folder.path());
    let device = DeviceName::new("access0").unwrap();
    let look = |meter: &mut Meter, sent| {
        let changed = meter.count(&folders, &device, ("a", 1), |_| Some(sent));
        meter.written = 0;
        meter.write(&folders, &device, changed.unwrap()).unwrap();
        Used::known(&folders, &device).bytes("1", clock::unix())
    };
    let metered = || Meter {
        circuits: vec![metered("1")],
        ..Meter::default()
    };
    let mut meter = metered();
    assert_eq!(look(&mut meter, 0), 0);
    assert_eq!(look(&mut meter, 10), 10);
    meter.circuits.clear();
    assert_eq!(look(&mut meter, 3_000_000), 10);
    // It is written once, so a file that somebody removes stays away.
    let path = path(&folders, &device);
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    look(&mut meter, 4_000_000);
    assert!(!path.exists());
    std::fs::write(&path, file).unwrap();
    let mut meter = metered();
    assert_eq!(look(&mut meter, 5_000_010), 10);
    assert_eq!(look(&mut meter, 5_000_013), 13);
}

/// A file of an earlier version has a number for each counter.
#[test]
fn a_counter_of_an_earlier_version_is_read() {
    let had: Had = serde_json::from_str(r#"{"bytes":7,"counter":9}"#).unwrap();
    assert_eq!((had.bytes, had.counter), (7, Some(9)));
}

/// The counter of a circuit cannot be read at the first look of a month.
#[test]
fn a_counter_is_not_counted_twice() {
    let (one, november) = ([metered("1")], Month(682));
    let mut used = Used::default();
    counted(&mut used, &one, november, ("a", 1), |_| Some(0));
    counted(&mut used, &one, november, ("a", 1), |_| Some(2_000));
    let december = Month(683);
    assert!(counted(&mut used, &one, december, ("a", 1), |_| None));
    assert!(!counted(&mut used, &one, december, ("a", 1), |_| Some(
        2_010
    )));
    assert_eq!(used.bytes("1", december.end() - 1), 10);
}

/// A device that is created again gets another engine, with rows in the order of the list.
#[test]
fn another_engine_has_its_own_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folders = folders(folder.path());
    let file = ListFile::of(&folders, &DeviceName::new("access0").unwrap());
    file.write("a list").unwrap().publish().unwrap();
    let mut meter = Meter::default();
    let mut follow = |engine, row| {
        let own = Metered {
            row,
            ..metered("1")
        };
        meter.follow(&file, engine, || Ok(vec![own])).unwrap();
        meter.circuits[0].row
    };
    assert_eq!(follow(1, 7), 7);
    assert_eq!(follow(1, 8), 7);
    assert_eq!(follow(2, 8), 8);
    file.write("another list").unwrap().publish().unwrap();
    assert_eq!(follow(2, 9), 9);
}

/// A command brings a list with a smaller quota into force, with the bytes of the file.
#[test]
fn a_quota_that_a_command_did_not_see_used_up_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let folders = folders(folder.path());
    let device = DeviceName::new("access0").unwrap();
    let mut meter = Meter {
        circuits: vec![metered("1")],
        ..Meter::default()
    };
    let look = |meter: &mut Meter, sent| {
        let changed = meter.count(&folders, &device, ("a", 1), |_| Some(sent));
        let changed = changed.unwrap();
        meter.write(&folders, &device, changed).unwrap();
        changed
    };
    assert!(!look(&mut meter, 0));
    meter.written = 0;
    assert!(!look(&mut meter, 850));
    assert!(!look(&mut meter, 950));
    let known = |folders| Used::known(folders, &device).bytes("1", clock::unix());
    assert_eq!(known(&folders), 850);
    meter.circuits[0].quota = 900;
    assert!(look(&mut meter, 960));
    assert_eq!(known(&folders), 960);
    assert!(!look(&mut meter, 970));
}

/// The file cannot be written at first.
#[test]
fn a_quota_that_is_used_up_is_said_until_the_file_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let folders = folders(folder.path());
    let device = DeviceName::new("access0").unwrap();
    let mut meter = Meter {
        circuits: vec![metered("1")],
        ..Meter::default()
    };
    let mut count = |sent| {
        let changed = meter.count(&folders, &device, ("a", 1), |_| Some(sent));
        let changed = changed.unwrap();
        (changed, meter.write(&folders, &device, changed).is_ok())
    };
    assert_eq!(count(0), (false, true));
    assert_eq!(count(900), (false, true));
    let (lists, aside) = (folder.path().join("circuits"), folder.path().join("aside"));
    std::fs::rename(&lists, &aside).unwrap();
    for sent in [1_000, 1_010] {
        assert_eq!(count(sent), (true, false));
    }
    std::fs::rename(&aside, &lists).unwrap();
    assert_eq!(count(1_020), (true, true));
    assert_eq!(count(1_030), (false, true));
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of an earlier version can be read: version 0.1.0 of 23 November 2026 wrote `tests/kept`,
//! which never changes. They contain policies of `tests/cli`: one that polices arriving packets,
//! one with rule sets and stored decisions, one with host names, one only for the upstream, and one
//! that was not confirmed.

use weirgate_keep::{Folders, History, Memory, Outcome};
use weirgate_state::{Content, DeviceName, QdiscKind, State};

fn folders() -> Folders {
    let folder = weirgate_testing::root().join("tests/kept");
    Folders {
        run: folder.clone(),
        state: folder,
        boot: String::new(),
    }
}

fn rules(state: &State) -> usize {
    let chains = state.tables.iter().flat_map(|table| &table.chains);
    chains.map(|chain| chain.rules.len()).sum()
}

#[test]
fn the_history_of_an_earlier_version_is_read_whole() {
    let history = History::of(&folders());
    let head = history.head().unwrap();
    assert_eq!((head.confirmed, head.pending), (Some(4), None));
    assert_eq!(head.outcomes.get(&5), Some(&Outcome::Returned));
    let expected = [
        (1, "arriving.toml", 5),
        (2, "flows.toml", 29),
        (3, "names.toml", 7),
        (4, "upstream.toml", 6),
        (5, "both.toml", 16),
    ];
    assert_eq!(history.numbers().unwrap(), expected.map(|one| one.0));
    let wan = DeviceName::new("wan").unwrap();
    for (number, file, count) in expected {
        let entry = history.entry(number).unwrap();
        assert_eq!((entry.number, entry.version.as_str()), (number, "0.1.0"));
        let main = entry.sources.first().unwrap();
        assert_eq!(main.path, format!("/etc/weirgate/{file}"));
        assert_eq!(rules(&entry.desired), count, "{file}");
        for table in &entry.desired.tables {
            assert!(table.faults().is_empty(), "{file}");
        }
        let root = entry.desired.devices[&wan].root.as_ref().unwrap();
        let QdiscKind::Htb(gate) = &root.kind else {
            panic!("{file}: {:?}", root.kind);
        };
        assert!(gate.classes[0].leaf.is_some(), "{file}: no scheduler");
        assert!(entry.former.devices.contains_key(&wan), "{file}");
    }
}

#[test]
fn what_is_stored_reads_as_before() {
    let history = History::of(&folders());
    let arriving = history.entry(1).unwrap().desired.hooks;
    assert!(
        arriving
            .values()
            .any(|folders| folders.virtual_queue.is_some())
    );
    assert!(arriving.values().any(|folders| folders.windows.is_some()));
    let named = history.entry(3).unwrap().desired;
    let mut sets = named.tables.iter().flat_map(|table| table.sets.iter());
    assert!(sets.any(|set| matches!(set.content, Content::Refreshed(_))));
}

#[test]
fn the_memory_of_an_earlier_version_is_read() {
    let memory = Memory::read(&folders()).unwrap().unwrap();
    let confirmed = History::of(&folders()).entry(4).unwrap();
    assert_eq!(memory.applied, confirmed.desired);
    assert_eq!(memory.former.devices, confirmed.former.devices);
}

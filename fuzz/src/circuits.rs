// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as files of one list, separated by lines of `----`. Each problem must have a
//! valid line, and a list without mistakes must have rows that meet the engine's requirements.
//! Files after the first are also the list of a router that serves a part: it has what is below its
//! site. A key must be printed as a text that parses to the same key. Each line is also parsed as a
//! request at the socket, and its circuit must be stored unchanged.

use std::collections::{BTreeMap, BTreeSet};
use weirgate_circuits::kept::{Kept, Port, Ports, Sent, compared, gone, put};
use weirgate_circuits::rows::{RowLayout, both, rows, table};
use weirgate_circuits::{
    Direction, File, KeyKind, List, Listed, Request, Share, read, read_several,
};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for kind in KeyKind::ALL {
        for key in kind.read_all(text).unwrap_or_default() {
            assert_eq!(kind.read_all(&key.to_string()), Ok(vec![key]));
        }
    }
    text.lines().for_each(request);
    let files: Vec<File<'_>> = text
        .split("\n----\n")
        .map(|text| File { name: "a", text })
        .collect();
    let most = files
        .iter()
        .map(|file| file.text.split('\n').count())
        .max()
        .unwrap_or(1);
    parted(&files);
    let reading = read(&files);
    planted(reading.problems.len());
    for one in &reading.problems {
        assert!((1..=most).contains(&one.line) && one.column >= 1, "{one}");
    }
    let Some(list) = reading.list else {
        assert!(!reading.problems.is_empty());
        return;
    };
    let layout = RowLayout::of(&list, 1);
    let (nodes, circuits) = rows(&list, Direction::Up, layout, None, &[]).expect("room");
    let ids: BTreeSet<u32> = nodes.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), nodes.len());
    let parents: BTreeMap<u32, u32> = nodes.iter().map(|row| (row.id, row.row.parent)).collect();
    for row in &nodes {
        assert!(row.label.to_string().len() < 64);
        assert!(row.id <= layout.nodes() && (row.row.fork != 0) == (row.id <= layout.inner));
        let path = std::iter::successors(Some(row.id), |id| {
            parents.get(id).copied().filter(|id| *id > 0)
        });
        assert!(path.take(9).count() <= 8);
        let rule = row.row.rule;
        assert!(rule.ceiling_bytes_s == 0 || rule.guarantee_bytes_s <= rule.ceiling_bytes_s);
    }
    let table = table(&list, &circuits);
    assert!(
        both(&table, &table)
            .iter()
            .all(|(_, [old, new])| old == new && *old > 0)
    );
    // The stored list must be the same.
    let kept = Kept {
        direction: Direction::Up,
        link: None,
        queues: Some(3),
        list,
    };
    let text = kept.write();
    let only = kept.list.sites.is_empty();
    let port = Port {
        device: "access0".to_owned(),
        direction: Direction::Up,
        link: None,
        queues: Some(3),
    };
    let ports = vec![port];
    let sent = Ports { ports, only }.write(&kept.list);
    let kept = sorted(kept);
    assert!(compared(Some(&kept), &kept).is_empty());
    let lists = vec![("access0".to_owned(), kept.clone())];
    assert_eq!(Ports::read(&sent), Ok(Sent { lists, only }));
    assert_eq!(Kept::read(&text, ""), Ok(kept));
}

/// Checks that a router has only circuits of its site, and every one of them if there are no
/// mistakes.
fn parted(files: &[File<'_>]) {
    let first = files.first().map_or("", |file| file.text);
    if let Ok(all) = Ports::read(first) {
        assert!(all.only || !all.lists.is_empty());
    }
    let sites = first.lines().take(2).map(|name| (name, 0..name.len()));
    let listed = [Listed {
        files: (1..files.len()).collect(),
        shares: vec![Share {
            router: "west",
            sites: Some(sites.collect()),
        }],
    }];
    let several = read_several(files, &listed);
    if let Some(lists) = several.lists {
        let [own] = &lists[..] else {
            panic!("a list for each share");
        };
        assert!(own.circuits.iter().all(|one| one.parent.is_some()));
    }
}

/// Checks that a requested circuit is one line of the stored text, and is read from it.
fn request(line: &str) {
    let wanted = match Request::read(line) {
        Ok(Request::Add(wanted) | Request::Change(wanted)) => wanted,
        Ok(Request::Remove(named) | Request::Show(named)) => {
            assert!(gone(&named.circuit).ends_with('\n'));
            return;
        }
        Err(why) => {
            assert!(!why.is_empty());
            return;
        }
    };
    let Ok(asked) = wanted.asked() else {
        return;
    };
    let Ok(one) = asked.of(&wanted.circuit, None, &[]) else {
        return;
    };
    let line = put(&one);
    assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
    let kept = Kept {
        direction: Direction::Down,
        link: None,
        queues: None,
        list: List::default(),
    };
    let read = Kept::circuit(&kept.write(), &line, &wanted.circuit);
    assert_eq!(read, Ok((Some(one), Vec::new())));
}

/// Sorts sites in the order in which a tree is written: each before the sites below it.
fn sorted(mut kept: Kept) -> Kept {
    let sites = std::mem::take(&mut kept.list.sites);
    let mut order = Vec::new();
    let mut next: Vec<usize> = (0..sites.len())
        .filter(|one| sites[*one].parent.is_none())
        .rev()
        .collect();
    while let Some(one) = next.pop() {
        order.push(one);
        let below = (0..sites.len()).filter(|other| sites[*other].parent == Some(one));
        next.extend(below.rev());
    }
    let place = |old: usize| order.iter().position(|one| *one == old);
    for circuit in &mut kept.list.circuits {
        circuit.parent = circuit.parent.and_then(place);
    }
    kept.list.sites = order
        .iter()
        .map(|one| weirgate_circuits::Site {
            parent: sites[*one].parent.and_then(place),
            ..sites[*one].clone()
        })
        .collect();
    kept
}

/// The planted mistake: a list with two dozen mistakes, more than any seed.
#[cfg(feature = "planted")]
fn planted(problems: usize) {
    assert!(problems < 24, "the planted mistake: {problems} problems");
}

#[cfg(not(feature = "planted"))]
fn planted(_: usize) {}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of lists, from their files to the engine's rows.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_circuits::rows::{self, LabelText, RowLayout, Table, UsedRow};
use weirgate_circuits::{
    CODES, Direction, File, Key, KeyKind, List, Mac, Prefix, Reading, SUSPENDED, Session, Vlan,
    read,
};

const HEADER: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
                      Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n";

/// The files of a folder below `tests/circuits`.
const FILES: [&str; 4] = [
    "ShapedDevices.csv",
    "network.json",
    "plans.csv",
    "lqos_overrides.json",
];

/// Reads the files of a folder.
fn folder(name: &str) -> Reading {
    in_order(name, FILES)
}

fn in_order<const COUNT: usize>(folder: &str, files: [&str; COUNT]) -> Reading {
    let texts = files.map(|file| {
        let text = weirgate_testing::read(&format!("tests/circuits/{folder}/{file}"));
        (file, text)
    });
    let files = texts.each_ref().map(|(name, text)| File { name, text });
    read(&files)
}

fn list_of(text: &str) -> List {
    let reading = read(&[File {
        name: "devices.csv",
        text,
    }]);
    reading
        .list
        .unwrap_or_else(|| panic!("{:?}", reading.problems))
}

fn report(reading: &Reading) -> String {
    let lines: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    lines.iter().flat_map(|one| [one, "\n"]).collect()
}

#[test]
fn a_list_of_four_files_is_what_they_say() {
    let reading = folder("good");
    let list = reading
        .list
        .as_ref()
        .unwrap_or_else(|| panic!("{}", report(&reading)));
    let made = rows::rows(list, Direction::Down, RowLayout::of(list, 1), None, &[]);
    let (nodes, circuits) = made.expect("room");
    let mut text = report(&reading);
    for row in nodes {
        let _ = writeln!(text, "{} {} {:?}", row.id, row.label, row.row);
    }
    for (prefix, row) in rows::table(list, &circuits) {
        let _ = writeln!(text, "{prefix} {row}");
    }
    weirgate_testing::golden("tests/circuits/good.txt", &text);
    // The order of files does not matter.
    let [devices, network, plans, overrides] = FILES;
    for files in [
        [overrides, plans, network, devices],
        [network, overrides, devices, plans],
    ] {
        assert_eq!(
            in_order("good", files).list.as_ref(),
            Some(list),
            "{files:?}"
        );
    }
}

#[test]
fn an_override_needs_what_it_changes() {
    let reading = in_order("good", [FILES[3]]);
    let text = report(&reading);
    // The valid devices are a list, without sites.
    let list = reading.list.unwrap_or_else(|| panic!("{text}"));
    let ids: Vec<&str> = list.circuits.iter().map(|one| &*one.id).collect();
    assert_eq!(ids, ["8", "3"]);
    assert_eq!(text.matches("warning[L204]").count(), 11, "{text}");
    // A site may have the name of a key in overrides.
    let sites = "{ \"circuit_adjustments\": { \"virtual\": true } }";
    let reading = read(&[File {
        name: "network.json",
        text: sites,
    }]);
    let list = reading.list.unwrap_or_default();
    assert_eq!(list.sites[0].name, "circuit_adjustments");
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let reading = folder("bad");
    assert!(reading.list.is_none());
    let mut text = report(&reading);
    for other in [
        "",
        "{ \"a\": ",
        "[1]",
        "What,Ever\n",
        "# only a comment\n",
        "Circuit ID,IPv4\n1,10.0.0.1\n",
        "Circuit ID,IPv4,Plan,Suspended\n1,10.0.0.1,,perhaps\n",
        "Circuit ID,Download Max Mbps,Upload Max Mbps\n1,2,2\n",
        "Circuit ID,Download Max Mbps,Upload Max Mbps,MAC,VLAN,PPPoE Session\n\
         1,2,2,02:00:5e:10:00:01,100.20 7,77:02:00:5e:10:00:01\n\
         2,2,2,02-00-5E-10-00-01,7,77:02:00:5e:10:00:01\n\
         3,2,2,\"02:00:5e:10:00:03,router\",4095,0x4d\n\
         4,2,2,01:00:5e:00:00:01,100.20.3,77:7\n",
    ] {
        let reading = read(&[File {
            name: "other",
            text: other,
        }]);
        assert!(reading.list.is_none(), "{other}");
        text.push_str(&report(&reading));
    }
    // Without the file of sites, a parent has no effect.
    let flat = format!("{HEADER}1,,,,AP_A,,10.0.0.1,,1,1,2,2,\n");
    let reading = read(&[File {
        name: "flat",
        text: &flat,
    }]);
    assert!(reading.list.is_some());
    text.push_str(&report(&reading));
    weirgate_testing::golden("tests/circuits/bad.txt", &text);
    // The codes of several lists (`crates/rollout/tests/lists.rs`).
    text.push_str(&weirgate_testing::read("tests/circuits/divided.txt"));
    let many = format!("[{CODES:?}");
    for (code, _) in CODES {
        assert!(text.contains(&format!("[{code}]")), "{code} of {many}");
    }
}

#[test]
fn a_thousand_mistakes_are_all_told() {
    let mut text = HEADER.to_owned();
    for number in 0..1_000 {
        let _ = writeln!(text, "{number},,,,,,10.0.0.{},,1,1,fast,2,", number % 256);
    }
    let reading = read(&[File {
        name: "many",
        text: &text,
    }]);
    assert!(reading.list.is_none());
    let rates: Vec<usize> = reading
        .problems
        .iter()
        .filter(|one| one.problem.code == "L006")
        .map(|one| one.line)
        .collect();
    assert_eq!(rates, (2..1_002).collect::<Vec<_>>());
    let twice = reading
        .problems
        .iter()
        .filter(|one| one.problem.code == "L008");
    assert_eq!(twice.count(), 1_000 - 256);
}

/// Measures the time for a list of 10^5 circuits: `cargo test --release -p weirgate-circuits --
/// --ignored --nocapture`.
#[test]
#[ignore = "a figure"]
fn many_circuits() {
    let mut text = HEADER.to_owned();
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let _ = writeln!(
            text,
            "{number},\"Street {number}, Town\",{number},router,,,100.{a}.{b}.{c},2001:db8:{:x}:{:x}00::/56,25,5,105,18,",
            number / 256,
            number % 256
        );
    }
    let began = std::time::Instant::now();
    let list = list_of(&text);
    let parsed = began.elapsed();
    let made = rows::rows(&list, Direction::Down, RowLayout::of(&list, 1), None, &[]);
    let (nodes, circuits) = made.expect("room");
    let (table, nothing) = (rows::table(&list, &circuits), Table::new());
    let both = rows::both(&nothing, &table).len();
    println!(
        "{} bytes parsed and checked in {parsed:?}, {} rows and {both} prefixes in {:?}",
        text.len(),
        nodes.len(),
        began.elapsed()
    );
    assert_eq!((list.circuits.len(), both), (100_000, 200_000));
}

#[test]
fn windows_texts_are_read_as_others() {
    let text = weirgate_testing::read("tests/circuits/bad/ShapedDevices.csv");
    let other = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let places = |text: &str| -> Vec<(usize, usize, &'static str)> {
        let reading = read(&[File { name: "a", text }]);
        let place = |one: &weirgate_circuits::Located| (one.line, one.column, one.problem.code);
        reading.problems.iter().map(place).collect()
    };
    let (own, other) = (places(&text), places(&other));
    // The byte order mark is a character of the first line.
    let shifted = own
        .into_iter()
        .map(|(line, column, code)| (line, column + usize::from(line == 1), code));
    assert_eq!(shifted.collect::<Vec<_>>(), other);
}

#[test]
fn what_is_suspended_has_little() {
    let list = list_of(
        "Circuit ID,IPv4,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Suspended\n\
         1,10.0.0.1,5,0,100,0.05,yes\n\
         2,10.0.0.2,5,1,100,20,No\n",
    );
    let rates = |number: usize, direction| {
        list.circuits[number]
            .rates(direction)
            .map(|rate| rate.to_string())
    };
    assert_eq!(
        rates(0, Direction::Down),
        ["0bit".to_owned(), SUSPENDED.to_string()]
    );
    assert_eq!(rates(0, Direction::Up), ["0bit", "50kbit"]);
    assert_eq!(rates(1, Direction::Down), ["5mbit", "100mbit"]);
}

#[test]
fn nodes_keep_their_rows() {
    let line = |id: u32| format!("{id},,,,,,10.0.0.{id},,1,1,2,2,\n");
    let of = |ids: &[u32]| {
        list_of(&(HEADER.to_owned() + &ids.iter().map(|id| line(*id)).collect::<String>()))
    };
    let layout = RowLayout {
        queues: 1,
        inner: 2,
        leaves: 5,
    };
    let mut held: Vec<UsedRow> = Vec::new();
    let mut apply = |ids: &[u32]| {
        let list = of(ids);
        let made = rows::rows(&list, Direction::Up, layout, None, &held);
        let (nodes, circuits) = made.map_err(|full| full.to_string())?;
        for one in &mut held {
            one.live = false;
        }
        for row in nodes {
            // The third circuit always has a backlog.
            let at_rest = row.label != LabelText::circuit("3");
            held.retain(|one| one.id != row.id);
            held.push(UsedRow {
                id: row.id,
                label: row.label,
                queue: row.queue,
                live: true,
                at_rest,
            });
        }
        Ok::<_, String>(circuits)
    };
    assert_eq!(apply(&[1, 2, 3]), Ok(vec![4, 5, 6]));
    // One circuit is removed and one added; the order does not matter.
    assert_eq!(apply(&[3, 4, 2]), Ok(vec![6, 7, 5]));
    // A removed circuit's row is reused by the next one, unless it has a backlog.
    assert_eq!(apply(&[2, 4, 5]), Ok(vec![5, 7, 4]));
    assert_eq!(
        apply(&[2, 4, 5, 6]),
        Err("there is room for 4 circuits".to_owned())
    );
    assert_eq!(apply(&[2, 4, 5, 3]), Ok(vec![5, 7, 4, 6]));
}

/// The keys with which a packet is looked up, in order: its address, its session with and without
/// the MAC, its tags, the outer tag, its MAC.
type Packet = Vec<Key>;

/// Returns the row of a packet in a table: that of its first key in the table; for an address, of
/// the longest prefix.
fn due(table: &Table, packet: &Packet) -> u32 {
    let rows = packet.iter().filter_map(|key| {
        let around = table
            .iter()
            .filter(|(own, _)| own == key || own.contains(key));
        let longest = around.max_by_key(|(own, _)| match own {
            Key::Address(prefix) => prefix.length(),
            _ => 0,
        });
        longest.map(|(_, row)| *row)
    });
    rows.into_iter().next().unwrap_or(0)
}

/// Returns what the kernel's program finds: each key alone; for an address, the longest prefix of
/// both tables.
fn found(both: &BTreeMap<Key, [u32; 2]>, packet: &Packet, generation: usize) -> u32 {
    for key in packet {
        let own = both.get(key).map_or(0, |rows| rows[generation]);
        let around = both.iter().filter(|(prefix, _)| prefix.contains(key));
        let longest = around.max_by_key(|(own, _)| match own {
            Key::Address(prefix) => prefix.length(),
            _ => 0,
        });
        let row = match longest {
            Some((_, rows)) if own == 0 => rows[generation],
            _ => own,
        };
        if row != 0 {
            return row;
        }
    }
    0
}

/// Returns a prefix of few addresses, so that many are nested.
fn prefix(bits: u32, length: u8, six: bool) -> Key {
    let bits = bits & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    let prefix = if six {
        let address = std::net::Ipv6Addr::from_bits(u128::from(bits) | 0x2001_0db8 << 96);
        Prefix::new(address.into(), length + 96)
    } else {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 | bits);
        Prefix::new(address.into(), length)
    };
    Key::Address(prefix.expect("a prefix"))
}

fn mac(number: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 0, number]).expect("a MAC")
}

/// Generates keys of few kinds and numbers, so that many packets have several.
fn keys() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => (0_u32..64, 26_u8..=32, any::<bool>())
            .prop_map(|(bits, length, six)| prefix(bits, length, six)),
        1 => (1_u16..4, prop::option::of(0_u8..3)).prop_map(|(id, own)| {
            Key::Session(Session::new(id, own.map(mac)).expect("a session"))
        }),
        1 => (1_u16..4, prop::option::of(1_u16..4)).prop_map(|(outer, inner)| {
            Key::Vlan(Vlan::new(outer, inner).expect("a VLAN"))
        }),
        1 => (0_u8..3).prop_map(|own| Key::Mac(mac(own))),
    ]
}

fn tables() -> impl Strategy<Value = Table> {
    prop::collection::btree_map(keys(), 1_u32..9, 0..16).prop_map(|all| all.into_iter().collect())
}

/// Generates the keys of a packet.
fn packets() -> impl Strategy<Value = Packet> {
    let address = (0_u32..64, any::<bool>());
    let session = prop::option::of(1_u16..4);
    let vlans = prop::option::of((1_u16..4, prop::option::of(1_u16..4)));
    (address, session, vlans, 0_u8..3).prop_map(|((bits, six), session, vlans, own)| {
        let mut keys = vec![prefix(bits, 32, six)];
        if let Some(id) = session {
            keys.extend(
                [Some(mac(own)), None]
                    .map(|mac| Key::Session(Session::new(id, mac).expect("a session"))),
            );
        }
        if let Some((outer, inner)) = vlans {
            let vlan = |inner| Key::Vlan(Vlan::new(outer, inner).expect("a VLAN"));
            keys.extend(inner.map(|inner| vlan(Some(inner))));
            keys.push(vlan(None));
        }
        keys.push(Key::Mac(mac(own)));
        keys
    })
}

/// A valid key is printed in its stored form, and an invalid one is reported with a remedy.
#[test]
fn keys_are_read_as_people_write_them() {
    for (kind, text, printed) in [
        (KeyKind::Mac, "02:00:5E:10:00:01", "02:00:5e:10:00:01"),
        (KeyKind::Mac, "02-00-5e-10-00-01", "02:00:5e:10:00:01"),
        (KeyKind::Mac, "0200.5e10.0001", "02:00:5e:10:00:01"),
        (KeyKind::Mac, "02005e100001", "02:00:5e:10:00:01"),
        (KeyKind::Vlan, "4094", "4094"),
        (KeyKind::Vlan, "100.20", "100.20"),
        (KeyKind::Session, "65534", "65534"),
        (
            KeyKind::Session,
            "77:02-00-5e-10-00-01",
            "77:02:00:5e:10:00:01",
        ),
    ] {
        let read = kind.read_all(text).expect(text);
        assert_eq!(read[0].to_string(), printed);
        assert_eq!((read.len(), read[0].kind()), (1, kind));
    }
    for (kind, text) in [
        (KeyKind::Mac, "02:00:5e:10:00"),
        (KeyKind::Mac, "02:00:5e:10:00:01:02"),
        (KeyKind::Mac, "02:00:5e:10:00:0g"),
        (KeyKind::Mac, "02:00:5e-10:00:01"),
        (KeyKind::Mac, "0:2005e100001"),
        (KeyKind::Mac, "01:00:5e:00:00:01"),
        (KeyKind::Mac, "00:00:00:00:00:00"),
        (KeyKind::Mac, "ff:ff:ff:ff:ff:ff"),
        (KeyKind::Mac, "0200üü5e0001"),
        (KeyKind::Vlan, "0"),
        (KeyKind::Vlan, "4095"),
        (KeyKind::Vlan, "100.0"),
        (KeyKind::Vlan, "100.20.3"),
        (KeyKind::Vlan, "100."),
        (KeyKind::Vlan, "+100"),
        (KeyKind::Session, "0"),
        (KeyKind::Session, "65535"),
        (KeyKind::Session, "0x12"),
        (KeyKind::Session, "77:"),
        (KeyKind::Session, "77:01:00:5e:10:00:01"),
        (KeyKind::Session, "+7"),
    ] {
        let why = kind.read_all(text).expect_err(text);
        assert!(why.contains("; write ") && !why.contains('\n'), "{why}");
    }
}

proptest! {
    #[test]
    fn both_tables_are_found_in_one(old in tables(), new in tables(), packet in packets()) {
        let both: BTreeMap<Key, [u32; 2]> = rows::both(&old, &new).into_iter().collect();
        prop_assert_eq!(found(&both, &packet, 0), due(&old, &packet));
        prop_assert_eq!(found(&both, &packet, 1), due(&new, &packet));
    }

    #[test]
    fn a_key_is_read_as_it_is_printed(key in keys()) {
        prop_assert_eq!(key.kind().read_all(&key.to_string()), Ok(vec![key]));
    }

    #[test]
    fn any_text_is_judged_within_itself(text in "(?s).{0,200}", kind in 0_u8..4) {
        let head = ["", HEADER, "Plan,Download Max Mbps,Upload Max Mbps\n", "{"][usize::from(kind)];
        let text = format!("{head}{text}");
        let reading = read(&[File { name: "any", text: &text }]);
        let lines = text.split('\n').count();
        for one in &reading.problems {
            prop_assert!((1..=lines).contains(&one.line), "{}", one);
        }
        prop_assert!(reading.list.is_some() || !reading.problems.is_empty());
    }

    #[test]
    fn what_is_written_is_read(
        circuits in prop::collection::btree_map("[a-z]{1,8}", (any::<[u8; 3]>(), 1_u32..1_000_000, 1_u32..1_000_000), 1..20),
    ) {
        let mut text = HEADER.to_owned();
        let mut taken = std::collections::BTreeSet::new();
        let circuits: Vec<_> = circuits.into_iter().filter(|(_, (address, ..))| taken.insert(*address)).collect();
        for (id, ([a, b, c], down, up)) in &circuits {
            let [down, up] = [down, up].map(|kbit| f64::from(*kbit) / 1e3);
            let _ = writeln!(text, "\"{id}\",\"a \"\"name\"\",\n of two lines\",1,,,,10.{a}.{b}.{c},,0,0,{down},{up},");
        }
        let list = list_of(&text);
        prop_assert_eq!(list.circuits.len(), circuits.len());
        for (own, (id, ([a, b, c], down, up))) in list.circuits.iter().zip(&circuits) {
            prop_assert_eq!(&own.id, id);
            prop_assert_eq!(own.keys[0].to_string(), format!("10.{a}.{b}.{c}"));
            prop_assert_eq!(own.most.down.as_bits_per_second(), u64::from(*down) * 1_000);
            prop_assert_eq!(own.most.up.as_bits_per_second(), u64::from(*up) * 1_000);
        }
    }
}

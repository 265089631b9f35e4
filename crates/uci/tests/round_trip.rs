// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy that is converted to UCI and back does not change, nor does a UCI file that is
//! converted to a policy and back. The tests use the shipped policies, fifty generated ones, and
//! one with every field.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use toml::{Table, Value};
use weirgate_policy::{Field, FieldKind, TABLES, parse};
use weirgate_uci::{of_policy, to_policy};

fn table(text: &str) -> Table {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Converts texts that are numbers to numbers, as policies read ports.
fn numbers(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Ok(number) = text.parse::<i64>() {
                *value = Value::Integer(number);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(numbers),
        Value::Table(all) => all.iter_mut().for_each(|(_, one)| numbers(one)),
        _ => {}
    }
}

/// Converts in both directions, twice.
fn round(policy: &str) -> String {
    for enabled in [true, false] {
        let file = of_policy(policy, enabled).unwrap_or_else(|error| panic!("{error}\n{policy}"));
        let back = to_policy(&file).unwrap_or_else(|error| panic!("{error:?}\n{file}"));
        assert_eq!(back.enabled, enabled);
        assert_eq!(table(&back.policy), table(policy), "{file}");
        assert_eq!(of_policy(&back.policy, enabled).as_ref(), Ok(&file));
    }
    of_policy(policy, true).expect("as above")
}

/// A reproducible generator (Numerical Recipes' 64-bit generator).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn some<'a>(&mut self, of: &[&'a str]) -> Vec<&'a str> {
        of.iter().copied().filter(|_| self.below(2) == 0).collect()
    }
}

/// Generates a valid policy with many kinds of tables.
fn generated(random: &mut Random) -> String {
    let mut text = String::from("version = 1\n");
    let _ = match random.below(3) {
        0 => writeln!(text, "final = false"),
        _ => Ok(()),
    };
    let _ = write!(
        text,
        "[link]\ndevice = \"wan\"\nlan = {}\nup = \"{}mbit\"\ndown = \"{}mbit\"\n",
        random.one(&["\"lan\"", "[\"lan\"]", "[\"br-lan\", \"wlan0\"]"]),
        5 + random.below(40),
        50 + random.below(200),
    );
    text.push_str(random.one(&[
        "layer = \"vdsl2:pppoe\"\n",
        "layer = { overhead = 44, relative-to = \"ip\", framing = \"atm\" }\n",
        "layer = \"docsis\"\nmargin = \"3%\"\ninbound = \"ifb\"\n",
        "layer = \"ethernet\"\nfair = \"hosts\"\nmtu = 1492\n",
    ]));
    text.push_str(random.one(&["", "[ack]\nreserve = true\n", "[dscp]\nwash = \"both\"\n"]));
    let classes = 1 + random.below(6);
    for class in 0..classes {
        let _ = write!(
            text,
            "[[class]]\nname = \"{}{class}\"\nshare = \"{}%\"\ndefault = {}\n",
            random.one(&["class-", "c", "x_"]),
            90 / classes,
            class == 0
        );
        text.push_str(random.one(&["", "priority = 0\n", "queue = \"pfifo 100\"\n"]));
    }
    // The first class's name, as written above.
    let first = text
        .split("name = ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let class = first.unwrap_or_default().to_owned();
    if random.below(2) == 0 {
        let _ = write!(
            text,
            "[group.work-hosts]\naddresses = [\"10.0.0.0/24\", \"2001:db8::/64\"]\n"
        );
    }
    if random.below(2) == 0 {
        text.push_str("[schedule.evening]\nhours = \"18:00-23:00\"\ndays = [\"mon\", \"tue\"]\n");
    }
    if random.below(2) == 0 {
        text.push_str(
            "[service.own]\n[[service.own.match]]\nprotocol = \"tcp\"\nremote-port = 8443\n\
             [[service.own.match]]\nprotocol = \"udp\"\nremote-port = [5000, \"6000-6100\"]\n",
        );
    }
    for _ in 0..random.below(5) {
        let _ = writeln!(text, "[[rule]]\nclass = {class}\nlength = \"0-128\"");
        for line in random.some(&[
            "protocol = [\"tcp\", \"udp\"]\nremote-port = [22, \"8000-8080\"]",
            "dscp = [\"EF\", \"CS1\"]",
            "keep = true",
            "not = { local-address = \"10.0.0.7\" }",
        ]) {
            let _ = writeln!(text, "{line}");
        }
    }
    if random.below(2) == 0 {
        let _ = write!(
            text,
            "[[ruleset]]\nname = \"night\"\nenabled = false\n[[ruleset.rule]]\nclass = {class}\n\
             protocol = \"tcp\"\n[[ruleset.rule]]\nclass = {class}\nprotocol = \"udp\"\n"
        );
    }
    text
}

#[test]
fn fifty_generated_policies_come_back_as_they_were() {
    let mut right = 0;
    for seed in 0..50 {
        let text = generated(&mut Random(seed));
        let (policy, problems) = parse(&text);
        assert!(policy.is_some(), "seed {seed}: {problems:?}\n{text}");
        right += 1;
        let file = round(&text);
        let back = to_policy(&file).unwrap().policy;
        assert!(parse(&back).0.is_some(), "{back}");
    }
    assert_eq!(right, 50);
}

#[test]
fn shipped_policies_come_back_as_they_were() {
    let mut seen = 0;
    for folder in ["policies", "tests/policy/state"] {
        let folder = weirgate_testing::root().join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "toml") {
                let text = fs::read_to_string(&path).unwrap();
                // A file of several links is several policies.
                if !text.lines().any(|line| line == "---") {
                    let mut policy = Value::Table(table(&text));
                    numbers(&mut policy);
                    let file = of_policy(&text, true).unwrap();
                    let back = to_policy(&file).unwrap().policy;
                    let mut found = Value::Table(table(&back));
                    numbers(&mut found);
                    assert_eq!(found, policy, "{}", path.display());
                    // A valid policy stays valid.
                    let judged = [parse(&text).0, parse(&back).0].map(|one| one.is_some());
                    assert_eq!(judged[0], judged[1], "{}", path.display());
                    assert_eq!(of_policy(&back, true).unwrap(), file);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

/// Returns examples of each kind of field.
fn example(field: &Field) -> Vec<String> {
    let text = |one: &str| format!("\"{one}\"");
    match field.kind {
        FieldKind::Text(one) => vec![text(one), text("7"), text("a'b \\\" \\\\ #")],
        FieldKind::Word(words) => vec![text(words[0])],
        FieldKind::Integer(from, _) => vec![from.to_string()],
        FieldKind::Number => vec!["0.25".to_owned(), "3".to_owned(), "1e-7".to_owned()],
        FieldKind::Boolean => vec!["true".to_owned(), "false".to_owned()],
        FieldKind::BooleanOrRate => vec!["true".to_owned(), text("1mbit")],
        FieldKind::Rate | FieldKind::Amount => vec![text("512kbit")],
        FieldKind::Share => vec![text("2.5%")],
        FieldKind::Size => vec!["28125".to_owned(), text("64KiB")],
        FieldKind::Time => vec![text("5ms")],
        // A quoted number loses its quotes.
        FieldKind::List(one) if one.parse::<i64>().is_ok() => {
            vec![one.to_owned(), format!("[{one}]")]
        }
        FieldKind::List(one) => vec![text(one), format!("[\"{one}\"]"), "[1, \"2-3\"]".to_owned()],
        FieldKind::Words(words) => vec![text(words[0]), format!("[\"{}\"]", words[0])],
        FieldKind::TextOrTable(_, one) => vec![text(one)],
        FieldKind::Map => vec!["{ \"a b\" = \"c=d\", e = \"f\" }".to_owned()],
        FieldKind::Setting(_) => vec![
            "true".to_owned(),
            "12".to_owned(),
            "0.5".to_owned(),
            text("20kB"),
        ],
        FieldKind::Table(_) | FieldKind::Tables(_) | FieldKind::Named(_) => Vec::new(),
    }
}

/// Collects the fields of a table below a path, each with each example, including inner tables.
fn all(path: &str, table: &str, found: &mut Vec<String>) {
    let mut tables = TABLES.iter();
    let table = tables
        .find(|known| known.name == table)
        .expect("a table of the registry");
    for field in table.fields() {
        for value in example(&field) {
            found.push(format!("{path}{} = {value}", field.name));
        }
        match field.kind {
            FieldKind::Table(name) | FieldKind::TextOrTable(name, _) => {
                all(&format!("{path}{}.", field.name), name, found);
            }
            FieldKind::Named(name) => all(&format!("{path}{}.\"a-b\".", field.name), name, found),
            _ => {}
        }
    }
}

#[test]
fn every_field_comes_back() {
    let mut found = Vec::new();
    all("", TABLES[0].name, &mut found);
    for table in ["class", "rule", "share", "cap", "conditioner", "ruleset"] {
        let mut within = Vec::new();
        all("", table, &mut within);
        found.extend(within.iter().map(|line| format!("[[{table}]]\n{line}")));
    }
    for (path, table) in [("ruleset.rule", "rule"), ("service.\"x\".match", "match")] {
        let above = path.rsplit_once('.').unwrap().0;
        let above = match above {
            "ruleset" => "[[ruleset]]".to_owned(),
            named => format!("[{named}]"),
        };
        let mut within = Vec::new();
        all("", table, &mut within);
        found.extend(
            within
                .iter()
                .map(|line| format!("{above}\n[[{path}]]\n{line}")),
        );
    }
    assert!(found.len() > 500, "{}", found.len());
    for text in found {
        round(&text);
    }
}

#[test]
fn mistakes_have_their_line() {
    for (text, line, what) in [
        (
            "config link\n\toption uo '1mbit'\n",
            2,
            "`uo` is no option of `config link`",
        ),
        ("config links\n", 1, "`config links` is no table"),
        ("config link\n\nconfig link\n", 3, "a second `config link`"),
        (
            "config class\n\toption default 'maybe'\n",
            2,
            "neither true nor false",
        ),
        ("config ruleset_rule\n", 1, "without a `config ruleset`"),
        ("config group\n", 1, "has no name"),
        (
            "config link\n\toption up '1mbit'\n\toption up '2mbit'\n",
            3,
            "given twice",
        ),
        ("config link\n\tlist up '1mbit'\n", 2, "has one value"),
        ("config dscp\n\tlist map 'EF'\n", 2, "has no `=`"),
        (
            "config weirgate\n\toption on '1'\n",
            2,
            "no option of `config weirgate`",
        ),
        (
            "config link\n\toption layer 'ptm'\n\toption layer__oam '1'\n",
            3,
            "given twice",
        ),
        ("config rule\n\toption not 'x'\n", 2, "`not` is no option"),
    ] {
        let errors = to_policy(text).unwrap_err();
        assert_eq!(errors[0].line_column(text).0, line, "{errors:?}");
        assert!(errors[0].message.contains(what), "{errors:?}");
    }
    for (text, line) in [
        ("version = 1\n[link]\nuo = 1\n", 3),
        ("version = 1\n[link]\nlan = []\n", 3),
        ("version = 1\n\nx = [\n", 3),
        ("[dscp]\nmap = { \"a=b\" = \"c\" }\n", 2),
    ] {
        let error = of_policy(text, true).unwrap_err();
        assert_eq!(error.line, line, "{error}");
    }
}

#[test]
fn every_mistake_is_reported_in_one_run_with_its_column() {
    let text = "config link\n\toption uo '1mbit'\n\tlist up '1mbit'\nconfig links\n\
                what is this\nconfig class\n\toption default 'maybe'\n\toption share '1%\n\
                config group\nconfig dscp\n\tlist map 'EF'\n\tlist map 'x'\n";
    let errors = to_policy(text).unwrap_err();
    let places: Vec<(usize, usize)> = errors.iter().map(|one| one.line_column(text)).collect();
    let expected = [
        (2, 9),
        (3, 10),
        (4, 8),
        (5, 1),
        (7, 17),
        (8, 15),
        (9, 8),
        (11, 11),
        (12, 11),
    ];
    assert_eq!(places, expected, "{errors:?}");
}

#[test]
fn a_place_of_the_policy_has_its_place_in_the_file() {
    let text = "config link\n\toption device 'wan'\n\tlist lan 'a'\n\tlist lan 'b'\n\
                config policy\n\toption version '1'\n";
    let read = to_policy(text).unwrap();
    for (part, origin) in [
        ("1", "'1'"),
        ("\"b\"", "'b'"),
        ("device", "device"),
        ("[link", "link"),
    ] {
        let at = read.policy.find(part).unwrap();
        assert_eq!(&text[read.origins.of(at)], origin, "{}", read.policy);
    }
}

#[test]
fn what_openwrt_is_shipped_is_a_policy() {
    let file = weirgate_testing::root().join("packaging/openwrt/files/weirgate.config");
    let text = fs::read_to_string(Path::new(&file)).unwrap();
    let read = to_policy(&text).unwrap();
    // The user's line is unknown before it is configured.
    assert!(!read.enabled);
    let (policy, problems) = parse(&read.policy);
    assert!(policy.is_some(), "{problems:?}");
}

/// Mutates a text: a line is doubled, removed or moved, or a character is changed.
fn changed(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        let at = random.below(lines.len());
        let to = random.below(lines.len());
        match random.below(4) {
            0 => lines.insert(to, lines[at].clone()),
            1 => lines.swap(at, to),
            2 if lines.len() > 1 => {
                lines.remove(at);
            }
            _ => {
                let mut chars: Vec<char> = lines[at].chars().collect();
                let place = random.below(chars.len() + 1);
                let new = random.one(&["'", "\"", "\\", "#", " ", "=", "_", "0", "\u{1}", "ø"]);
                chars.splice(place..place, new.chars());
                lines[at] = chars.into_iter().collect();
            }
        }
    }
    lines.join("\n")
}

/// The property that the fuzz target `uci` checks for any text.
#[test]
fn a_changed_file_is_refused_at_a_line_or_comes_back() {
    let seed = weirgate_testing::root().join("fuzz/seeds/uci/home.txt");
    let text = fs::read_to_string(seed).unwrap();
    let (mut taken, mut refused) = (0, 0);
    let mut random = Random(7);
    for _ in 0..3_000 {
        let text = changed(&text, &mut random);
        match to_policy(&text) {
            Ok(read) => {
                taken += 1;
                let file = of_policy(&read.policy, read.enabled);
                let file = file.unwrap_or_else(|error| panic!("{error}\n{}", read.policy));
                let back = to_policy(&file).unwrap_or_else(|error| panic!("{error:?}\n{file}"));
                assert_eq!(of_policy(&back.policy, back.enabled).unwrap(), file);
                assert_eq!(table(&back.policy), table(&read.policy));
            }
            Err(errors) => {
                refused += 1;
                assert!(!errors.is_empty());
                for error in errors {
                    let line = error.line_column(&text).0;
                    assert!((1..=text.lines().count()).contains(&line), "{error:?}");
                    assert!(!error.hint.is_empty(), "{error:?}");
                }
            }
        }
    }
    assert!(taken > 300 && refused > 300, "{taken}, {refused}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scripted tests of a discipline. Each line has a time, an event and the expected result. The
//! script is converted to calls for the driver, whose answers are compared.

use std::fmt::Write as _;
use weirgate_aqm::Row;
use weirgate_units::{Handle, Rate, Span};

/// Bytes of the largest packet: 64 KiB of several segments with all headers.
const LARGEST: u32 = 1 << 20;

/// What a line of a script expects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// The answer to an arrival or a departure, in the driver's form.
    Answer(String),
    /// A value of state or statistics.
    Number(String, u64),
}

/// Reads a class of a script: converts its text and index to its number and the driver's calls.
pub type ReadClass = fn(&str, usize) -> Result<(u32, String), String>;

/// The classes of a script of the shaper.
#[derive(Debug)]
struct Classes {
    read: ReadClass,
    numbers: Vec<u32>,
}

/// The names that a script can use for a discipline.
#[derive(Debug, Default)]
pub struct Described {
    /// Its parameters.
    pub params: Vec<Row>,
    /// Its state, its statistics and the counters of every discipline.
    pub numbers: Vec<Row>,
    /// Its needs (`enum aqm_needs`, aqm/include/aqm.h).
    pub needs: u32,
}

/// The fields of a packet in a script, each with the needs with which a discipline receives it.
const ASKED: [(&str, u32, &str); 3] = [
    ("random", 1, "AQM_NEEDS_RANDOM"),
    ("flow", 2 | 16, "AQM_NEEDS_FLOW or AQM_NEEDS_CODE"),
    ("ecn", 256, "AQM_NEEDS_ECN"),
];

/// The corresponding field of a departure.
const RANDOM_OUT: (&str, u32, &str) = ("random", 128, "AQM_NEEDS_RANDOM_OUT");

/// A script as calls, with the expected results.
#[derive(Debug, Default)]
pub struct Script {
    /// The driver's input.
    pub calls: String,
    /// The latest time so far.
    last_ns: u64,
    /// The classes, if there are any.
    classes: Option<Classes>,
    /// The expectations, by line of the script.
    expected: Vec<(usize, Option<Expected>)>,
}

impl Script {
    /// Reads a script; every mistake is reported as `LINE: what`.
    pub fn read(text: &str, about: &Described) -> Result<Self, Vec<String>> {
        Self::begun(Self::default(), text, about)
    }

    /// Reads a script of the shaper, with lines of classes and their packets.
    pub fn with_classes(text: &str, read: ReadClass) -> Result<Self, Vec<String>> {
        let numbers = Vec::new();
        let script = Self {
            classes: Some(Classes { read, numbers }),
            ..Self::default()
        };
        let about = Described {
            // Its classes may have any discipline.
            needs: u32::MAX,
            ..Described::default()
        };
        Self::begun(script, text, &about)
    }

    fn begun(mut script: Self, text: &str, about: &Described) -> Result<Self, Vec<String>> {
        let mut begun = false;
        let mut mistakes = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let settings = ["link ", "set ", "class "];
            let setting = settings.iter().any(|word| line.starts_with(word));
            if !begun && !setting {
                begun = true;
                script.calls.push_str("b\n");
            }
            if let Err(mistake) = script.line(number + 1, line, about) {
                mistakes.push(format!("{}: {mistake}", number + 1));
            }
            if begun && setting {
                script.calls.push_str("b\n");
            }
        }
        if mistakes.is_empty() {
            Ok(script)
        } else {
            Err(mistakes)
        }
    }

    fn line(&mut self, number: usize, line: &str, about: &Described) -> Result<(), String> {
        let params = &about.params;
        let is_set = line.starts_with("set ") || line.starts_with("class ");
        let (event, due) = match line.split_once('=').filter(|_| !is_set) {
            Some((event, due)) => (event.trim(), Some(due.trim())),
            None => (line, None),
        };
        let words: Vec<&str> = event.split_whitespace().collect();
        match words.as_slice() {
            ["link", rate, rest @ ..] => {
                let rate: Rate = rate.parse().map_err(|error| format!("{error}"))?;
                let mtu = named(rest, "mtu")?.unwrap_or(1_514);
                let rate = rate.as_bytes_per_second();
                if !(64..=LARGEST).contains(&mtu) {
                    return Err(format!("mtu {mtu}: write 64 to {LARGEST}"));
                }
                let _ = writeln!(self.calls, "l {rate} {mtu} 0 0 0");
            }
            ["class", class] if self.classes.is_some() => self.class(class)?,
            ["set", setting] if self.classes.is_none() => {
                let (name, value) = setting.split_once('=').ok_or("write `set NAME=VALUE`")?;
                let found = params.iter().position(|row| row.name == name);
                let at = found.ok_or_else(|| {
                    let names: Vec<&str> = params.iter().map(|row| row.name).collect();
                    format!(
                        "there is no parameter `{name}`; there are {}",
                        names.join(", ")
                    )
                })?;
                let row = params[at];
                let value = row
                    .parse(value)
                    .filter(|it| (row.least..=row.most).contains(it));
                let value = value.ok_or_else(|| format!("{name}: write {}", row.expected()))?;
                let _ = writeln!(self.calls, "v {at} {value}");
            }
            ["stat", name] => {
                let due = due.ok_or("write `stat NAME = VALUE`")?;
                let value = stated(about.numbers.iter().find(|row| row.name == *name), due)?;
                self.calls.push_str("s\n");
                let expected = Expected::Number((*name).to_owned(), value);
                self.expected.push((number, Some(expected)));
            }
            [time, "arrive", bytes, rest @ ..] => {
                let size = bytes.parse().ok();
                let bytes: u32 = size
                    .filter(|size| (1..=LARGEST).contains(size))
                    .ok_or_else(|| {
                        format!("`{bytes}` is no packet's size; write 1 to {LARGEST}")
                    })?;
                for asked in ASKED {
                    asks(rest, asked, about.needs)?;
                }
                let flow = named(rest, "flow")?.unwrap_or(1);
                let ecn = named(rest, "ecn")?.unwrap_or(0);
                let random = named(rest, "random")?.unwrap_or(0);
                let time = self.time(time)?;
                let class = self.class_of(rest)?;
                let _ = writeln!(self.calls, "a {time} {bytes} {flow} {ecn} {random}{class}");
                self.expect(number, 'a', due)?;
            }
            [time, "depart", rest @ ..] => {
                asks(rest, RANDOM_OUT, about.needs)?;
                let random = named(rest, "random")?.unwrap_or(0);
                let time = self.time(time)?;
                let _ = writeln!(self.calls, "d {time} {random}");
                self.expect(number, 'd', due)?;
            }
            _ => {
                return Err(format!(
                    "`{event}`: write `TIME arrive BYTES`, `TIME depart`, `link RATE`, \
                     `set NAME=VALUE` or `stat NAME = VALUE`"
                ));
            }
        }
        Ok(())
    }

    /// Reads a class in the form of `weirgate aqm load --class`.
    fn class(&mut self, text: &str) -> Result<(), String> {
        let classes = self.classes.as_mut().ok_or("there are no classes here")?;
        let (number, calls) = (classes.read)(text, classes.numbers.len())?;
        if classes.numbers.contains(&number) {
            let number = Handle::from_u32(number);
            return Err(format!("`{text}`: {number} is there already"));
        }
        classes.numbers.push(number);
        self.calls.push_str(&calls);
        Ok(())
    }

    /// Returns the class of an arrival, in the form of the driver.
    fn class_of(&self, words: &[&str]) -> Result<String, String> {
        let Some(classes) = &self.classes else {
            return Ok(String::new());
        };
        let mut pairs = words.chunks(2);
        let named = pairs.find_map(|pair| match pair {
            ["class", id] => Some(*id),
            _ => None,
        });
        let id = match named {
            Some(text) => class_number(text)?,
            None => 0,
        };
        if classes.numbers.is_empty() {
            return Err("write `class NUMBER,...` before packets come".to_owned());
        }
        Ok(format!(" {id}"))
    }

    /// Reads a time, which must not decrease.
    fn time(&mut self, text: &str) -> Result<u64, String> {
        let time = nanos(text)?;
        if time < self.last_ns {
            return Err(format!("`{text}` is before the line before; time goes on"));
        }
        self.last_ns = time;
        Ok(time)
    }

    fn expect(&mut self, number: usize, kind: char, due: Option<&str>) -> Result<(), String> {
        let Some(due) = due else {
            self.expected.push((number, None));
            return Ok(());
        };
        let words: Vec<&str> = due.split_whitespace().collect();
        let answer = match (kind, words.as_slice()) {
            ('a', ["keep"]) | ('d', ["send"]) => format!("{kind} 0 none"),
            ('d', ["none"]) => "d none".to_owned(),
            ('d', ["send", id]) if self.classes.is_some() => {
                let id = class_number(id)?;
                format!("d 0 none {id}")
            }
            (_, ["mark", reason]) => format!("{kind} 1 {reason}"),
            ('a', ["drop", reason]) => format!("a 2 {reason}"),
            _ => {
                return Err(format!(
                    "`{due}`: write keep, send, none, mark or drop REASON"
                ));
            }
        };
        self.expected.push((number, Some(Expected::Answer(answer))));
        Ok(())
    }

    /// Compares the output of the driver; reports every difference as `LINE: what`.
    pub fn compare(&self, output: &str) -> Vec<String> {
        let mut lines = output.lines().filter(|line| *line != "e").peekable();
        let mut found = Vec::new();
        for (number, expected) in &self.expected {
            match expected {
                Some(Expected::Number(name, due)) => {
                    let mut own = None;
                    for line in lines.by_ref().take_while(|line| *line != "end") {
                        if let Some(value) = line
                            .strip_prefix("n ")
                            .and_then(|rest| rest.strip_prefix(name.as_str()))
                        {
                            own = own.or_else(|| value.trim().parse::<u64>().ok());
                        }
                    }
                    match own {
                        Some(own) if own == *due => {}
                        Some(own) => found.push(format!("{number}: {name} is {own}, not {due}")),
                        None => found.push(format!("{number}: there is no number `{name}`")),
                    }
                }
                expected => {
                    // Skip packets that were dropped before the one that is sent.
                    while lines.next_if(|line| line.starts_with("d 2 ")).is_some() {}
                    let own = lines.next().unwrap_or("nothing");
                    if let Some(Expected::Answer(due)) = expected
                        && own != due
                        && !own.starts_with(&format!("{due} "))
                    {
                        let (own, due) = (worded(own), worded(due));
                        found.push(format!("{number}: {own}, not {due}"));
                    }
                }
            }
        }
        found
    }
}

/// Converts the driver's answer to the words of a script.
fn worded(answer: &str) -> String {
    let words: Vec<&str> = answer.split(' ').collect();
    match words.as_slice() {
        ["a", "0", _] => "keep".to_owned(),
        ["d", "0", _] => "send".to_owned(),
        ["d", "0", _, id] => {
            let class = id.parse().map(Handle::from_u32);
            class.map_or_else(|_| "send".to_owned(), |class| format!("send {class}"))
        }
        [_, "1", reason] => format!("mark {reason}"),
        [_, "2", reason] => format!("drop {reason}"),
        ["d", "none"] => "none".to_owned(),
        _ => answer.to_owned(),
    }
}

/// Parses the expected value of a number: with its unit, as for a parameter, or as a whole number.
fn stated(row: Option<&Row>, due: &str) -> Result<u64, String> {
    if let Some(value) = number(due) {
        return Ok(value);
    }
    let value = row.and_then(|row| row.parse(due));
    value.ok_or_else(|| match row {
        Some(row) => format!("`{due}` is no value in {}, nor a whole number", row.unit),
        None => format!("`{due}` is no whole number"),
    })
}

/// Fails if a line sets a field that its discipline does not receive.
fn asks(words: &[&str], (name, needs, flag): (&str, u32, &str), own: u32) -> Result<(), String> {
    let given = words.chunks(2).any(|pair| pair.first() == Some(&name));
    if given && own & needs == 0 {
        return Err(format!(
            "`{name}`: the discipline is not given it; it has to ask for it by {flag}"
        ));
    }
    Ok(())
}

/// Parses a whole number, in decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Finds `NAME NUMBER` among pairs.
fn named(words: &[&str], name: &str) -> Result<Option<u32>, String> {
    let known = ["mtu", "flow", "ecn", "random", "class"];
    let mut found = None;
    for pair in words.chunks(2) {
        match pair {
            [word, value] if *word == name => {
                let value = number(value).and_then(|value| u32::try_from(value).ok());
                found = Some(value.ok_or_else(|| format!("`{}` is no number", pair[1]))?);
            }
            [word, _] if known.contains(word) => {}
            _ => return Err(format!("`{}`: write a name and a number", pair.join(" "))),
        }
    }
    Ok(found)
}

fn class_number(text: &str) -> Result<u32, String> {
    let handle: Result<Handle, _> = text.parse();
    handle
        .map(Handle::as_u32)
        .map_err(|error| format!("`{text}` names no class: {error}"))
}

fn nanos(text: &str) -> Result<u64, String> {
    let span: Result<Span, _> = text.parse();
    span.map(Span::as_nanos).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weirgate_aqm::Discipline;

    fn params() -> Described {
        described("droptail", 0)
    }

    fn described(name: &str, needs: u32) -> Described {
        let one = Discipline::named(name).expect("a discipline");
        Described {
            params: one.params(),
            numbers: one.vars(),
            needs,
        }
    }

    #[test]
    fn numbers_are_written_as_parameters_are() {
        let text = "0ms depart\nstat probability = 0.5\nstat mtu_bytes = 0x10\n";
        let script = Script::read(text, &described("pie", 0)).expect("a script");
        let output = "d none\nn probability 36028797018963968\nend\nn mtu_bytes 16\nend\n";
        assert_eq!(script.compare(output), [""; 0]);
        let wrong = Script::read("stat probability = half\n", &described("pie", 0));
        assert!(wrong.expect_err("no number")[0].contains("ratio/2^56"));
    }

    #[test]
    fn what_a_discipline_is_not_told_no_script_says() {
        let text = "0ms arrive 9 random 0x5\n0ms arrive 9 flow 1\n0ms arrive 9 ecn 1\n\
                    1ms depart random 4\n";
        let mistakes = Script::read(text, &described("droptail", 0)).expect_err("mistakes");
        let flags = ["_RANDOM", "_FLOW", "_ECN", "_RANDOM_OUT"];
        for ((line, flag), mistake) in (1..).zip(flags).zip(&mistakes) {
            assert!(
                mistake.starts_with(&format!("{line}: ")) && mistake.ends_with(flag)
                    || flag == "_FLOW",
                "{mistake}"
            );
        }
        assert_eq!(mistakes.len(), 4, "{mistakes:#?}");
        assert!(Script::read(text, &described("droptail", u32::MAX)).is_ok());
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let text = "link fast\nset limit_packts=2\n0ms arrive x\nsoon depart\n1ms jump\n";
        let mistakes = Script::read(text, &params()).expect_err("mistakes");
        assert_eq!(mistakes.len(), 5, "{mistakes:#?}");
        assert!(mistakes[1].starts_with("2: ") && mistakes[1].contains("limit_packets"));
    }

    #[test]
    fn time_goes_on_and_packets_have_a_size() {
        let text = "link 1mbit mtu 0\n5ms arrive 0\n5ms arrive 100 =keep\n1ms depart= send\n";
        let mistakes = Script::read(text, &params()).expect_err("mistakes");
        let lines: Vec<&str> = mistakes.iter().map(|it| &it[..2]).collect();
        assert_eq!(lines, ["1:", "2:", "4:"], "{mistakes:#?}");
    }

    #[test]
    fn answers_are_compared_line_by_line() {
        let text = "0ms arrive 100 = keep\n1ms arrive 100 = drop limit\n2ms depart = send\n\
                    stat sent_packets = 2\n";
        let script = Script::read(text, &params()).expect("a script");
        let output = "a 0 none\na 0 none\nd 2 sojourn\nd 0 none\nn sent_packets 1\nend\n";
        assert_eq!(
            script.compare(output),
            ["2: keep, not drop limit", "4: sent_packets is 1, not 2"]
        );
    }

    proptest! {
        #[test]
        fn no_script_panics(text in "([a-z0-9 =.]{0,20}\n){0,5}", output in "([a-z0-9 ]{0,9}\n){0,5}") {
            if let Ok(script) = Script::read(&text, &params()) {
                let _ = script.compare(&output);
            }
        }
    }
}

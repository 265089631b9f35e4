// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of a controller's inputs and decisions, and the replay that repeats the decisions.
//!
//! A record is text. Each line is a list of words, separated by spaces. The first line is
//! [`HEAD`]; the settings follow:
//!
//! ```text
//! weirgate-track 1
//! set reflectors=1 probe-ns=100000000 delay-ns=5000000 packet=1696
//! way down floor=1000000 base=8000000 ceiling=10000000 margin-ppm=30000
//! ```
//!
//! A line `way` may end in `margin-bits=N`, a margin in bits per second.
//!
//! Then come the inputs, each with its time in nanoseconds, and after an input the decisions that
//! it caused:
//!
//! ```text
//! s TIME REFLECTOR ID               a probe left
//! r TIME REFLECTOR ID [UP DOWN]     its answer; microseconds by both clocks
//! p TIME END NANOSECONDS            the least round trip of the traffic's own
//! l TIME up|down BYTES BACKLOG      what crossed the line, what waits
//! d TIME up|down RATE REASON        the rate from now on, bits per second
//! x TIME REFLECTOR TROUBLE|none     a reflector counts no more, or again
//! ```
//!
//! Lines that begin with `#` are remarks.

use crate::controller::Controller;
use crate::model::{Decided, Decision, Input, Limits, Reason, Settings, Trouble};
use std::fmt::{self, Write as _};
use weirgate_units::Direction;

/// The first line of a record.
pub const HEAD: &str = "weirgate-track 1";

/// A controller that records its inputs and decisions.
#[derive(Debug)]
pub struct Record {
    controller: Controller,
    text: String,
}

impl Record {
    /// Begins a record with these settings. An error says why they cannot be used.
    pub fn new(settings: Settings) -> Result<Self, &'static str> {
        let controller = Controller::new(settings)?;
        let text = head(controller.settings());
        Ok(Self { controller, text })
    }

    /// The controller.
    #[must_use]
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Takes an input, and records it with the decisions that follow.
    pub fn take(&mut self, input: &Input) -> Vec<Decision> {
        let decisions = self.controller.take(input);
        self.text.push_str(&line(input));
        for decision in &decisions {
            self.text.push_str(&decided(decision));
        }
        decisions
    }

    /// The text since the last call; the first text begins with the settings.
    pub fn written(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The number of inputs.
    pub inputs: usize,
    /// The repeated decisions.
    pub decisions: Vec<Decision>,
    /// The first decision that differs: its line, from 1, the recorded decision and the present
    /// one. `None` if all are equal.
    pub other: Option<(usize, String, String)>,
}

/// A mistake in a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, word {word}: {wrong}; {right}")]
pub struct Wrong {
    /// Its line, from 1.
    pub line: usize,
    /// The word of the line, from 1.
    pub word: usize,
    /// What is wrong.
    pub wrong: String,
    /// What to write instead.
    pub right: &'static str,
}

/// Repeats the decisions of a record. A record that ends in the middle of a line, as after a loss
/// of power, is replayed up to its last complete line.
pub fn replay(text: &str) -> Result<Replayed, Wrong> {
    let whole = match text.rfind('\n') {
        Some(end) => &text[..end],
        None => "",
    };
    let mut lines = whole
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty())
        .peekable();
    if lines.next().is_none_or(|(_, line)| line.trim() != HEAD) {
        return Err(Wrong {
            line: 1,
            word: 1,
            wrong: "this is no record of rate tracking".to_owned(),
            right: "its first line is `weirgate-track 1`",
        });
    }
    let mut settings = Unfinished::default();
    let mut last = 1;
    while let Some((number, line)) =
        lines.next_if(|(_, line)| line.starts_with("set ") || line.starts_with("way "))
    {
        settings.read(number, line)?;
        last = number;
    }
    let settings = settings.finish(last)?;
    let mut controller = Controller::new(settings).map_err(|wrong| Wrong {
        line: last,
        word: 1,
        wrong: wrong.to_owned(),
        right: "write settings as weirgate does",
    })?;
    let mut replayed = Replayed {
        inputs: 0,
        decisions: Vec::new(),
        other: None,
    };
    // Decisions after the last input that have not been compared with the record yet.
    let mut due: Vec<String> = Vec::new();
    let mut end = last;
    for (number, line) in lines {
        end = number;
        let mut words = Words::new(number, line);
        let kind = words.text("write `s`, `r`, `p`, `l`, `d` or `x`")?;
        if kind == "d" || kind == "x" {
            // The decision is compared as text, once it is known to be valid.
            let read = words.decision(kind)?;
            let expected = decided(&read);
            let now = if due.is_empty() {
                None
            } else {
                Some(due.remove(0))
            };
            if replayed.other.is_none() && now.as_ref() != Some(&expected) {
                let now = now.unwrap_or_else(|| "nothing".to_owned());
                replayed.other = Some((number, line.to_owned(), now.trim().to_owned()));
            }
            continue;
        }
        missing(&mut replayed, &mut due, number);
        let input = words.input(kind)?;
        let decisions = controller.take(&input);
        due = decisions.iter().map(decided).collect();
        replayed.inputs += 1;
        replayed.decisions.extend(decisions);
    }
    // The record may end between an input and its decisions.
    if whole.len() + 1 == text.len() && end > last {
        missing(&mut replayed, &mut due, end + 1);
    }
    Ok(replayed)
}

/// Notes decisions that the record does not have before this line.
fn missing(replayed: &mut Replayed, due: &mut Vec<String>, number: usize) {
    if let Some(first) = due.first()
        && replayed.other.is_none()
    {
        replayed.other = Some((number, "nothing".to_owned(), first.trim().to_owned()));
    }
    due.clear();
}

fn head(settings: &Settings) -> String {
    let mut text = format!(
        "{HEAD}\nset reflectors={} probe-ns={} delay-ns={} packet={}\n",
        settings.reflectors, settings.probe_ns, settings.delay_ns, settings.packet
    );
    for direction in Direction::BOTH {
        if let Some(limits) = settings.limits(direction) {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "way {direction} floor={} base={} ceiling={} margin-ppm={}",
                limits.floor, limits.base, limits.ceiling, limits.margin_ppm
            );
            if limits.margin_bits > 0 {
                let _ = write!(text, " margin-bits={}", limits.margin_bits);
            }
            text.push('\n');
        }
    }
    text
}

fn line(input: &Input) -> String {
    match input {
        Input::Sent { at, reflector, id } => format!("s {at} {reflector} {id}\n"),
        Input::Reply {
            at,
            reflector,
            id,
            one_way_us: None,
        } => format!("r {at} {reflector} {id}\n"),
        Input::Reply {
            at,
            reflector,
            id,
            one_way_us: Some((up, down)),
        } => format!("r {at} {reflector} {id} {up} {down}\n"),
        Input::Passive {
            at,
            end,
            round_trip,
        } => format!("p {at} {end} {round_trip}\n"),
        Input::Load {
            at,
            direction,
            bytes,
            backlog,
        } => format!("l {at} {direction} {bytes} {backlog}\n"),
    }
}

fn decided(decision: &Decision) -> String {
    let at = decision.at;
    match decision.what {
        Decided::Rate {
            direction,
            rate,
            reason,
        } => format!("d {at} {direction} {rate} {reason}\n"),
        Decided::Reflector {
            index,
            trouble: Some(trouble),
        } => format!("x {at} {index} {trouble}\n"),
        Decided::Reflector {
            index,
            trouble: None,
        } => format!("x {at} {index} none\n"),
    }
}

/// A decision in the form of a record.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(decided(self).trim_end())
    }
}

/// The words of a line.
struct Words<'a> {
    line: usize,
    rest: std::str::SplitWhitespace<'a>,
    count: usize,
}

impl<'a> Words<'a> {
    fn new(line: usize, text: &'a str) -> Self {
        Self {
            line,
            rest: text.split_whitespace(),
            count: 0,
        }
    }

    fn wrong(&self, wrong: String, right: &'static str) -> Wrong {
        Wrong {
            line: self.line,
            word: self.count,
            wrong,
            right,
        }
    }

    fn text(&mut self, right: &'static str) -> Result<&'a str, Wrong> {
        self.count += 1;
        let word = self.rest.next();
        word.ok_or_else(|| self.wrong("something is missing".to_owned(), right))
    }

    fn more(&self) -> bool {
        self.rest.clone().next().is_some()
    }

    fn number<T: std::str::FromStr>(&mut self, right: &'static str) -> Result<T, Wrong> {
        let word = self.text(right)?;
        word.parse()
            .map_err(|_| self.wrong(format!("`{word}` is not that"), right))
    }

    fn time(&mut self) -> Result<u64, Wrong> {
        let right = "write a time in nanoseconds, at most 4611686018427387904";
        let at = self.number(right)?;
        if at > Input::LATEST {
            return Err(self.wrong(format!("the time {at} is out of range"), right));
        }
        Ok(at)
    }

    fn direction(&mut self) -> Result<Direction, Wrong> {
        let right = "write `up` or `down`";
        let word = self.text(right)?;
        let found = Direction::BOTH
            .into_iter()
            .find(|direction| direction.to_string() == word);
        found.ok_or_else(|| self.wrong(format!("`{word}` is no direction"), right))
    }

    fn end(&mut self) -> Result<(), Wrong> {
        self.count += 1;
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(self.wrong(format!("`{word}` is too much"), "leave it out")),
        }
    }

    fn input(&mut self, kind: &str) -> Result<Input, Wrong> {
        let whom = "write the number of a reflector, from 0";
        let id = "write the number of a probe";
        let input = match kind {
            "s" => Input::Sent {
                at: self.time()?,
                reflector: self.number(whom)?,
                id: self.number(id)?,
            },
            "r" => Input::Reply {
                at: self.time()?,
                reflector: self.number(whom)?,
                id: self.number(id)?,
                one_way_us: if self.rest.clone().next().is_some() {
                    let us = "write microseconds";
                    Some((self.number(us)?, self.number(us)?))
                } else {
                    None
                },
            },
            "p" => Input::Passive {
                at: self.time()?,
                end: self.number("write the number of an end outside")?,
                round_trip: self.number("write a time in nanoseconds")?,
            },
            "l" => Input::Load {
                at: self.time()?,
                direction: self.direction()?,
                bytes: self.number("write a number of bytes")?,
                backlog: self.number("write a number of bytes")?,
            },
            other => {
                let wrong = format!("`{other}` is no kind of line");
                return Err(self.wrong(wrong, "write `s`, `r`, `p`, `l`, `d` or `x`"));
            }
        };
        self.end()?;
        Ok(input)
    }

    fn decision(&mut self, kind: &str) -> Result<Decision, Wrong> {
        let at = self.time()?;
        let what = if kind == "d" {
            let direction = self.direction()?;
            let rate = self.number("write a rate in bits per second")?;
            let right = "write a reason such as `queue`";
            let word = self.text(right)?;
            let mut all = Reason::ALL.into_iter();
            let reason = all.find(|reason| reason.to_string() == word);
            let reason = reason.ok_or_else(|| self.wrong(format!("`{word}` is none"), right))?;
            Decided::Rate {
                direction,
                rate,
                reason,
            }
        } else {
            let index = self.number("write the number of a reflector, from 0")?;
            let right = "write `silent`, `alone` or `none`";
            let trouble = match self.text(right)? {
                "silent" => Some(Trouble::Silent),
                "alone" => Some(Trouble::Alone),
                "none" => None,
                word => return Err(self.wrong(format!("`{word}` is none"), right)),
            };
            Decided::Reflector { index, trouble }
        };
        self.end()?;
        Ok(Decision { at, what })
    }
}

/// Settings as far as they were read.
#[derive(Default)]
struct Unfinished {
    set: Option<[u64; 4]>,
    directions: [Option<Limits>; 2],
}

impl Unfinished {
    fn read(&mut self, number: usize, line: &str) -> Result<(), Wrong> {
        let mut words = Words::new(number, line);
        let right = "write settings as weirgate does";
        if words.text(right)? == "set" {
            self.set = Some(named(
                &mut words,
                ["reflectors", "probe-ns", "delay-ns", "packet"],
            )?);
        } else {
            let direction = words.direction()?;
            let [floor, base, ceiling, margin_ppm] =
                named(&mut words, ["floor", "base", "ceiling", "margin-ppm"])?;
            let [margin_bits] = if words.more() {
                named(&mut words, ["margin-bits"])?
            } else {
                [0]
            };
            self.directions[direction.index()] = Some(Limits {
                floor,
                base,
                ceiling,
                margin_ppm,
                margin_bits,
            });
        }
        words.end()
    }

    fn finish(self, line: usize) -> Result<Settings, Wrong> {
        let missing = || Wrong {
            line,
            word: 1,
            wrong: "the settings are not whole".to_owned(),
            right: "begin with a line `set` and a line `way` for each direction",
        };
        let [reflectors, probe_ns, delay_ns, packet] = self.set.ok_or_else(missing)?;
        let [up, down] = self.directions;
        Ok(Settings {
            up,
            down,
            reflectors: u16::try_from(reflectors).map_err(|_| missing())?,
            probe_ns,
            delay_ns,
            packet,
        })
    }
}

/// The values of words such as `floor=1000`, in this order.
fn named<const N: usize>(words: &mut Words<'_>, names: [&str; N]) -> Result<[u64; N], Wrong> {
    let mut values = [0; N];
    for (name, value) in names.into_iter().zip(&mut values) {
        let right = "write settings as weirgate does";
        let word = words.text(right)?;
        let number = word
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
            .and_then(|number| number.parse().ok());
        *value = number.ok_or_else(|| {
            let wrong = format!("`{word}` is not `{name}=` and a number");
            words.wrong(wrong, right)
        })?;
    }
    Ok(values)
}

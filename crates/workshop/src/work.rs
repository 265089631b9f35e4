// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm new`, `test` and `fuzz`: a user's own discipline.

use crate::kit::{Build, SHAPER, Subject};
use crate::replay::readable;
use crate::script::{Described, Script};
use crate::shaper;
use anyhow::Context;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weirgate_aqm::{Chance, Discipline, FlowInput, Recording, Row};
use weirgate_bpf::sources;
use weirgate_console::discipline::check_name;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_units::Rate;

/// The initial scripted test of a new discipline.
const SCRIPT: &str = include_str!("../kit/template.script");

/// The initial experiment of a new discipline.
const TWO_WAY: &str = include_str!("../kit/two-way.toml");

/// Seconds after which a discipline counts as an endless loop.
const PATIENCE: &str = "120";

/// The driver's message about a call that takes too long (`CALL_S`, kit/driver.c).
const ENDLESS: &str = "does not come to an end";

/// AddressSanitizer's message about the planted mistake.
const PLANTED: &str = "use-after-poison";

/// Implements `weirgate aqm new`.
pub fn new(name: &str, folder: Option<&Path>) -> Outcome {
    check_name(name)?;
    if Discipline::named(name).is_some() || Discipline::lab_names().contains(&name) {
        return Err(wrong(format!(
            "`{name}` is a discipline that comes with weirgate; call yours otherwise"
        )));
    }
    let folder = folder.map_or_else(|| PathBuf::from(name), Path::to_owned);
    if folder.exists() {
        return Err(wrong(format!("{}: it is there already", folder.display())));
    }
    let last = folder.file_name().unwrap_or_default();
    if last != name {
        return Err(wrong(format!(
            "{}: the folder must be called `{name}`, as the discipline and its file",
            folder.display()
        )));
    }
    let template = sources().iter().find(|(path, _)| *path == "aqm/droptail.c");
    let template = template.map(|(_, text)| *text).unwrap_or_default();
    let text = template
        .replace("droptail", name)
        .replace("DROPTAIL", &name.to_uppercase());
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    fs::write(folder.join(name).with_extension("c"), text)?;
    fs::write(folder.join("first.script"), SCRIPT.replace("NAME", name))?;
    fs::write(folder.join("two-way.toml"), TWO_WAY.replace("NAME", name))?;
    let folder = folder.display();
    output::data(&format!(
        "{folder}/{name}.c        drop tail, commented: change it\n\
         {folder}/first.script  what it must do\n\
         {folder}/two-way.toml  TCP both ways over it, in the lab\n\
         next: weirgate aqm test {folder}; weirgate aqm verify {folder} --lab; \
         weirgate lab run {folder}/two-way.toml"
    ))?;
    Ok(Status::Done)
}

/// Implements `weirgate aqm build`.
pub fn build(what: &Path, output: Option<&Path>) -> Outcome {
    let subject = Subject::find(what)?;
    subject.look()?;
    let library = subject.library()?;
    // A discipline of the kit has no folder.
    let folder = match subject.file.parent() {
        Some(folder) if what.exists() => folder,
        _ => Path::new("."),
    };
    let beside = folder.join(&subject.name).with_extension("so");
    let copy = output.map_or(beside, Path::to_owned);
    fs::copy(&library, &copy).with_context(|| copy.display().to_string())?;
    let shown = if output.is_none() && what.is_dir() {
        what.join(&subject.name).with_extension("so")
    } else {
        copy
    };
    output::data(&format!(
        "{}: for `weirgate aqm load` on any machine of this kind and weirgate of this version",
        shown.display()
    ))?;
    Ok(Status::Done)
}

/// Implements `weirgate aqm source`.
pub fn source(file: Option<&str>) -> Outcome {
    let own = |path: &&str| path.starts_with("aqm/");
    let Some(file) = file else {
        let paths = sources().iter().map(|(path, _)| *path).filter(own);
        let paths: Vec<&str> = paths.collect();
        output::data(&paths.join("\n"))?;
        return Ok(Status::Done);
    };
    let is_it = |path: &str| path == file || path.rsplit('/').next() == Some(file);
    let found = sources().iter().find(|(path, _)| own(path) && is_it(path));
    let (_, text) = found.ok_or_else(|| {
        wrong(format!(
            "the kit has no source `{file}`; `weirgate aqm source` names them"
        ))
    })?;
    output::data(text)?;
    Ok(Status::Done)
}

/// Implements `weirgate aqm test`.
pub fn test(what: &Path, recording: Option<&Path>, rate: Option<Rate>) -> Outcome {
    if what == Path::new(SHAPER) || what.extension().is_some_and(|kind| kind == "script") {
        return shaper::test(what);
    }
    let subject = Subject::find(what)?;
    subject.look()?;
    // The compiler for the kernel refuses more, such as signed division. Its message has the line.
    for host in subject.hosts()? {
        subject.bpf(host)?;
    }
    let driver = subject.native(Build::Sanitized)?;
    let about = describe(&subject, &driver)?;
    let mut failed = false;
    for path in &subject.scripts {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let script = Script::read(&text, &about).map_err(|mistakes| {
            let lines = mistakes.iter().map(|it| format!("{}:{it}", path.display()));
            Failure::Input(lines.collect::<Vec<_>>().join("\n"))
        })?;
        let calls = format!("{}z\n", script.calls);
        let output = drive(&subject, &driver, &calls)?;
        let differences = script.compare(&output);
        failed |= !differences.is_empty();
        for difference in &differences {
            output::data(&format!("{}:{difference}", path.display()))?;
        }
        if differences.is_empty() {
            output::data(&format!("{}: as expected", path.display()))?;
        }
    }
    let (calls, what) = traffic(recording, rate, (&subject.name, about.needs))?;
    // Use a link of unknown rate: a discipline must not divide by 0.
    let unknown = calls.replacen(&link_of(rate), "l 0 1514 0 0 0\n", 1);
    drive(&subject, &driver, &unknown)?;
    let output = drive(&subject, &driver, &calls)?;
    failed |= !tells_by_what_it_asks_for(&subject, &driver, &calls, about.needs)?;
    let number = |name: &str| {
        let line = output
            .lines()
            .rfind(|line| line.starts_with(&format!("n {name} ")));
        line.and_then(|line| line.rsplit(' ').next())
            .unwrap_or("?")
            .to_owned()
    };
    output::data(&format!(
        "{what}: {} packets came, {} left; no mistake found by sanitizers",
        number("arrived_packets"),
        number("sent_packets")
    ))?;
    Ok(if failed {
        Status::Differs
    } else {
        Status::Done
    })
}

/// Returns calls of recorded or generated traffic. Generated traffic is bursts of several flows,
/// above and below the link's rate. `name` and `needs` are of the discipline that reads it.
fn traffic(
    recording: Option<&Path>,
    rate: Option<Rate>,
    (name, needs): (&str, u32),
) -> Result<(String, String), Failure> {
    let mut calls = format!("q\n{}b\n", link_of(rate));
    let rate = bytes_s(rate);
    let what = if let Some(path) = recording {
        let at = |error: String| wrong(format!("{}: {error}", path.display()));
        let bytes = fs::read(path).map_err(|error| at(error.to_string()))?;
        let recording = Recording::read(&bytes).map_err(|error| at(error.to_string()))?;
        readable(name, FlowInput::of_needs(needs), &recording.about)?;
        for one in recording.arrivals() {
            let (now, len, random) = (one.now_ns, one.len, one.random);
            let _ = writeln!(calls, "p {now} {len} {} {} {random}", one.flow, one.ecn);
        }
        path.display().to_string()
    } else {
        let mut chance = Chance(1);
        let mut now = 0_u64;
        for number in 0..20_000_u64 {
            // The load goes from half the rate to twice the rate and back.
            let load = 50 + (number / 20 % 300).abs_diff(150);
            let len = [40_u32, 120, 576, 1_500][chance.word() as usize % 4];
            now += u64::from(len) * 1_000_000_000 / rate * 100 / load;
            let flow = chance.word() % 12;
            let (ecn, random) = (chance.word() % 4, chance.word());
            let _ = writeln!(calls, "p {now} {len} {flow} {ecn} {random}");
        }
        "20,000 packets of 12 flows".to_owned()
    };
    calls.push_str("z\ns\n");
    Ok((calls, what))
}

/// Returns the rate of a line in bytes a second; the default is 1 Mbit/s.
fn bytes_s(rate: Option<Rate>) -> u64 {
    rate.map_or(125_000, Rate::as_bytes_per_second).max(1)
}

/// Returns the driver's call that sets the link.
fn link_of(rate: Option<Rate>) -> String {
    format!("l {} 1514 0 0 0\n", bytes_s(rate))
}

/// An input that a discipline must request.
struct Input {
    name: &'static str,
    /// Whether it is requested for every call, by `enum aqm_needs`.
    asked: fn(u32) -> bool,
    /// The driver's call that supplies a value where the kernel has 0.
    other: &'static str,
}

const INPUTS: [Input; 3] = [
    Input {
        name: "random",
        // For arrivals, and for departures.
        asked: |needs| needs & (1 | 128) == 1 | 128,
        other: "u 2779096485 0 0\n",
    },
    Input {
        name: "flow",
        asked: |needs| needs & (2 | 16) != 0,
        other: "u 0 2779096485 0\n",
    },
    Input {
        name: "ecn",
        asked: |needs| needs & 256 != 0,
        other: "u 0 0 1\n",
    },
];

/// Checks that verdicts depend only on the inputs that the discipline requests. The same calls
/// are repeated at other addresses, then with another value for each input that it does not
/// request.
fn tells_by_what_it_asks_for(
    subject: &Subject,
    driver: &Path,
    calls: &str,
    needs: u32,
) -> Result<bool, Failure> {
    let loud = calls.replacen("q\n", "", 1);
    let first = drive(subject, driver, &loud)?;
    let file = subject.file.display();
    if drive(subject, driver, &loud)? != first {
        output::data(&format!(
            "{file}: the same packets get other verdicts when it runs again: it decides by \
             addresses, or by memory that it has not set"
        ))?;
        return Ok(false);
    }
    let mut passed = true;
    for Input { name, asked, other } in INPUTS {
        if !asked(needs) && drive(subject, driver, &format!("{other}{loud}"))? != first {
            passed = false;
            output::data(&format!(
                "{file}: it decides by a packet's `{name}`, which it does not ask for and which \
                 is 0 in the kernel; its last line has to name the need"
            ))?;
        }
    }
    Ok(passed)
}

/// Returns parameters, numbers and needs as the driver describes them.
fn describe(subject: &Subject, driver: &Path) -> Result<Described, Failure> {
    let output = drive(subject, driver, "?\n")?;
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let numbers = output.lines().filter_map(|line| {
        let (name, unit) = line.strip_prefix("number\t")?.split_once('\t')?;
        Some(Row {
            name: leak(name),
            unit: leak(unit),
            help: "",
            default: 0,
            least: 0,
            most: u64::MAX,
        })
    });
    let needs = output.lines().find_map(|line| line.strip_prefix("needs\t"));
    let rows = output.lines().filter_map(|line| {
        let words: Vec<&str> = line.strip_prefix("param\t")?.split('\t').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        Some(Row {
            name: leak(words.first()?),
            unit: leak(words.get(1)?),
            help: "",
            default: number(2)?,
            least: number(3)?,
            most: number(4)?,
        })
    });
    Ok(Described {
        params: rows.collect(),
        numbers: numbers.collect(),
        needs: needs.and_then(|text| text.parse().ok()).unwrap_or(0),
    })
}

/// Runs the driver with calls and returns its output. An error describes the discipline's mistake.
pub fn drive(subject: &Subject, driver: &Path, calls: &str) -> Result<String, Failure> {
    let mut input = tempfile::tempfile()?;
    input.write_all(calls.as_bytes())?;
    std::io::Seek::rewind(&mut input)?;
    // ABRT makes AddressSanitizer report the position.
    let output = Command::new("timeout")
        .args(["--signal=ABRT", PATIENCE])
        .arg(driver)
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
        .env("ASAN_OPTIONS", "handle_abort=1")
        .stdin(Stdio::from(input))
        .output()
        .context("the driver (by `timeout`, package coreutils)")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let report = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(124) {
        let location = location(subject, driver, &report);
        return Err(Failure::Input(format!(
            "{location}: it does not come to an end within {PATIENCE} s"
        )));
    }
    Err(finding(subject, driver, &report))
}

/// Returns the line of the discipline that a report is about, or only the file if there is no line.
fn location(subject: &Subject, driver: &Path, report: &str) -> String {
    let own = subject.file.display().to_string();
    let named = |text: &str| {
        let mut words = text.split_whitespace();
        let found = words.find_map(|word| Some(format!("{own}{}", word.split_once(&own)?.1)))?;
        Some(found.trim_end_matches([':', ')']).to_owned())
    };
    if let Some(location) = named(report) {
        return location;
    }
    // Without a symbolizer frames are offsets: `(/tmp/x/driver+0x12ab)`.
    let program = format!("({}+", driver.display());
    let offsets = report.split_whitespace().filter_map(|word| {
        let rest = word.strip_prefix(&program)?;
        Some(rest.split(')').next().unwrap_or_default().to_owned())
    });
    let output = Command::new("addr2line")
        .arg("--inlines")
        .arg("--exe")
        .arg(driver)
        .args(offsets)
        .output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    output.ok().and_then(|lines| named(&lines)).unwrap_or(own)
}

/// Returns a sanitizer's or the driver's report, beginning with the line that it is about.
fn finding(subject: &Subject, driver: &Path, report: &str) -> Failure {
    let broken = report.lines().find_map(|line| line.strip_prefix("broken "));
    if let Some((function, what)) = broken.and_then(|rest| rest.split_once(' ')) {
        if subject.is_shaper() {
            return Failure::Input(format!("aqm/host/shaper.h: the shaper {what}"));
        }
        // An endless call was interrupted: the report has its line in the stack frames below the
        // signal's frame.
        let location = if what.starts_with(ENDLESS) {
            location(subject, driver, report)
        } else {
            subject.line_of(function)
        };
        return Failure::Input(format!("{location}: {}_{function}() {what}", subject.name));
    }
    let location = location(subject, driver, report);
    let what = report
        .lines()
        .find_map(|line| {
            line.split_once("runtime error: ")
                .or_else(|| line.split_once("ERROR: "))
        })
        .map_or("the driver was ended", |(_, what)| what);
    Failure::Input(format!("{location}: {what}\n{}", report.trim_end()))
}

/// Implements `weirgate aqm fuzz`.
pub fn fuzz(what: &Path, seconds: u32, floor: Option<u32>) -> Outcome {
    let subject = Subject::find(what)?;
    if !subject.is_shaper() {
        subject.look()?;
    }
    let planted = subject.native(Build::Fuzzer { planted: true })?;
    let report = fuzzed(&planted, seconds.max(60))?;
    let mistaken = |report: &str| {
        let words = ["broken ", "runtime error: ", "ERROR: "];
        words.iter().any(|word| report.contains(word))
    };
    if !report.contains(PLANTED) {
        // The fuzzer found a mistake of the discipline's own first.
        if mistaken(&report) {
            return Err(finding(&subject, &planted, &report));
        }
        output::data("the planted mistake was not found: the fuzzer proves nothing here")?;
        return Ok(Status::Differs);
    }
    let driver = subject.native(Build::Fuzzer { planted: false })?;
    let report = fuzzed(&driver, seconds)?;
    if mistaken(&report) {
        return Err(finding(&subject, &driver, &report));
    }
    let status = report.lines().find(|line| line.contains("DONE"));
    let covered = status.and_then(|line| line.split("cov: ").nth(1)?.split(' ').next());
    let covered: Option<u32> = covered.and_then(|number| number.parse().ok());
    let edges = covered.map_or_else(String::new, |edges| format!(", {edges} branches"));
    output::data(&format!(
        "{}: found the planted mistake; {seconds} s without another{edges}",
        subject.name
    ))?;
    if let (Some(floor), covered) = (floor, covered.unwrap_or(0))
        && covered < floor
    {
        output::data(&format!(
            "{covered} branches; at least {floor} are expected"
        ))?;
        return Ok(Status::Differs);
    }
    Ok(Status::Done)
}

fn fuzzed(driver: &Path, seconds: u32) -> Result<String, Failure> {
    let folder = tempfile::tempdir()?;
    // Options of libFuzzer; the driver without it takes only the seconds.
    let text = fs::read(driver)?;
    let libfuzzer = text.windows(14).any(|part| part == b"max_total_time");
    let mut command = Command::new(driver);
    command.current_dir(folder.path());
    if libfuzzer {
        command.arg(format!("-max_total_time={seconds}"));
        command.args(["-max_len=4096", "-len_control=0", "-seed=1", "-timeout=60"]);
    } else {
        command.arg(seconds.to_string());
    }
    let output = command.output().context("the fuzzer")?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout))
}

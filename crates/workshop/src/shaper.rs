// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm test shaper`: the shaper with classes as an ordinary program
//! under sanitizers, with every discipline of the kit in its classes.

use crate::kit::{Build, SHAPER, Subject};
use crate::script::Script;
use crate::work::drive;
use anyhow::Context;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use weirgate_aqm::{Chance, Discipline, Settings};
use weirgate_bpf::CLASSES;
use weirgate_console::discipline::class::class;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;

/// The scripted test of the shaper.
const SCRIPT: &str = include_str!("../kit/shaper.script");

/// The number of packets of generated traffic.
const PACKETS: u64 = 20_000;

/// Implements `weirgate aqm test shaper`, or runs a test with a script of classes.
pub fn test(what: &Path) -> Outcome {
    let subject = Subject::find(Path::new(SHAPER))?;
    let driver = subject.native(Build::Sanitized)?;
    let (name, text) = if what == Path::new(SHAPER) {
        ("shaper.script".to_owned(), SCRIPT.to_owned())
    } else {
        let name = what.display().to_string();
        let text = fs::read_to_string(what).with_context(|| name.clone())?;
        (name, text)
    };
    let script = Script::with_classes(&text, class_calls).map_err(|mistakes| {
        let mistakes = mistakes.iter().map(|it| format!("{name}:{it}"));
        Failure::Input(mistakes.collect::<Vec<_>>().join("\n"))
    })?;
    let output = drive(&subject, &driver, &format!("{}z\n", script.calls))?;
    let differences = script.compare(&output);
    for difference in &differences {
        output::data(&format!("{name}:{difference}"))?;
    }
    if differences.is_empty() {
        output::data(&format!("{name}: as expected"))?;
    }
    let kinds = Discipline::all();
    for first in (0..kinds.len()).step_by(4) {
        drive(&subject, &driver, &traffic(first, kinds.len()))?;
    }
    output::data(&format!(
        "{PACKETS} packets in four classes of each discipline: no mistake found by sanitizers"
    ))?;
    Ok(if differences.is_empty() {
        Status::Done
    } else {
        Status::Differs
    })
}

/// Converts a class in the form of `weirgate aqm load --class` to the driver's calls.
fn class_calls(text: &str, at: usize) -> Result<(u32, String), String> {
    if at == CLASSES {
        return Err(format!("there are {CLASSES} classes at most"));
    }
    let tail = Discipline::named("droptail").ok_or("the kit has no droptail")?;
    let class = class(text, &Settings::new(tail)).map_err(|failure| failure.text())?;
    let own = class.settings.discipline();
    let kind = Discipline::all().iter().position(|one| *one == own);
    let kind = kind.ok_or("a class has a discipline of the kit")?;
    let rule = class.rule;
    let mut calls = format!(
        "c {} {} {} {} {} {} {kind}\n",
        rule.guarantee_bytes_s,
        rule.ceiling_bytes_s,
        rule.weight,
        rule.credit_ns,
        rule.priority,
        rule.classid
    );
    for (number, value) in class.settings.values().iter().enumerate() {
        let _ = writeln!(calls, "v {at} {number} {value}");
    }
    Ok((rule.classid, calls))
}

/// Returns calls for four classes with disciplines from `first` on: first more traffic than the
/// line's rate, then less.
fn traffic(first: usize, kinds: usize) -> String {
    let rate = 125_000;
    let mut calls = format!("q\nl {rate} 1514 14 0 1\n");
    for class in 0..4_usize {
        let (guarantee, weight) = (rate / 8 * (class % 2), class + 1);
        let kind = (first + class) % kinds;
        let (priority, id) = (class / 2, class + 1);
        let _ = writeln!(calls, "c {guarantee} 0 {weight} 0 {priority} {id} {kind}");
    }
    calls.push_str("b\n");
    let mut chance = Chance(1);
    let mut now = 0_u64;
    for number in 0..PACKETS {
        let load = 50 + (number / 20 % 300).abs_diff(150);
        let len = [40_u32, 120, 576, 1_500][chance.word() as usize % 4];
        now += u64::from(len) * 1_000_000_000 / rate as u64 * 100 / load;
        let (flow, class) = (chance.word() % 12, 1 + chance.word() % 4);
        let (ecn, random) = (chance.word() % 4, chance.word());
        let _ = writeln!(calls, "a {now} {len} {flow} {ecn} {random} {class}");
        let _ = writeln!(calls, "d {now}");
    }
    calls.push_str("z\n");
    calls
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate check`: prints what a policy promises, in a few lines, in full, or as JSON.

use crate::policy::{promises, waits};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weirgate_bpf::most_capabilities;
use weirgate_compile::{Bound, CheckReport, ClassReport, DirectionReport, FullQueue, Wire};
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::policy::SITE;
use weirgate_console::source;
use weirgate_policy::{Policy, in_kbit};
use weirgate_units::Span;

/// What to check, and how much to say.
#[derive(Args)]
pub struct Arguments {
    /// The policy file.
    #[arg(default_value = SITE)]
    policy: PathBuf,
    /// Show the bytes that packets take on the line, and how each bound is derived.
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Checks a policy for a kernel with all capabilities.
pub fn run(arguments: &Arguments) -> Outcome {
    let (failure, problems) = match policy::text(&arguments.policy) {
        Err(failure) => (failure, Vec::new()),
        Ok((path, text)) => match checked(&path, &text, arguments) {
            Err(failure) => (failure, policy::problems(&path, &text)),
            done => return done,
        },
    };
    if arguments.json {
        let found = json!({ "error": failure.text(), "problems": problems });
        output::data(&format!("{found:#}"))?;
    }
    Err(failure)
}

fn checked(path: &Path, text: &str, arguments: &Arguments) -> Outcome {
    let loaded = policy::parse(path, text)?;
    let mut links = Vec::new();
    for (number, policy) in loaded.policies().iter().enumerate() {
        let report = if arguments.json || arguments.all {
            promises(policy)
        } else {
            waits(policy)
        };
        if arguments.json {
            links.push(link(policy, &report));
        } else {
            let gap = if number > 0 { "\n" } else { "" };
            let text = if arguments.all {
                report.to_string()
            } else {
                summary(policy, &report)
            };
            output::text(&format!("{gap}{text}"))?;
        }
        source::judge(loaded.name(), Some(()), &report.problems, |problem| {
            policy.sources.render(problem)
        })?;
    }
    loaded.compile(&most_capabilities())?;
    if arguments.json {
        output::data(&format!("{:#}\n", json!({ "links": links })))?;
    }
    Ok(Status::Done)
}

/// Returns the summary of a link, with a line for each class.
pub fn summary(policy: &Policy, report: &CheckReport) -> String {
    let mut text = format!("{}\n", report.engine);
    for direction in &report.directions {
        let _ = write!(text, "\n{}", direction_summary(direction));
    }
    if let Some(policed) = &report.policed {
        let _ = writeln!(text, "\n{policed}");
    }
    let rules = policy.rules.len();
    let _ = writeln!(
        text,
        "\n{rules} rule{}. Rates are in bits on the wire. Waits assume an idle processor.\n\
         `--all` shows how each bound is derived.",
        if rules == 1 { "" } else { "s" }
    );
    text
}

fn direction_summary(direction: &DirectionReport) -> String {
    let mut text = format!(
        "{} on {}: a line of {}, shaped to {}\n",
        direction.direction.stream(),
        direction.device,
        in_kbit(direction.line),
        in_kbit(direction.gate)
    );
    let heads = ["class", "guaranteed", "at most", "wait below", "full queue"];
    let rows = direction.classes.iter().map(|class| {
        let within = class.within.as_ref();
        let within = within.map_or_else(|| "no bound".to_owned(), |bound| ms(bound.wait));
        let full = match &class.full {
            FullQueue::Bound(bound) => ms(bound.wait),
            FullQueue::NoHardBound { .. } => "no bound".to_owned(),
        };
        let [guaranteed, most] = [class.guaranteed, class.maximum].map(|rate| in_kbit(rate.wire));
        [class.name.clone(), guaranteed, most, within, full]
    });
    let mut rows: Vec<[String; 5]> = rows.collect();
    rows.insert(0, heads.map(str::to_owned));
    let width = |column: usize, least: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(least)
    };
    let widths = [
        width(0, 5),
        width(1, 12),
        width(2, 12),
        width(3, 11),
        width(4, 11),
    ];
    let [name, guaranteed, most, within, full] = widths;
    let marks = direction.classes.iter().map(|class| class.default);
    for (row, default) in rows.iter().zip(std::iter::once(false).chain(marks)) {
        let _ = writeln!(
            text,
            "  {:name$} {:>guaranteed$} {:>most$} {:>within$} {:>full$}{}",
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            if default { "  default" } else { "" }
        );
    }
    if let Some(l4s) = &direction.l4s {
        let _ = writeln!(text, "  {l4s}");
    }
    if let Some(unfiltered) = &direction.unfiltered {
        let _ = writeln!(text, "  {unfiltered}");
    }
    text + &condition(direction)
}

/// Returns a sentence that says for which traffic `wait below` holds.
fn condition(direction: &DirectionReport) -> String {
    let classes = direction.classes.iter();
    let half = classes.clone().filter(|class| !class.in_order);
    let half: Vec<String> = half.map(|class| format!("`{}`", class.name)).collect();
    let half = match half.as_slice() {
        [] => String::new(),
        all if all.len() == direction.classes.len() => " (here: half of it)".to_owned(),
        some => format!(" (half of it for {})", some.join(", ")),
    };
    let limits = if classes.clone().any(|class| class.limited_hosts > 0) {
        " A host at its own limit waits longer."
    } else {
        ""
    };
    format!(
        "  `wait below`: the longest wait while a class sends at most its guarantee{half}.{limits}\n"
    )
}

pub fn ms(span: Span) -> String {
    format!("{:.1} ms", span.as_millis_f64())
}

/// Returns a link as JSON. Times are in milliseconds, rates in bits per second.
pub fn link(policy: &Policy, report: &CheckReport) -> Value {
    let directions: Vec<Value> = report.directions.iter().map(direction_value).collect();
    json!({
        "device": policy.link.device.value.as_str(),
        "engine": report.engine,
        "directions": directions,
        "held": report.policed,
        "rules": policy.rules.len(),
        "warnings": report.problems.len(),
    })
}

fn direction_value(direction: &DirectionReport) -> Value {
    let classes: Vec<Value> = direction.classes.iter().map(class_value).collect();
    let costs: Vec<Value> = direction
        .costs
        .iter()
        .map(
            |cost| json!({ "ip_bytes": cost.ip, "wire_bytes": cost.wire, "ms": millis(cost.time) }),
        )
        .collect();
    json!({
        "direction": direction.direction.stream(),
        "device": direction.device,
        "line_bit_s": direction.line.as_bits_per_second(),
        "gate_bit_s": direction.gate.as_bits_per_second(),
        "costs": costs,
        "l4s": direction.l4s,
        "notes": direction.notes,
        "classes": classes,
    })
}

fn class_value(class: &ClassReport) -> Value {
    let full = match &class.full {
        FullQueue::Bound(bound) => bound_value(bound),
        FullQueue::NoHardBound { reason } => json!({ "no_bound": reason }),
    };
    let mut within = class.within.as_ref().map_or_else(|| json!({}), bound_value);
    within["keeps_bit_s"] = json!(class.keeps.as_bits_per_second());
    within["burst_bytes"] = json!(class.burst.as_bytes());
    within["in_order"] = json!(class.in_order);
    let rate = |wire: &Wire| json!({ "wire": wire.wire.as_bits_per_second(), "ip": wire.ip.as_bits_per_second() });
    json!({
        "name": class.name,
        "id": class.id.to_string(),
        "line": class.line,
        "priority": class.priority,
        "default": class.default,
        "queue": class.queue,
        "guaranteed_bit_s": rate(&class.guaranteed),
        "maximum_bit_s": rate(&class.maximum),
        "lone": class.lone.as_ref().map(bound_value),
        "within_guarantee": within,
        "full_queue": full,
        "objective_met": class.objective.as_ref().map(|objective| objective.met),
    })
}

fn bound_value(bound: &Bound) -> Value {
    let steps: Vec<Value> = bound
        .steps
        .iter()
        .map(|step| json!({ "what": step.what, "ms": millis(step.time) }))
        .collect();
    json!({ "ms": millis(bound.wait), "steps": steps })
}

fn millis(span: Span) -> f64 {
    span.as_millis_f64()
}

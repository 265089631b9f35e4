// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collapsible details below an experiment: calculations, service classes, set-up, commands and
//! policies, all figures.

use super::set_up::{self, node};
use super::table::{Cell, table};
use crate::format::{number, percent, quantity};
use crate::markup::escaped;
use crate::{Findings, Run};
use std::fmt::Write as _;
use weirgate_experiment::{Arm, Changed, Command, Emulator};
use weirgate_measure::y1541::{self, CLASSES, Minute, Variation};

/// Writes all details.
pub(super) fn write(out: &mut String, findings: &Findings) {
    calculations(out, findings);
    service_classes(out, findings);
    if !findings.experiment.is_calculation() {
        set_up::write(out, findings);
    }
    for run in findings.runs {
        if let Some(arm) = findings.experiment.arm(&run.figures.arm) {
            of_arm(out, findings, run, arm);
        }
    }
    all_figures(out, findings);
}

pub(super) fn folded(out: &mut String, summary: &str, content: &str) {
    let summary = escaped(summary);
    let _ = writeln!(
        out,
        "<details><summary>{summary}</summary>\n{content}</details>"
    );
}

/// Writes the predictions with the measured figures.
fn calculations(out: &mut String, findings: &Findings) {
    let mut rows = Vec::new();
    for run in findings.runs {
        let Some(list) = findings.calculated.get(&run.figures.arm) else {
            continue;
        };
        for prediction in list {
            let Some(&measured) = run.figures.metrics.get(&prediction.metric) else {
                continue;
            };
            rows.push(vec![
                Cell::metric(&prediction.metric),
                Cell::text(run.figures.arm.clone()),
                Cell::Number(quantity(prediction.value, &prediction.metric)),
                Cell::Number(quantity(measured, &prediction.metric)),
                Cell::Number(percent(prediction.deviation(measured))),
                Cell::text(prediction.derivation.clone()),
            ]);
        }
    }
    if rows.is_empty() {
        return;
    }
    let mut content = String::from(
        "<p>Calculated from line and traffic alone, without any measurement, by the report's own \
         arithmetic.</p>\n",
    );
    let columns = [
        "figure",
        "arm",
        "calculated",
        "measured",
        "differs by",
        "how it follows",
    ];
    table(&mut content, "Calculated and measured", &columns, &rows);
    folded(out, "What line and traffic let expect", &content);
}

/// Writes which classes of Y.1541 each arm meets, over its full minutes.
fn service_classes(out: &mut String, findings: &Findings) {
    let mut rows = Vec::new();
    for run in findings.runs {
        let Some(recording) = run.recording else {
            continue;
        };
        let minutes = y1541::evaluate(findings.experiment, recording).unwrap_or_default();
        for probe in &findings.experiment.probes {
            let own: Vec<&Minute> = minutes.iter().filter(|m| m.probe == probe.name).collect();
            if !own.is_empty() {
                rows.push(service_row(&run.figures.arm, &probe.name, &own));
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    let mut content = String::from(
        "<p>ITU-T Y.1541 bounds the mean one-way delay, here half the round trip, and its \
         variation, p99.9 minus minimum, minute by minute. Below 1000 answers a minute has too few \
         for the variation.</p>\n",
    );
    let columns = [
        "arm",
        "probe",
        "minutes",
        "worst mean, ms",
        "worst variation, ms",
        "meets",
    ];
    table(
        &mut content,
        "Service classes met in every minute",
        &columns,
        &rows,
    );
    folded(out, "Service classes (Y.1541)", &content);
}

fn service_row(arm: &str, probe: &str, minutes: &[&Minute]) -> Vec<Cell> {
    let mean = minutes
        .iter()
        .map(|minute| minute.mean_ms)
        .fold(0.0, f64::max);
    let mut variation = None;
    let mut fewest = None;
    for minute in minutes {
        match minute.variation {
            Variation::Ms(ms) => variation = Some(ms.max(variation.unwrap_or(0.0))),
            Variation::TooFew(count) => fewest = Some(count.min(fewest.unwrap_or(count))),
        }
    }
    let variation = match (variation, fewest) {
        (_, Some(count)) => format!("too few ({count} of 1000)"),
        (Some(ms), None) => number(ms),
        (None, None) => String::new(),
    };
    let met: Vec<String> = CLASSES
        .iter()
        .filter(|class| {
            minutes
                .iter()
                .all(|minute| minute.meets(class) == Some(true))
        })
        .map(|class| class.number.to_string())
        .collect();
    vec![
        Cell::text(arm),
        Cell::text(probe),
        Cell::Number(minutes.len().to_string()),
        Cell::Number(number(mean)),
        Cell::Number(variation),
        Cell::text(format!("class {}", met.join(", "))),
    ]
}

/// Writes the details of one arm: its commands with the sweep's choice, its policy, and their
/// output.
fn of_arm(out: &mut String, findings: &Findings, run: &Run, arm: &Arm) {
    let mut content = String::new();
    if !arm.about.is_empty() {
        let _ = writeln!(content, "<p>{}</p>", escaped(&arm.about));
    }
    let mut facts: Vec<String> = Vec::new();
    if arm.emulator == Emulator::Netem {
        facts.push("the line is the kernel's netem".to_owned());
    }
    facts.extend(
        arm.kernel_options
            .iter()
            .map(|option| format!("kernel option {option}")),
    );
    facts.extend(
        arm.module_parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    facts.extend(arm.without.iter().map(|name| format!("without {name}")));
    facts.extend(
        run.parameters
            .iter()
            .map(|(name, value)| format!("{name} = {value}")),
    );
    if !facts.is_empty() {
        let _ = writeln!(content, "<p>{}.</p>", escaped(&facts.join("; ")));
    }
    tried(&mut content, findings, arm);
    let lists = [
        ("Commands", &arm.commands),
        ("Beside the traffic", &arm.background),
    ];
    for (heading, commands) in lists {
        let text = |command: &Command| {
            let argv = command.resolve(run.parameters).join(" ");
            format!("{}: {argv}", node(command.node))
        };
        let lines: Vec<String> = commands.iter().map(text).collect();
        preformatted(&mut content, heading, &lines.join("\n"));
    }
    if let Some(autorate) = &arm.autorate {
        let commands: Vec<String> = autorate
            .commands()
            .map(|command| format!("{}: {}", node(command.node), command.argv.join(" ")))
            .collect();
        preformatted(&mut content, "Commands of the loop", &commands.join("\n"));
    }
    let mut shown: Vec<&str> = Vec::new();
    for path in arm.policies() {
        if !shown.contains(&path) {
            let text = findings.policies.get(path).map_or("", String::as_str);
            preformatted(&mut content, &format!("Policy {path}"), text);
            shown.push(path);
        }
    }
    for (number, change) in run
        .recording
        .iter()
        .flat_map(|r| r.changes.iter().enumerate())
    {
        let (title, text) = changed(number + 1, change);
        preformatted(&mut content, &title, &text);
    }
    for entry in run
        .recording
        .map(|recording| &recording.transcript)
        .into_iter()
        .flatten()
    {
        let status = if entry.status == 0 {
            String::new()
        } else {
            format!(" (exit status {})", entry.status)
        };
        if entry.status != 0 || !entry.output.trim().is_empty() {
            preformatted(
                &mut content,
                &format!("{}{status}", entry.what),
                &entry.output,
            );
        }
    }
    if !content.is_empty() {
        folded(out, &format!("What arm {} did", arm.name), &content);
    }
}

fn tried(content: &mut String, findings: &Findings, arm: &Arm) {
    let (Some(sweep), true) = (&arm.sweep, findings.tried.iter().any(|t| t.arm == arm.name)) else {
        return;
    };
    let own = findings.tried.iter().filter(|tried| tried.arm == arm.name);
    let rows: Vec<Vec<Cell>> = own
        .map(|tried| {
            let figure = tried.figure.map_or_else(|| "no figure".to_owned(), number);
            vec![Cell::text(tried.value.clone()), Cell::Number(figure)]
        })
        .collect();
    let caption = format!("Values tried for {}; the lowest is shown", sweep.parameter);
    table(content, &caption, &[&sweep.parameter, &sweep.best], &rows);
}

/// Returns the details of a policy change during traffic: its duration, and its requests with the
/// time since it began.
fn changed(number: usize, change: &Changed) -> (String, String) {
    let ms = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e6;
    let title = format!(
        "Change {number} at {:.3} s: {}",
        change.began_ns as f64 / 1e9,
        change.policy
    );
    let mut text = format!(
        "steps: {}; requests that change something: {}\n\
         {:.3} ms until the plan was ready, {:.3} ms until it was carried out and read back\n",
        change.steps,
        change.requests.len(),
        ms(change.began_ns, change.planned_ns),
        ms(change.planned_ns, change.ended_ns),
    );
    if let Some(failure) = &change.failure {
        let _ = writeln!(text, "failed: {failure}");
    }
    for request in &change.requests {
        let _ = writeln!(
            text,
            "{:>9.3} ms  {}",
            ms(change.began_ns, request.at_ns),
            request.what
        );
    }
    (title, text)
}

fn preformatted(content: &mut String, title: &str, text: &str) {
    if !text.trim().is_empty() {
        let (title, text) = (escaped(title), escaped(text.trim_end()));
        let _ = writeln!(
            content,
            "<h4>{title}</h4>\n<pre tabindex=\"0\">{text}</pre>"
        );
    }
}

/// Writes every figure of every arm.
fn all_figures(out: &mut String, findings: &Findings) {
    let mut names: Vec<&String> = findings
        .runs
        .iter()
        .flat_map(|run| run.figures.metrics.keys())
        .collect();
    names.sort_unstable();
    names.dedup();
    let rows: Vec<Vec<Cell>> = names
        .iter()
        .map(|name| {
            let mut cells = vec![Cell::metric(name)];
            let value = |run: &Run| {
                let value = run.figures.metrics.get(*name);
                Cell::Number(value.map_or_else(|| "\u{2013}".to_owned(), |value| number(*value)))
            };
            cells.extend(findings.runs.iter().map(value));
            cells
        })
        .collect();
    let mut columns = vec!["figure"];
    columns.extend(findings.runs.iter().map(|run| run.figures.arm.as_str()));
    let mut content = String::new();
    table(&mut content, "All figures", &columns, &rows);
    folded(out, &format!("All {} figures", names.len()), &content);
}

#[cfg(test)]
mod tests {
    use super::changed;
    use weirgate_experiment::{Changed, Written};

    #[test]
    fn a_change_is_told_with_its_requests_and_its_failure() {
        let change = Changed {
            policy: "x.toml".into(),
            began_ns: 20_000_000_000,
            planned_ns: 20_004_500_000,
            ended_ns: 20_010_000_000,
            shaped_ns: 20_000_000_000,
            steps: 1,
            requests: vec![Written {
                at_ns: 20_005_000_000,
                what: "wan: add htb 1: at root".into(),
            }],
            failure: Some("K310: no".into()),
        };
        let (title, text) = changed(2, &change);
        assert_eq!(title, "Change 2 at 20.000 s: x.toml");
        assert_eq!(
            text,
            "steps: 1; requests that change something: 1\n\
             4.500 ms until the plan was ready, 5.500 ms until it was carried out and read back\n\
             failed: K310: no\n    5.000 ms  wan: add htb 1: at root\n"
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stored form: TOML with a line for each figure, so that a diff of two versions shows only the
//! figures that changed.

use crate::{Arm, Entry, Figure, Standing};
use std::fmt::Write as _;
use weirgate_document::quoted;

/// The version of the format.
pub(crate) const VERSION: i64 = 1;

const HEAD: &str = "# SPDX-License-Identifier: Apache-2.0 OR MIT\n\
                    # Written by `weirgate-lab results accept`; docs/results.md explains it.\n";

impl Entry {
    /// Returns the entry in its stored form.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "{HEAD}version = {VERSION}\nexperiment = {}\nseeds = [{}]\n\n[made-with]\n",
            quoted(&self.experiment),
            list(&self.seeds)
        );
        let made = &self.made_with;
        let mut digests = vec![
            ("setup", &made.setup),
            ("expectations", &self.expectations),
            ("measure", &made.measure),
        ];
        if let Some(machine) = &made.machine {
            digests.extend([("guest", &machine.guest), ("kernel", &machine.kernel)]);
        }
        for (name, digest) in digests {
            let _ = writeln!(text, "{name} = \"{digest}\"");
        }
        if let Some(machine) = &made.machine {
            let _ = writeln!(text, "release = {}", quoted(&machine.release));
            let _ = writeln!(text, "emulator = {}", quoted(&machine.emulator));
        }
        if !made.files.is_empty() {
            text.push_str("\n[made-with.files]\n");
            for (path, digest) in &made.files {
                let _ = writeln!(text, "{} = \"{digest}\"", quoted(path));
            }
        }
        for arm in &self.arms {
            push(&mut text, arm);
        }
        text
    }
}

fn push(text: &mut String, arm: &Arm) {
    let _ = write!(text, "\n[[arm]]\nname = {}\n", quoted(&arm.name));
    if !arm.recordings.is_empty() {
        text.push_str("recordings = [\n");
        for recording in &arm.recordings {
            let _ = writeln!(text, "    \"{recording}\",");
        }
        text.push_str("]\n");
    }
    text.push_str("figures = [\n");
    for figure in &arm.figures {
        let _ = writeln!(text, "    {{ {} }},", line(figure).join(", "));
    }
    text.push_str("]\n");
}

fn line(figure: &Figure) -> Vec<String> {
    let mut fields = vec![format!("metric = {}", quoted(&figure.metric))];
    let mut number = |name: &str, value: Option<f64>| {
        fields.extend(value.map(|value| format!("{name} = {value}")));
    };
    number("mean", figure.mean());
    number("interval", figure.interval());
    number(
        "judged",
        figure.judged().filter(|_| figure.judged() != figure.mean()),
    );
    let runs: Vec<String> = figure.runs.iter().map(ToString::to_string).collect();
    fields.push(format!("runs = {}", quoted(&runs.join(" "))));
    let Some(expected) = &figure.expected else {
        return fields;
    };
    fields.push(format!("expected = {}", quoted(&expected.promise)));
    let mut number = |name: &str, value: Option<f64>| {
        fields.extend(value.map(|value| format!("{name} = {value}")));
    };
    number("value", expected.value);
    number("thesis", expected.thesis);
    number("theory", expected.theory);
    fields.push(format!("verdict = \"{}\"", expected.verdict.word()));
    match &expected.verdict {
        Standing::Kept => {}
        Standing::Explained { by, reason } => {
            fields.push(format!("explained-by = {}", quoted(by)));
            fields.push(format!("reason = {}", quoted(reason)));
        }
        Standing::Missed { reason } => fields.push(format!("reason = {}", quoted(reason))),
    }
    fields
}

fn list(seeds: &[u64]) -> String {
    let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    seeds.join(", ")
}

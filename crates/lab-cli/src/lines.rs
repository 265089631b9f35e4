// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of `weirgate try`, each with its experiment and policy. The files are part of the
//! program.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A line to try.
#[derive(Debug)]
pub struct TrialLine {
    /// Its name in `--line`.
    pub key: &'static str,
    /// A description.
    pub about: &'static str,
    /// The duration of both runs on an idle machine, in words.
    pub takes: &'static str,
    /// The experiment's name and text.
    pub experiment: (&'static str, &'static str),
    /// The policy's path in the experiment, and its text.
    pub policy: (&'static str, &'static str),
}

/// Embeds a file of the experiments' folder with its name.
macro_rules! experiment {
    ($name:literal) => {
        experiment!($name, "")
    };
    ($name:literal, $folder:literal) => {
        (
            $name,
            include_str!(concat!("../../../experiments/", $folder, $name)),
        )
    };
}

/// All lines; the first is the default.
pub static LINES: [TrialLine; 4] = [
    TrialLine {
        key: "dsl",
        about: "an ADSL line, 2 Mbit/s down and 512 kbit/s up",
        takes: "About a minute",
        experiment: experiment!("try.toml"),
        policy: experiment!("../policies/default.toml"),
    },
    TrialLine {
        key: "fibre",
        about: "a fibre line, 100 Mbit/s down and 50 Mbit/s up",
        takes: "Some minutes",
        experiment: experiment!("fibre.toml", "try/"),
        policy: experiment!("policies/try-fibre.toml", "try/"),
    },
    TrialLine {
        key: "cable",
        about: "a cable line, 100 Mbit/s down and 10 Mbit/s up",
        takes: "Some minutes",
        experiment: experiment!("cable.toml", "try/"),
        policy: experiment!("policies/try-cable.toml", "try/"),
    },
    TrialLine {
        key: "lte",
        about: "a mobile line (LTE) that changes between 9 and 30 Mbit/s down, 10 Mbit/s up",
        takes: "About two minutes",
        experiment: experiment!("lte.toml", "try/"),
        policy: experiment!("policies/try-lte.toml", "try/"),
    },
];

/// Returns a parser of a line's name.
pub fn parser() -> impl TypedValueParser<Value = &'static TrialLine> {
    let words = LINES
        .iter()
        .map(|line| PossibleValue::new(line.key).help(line.about));
    PossibleValuesParser::new(words).try_map(|word| {
        let mut lines = LINES.iter();
        let known = lines.find(|line| line.key == word);
        known.ok_or_else(|| format!("there is no line `{word}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_has_a_word_an_experiment_and_the_policy_that_it_names() {
        let mut words = BTreeSet::new();
        for line in &LINES {
            assert!(words.insert(line.key));
            let (experiment, problems) = weirgate_experiment::parse(line.experiment.1);
            let experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
            let policies: Vec<_> = experiment
                .arms
                .iter()
                .filter_map(|arm| Some((&*arm.name, arm.policy.as_deref()?)))
                .collect();
            assert_eq!(policies, [("weirgate", line.policy.0)]);
            assert!(experiment.arms.iter().any(|arm| arm.name == "modem-only"));
        }
    }
}

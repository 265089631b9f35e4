// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of `weirgate try`: what each is, its experiment and its policy. All files
//! come with the program.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A line to try.
#[derive(Debug)]
pub struct TrialLine {
    /// Its word in `--line`.
    pub key: &'static str,
    /// It in words.
    pub about: &'static str,
    /// How long both runs take on an idle machine, in words.
    pub takes: &'static str,
    /// The experiment's name, and its text.
    pub experiment: (&'static str, &'static str),
    /// The policy, as the experiment names it, and its text.
    pub policy: (&'static str, &'static str),
}

/// A file that is named beside the experiments of a folder, and its text.
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

/// All of them; the first is tried where none is named.
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

/// Reads the word of one.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For any file, the parser returns without a panic, with places within the text, and with an
//! experiment exactly if there is no error.

use proptest::prelude::*;
use weirgate_document::Severity;
use weirgate_experiment::{Formula, Metric, parse};

const GOOD: &str = include_str!("good.toml");

/// Values that fields do not expect.
const ODD: &[&str] = &[
    "0",
    "-1",
    "1e400",
    "9223372036854775807",
    "99999999999999999999",
    "0.000000000001",
    "true",
    "\"\"",
    "\"0s\"",
    "\"-1s\"",
    "\"9999999h\"",
    "\"18446744073709551615\"",
    "\"1 packets\"",
    "\"ä{}'\\\"\"",
    "[]",
    "[[]]",
    "{}",
    "{ a = 1 }",
    "1979-05-27",
    "\"host65536\"",
    "\"gateway: \"",
    "\"rtt..x\"",
    "\"(((((((((((\"",
];

fn check(source: &str) -> Result<(), TestCaseError> {
    let (experiment, problems) = parse(source);
    let errors = problems.iter().any(|p| p.severity == Severity::Error);
    prop_assert_eq!(experiment.is_none(), errors);
    for problem in &problems {
        prop_assert!(problem.span.start <= problem.span.end, "{:?}", problem);
        prop_assert!(problem.span.end <= source.len(), "{:?}", problem);
        prop_assert!(!problem.message.is_empty());
        prop_assert!(!problem.render("x.toml", source).is_empty());
    }
    if let Some(experiment) = experiment {
        for traffic in &experiment.traffic {
            for (start, stop) in &traffic.runs {
                prop_assert!(start < stop && *stop <= experiment.duration());
            }
        }
        for phase in experiment.phases.windows(2) {
            prop_assert!(phase[0].end <= phase[1].start);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_value_in_any_field(line in 0..GOOD.lines().count(), odd in 0..ODD.len()) {
        let lines: Vec<String> = GOOD
            .lines()
            .enumerate()
            .map(|(number, text)| match text.split_once(" = ") {
                Some((key, _)) if number == line => format!("{key} = {}", ODD[odd]),
                _ => text.to_owned(),
            })
            .collect();
        check(&lines.join("\n"))?;
    }

    #[test]
    fn any_two_lines_gone(first in 0..GOOD.lines().count(), second in 0..GOOD.lines().count()) {
        let kept = GOOD.lines().enumerate();
        let lines: Vec<&str> = kept
            .filter(|(number, _)| *number != first && *number != second)
            .map(|(_, text)| text)
            .collect();
        check(&lines.join("\n"))?;
    }

    #[test]
    fn any_bytes_in_between(at in 0..GOOD.len(), text in "\\PC{0,12}") {
        let mut source = GOOD.to_owned();
        source.insert_str(at, &text);
        check(&source)?;
    }

    #[test]
    fn any_text_as_metric_or_formula(text in "[a-z0-9 .:+*/()_,-]{0,40}") {
        if let Ok(metric) = text.parse::<Metric>() {
            prop_assert_eq!(metric.to_string(), text.clone());
        }
        if let Ok(formula) = text.parse::<Formula>() {
            prop_assert_eq!(&formula.to_string().parse::<Formula>().unwrap(), &formula);
        }
    }
}

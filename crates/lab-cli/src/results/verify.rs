// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab results verify`: repeats runs with the stored seeds.

use super::beside::chosen;
use std::fmt::Write as _;
use weirgate_campaign::ledger::{Bench, Ledger};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_ledger::{Repetition, repeats};

/// Runs experiments again with the stored seeds, and compares.
pub(super) fn verify(ledger: &Ledger, names: &[String], bench: &mut Bench) -> Outcome {
    let mut agrees = true;
    for name in chosen(ledger, names)? {
        let subject = ledger.subject(&name)?;
        let Some(stored) = ledger.stored(&name)? else {
            let hint = "`weirgate-lab results accept` stores one";
            return Err(Failure::Input(format!(
                "weirgate: {name} has no stored result; {hint}"
            )));
        };
        let made_with = bench.made_with(&subject)?;
        let mut repeat = || -> Result<Repetition, Failure> {
            let again = bench.measured(&subject, &made_with, &stored.seeds, true)?;
            Ok(repeats(&stored, &subject.judge(&again)?))
        };
        let mut repetition = repeat()?;
        if let Repetition::Bits { other, .. } = &repetition
            && !other.is_empty()
        {
            // On a busy host, a run in some dozens shifts by microseconds; a second such shift at
            // the same place is unlikely.
            output::note(&format!(
                "{name}: {} recordings and figures differ; running it again",
                other.len()
            ));
            repetition = repeat()?;
        }
        agrees &= repetition.agrees();
        output::data(&format!("{name}: {}", text_of(&repetition)))?;
    }
    Ok(if agrees {
        Status::Done
    } else {
        Status::Differs
    })
}

fn text_of(repetition: &Repetition) -> String {
    match repetition {
        Repetition::Bits { same, other } if other.is_empty() => {
            format!("{same} recordings and figures repeat bit for bit")
        }
        Repetition::Bits { same, other } => format!(
            "{same} recordings and figures repeat bit for bit, {} do not:\n  {}",
            other.len(),
            other.join("\n  ")
        ),
        Repetition::Intervals {
            differences,
            within,
            outside,
        } => {
            let mut text = format!(
                "{} differ, so that bits may too; {within} means lie within the intervals, {} do \
                 not",
                differences.join(", "),
                outside.len()
            );
            for finding in outside {
                // Writing to a String cannot fail.
                let _ = write!(text, "\n  {finding}");
            }
            text
        }
    }
}

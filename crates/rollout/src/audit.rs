// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain audit`: judges a month from the verifications that were made, which are kept in
//! a file beside the domain's.

use crate::verify::record::{QUANTITIES, parsed, stored};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::time::calendar;
use weirgate_domain::{
    Audit, Break, Condition, Domain, History, Judgement, Quantity, Run, Service,
};
use weirgate_units::Span;

/// The largest number of breaks that are listed for a service.
const LISTED: usize = 20;

/// A line of the history.
#[derive(Serialize, Deserialize)]
struct Line {
    service: String,
    /// What was broken; `None` if the service could not be measured.
    broken: Option<Vec<String>>,
    from: u64,
    until: u64,
    count: u32,
}

/// Returns the default path of the history.
pub fn beside(domain: &Path) -> PathBuf {
    domain.with_extension("audits.json")
}

/// Reads the history; a missing file counts as empty.
///
/// # Errors
/// If the file cannot be read, or is no history.
pub fn read(path: &Path) -> Result<History, Failure> {
    let lines: Vec<Line> = parsed(path, "history of `domain verify`", "--history")?;
    let runs = lines.into_iter().map(|line| {
        let condition = match line.broken {
            None => Condition::Unknown,
            Some(words) if words.is_empty() => Condition::Kept,
            Some(words) => {
                let known = QUANTITIES.into_iter();
                Condition::Broken(
                    known
                        .filter(|one| words.contains(&one.to_string()))
                        .collect(),
                )
            }
        };
        Run {
            service: line.service,
            condition,
            from: line.from,
            until: line.until,
            count: line.count,
        }
    });
    Ok(History {
        runs: runs.collect(),
    })
}

/// Writes the history atomically: after a crash, or with a full disk, the old one is whole.
pub(crate) fn write(path: &Path, history: &History) -> Result<(), Failure> {
    let lines = history.runs.iter().map(|run| Line {
        service: run.service.clone(),
        broken: match &run.condition {
            Condition::Kept => Some(Vec::new()),
            Condition::Broken(broken) => Some(words(broken)),
            Condition::Unknown => None,
        },
        from: run.from,
        until: run.until,
        count: run.count,
    });
    let lines: Vec<Line> = lines.collect();
    stored(path, &format!("{}\n", serde_json::to_string(&lines)?))
}

fn words(broken: &[Quantity]) -> Vec<String> {
    broken.iter().map(Quantity::to_string).collect()
}

/// Judges every service over a month, as known at a time in Unix seconds, and prints it. Exit status
/// 1 if a promise was broken, or too little is known.
///
/// # Errors
/// If the history cannot be read.
pub fn run(
    domain: &Domain,
    history: &Path,
    (name, month): (&str, &Range<u64>),
    now: u64,
    document: &Document,
) -> Outcome {
    let audits = read(history)?.judged(domain, month, now);
    let all = || domain.services.iter().zip(&audits);
    document.put("month", name.into());
    document.put("until", calendar(month.end.min(now)).into());
    document.put(
        "services",
        all().map(|(service, one)| value(service, one)).collect(),
    );
    if !document.is_wanted() {
        let mut text = String::new();
        let so_far = if now < month.end { " so far" } else { "" };
        let sound = audits.iter().filter(|audit| audit.sound()).count();
        let _ = writeln!(
            text,
            "{name}{so_far}, until {}. Of {} {sound} kept what was promised.",
            calendar(month.end.min(now)),
            output::count(audits.len(), "service"),
        );
        for (service, audit) in all() {
            describe(&mut text, service, audit);
        }
        output::data(&text)?;
    }
    Ok(if audits.iter().all(Audit::sound) {
        Status::Done
    } else {
        Status::Differs
    })
}

fn value(service: &Service, audit: &Audit) -> serde_json::Value {
    let breaks = audit.breaks.iter().map(|one| {
        json!({
            "what": words(&one.broken),
            "from": calendar(one.from),
            "until": calendar(one.until),
        })
    });
    let breaks: Vec<serde_json::Value> = breaks.collect();
    let range = audit
        .available()
        .map(|range| range.map(|part| part * 100.0));
    json!({
        "name": service.name,
        "available_percent": range,
        "availability_promised_percent": service.availability.map(|share| share.as_f64() * 100.0),
        "availability": audit.availability.map(Judgement::word),
        "outage_s": [audit.longest.as_secs_f64(), audit.possible.as_secs_f64()],
        "outage_promised_s": service.outage.map(Span::as_secs_f64),
        "outage": audit.outage.map(Judgement::word),
        "unknown_s": audit.unknown.as_secs_f64(),
        "kept": audit.sound(),
        "breaks": breaks,
    })
}

fn describe(text: &mut String, service: &Service, audit: &Audit) {
    let Some([least, most]) = audit.available() else {
        return;
    };
    let outcome = |judgement: Option<Judgement>| match judgement {
        Some(Judgement::Broken) => "BROKEN",
        other => other.map_or("not promised", Judgement::word),
    };
    let promised = match service.availability {
        Some(share) => format!(" of {share}"),
        None => String::new(),
    };
    let _ = write!(
        text,
        "\n{}: available {}{promised}, {}",
        service.name,
        between(&[least, most].map(percent), "%"),
        outcome(audit.availability)
    );
    let promised = match service.outage {
        Some(outage) => format!(" of {}", lasting(outage)),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "; longest outage {}{promised}, {}",
        between(&[audit.longest, audit.possible].map(lasting), ""),
        outcome(audit.outage)
    );
    if audit.unknown > Span::ZERO {
        let _ = writeln!(text, "  unknown: {}", lasting(audit.unknown));
    }
    for Break {
        broken,
        from,
        until,
    } in audit.breaks.iter().take(LISTED)
    {
        let _ = writeln!(
            text,
            "  {} broken from {} to {}, {}",
            words(broken).join(", "),
            calendar(*from),
            calendar(*until),
            lasting(Span::from_secs(until - from))
        );
    }
    if let Some(more @ 1..) = audit.breaks.len().checked_sub(LISTED) {
        let _ = writeln!(text, "  and {more} more, which --json has");
    }
}

/// Formats a range of two figures, or the single one.
fn between([least, most]: &[String; 2], unit: &str) -> String {
    let space = if unit.is_empty() { "" } else { " " };
    if least == most {
        format!("{least}{space}{unit}")
    } else {
        format!("{least} to {most}{space}{unit}")
    }
}

/// Formats a share rounded down, so that 100 % is only said if nothing was missed.
fn percent(part: f64) -> String {
    format!("{:.3}", (part * 1e5).floor() / 1e3)
}

/// Formats a time in hours, minutes and seconds.
fn lasting(span: Span) -> String {
    let seconds = span.as_nanos() / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours}:{minutes:02}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        assert!(read(&path).is_ok_and(|history| history.runs.is_empty()));
        let run = |condition| Run {
            service: "books".to_owned(),
            condition,
            from: 1,
            until: 2,
            count: 3,
        };
        let history = History {
            runs: vec![
                run(Condition::Kept),
                run(Condition::Unknown),
                run(Condition::Broken(QUANTITIES.to_vec())),
            ],
        };
        assert!(write(&path, &history).is_ok());
        assert_eq!(read(&path).ok(), Some(history));
        for text in [
            "",
            "{}",
            "[{}]",
            "[{\"service\":1}]",
            "[{\"service\":\"a\",\"from\":-1}]",
        ] {
            std::fs::write(&path, text).unwrap();
            let failure = read(&path).unwrap_err();
            assert!(
                failure.text().contains("is no history of `domain verify`"),
                "{text}"
            );
        }
    }

    /// 99.9999 % is not 100 %.
    #[test]
    fn figures_are_not_embellished() {
        assert_eq!(
            [1.0, 0.999_999, 0.5].map(percent),
            ["100.000", "99.999", "50.000"]
        );
        assert_eq!(lasting(Span::from_secs(90_061)), "25:01:01");
    }
}

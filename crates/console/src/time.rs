// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times as people write and read them.

use jiff::Timestamp;
use std::time::Duration;
use weirgate_units::Span;

/// Seconds of Unix time as a date and time of day in UTC, such as
/// `2026-11-25 02:05:56Z`.
pub fn calendar(time: u64) -> String {
    let stamp = i64::try_from(time).ok().map(Timestamp::from_second);
    match stamp {
        Some(Ok(stamp)) => stamp.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        _ => format!("{time} s after 1970"),
    }
}

/// Reads a duration of the command line, such as `90s`, `1m` or `2h`.
///
/// # Errors
/// The text is no duration, or one shorter than a second.
pub fn duration(text: &str) -> Result<Duration, String> {
    // A person who writes `1m` at a prompt means a minute.
    let number = text
        .strip_suffix('m')
        .filter(|number| number.ends_with(|c: char| c.is_ascii_digit()));
    let minutes = number.map(|number| format!("{number}min"));
    let span: Span = minutes
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|error: weirgate_units::ParseError| error.to_string())?;
    let duration = Duration::from_nanos(span.as_nanos());
    if duration < Duration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (time, expected) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_798_761_599, "2026-12-31 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(calendar(time), expected);
        }
    }

    #[test]
    fn minutes_and_hours_are_taken() {
        for (text, seconds) in [("90s", 90), ("1m", 60), ("5 min", 300), ("2h", 7_200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("0m"), Err("at least 1s".to_owned()));
        assert!(duration("1 fortnight").is_err());
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses and formats times.

use std::time::Duration;
use weirgate_units::Span;

/// Formats Unix time in seconds as date and time of day in UTC, such as `2026-11-25 02:05:56Z`.
/// After the year 9999, only the seconds are given.
pub fn calendar(time: u64) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let (year, month, day) = date(time / DAY);
    if year > 9999 {
        return format!("{time} s after 1970");
    }
    let (hour, minute, second) = (time % DAY / 3600, time / 60 % 60, time % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the year, month and day of the month, `days` days after 1970-01-01.
///
/// Years are counted from March, so that a leap day is the last day of its year. Any five months
/// from March or August on have 153 days.
fn date(days: u64) -> (u64, u64, u64) {
    const CENTURIES_4: u64 = 400 * 365 + 97;
    let days = days + 719_468; // since 0000-03-01
    let of_400_years = days % CENTURIES_4;
    let leap_days = of_400_years / 1_460 - of_400_years / 36_524 + of_400_years / (CENTURIES_4 - 1);
    let year = (of_400_years - leap_days) / 365;
    let of_year = of_400_years - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let after_december = month / 10;
    let year = days / CENTURIES_4 * 400 + year + after_december;
    (year, month + 3 - 12 * after_december, day)
}

/// Parses a duration of the command line, such as `90s`, `1m` or `2h`.
///
/// # Errors
/// Fails if the text is not a duration, or is shorter than a second.
pub fn duration(text: &str) -> Result<Duration, String> {
    // At a command line, `1m` means a minute.
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
            (1_830_297_599, "2027-12-31 23:59:59Z"),
            (1_835_395_200, "2028-02-29 00:00:00Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (253_402_300_799, "9999-12-31 23:59:59Z"),
            (253_402_300_800, "253402300800 s after 1970"),
            (u64::MAX, "18446744073709551615 s after 1970"),
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

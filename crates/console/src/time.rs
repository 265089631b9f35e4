// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses and formats times.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weirgate_units::Span;

const DAY: u64 = 24 * 60 * 60;

/// Returns the present Unix time in seconds.
pub fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.unwrap_or_default().as_secs()
}

/// Formats Unix time in seconds as date and time of day in UTC, such as `2026-11-25 02:05:56Z`.
/// After the year 9999, only the seconds are given.
pub fn calendar(time: u64) -> String {
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

/// Returns the first day of a month, in days after 1970-01-01: the inverse of [`date`].
fn first_of_month(year: u64, month: u64) -> u64 {
    let before_march = u64::from(month < 3);
    let year = year - before_march;
    let since_march = month + 12 * before_march - 3;
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    (days + (153 * since_march + 2) / 5).saturating_sub(719_468)
}

/// Returns the calendar month (UTC) of a Unix time in seconds, as `2026-11`.
pub fn month_of(time: u64) -> String {
    let (year, month, _) = date(time / DAY);
    format!("{year}-{month:02}")
}

/// Parses a calendar month (UTC) such as `2026-11`, and returns its beginning and end in Unix
/// seconds.
///
/// # Errors
/// Fails if the text is no month from 1970 to 9999.
pub fn month(text: &str) -> Result<Range<u64>, String> {
    let parts = text.split_once('-');
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_right = |(year, month): &(&str, &str)| {
        year.len() == 4 && month.len() == 2 && digits(year) && digits(month)
    };
    let parts = parts.filter(is_right);
    let parts = parts.and_then(|(year, month)| year.parse().ok().zip(month.parse().ok()));
    match parts {
        Some((year @ 1970..=9999, month @ 1..=12)) => {
            let next = (year + month / 12, month % 12 + 1);
            Ok(first_of_month(year, month) * DAY..first_of_month(next.0, next.1) * DAY)
        }
        _ => Err("write a year and a month, such as `2026-11`".to_owned()),
    }
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

    /// Every month begins where the one before ends, and both times are in it.
    #[test]
    fn months_follow_one_another() {
        let mut end = 0;
        for year in 1970..=9999 {
            for number in 1..=12 {
                let text = format!("{year}-{number:02}");
                let span = month(&text).unwrap();
                assert_eq!(span.start, end, "{text}");
                assert_eq!(month_of(span.start), text);
                assert_eq!(month_of(span.end - 1), text);
                end = span.end;
            }
        }
        assert_eq!(end, 253_402_300_800);
        let wrong = [
            "2026", "2026-13", "2026-00", "26-11", "2026-1", "1969-12", "+026-11", "2026-+1", "",
        ];
        for text in wrong {
            assert!(month(text).is_err(), "{text}");
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

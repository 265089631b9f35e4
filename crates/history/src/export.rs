// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats readings for other programs.

use crate::{Event, Kind, Reading};
use std::fmt;

/// Returns a CSV file (RFC 4180) with a line for each point. Times are in milliseconds of Unix
/// time.
pub fn csv(readings: &[Reading]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_csv(&mut text, readings);
    text
}

/// Writes the CSV file piece by piece; an error is that of the writer.
pub fn write_csv(out: &mut impl fmt::Write, readings: &[Reading]) -> fmt::Result {
    out.write_str("series,start_ms,end_ms,mean,least,most,counted,known\r\n")?;
    for reading in readings {
        let name = reading.name.replace('"', "\"\"");
        for point in &reading.points {
            write!(
                out,
                "\"{name}\",{},{},{},{},{},{},{}\r\n",
                point.start,
                point.end,
                short(point.mean),
                point.least,
                point.most,
                point.counted,
                short(point.known),
            )?;
        }
    }
    Ok(())
}

/// Returns a JSON object (RFC 8259). Its `series` maps names to `kind` and `points`, each of
/// which is `[start_ms, end_ms, mean, least, most, counted, known]`. It also has `events`.
pub fn json(readings: &[Reading], events: &[Event]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_json(&mut text, readings, events);
    text
}

/// Writes the JSON object piece by piece; an error is that of the writer.
pub fn write_json(
    out: &mut impl fmt::Write,
    readings: &[Reading],
    events: &[Event],
) -> fmt::Result {
    out.write_str("{\"series\":{")?;
    for (index, reading) in readings.iter().enumerate() {
        if index > 0 {
            out.write_char(',')?;
        }
        quoted(out, &reading.name)?;
        let kind = match reading.kind {
            Some(Kind::Counter) => "\"counter\"",
            Some(Kind::Gauge) => "\"gauge\"",
            None => "null",
        };
        write!(out, ":{{\"kind\":{kind},\"points\":[")?;
        for (index, point) in reading.points.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(
                out,
                "{comma}[{},{},{},{},{},{},{}]",
                point.start,
                point.end,
                short(point.mean),
                point.least,
                point.most,
                point.counted,
                short(point.known),
            )?;
        }
        out.write_str("]}")?;
    }
    out.write_str("},\"events\":[")?;
    for (index, event) in events.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{{\"time_ms\":{},\"kind\":", event.time)?;
        quoted(out, &event.kind)?;
        out.write_str(",\"text\":")?;
        quoted(out, &event.text)?;
        out.write_char('}')?;
    }
    out.write_str("]}")
}

/// Rounds a number to three decimal places; `NaN` and infinities become 0.
fn short(value: f64) -> f64 {
    let rounded = (value * 1000.0).round() / 1000.0;
    if rounded.is_finite() { rounded } else { 0.0 }
}

fn quoted(out: &mut impl fmt::Write, words: &str) -> fmt::Result {
    out.write_char('"')?;
    for letter in words.chars() {
        match letter {
            '"' | '\\' => {
                out.write_char('\\')?;
                out.write_char(letter)?;
            }
            letter if letter < ' ' || letter == '\u{7f}' => {
                write!(out, "\\u{:04x}", u32::from(letter))?;
            }
            letter => out.write_char(letter)?,
        }
    }
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_within_their_quotes() {
        let reading = Reading {
            name: String::from("a\"b\\c\n,<script>"),
            kind: Some(Kind::Counter),
            points: vec![crate::Point {
                start: 0,
                end: 1000,
                mean: 2.5,
                least: 2,
                most: 3,
                counted: 5,
                known: 1.0,
            }],
        };
        let text = json(std::slice::from_ref(&reading), &[]);
        assert_eq!(
            text,
            "{\"series\":{\"a\\\"b\\\\c\\u000a,<script>\":{\"kind\":\"counter\",\"points\":[[0,1000,2.5,2,3,5,1]]}},\"events\":[]}"
        );
        let text = csv(&[reading]);
        assert!(text.ends_with("\"a\"\"b\\c\n,<script>\",0,1000,2.5,2,3,5,1\r\n"));
    }
}

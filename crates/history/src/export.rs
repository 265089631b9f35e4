// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Readings as text for other programs.

use crate::{Event, Kind, Reading};
use std::fmt::Write as _;

/// RFC 4180: a line for every point. Times are milliseconds of Unix time.
pub fn csv(readings: &[Reading]) -> String {
    let mut text = String::from("series,start_ms,end_ms,mean,least,most,counted,known\r\n");
    for reading in readings {
        let name = reading.name.replace('"', "\"\"");
        for point in &reading.points {
            let _ = write!(
                text,
                "\"{name}\",{},{},{},{},{},{},{}\r\n",
                point.start,
                point.end,
                short(point.mean),
                point.least,
                point.most,
                point.counted,
                short(point.known),
            );
        }
    }
    text
}

/// One JSON object (RFC 8259): `series`, by name its `kind` and its `points`,
/// each `[start_ms, end_ms, mean, least, most, counted, known]`; and `events`.
pub fn json(readings: &[Reading], events: &[Event]) -> String {
    let mut text = String::from("{\"series\":{");
    for (place, reading) in readings.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        quoted(&mut text, &reading.name);
        let kind = match reading.kind {
            Some(Kind::Counter) => "\"counter\"",
            Some(Kind::Gauge) => "\"gauge\"",
            None => "null",
        };
        let _ = write!(text, ":{{\"kind\":{kind},\"points\":[");
        for (place, point) in reading.points.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let _ = write!(
                text,
                "{comma}[{},{},{},{},{},{},{}]",
                point.start,
                point.end,
                short(point.mean),
                point.least,
                point.most,
                point.counted,
                short(point.known),
            );
        }
        text.push_str("]}");
    }
    text.push_str("},\"events\":[");
    for (place, event) in events.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{{\"time_ms\":{},\"kind\":", event.time);
        quoted(&mut text, &event.kind);
        text.push_str(",\"text\":");
        quoted(&mut text, &event.text);
        text.push('}');
    }
    text.push_str("]}");
    text
}

/// A number with at most three digits behind the point, never `NaN` or `inf`.
fn short(value: f64) -> f64 {
    let rounded = (value * 1000.0).round() / 1000.0;
    if rounded.is_finite() { rounded } else { 0.0 }
}

fn quoted(text: &mut String, words: &str) {
    text.push('"');
    for letter in words.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            letter if letter < ' ' || letter == '\u{7f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            letter => text.push(letter),
        }
    }
    text.push('"');
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

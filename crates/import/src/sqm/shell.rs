// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/etc/sqm/DEVICE.iface.conf`: shell variables, one file for each device (`platform/linux/` of
//! sqm-scripts).
//!
//! Assignments of plain values are read; nothing is executed. A file with computed values is
//! refused with the line.

use super::queue::{Queue, Setting};
use crate::codes;
use std::collections::BTreeMap;
use weirgate_document::{Problems, SourceSpan};

/// The shell's names of options and UCI's. If an option has several, the first one that is set
/// counts, as in `src/defaults.sh`.
const NAMES: [(&str, &str); 20] = [
    ("ENABLED", "enabled"),
    ("IFACE", "interface"),
    ("DOWNLINK", "download"),
    ("UPLINK", "upload"),
    ("QDISC", "qdisc"),
    ("SCRIPT", "script"),
    ("LINKLAYER", "linklayer"),
    ("OVERHEAD", "overhead"),
    ("STAB_MPU", "tcMPU"),
    ("ZERO_DSCP_INGRESS", "squash_dscp"),
    ("ZERO_DSCP", "squash_dscp"),
    ("SQUASH_DSCP", "squash_dscp"),
    ("IGNORE_DSCP_INGRESS", "squash_ingress"),
    ("IGNORE_DSCP", "squash_ingress"),
    ("SQUASH_INGRESS", "squash_ingress"),
    ("LLAM", "linklayer_adaptation_mechanism"),
    ("IQDISC_OPTS", "iqdisc_opts"),
    ("EQDISC_OPTS", "eqdisc_opts"),
    ("SQM_DEBUG", "debug_logging"),
    ("SQM_VERBOSITY_MAX", "verbosity"),
];

/// Returns whether the first line that is not blank or a comment is an assignment.
pub(super) fn is_meant(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| {
        // A comment does not show the format.
        !line.is_empty() && !line.starts_with('#')
    });
    first.is_some_and(|line| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        line.split_once('=').is_some_and(|(name, _)| is_name(name))
    })
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// Reads the only queue of the file, which belongs to `device`.
pub(super) fn parse(text: &str, device: Option<&str>, problems: &Problems) -> Queue {
    let mut found: BTreeMap<String, Setting> = BTreeMap::new();
    let mut begin = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let line = begin..begin + raw.trim_end().len();
        begin += raw.len();
        let wrong = |span: SourceSpan, what: String| {
            let right = "write NAME=VALUE with the value itself; commands are not run here";
            problems.error(codes::FORM, span, what, right);
        };
        let Some(words) = words(raw, line.start) else {
            wrong(line, "a quote has no end".to_owned());
            continue;
        };
        for (word, span) in words.iter().skip_while(|(word, _)| *word == "export") {
            let assigned = word.split_once('=').filter(|(name, _)| is_name(name));
            let Some((name, value)) = assigned else {
                wrong(span.clone(), format!("`{word}` is no assignment"));
                // The words after a command are its arguments.
                break;
            };
            let span = span.start + name.len() + 1..span.end;
            if value.contains(['$', '`', ';', '\\']) {
                wrong(span, format!("{name} is computed: `{value}`"));
                break;
            }
            // As in the shell, an empty variable counts as unset, and the last assignment counts.
            found.remove(name);
            if !value.is_empty() {
                let set = Setting {
                    line: index + 1,
                    span,
                    written: name.to_owned(),
                    text: value.to_owned(),
                };
                found.insert(name.to_owned(), set);
            }
        }
    }
    let mut options = BTreeMap::new();
    for (written, uci) in NAMES {
        if let Some(set) = found.remove(written) {
            options.entry(uci.to_owned()).or_insert(set);
        }
    }
    options.extend(found);
    let given = |text: &str, written: &str| Setting {
        line: 1,
        span: 0..0,
        written: written.to_owned(),
        text: text.to_owned(),
    };
    if let Some(device) = device {
        options.insert("interface".to_owned(), given(device, "IFACE"));
    }
    // A device with this file is shaped unless the file disables it.
    options
        .entry("enabled".to_owned())
        .or_insert_with(|| given("1", "ENABLED"));
    Queue {
        line: 1,
        span: 0..0,
        options,
    }
}

/// Splits a line that begins at an offset into words with their places, without quotes and comment;
/// returns `None` if a quote is not closed.
fn words(line: &str, begin: usize) -> Option<Vec<(String, SourceSpan)>> {
    let mut words: Vec<(String, SourceSpan)> = Vec::new();
    let mut word: Option<String> = None;
    let mut from = 0;
    let mut quote = None;
    for (at, c) in line.char_indices() {
        let at = begin + at;
        if word.is_none() {
            from = at;
        }
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => {
                words.extend(word.take().map(|word| (word, from..at)));
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    let end = begin + line.len();
    words.extend(word.map(|word| (word, from..end)));
    quote.is_none().then_some(words)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the table to C, for the classifier.

use crate::{BITS, EXTENSIONS, FLOWS, HEAD, LOOKS, Length, PATTERNS, Pattern, Transport};
use std::fmt::Write as _;

/// Returns the file that `bpf/payload` includes as `patterns.h`.
#[must_use]
pub fn header() -> String {
    let mut out = String::from(
        "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n\
         /* Written by the build from crates/signatures. */\n",
    );
    let numbers = [
        ("HEAD", HEAD as u64),
        ("FLOWS", FLOWS.into()),
        ("LOOKS", LOOKS.into()),
        ("EXTENSIONS", EXTENSIONS as u64),
        ("BITS", BITS.into()),
    ];
    // Writing to a string cannot fail.
    for (name, value) in numbers {
        let _ = writeln!(out, "#define {name} {value}");
    }
    for (transport, name) in [(Transport::Tcp, "TCP"), (Transport::Udp, "UDP")] {
        let _ = write!(out, "#define {name}_PATTERNS(payload)");
        let each = PATTERNS.iter().filter(|one| one.transport == transport);
        for pattern in each {
            let (number, test) = (pattern.is.number(), test(pattern));
            let _ = write!(out, " \\\n\tif ({test}) \\\n\t\treturn {number};");
        }
        out.push('\n');
    }
    out
}

fn test(pattern: &Pattern) -> String {
    let mut parts: Vec<String> = Vec::new();
    match pattern.length {
        Length::Any => {}
        Length::Exactly(length) => parts.push(format!("(payload)->length == {length}")),
        Length::Stated => parts.push("stated(payload)".to_owned()),
    }
    if let Some(bits) = pattern.bits {
        let (place, mask, value) = (bits.place, bits.mask, bits.value);
        parts.push(format!("SET(payload, {place}, {mask:#x}, {value:#x})"));
    }
    for (place, bytes) in pattern.bytes {
        // Three digits each, so that a following digit is not part of the escape.
        let octal: Vec<String> = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let octal = octal.concat();
        parts.push(format!("AT(payload, {place}, \"{octal}\")"));
    }
    parts.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_every_pattern_once() {
        let text = header();
        assert_eq!(text.matches("\treturn ").count(), PATTERNS.len());
        assert!(text.contains("AT(payload, 0, \"\\023\\102\\151"), "{text}");
    }
}

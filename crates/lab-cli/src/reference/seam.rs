// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manual page of the interface between disciplines and their hosts. The prose is in `seam.md`
//! beside this file. Fields, answers, reasons and needs are read from the header
//! (`aqm/include/aqm.h`).

use crate::reference::disciplines::{body, escaped};
use std::fmt::Write as _;
use weirgate_aqm::reasons;

const TEXT: &str = include_str!("seam.md");

/// Structures and enumerations of the header, with the headings of their sections.
const PARTS: [(&str, &str); 7] = [
    ("struct aqm_packet {", "A PACKET"),
    ("struct aqm_context {", "THE CONTEXT"),
    ("struct aqm_link {", "THE LINK"),
    ("struct aqm_verdict {", "A VERDICT"),
    ("enum aqm_action {", "ACTIONS"),
    ("enum aqm_needs {", "NEEDS"),
    ("enum aqm_part {", "PARTS OF A FLOW"),
];

/// Returns the path below the reference, and the text.
pub fn page() -> (String, String) {
    let mut page = String::from(
        ".TH \"weirgate-seam\" 7 \"\" \"weirgate\" \"Queueing disciplines\"\n.SH NAME\n\
         weirgate\\-seam \\- between a queueing discipline and its hosts\n",
    );
    page.push_str(&body(TEXT));
    for (begin, heading) in PARTS {
        // Writing to a String cannot fail.
        let _ = writeln!(page, ".SH {heading}");
        for (name, help) in entries(begin) {
            let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(&help));
        }
    }
    page.push_str(".SH REASONS\n");
    for reason in reasons() {
        let (name, help) = (escaped(reason.name), escaped(reason.help));
        let _ = write!(page, ".TP\n\\fB{name}\\fR\n{help}\n");
    }
    page.push_str(".SH SEE ALSO\n\\fBweirgate\\-aqm\\fR(1), docs/aqm.md\n");
    ("man/weirgate-seam.7".to_owned(), page)
}

/// Returns the kit's header.
fn header() -> &'static str {
    let sources = weirgate_bpf::sources();
    let found = sources
        .iter()
        .find(|(path, _)| *path == "aqm/include/aqm.h");
    found.map_or("", |(_, text)| text)
}

/// Returns the lines of a structure or enumeration: `u32 len; /* comment */`, `NAME = 1, /* comment
/// */`. A comment may also be above the line, and may span several lines.
fn entries(begin: &str) -> Vec<(&'static str, String)> {
    let Some((_, rest)) = header().split_once(begin) else {
        return Vec::new();
    };
    let inside = rest.split_once("\n};").map_or("", |(inside, _)| inside);
    let mut found = Vec::new();
    let mut above: Vec<&str> = Vec::new();
    let mut is_open = false;
    for line in inside.lines() {
        let (code, help) = match line.split_once("/*") {
            Some((code, help)) => (code, help),
            None if is_open => ("", line),
            None => (line, ""),
        };
        is_open = (is_open || line.contains("/*")) && !line.contains("*/");
        let help = help.trim().trim_start_matches("* ");
        let help = help.trim_end_matches("*/").trim();
        if !help.is_empty() {
            above.push(help);
        }
        let code = code.trim().trim_end_matches([';', ',']);
        let name = code
            .split(" = ")
            .next()
            .and_then(|it| it.rsplit(' ').next());
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            found.push((name, above.join(" ")));
            above.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_the_header_has() {
        for (begin, heading) in PARTS {
            assert!(entries(begin).len() >= 4, "{heading}: {:?}", entries(begin));
            for (name, _) in entries(begin) {
                assert!(!name.contains(['*', '/']), "{heading}: {name}");
            }
        }
        assert_eq!(
            entries("struct aqm_context {")[0],
            ("now_ns", "never goes backwards".to_owned())
        );
        let of = |name| {
            entries("struct aqm_context {")
                .into_iter()
                .find(|one| one.0 == name)
        };
        let (_, help) = of("random").expect("a field");
        assert!(help.starts_with("Uniform;") && help.ends_with("(AQM_NEEDS_RANDOM_OUT)."));
        assert_eq!(entries("enum aqm_action {")[4].0, "AQM_AGAIN");
        let page = page().1;
        for word in ["room_packets", "sojourn", "NAME_evict"] {
            assert!(page.contains(word), "{word}");
        }
    }
}

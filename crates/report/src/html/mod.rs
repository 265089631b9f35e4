// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One self-contained HTML file: no scripts, no external files.
//!
//! [`Section::new`] writes one experiment. [`page`] puts sections under a title, with an index if
//! there are several, and [`page_with_failures`] also lists failed experiments. Sections are made
//! one by one, so that only one experiment's recordings need to be in memory.

mod details;
mod section;
mod set_up;
mod table;

pub use section::Section;

use crate::markup::escaped;
use crate::words;
use std::fmt::Write as _;

/// The page's style sheet.
const STYLE: &str = include_str!("style.css");

/// Returns the page.
#[must_use]
pub fn page(title: &str, sections: &[Section]) -> String {
    page_with_failures(title, sections, &[])
}

/// Returns the page, with the names of the experiments that failed, and the reasons.
#[must_use]
pub fn page_with_failures(
    title: &str,
    sections: &[Section],
    failures: &[(String, String)],
) -> String {
    let mut out = String::new();
    let title = escaped(title);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n\
         <body class=\"plot-page\">\n<main>\n<h1>{title}</h1>\n",
        crate::svg::STYLE
    );
    if sections.len() > 1 {
        index(&mut out, sections);
    }
    if !failures.is_empty() {
        missing(&mut out, failures);
    }
    for section in sections {
        out += section.body();
    }
    let _ = write!(
        out,
        "</main>\n<footer>Written by weirgate {}. Times are virtual: the same experiment and \
         seed give the same figures on any machine.</footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn missing(out: &mut String, failures: &[(String, String)]) {
    *out += "<h2>Not run to the end</h2>\n";
    for (name, why) in failures {
        let _ = writeln!(
            out,
            "<h3><span class=\"badge bad\">failed</span> {}</h3>\n<pre>{}</pre>",
            escaped(name),
            escaped(why.trim_end())
        );
    }
}

fn index(out: &mut String, sections: &[Section]) {
    let kept: usize = sections.iter().map(|section| section.kept).sum();
    let all: usize = sections.iter().map(|section| section.expected).sum();
    let _ = writeln!(
        out,
        "<p class=\"lead\">{} experiments. {}</p>\n<div class=\"scroll\"><table class=\"wide\">\n<caption>Experiments\
         </caption>\n<thead><tr><th scope=\"col\">name</th><th scope=\"col\">what</th>\
         <th scope=\"col\">expectations</th></tr></thead>\n<tbody>",
        sections.len(),
        words::score(kept, all)
    );
    for section in sections {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td><td>{}</td></tr>",
            section.id,
            escaped(&section.name),
            escaped(&section.title),
            section.badge()
        );
    }
    *out += "</tbody>\n</table></div>\n";
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accessibility of the page as far as its text shows it: WCAG 2.1, success criteria 1.3.1, 1.4.3,
//! 1.4.11, 3.1.1 and 4.1.2. Tests in a browser are in crate `cli`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

fn text(file: &str) -> String {
    weirgate_testing::read(&format!("web/{file}"))
}

/// Returns the relative luminance of `#rrggbb` (WCAG 2.1, definitions).
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
        let value = f64::from(value) / 255.0;
        if value <= 0.03928 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Returns a colour of the style sheet, light and dark.
fn colour<'a>(css: &'a str, name: &str) -> [&'a str; 2] {
    let begin = format!("--{name}: light-dark(");
    let (_, rest) = css.split_once(&begin).unwrap_or_else(|| panic!("{name}"));
    let (both, _) = rest.split_once(')').unwrap();
    let (light, dark) = both.split_once(", ").unwrap();
    [light, dark]
}

#[test]
fn colours_stand_out_light_and_dark() {
    let css = text("watch.css");
    let words = ["text", "faint", "link", "good", "bad"].map(|name| (String::from(name), 4.5));
    let lines = (0..8).map(|number| (format!("c{number}"), 3.0));
    let edge = (String::from("edge"), 3.0);
    for (name, least) in words.into_iter().chain(lines).chain([edge]) {
        for ground in ["ground", "card"] {
            for scheme in 0..2 {
                let found = contrast(colour(&css, &name)[scheme], colour(&css, ground)[scheme]);
                assert!(found >= least, "{name} on {ground}, {scheme}: {found:.2}");
            }
        }
    }
}

/// Returns the tags with a name.
fn tags<'a>(html: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = html.split('<');
    parts.filter(move |part| part.split([' ', '>']).next() == Some(name))
}

#[test]
fn what_stands_there_has_a_name() {
    let html = text("index.html");
    assert!(html.contains("<html lang=\"en\">"));
    let tables = tags(&html, "table").count();
    assert!(tables >= 10, "{tables}");
    assert_eq!(tags(&html, "caption").count(), tables);
    for head in tags(&html, "th") {
        assert!(head.contains("scope="), "{head}");
    }
    // A table that is wider than the screen can be scrolled with keys, and has a name.
    for place in tags(&html, "div").filter(|tag| tag.contains("class=\"wide\"")) {
        for part in ["tabindex=\"0\"", "role=\"region\"", "aria-label=\""] {
            assert!(place.contains(part), "{place}");
        }
    }
    for button in tags(&html, "button") {
        let (_, words) = button.split_once('>').unwrap();
        assert!(!words.trim().is_empty(), "{button}");
    }
    let asked = tags(&html, "select").count() + tags(&html, "input").count();
    assert_eq!(asked, tags(&html, "label").count());
    for section in tags(&html, "section") {
        let (_, rest) = section.split_once("aria-labelledby=\"").unwrap();
        let (id, _) = rest.split_once('"').unwrap();
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    // What changes each second is not read aloud each second.
    let status = tags(&html, "span").find(|tag| tag.contains("role=\"status\""));
    assert!(status.is_some_and(|tag| tag.contains("id=\"state\"")));
}

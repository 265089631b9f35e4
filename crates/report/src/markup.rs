// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing SVG and HTML: escaping, and short numbers.
//!
//! Every text from outside this crate passes [`escaped`]. A test draws an experiment in which
//! every name is markup.

use std::fmt::{self, Display};

/// Escapes a text for element content and attribute values.
pub(crate) fn escaped(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// Prints its text with the special characters of markup escaped, and without control characters,
/// which XML does not allow.
pub(crate) struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => write!(f, "{character}")?,
                other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => {
                    f.write_str("\u{fffd}")?;
                }
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

/// Formats a coordinate with at most one decimal.
pub(crate) fn px(value: f64) -> Pixels {
    Pixels(value)
}

/// Prints a coordinate.
pub(crate) struct Pixels(f64);

impl Display for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() as i64;
        if tenths % 10 == 0 {
            write!(f, "{}", tenths / 10)
        } else {
            let sign = if tenths < 0 { "-" } else { "" };
            let tenths = tenths.unsigned_abs();
            write!(f, "{sign}{}.{}", tenths / 10, tenths % 10)
        }
    }
}

/// Converts a text to an identifier: letters, digits and hyphens.
pub(crate) fn identifier(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    format!("x-{}", text.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_is_escaped() {
        let text = escaped("<a href='x'>\"&\u{0}\u{7}").to_string();
        assert_eq!(
            text,
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\u{fffd}\u{fffd}"
        );
        assert_eq!(identifier("adsl-3.2 <x>"), "x-adsl-3-2--x-");
    }

    #[test]
    fn coordinates_are_short() {
        let printed = [0.0, -0.04, 12.0, 12.34, -0.25, -3.0].map(|value| px(value).to_string());
        assert_eq!(printed, ["0", "0", "12", "12.3", "-0.3", "-3"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_text_can_leave_its_place(text in any::<String>()) {
            let out = escaped(&text).to_string();
            let special = out.contains(['<', '>', '"', '\'']);
            prop_assert!(!special);
            for (at, _) in out.match_indices('&') {
                let rest = &out[at..];
                prop_assert!(
                    ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].iter().any(|e| rest.starts_with(e))
                );
            }
        }
    }
}

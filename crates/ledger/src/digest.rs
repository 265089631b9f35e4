// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Digests, and the parts of an experiment file that they cover.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use std::str::FromStr;
use toml::Value;

/// A SHA-256, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// The error of a text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestError;

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not a SHA-256; write 64 hexadecimal digits in small letters")
    }
}

impl std::error::Error for DigestError {}

impl Digest {
    /// Returns the digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        Self(digest.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    /// Returns the first digits, for messages.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digits = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() == 64 && digits {
            Ok(Self(text.to_owned()))
        } else {
            Err(DigestError)
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// The digests of an experiment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The digest of the fields that decide what is run and what is measured.
    pub setup: Digest,
    /// The digest of the expectations.
    pub expectations: Digest,
}

/// Fields that are texts for readers, and the seeds: a stored result lists its seeds itself.
const WORDS: [&str; 6] = ["about", "covers", "seed", "seeds", "source", "title"];

/// Returns the digests of an experiment file's text.
///
/// Comments, spaces, the order of keys and texts for readers do not count; every other field does.
/// A text that is not TOML is digested as a whole.
#[must_use]
pub fn content(text: &str) -> Content {
    let Ok(mut file) = text.parse::<toml::Table>() else {
        let whole = Digest::of(text.as_bytes());
        return Content {
            setup: whole.clone(),
            expectations: whole,
        };
    };
    let expected = without_words(&mut file);
    let digest = |value: &Value| {
        let mut text = String::new();
        canonical(value, &mut text);
        Digest::of(text.as_bytes())
    };
    Content {
        setup: digest(&Value::Table(file)),
        expectations: digest(&expected.unwrap_or(Value::Array(Vec::new()))),
    }
}

/// Returns an experiment file reduced to the fields that decide what is run. The text is the same
/// for all files with the same [`Content::setup`].
///
/// The guest reads this text, because reading takes virtual time there: comments must not change a
/// run. A text that is not TOML stays unchanged.
#[must_use]
pub fn setup_text(text: &str) -> String {
    let Ok(mut file) = text.parse::<toml::Table>() else {
        return text.to_owned();
    };
    without_words(&mut file);
    // An experiment requires a title.
    file.insert("title".to_owned(), "What is run".into());
    toml::to_string(&file).unwrap_or_else(|_| text.to_owned())
}

/// Removes the texts for readers from an experiment file, and returns its expectations.
fn without_words(file: &mut toml::Table) -> Option<Value> {
    for word in WORDS {
        file.remove(word);
    }
    for list in ["arm", "figure"] {
        let tables = file.get_mut(list).and_then(Value::as_array_mut);
        for table in tables.into_iter().flatten().filter_map(Value::as_table_mut) {
            table.remove("about");
        }
    }
    file.remove("expect")
}

/// Appends a value in canonical form: sorted keys, and only commas between the parts.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Table(table) => {
            let mut entries: Vec<(&String, &Value)> = table.iter().collect();
            entries.sort_by_key(|entry| entry.0);
            text.push('{');
            for (key, value) in entries {
                let _ = write!(text, "{key:?}:");
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::String(word) => {
            let _ = write!(text, "{word:?}");
        }
        Value::Integer(number) => {
            let _ = write!(text, "{number}");
        }
        Value::Float(number) => {
            let _ = write!(text, "{number:?}");
        }
        Value::Boolean(flag) => {
            let _ = write!(text, "{flag}");
        }
        Value::Datetime(date) => {
            let _ = write!(text, "{date}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha256() {
        // FIPS 180-4, the example of "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(abc.parse(), Ok(Digest::of(b"abc")));
        for wrong in ["", &abc[1..], &abc.to_uppercase(), &abc.replace('b', "g")] {
            assert_eq!(wrong.parse::<Digest>(), Err(DigestError), "{wrong}");
        }
    }

    #[test]
    fn order_and_spaces_do_not_count() {
        let one = "settle = \"1s\"\n[topology]\nhosts = 2\nservers = 1\n";
        let other = "# x\nsettle='1s'\ntopology = { servers = 1, hosts = 2 }\n";
        assert_eq!(content(one), content(other));
        assert_ne!(content(one), content("settle = "));
    }

    #[test]
    fn the_guest_reads_what_is_run_alone() {
        let text = weirgate_testing::read("experiments/adsl/6.2.toml");
        let bare = setup_text(&text);
        let other = text.replacen("title = \"", "# x\nseeds = 100\ntitle = \"Not ", 1);
        let other = other.replacen("at-most = 36", "at-most = 37", 1);
        assert_ne!(other, text);
        assert_eq!(setup_text(&other), bare);
        assert_eq!(content(&bare).setup, content(&text).setup);
        let changed = text.replacen("rate = \"512kbit\"", "rate = \"511kbit\"", 1);
        assert_ne!(setup_text(&changed), bare);
        assert_eq!(setup_text("settle = "), "settle = ");
    }

    #[test]
    fn what_is_run_counts_field_by_field() {
        let text = weirgate_testing::read("experiments/adsl/6.2.toml");
        let before = content(&text);
        for (from, to) in [
            ("rate = \"512kbit\"", "rate = \"511kbit\""),
            ("policies/adsl-three-classes", "policies/adsl-four-classes"),
            ("interval = \"10ms\"", "interval = \"11ms\""),
            ("name = \"weirgate\"", "name = \"other\""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert_ne!(content(&changed).setup, before.setup, "{from}");
        }
        for (from, to) in [
            ("title = \"", "title = \"Not "),
            ("at-most = 36", "at-most = 37"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_eq!(content(&changed).setup, before.setup, "{from}");
        }
    }
}

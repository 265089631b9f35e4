// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fields that several sections share.

use crate::codes;
use crate::model::Layer;
use weirgate_document::registry::{Field, FieldType, Own, Within};
use weirgate_document::{Reader, Value, did_you_mean};
use weirgate_linklayer::LinkLayer;
use weirgate_units::{Rate, Size, Span};

/// The largest number of elements of any kind in a file.
pub(super) const MOST: usize = 4096;

/// The longest name, and the longest name of a device (IFNAMSIZ without the terminating zero,
/// include/uapi/linux/if.h).
const LONGEST_NAME: usize = 32;
const LONGEST_DEVICE: usize = 15;

/// The slowest and the fastest link.
const SLOWEST: Rate = Rate::kbit(56);
const FASTEST: Rate = Rate::kbit(100_000_000);

/// The longest propagation delay: to a geostationary satellite and back.
const FARTHEST: Span = Span::from_millis(1000);

/// Returns the tables below `[FIELD.NAME]`, each with its well-formed name.
pub(super) fn named_tables<'d, 'i>(
    root: &mut Reader<'d, 'i>,
    of: &Field<Own>,
    most: usize,
) -> Vec<(Value<String>, Reader<'d, 'i>)> {
    let key = of.name;
    let found = of.is_there(root).then(|| root.named_tables(key));
    let Some(mut all) = found.flatten() else {
        return Vec::new();
    };
    let names = all.keys();
    if let Some(name) = names.get(most) {
        let message = format!("there are more than {most} of `{key}`");
        let hint = "divide the domain";
        root.problems()
            .error(codes::LIMIT, name.span.clone(), message, hint);
    }
    let mut tables = Vec::new();
    for name in names.into_iter().take(most) {
        well_formed(&all, &name);
        if let Some(table) = all.table_named(&name) {
            tables.push((name, table));
        }
    }
    tables
}

/// Reports a name that is invalid in policies or unsafe to display.
pub(super) fn well_formed(reader: &Reader<'_, '_>, name: &Value<String>) {
    let text = &name.value;
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    if !plain || !starts || text.len() > LONGEST_NAME {
        let message = format!("`{text}` cannot be a name here");
        let hint = format!(
            "use lower-case letters, digits and hyphens, a letter first, at most {LONGEST_NAME}"
        );
        reader
            .problems()
            .error(codes::NAME, name.span.clone(), message, hint);
    }
}

/// Returns whether a name exists; reports it otherwise.
pub(super) fn exists<'n>(
    reader: &Reader<'_, '_>,
    name: &Value<String>,
    what: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> bool {
    if names.clone().any(|known| known == name.value) {
        return true;
    }
    let message = format!("there is no {what} `{}`", name.value);
    let hint = did_you_mean(&name.value, names, || format!("add the {what}"));
    reader
        .problems()
        .error(codes::UNKNOWN, name.span.clone(), message, hint);
    false
}

/// Returns the type of a time within bounds.
pub(super) const fn time(least: Span, most: Span) -> Within<Span> {
    Within::new("time", codes::LIMIT, least, most)
}

/// Returns the type of a rate within bounds.
pub(super) const fn rate(least: Rate, most: Rate) -> Within<Rate> {
    Within::new("rate", codes::LIMIT, least, most)
}

/// Returns the type of a size within bounds, in quotes or as a whole number of bytes.
pub(super) const fn size(least: Size, most: Size) -> Within<Size> {
    Within::new("size", codes::LIMIT, least, most).bare()
}

/// The type of a line's rates in both directions; a single rate applies to both.
#[derive(Clone, Copy)]
pub(super) struct Rates(Within<Rate>);

/// The rates of any line in a domain.
pub(super) const RATES: Rates = Rates(rate(SLOWEST, FASTEST));

impl FieldType for Rates {
    type Value = [Rate; 2];

    fn read(&self, reader: &mut Reader<'_, '_>, key: &'static str) -> Option<[Rate; 2]> {
        let list = reader.parsed_list::<Rate>(key)?;
        let inside = |value: &Value<Rate>| self.0.check(reader, key, value);
        let rates: Vec<Rate> = list.iter().filter_map(inside).collect();
        match rates[..] {
            [both] => Some([both, both]),
            [there, back] => Some([there, back]),
            [] => None,
            _ => {
                let message = "`rate` lists more than two rates, and a line has two directions";
                let hint = "write one rate, or one for each direction";
                let span = reader.span_of(key);
                let problems = reader.problems();
                problems.error(codes::LIMIT, span, message, hint);
                None
            }
        }
    }

    fn text(&self) -> String {
        format!("{}, or a list of two", self.0.text())
    }
}

/// The propagation delay; the default is zero.
pub(super) const DELAY: Field<Within<Span>> =
    Field::new("delay", time(Span::ZERO, FARTHEST), "The propagation delay").default("0");

pub(super) fn delay(table: &mut Reader<'_, '_>) -> Span {
    DELAY.get(table).unwrap_or(Span::ZERO)
}

pub(super) const LAYER: Field<Own> = Field::new(
    "layer",
    Own("[link layer](link-layers.md)"),
    "The link layer, which says how many bytes a packet takes on the wire, as in a policy",
)
.default("`\"ethernet\"`");

/// Reads the link layer; the default is `ethernet`.
pub(super) fn layer(reader: &mut Reader<'_, '_>) -> Option<Layer> {
    let stated = reader.text(LAYER.name);
    if stated.is_none() && LAYER.is_in(reader) {
        return None;
    }
    let span = reader.span_of(LAYER.name);
    let name = stated.map_or_else(|| "ethernet".to_owned(), |text| text.value);
    match LinkLayer::named(&name) {
        Ok(layer) => Some(Layer { name, layer }),
        Err(error) => {
            let text = error.to_string();
            let (wrong, right) = text.split_once("; ").unwrap_or((&text, ""));
            reader.problems().error(codes::WORD, span, wrong, right);
            None
        }
    }
}

/// Returns whether a text is a valid name of a network device (`dev_valid_name`,
/// net/core/dev.c); reports it otherwise.
pub(super) fn device(reader: &Reader<'_, '_>, name: &Value<String>) -> bool {
    let text = &name.value;
    let odd = |c: char| c == '/' || c == ':' || c == '"' || c == '\\' || !c.is_ascii_graphic();
    let wrong = text.is_empty() || text.len() > LONGEST_DEVICE || text.contains(odd);
    if text == "lo" {
        let message = "`lo` leads to the router itself";
        let hint = "name the device towards the next machine";
        reader
            .problems()
            .error(codes::NAME, name.span.clone(), message, hint);
        return false;
    }
    if wrong || text == "." || text == ".." {
        let message = format!("`{text}` cannot be a device's name");
        let hint =
            format!("write 1 to {LONGEST_DEVICE} letters, digits and signs without `/` and `:`");
        reader
            .problems()
            .error(codes::NAME, name.span.clone(), message, hint);
        return false;
    }
    true
}

/// Reads a list of at most `most` texts, each by `read`.
pub(super) fn several<T>(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    code: &'static str,
    most: usize,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Vec<Value<T>> {
    let texts = reader.text_list(key).unwrap_or_default();
    if let Some(one) = texts.get(most) {
        let message = format!("`{key}` lists {} elements", texts.len());
        let hint = format!("write at most {most}: a conditioner tells no more apart");
        reader
            .problems()
            .error(codes::LIMIT, one.span.clone(), message, hint);
    } else if texts.is_empty() && reader.has(key) && !reader.problems().has_errors() {
        let hint = format!("write at least one element, or leave `{key}` out");
        let message = format!("the list `{key}` is empty");
        let span = reader.span_of(key);
        reader.problems().error(codes::LIMIT, span, message, hint);
    }
    let mut list = Vec::new();
    for text in texts {
        match read(&text.value) {
            Ok(found) => list.push(text.map(|_| found)),
            Err((wrong, right)) => reader.problems().error(code, text.span, wrong, right),
        }
    }
    list
}

/// Checks a machine's name for ssh: `[USER@]HOST`. A text that could be taken for an option of a
/// program, or for several words, is rejected.
pub(super) fn host(reader: &Reader<'_, '_>, host: Option<Value<String>>) -> Option<String> {
    let host = host?;
    let text = &host.value;
    let plain = |c: char| c.is_ascii_alphanumeric() || "@._:%-".contains(c);
    if text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ':')
    {
        return Some(host.value);
    }
    let message = format!("`{text}` cannot be a machine's name for ssh");
    let hint = "write a name or an address, with `USER@` before it where needed";
    reader
        .problems()
        .error(codes::NAME, host.span, message, hint);
    None
}

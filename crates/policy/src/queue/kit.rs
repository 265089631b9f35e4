// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discipline of weirgate's own kit as a class's queue: its name and the parameters that a
//! policy sets. They have the names and units of the discipline's own table (`weirgate aqm list
//! NAME`).

use crate::codes;
use crate::field::{Field, FieldKind, Rows};
use std::sync::LazyLock;
use weirgate_aqm::{BYTES, Discipline, PRESET, Row, Settings, WIRE_BYTES};
use weirgate_document::{Kind, Problems, Reader, SourceSpan};
use weirgate_units::Size;

/// The prefix of every discipline's name in the kernel. It distinguishes the kit's `red` and
/// `fq_codel` from the kernel's.
const PREFIX: &str = "weir_";

/// A discipline with its explicitly set parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KitQueue {
    /// Its name without the prefix, such as `meredt`.
    pub discipline: &'static str,
    /// Explicitly set parameters in the order of the discipline's table. Each is in the table's
    /// unit and within its range.
    pub explicit: Vec<(&'static str, u64)>,
}

impl KitQueue {
    /// Returns the discipline with this name, with or without the prefix `weir_`. If a
    /// discipline of the kit and an installed one have the same name, the kit's is returned.
    pub(crate) fn named(name: &str) -> Option<Discipline> {
        Discipline::any_named(name.strip_prefix(PREFIX).unwrap_or(name))
    }

    /// Returns why the file of an installed discipline of this name cannot be used; `None` if
    /// there is no such file, or if it can be used.
    pub(crate) fn refusal(name: &str) -> Option<String> {
        Discipline::installed(name.strip_prefix(PREFIX).unwrap_or(name))?.err()
    }

    /// Returns the explicitly set value of a parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        let found = self.explicit.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| *value)
    }
}

/// Returns every name of a discipline. A name in `taken`, which a kernel queue has, gets the
/// prefix.
pub(crate) fn names(taken: &[&str]) -> Vec<String> {
    let of = |one: &Discipline| match one.name() {
        name if taken.contains(&name) => format!("{PREFIX}{name}"),
        name => name.to_owned(),
    };
    Discipline::all().iter().map(of).collect()
}

/// Parses `"meredt"`, or `"meredt sjf"` with a preset.
pub(crate) fn from_words(
    discipline: Discipline,
    preset: Option<&str>,
    span: &SourceSpan,
    problems: &Problems,
) -> KitQueue {
    let mut own = Reading::new(discipline);
    if let Some(preset) = preset {
        own.preset(preset, span, problems);
    }
    own.done()
}

/// Reads a table with a discipline's parameters.
pub(crate) fn read(discipline: Discipline, table: &mut Reader<'_, '_>) -> KitQueue {
    let mut own = Reading::new(discipline);
    if let Some(preset) = table.text(PRESET) {
        own.preset(&preset.value, &preset.span, table.problems());
    }
    for row in discipline.params() {
        if let Some(value) = parameter(table, &row) {
            own.set(row.name, value);
        }
    }
    own.done()
}

/// Reads one parameter: a text with a unit, a plain number, or a boolean for a parameter that is
/// on or off.
fn parameter(table: &mut Reader<'_, '_>, row: &Row) -> Option<u64> {
    let key = row.name;
    let written = match table.kind(key)? {
        Kind::Number => table.number(key)?.map(|number| number.to_string()),
        Kind::Boolean if row.unit == "off|on" => table
            .boolean(key)?
            .map(|on| if on { "on" } else { "off" }.to_owned()),
        _ => table.text(key)?,
    };
    let value = row.parse(&written.value);
    let fits = value.filter(|value| (row.least..=row.most).contains(value));
    if fits.is_none() {
        table.problems().error(
            codes::QUEUE_SETTINGS,
            written.span,
            format!("`{key}` cannot be `{}`", written.value.escape_debug()),
            format!("its meaning: {}; write {}", row.help, row.expected()),
        );
    }
    fits
}

/// Returns the kit's disciplines, then the installed ones if they have been looked up.
fn known() -> Vec<Discipline> {
    let mut known = Discipline::all();
    let names = Discipline::installed_names().into_iter();
    known.extend(names.filter_map(|name| Discipline::installed(&name)?.ok()));
    known
}

/// The names of queues for the reference: the kernel's, the kit's that differ from these, and
/// all of the kit's with the prefix.
#[derive(Debug)]
pub(crate) struct KindRow;

impl Rows for KindRow {
    fn fields(&self) -> Vec<Field> {
        vec![Field {
            kind: FieldKind::Word(&KINDS),
            ..super::KIND[0].field()
        }]
    }
}

static KINDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut kinds: Vec<&str> = super::NAMES.iter().map(|(name, _)| *name).collect();
    let all: Vec<&str> = known().iter().map(|one| one.name()).collect();
    let own = all.iter().copied().filter(|name| !kinds.contains(name));
    let own: Vec<&str> = own.collect();
    kinds.extend(own);
    kinds.extend(all.iter().map(|name| &*format!("{PREFIX}{name}").leak()));
    kinds
});

/// The settings of every discipline for the reference: the rows of the disciplines' own tables.
#[derive(Debug)]
pub(crate) struct KitRows;

impl Rows for KitRows {
    fn fields(&self) -> Vec<Field> {
        FIELDS.clone()
    }
}

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let row = |name, kind, about| Field {
        name,
        kind,
        about,
        default: None,
        required: None,
        former: &[],
    };
    let preset = "Of the kit: a set of settings by one name";
    let mut fields = vec![row(PRESET, FieldKind::Text("sjf"), preset)];
    let all = known();
    for one in all.iter().flat_map(|one| one.params()) {
        if !fields.iter().any(|known| known.name == one.name) {
            let about: &'static str = about(&all, one.name).leak();
            let example: &'static str = example(&one).leak();
            fields.push(row(one.name, FieldKind::Setting(example), about));
        }
    }
    fields
});

/// Returns the description of a parameter, by discipline if the descriptions differ.
fn about(all: &[Discipline], name: &str) -> String {
    let mut meanings: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in all {
        for row in one.params().iter().filter(|row| row.name == name) {
            match meanings.iter_mut().find(|(help, _)| *help == row.help) {
                Some((_, names)) => names.push(one.name()),
                None => meanings.push((row.help, vec![one.name()])),
            }
        }
    }
    let meanings = meanings.iter();
    let each: Vec<String> = meanings
        .map(|(help, names)| format!("{}: {help}", names.join(", ")))
        .collect();
    format!("Of the kit: {}", each.join("; "))
}

/// Returns the default of a parameter, as written in a policy.
fn example(row: &Row) -> String {
    if matches!(row.unit, BYTES | WIRE_BYTES) {
        return Size::bytes(row.default).to_string();
    }
    let text = row.format(row.default);
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// A queue that is being read.
struct Reading {
    settings: Settings,
    explicit: Vec<&'static str>,
}

impl Reading {
    fn new(discipline: Discipline) -> Self {
        Self {
            settings: Settings::new(discipline),
            explicit: Vec::new(),
        }
    }

    fn preset(&mut self, name: &str, span: &SourceSpan, problems: &Problems) {
        if let Err(error) = self.settings.set_text(PRESET, name) {
            let hint = "`weirgate aqm list DISCIPLINE` lists them";
            problems.error(codes::QUEUE_SETTINGS, span.clone(), error.to_string(), hint);
            return;
        }
        let found = self.settings.discipline().presets();
        let own = found.filter(|one| one.name == name.trim());
        self.explicit
            .extend(own.flat_map(|one| one.set).map(|(name, _)| *name));
    }

    fn set(&mut self, name: &'static str, value: u64) {
        // The table's row has checked the name and the range already.
        if self.settings.set(name, value).is_ok() {
            self.explicit.push(name);
        }
    }

    fn done(self) -> KitQueue {
        let rows = self.settings.rows().into_iter();
        let explicit = rows.filter(|(row, _)| self.explicit.contains(&row.name));
        KitQueue {
            discipline: self.settings.discipline().name(),
            explicit: explicit.map(|(row, value)| (row.name, value)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Queue, parse};

    const LINK: &str = "version = 1\n[link]\ndevice = \"wan0\"\nlan = \"lan0\"\nup = \"512kbit\"\n\
                        layer = \"ethernet\"\nengine = \"kit\"\n";

    /// Returns the queue of a policy's class, and the problems of the policy.
    fn read(queue: &str) -> (Option<Queue>, Vec<String>) {
        let text = format!(
            "{LINK}[[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\nqueue = {queue}\n"
        );
        let (policy, problems) = parse(&text);
        let queue = policy.and_then(|policy| policy.classes[0].queue.clone());
        let shown = |one: &weirgate_document::Problem| format!("{}: {}", one.message, one.hint);
        let wrong = problems
            .iter()
            .filter(|one| one.severity == weirgate_document::Severity::Error);
        (queue.map(|queue| queue.value), wrong.map(shown).collect())
    }

    fn kit(queue: &str) -> KitQueue {
        match read(queue) {
            (Some(Queue::Kit(own)), _) => own,
            (other, wrong) => panic!("{queue}: {other:?} {wrong:?}"),
        }
    }

    #[test]
    fn parameters_are_read_in_their_units() {
        let own = kit(
            "{ kind = \"meredt\", queue_bytes = \"30kB\", weight2 = 0.5, spare_ns = \"2s\", \
             mark = \"mark-or-drop\", flows = \"pairs\", bands = 4 }",
        );
        assert_eq!(own.discipline, "meredt");
        let explicit = [
            ("bands", 4),
            ("queue_bytes", 30_000),
            ("weight2", 1 << 15),
            ("mark", 2),
            ("spare_ns", 2_000_000_000),
            ("flows", 3),
        ];
        assert_eq!(own.explicit, explicit);
        assert_eq!(own.value("bands"), Some(4));
        assert_eq!(own.value("max_bytes"), None);
    }

    #[test]
    fn what_follows_a_preset_holds() {
        let own = kit("{ kind = \"meredt\", preset = \"sjf\", bands = 5 }");
        assert_eq!(
            (own.value("bands"), own.value("queue_bytes")),
            (Some(5), Some(3_000))
        );
        assert_eq!(kit("\"meredt sjf\"").value("bands"), Some(8));
    }

    #[test]
    fn the_kernels_and_the_kits_are_distinguished() {
        assert!(matches!(read("\"fq_codel\"").0, Some(Queue::FqCodel(_))));
        assert_eq!(kit("\"weir_fq_codel\"").discipline, "fq_codel");
        assert_eq!(kit("\"weir_pie\""), kit("\"pie\""));
    }

    #[test]
    fn mistakes_are_reported_with_what_is_right() {
        for (queue, hint) in [
            ("\"meredt sfj\"", "sjf"),
            ("\"merdt\"", "did you mean `meredt`"),
            ("{ kind = \"codel\", target_ns = \"soon\" }", "`soon`"),
            ("{ kind = \"codel\", target_ns = -1 }", "`-1`"),
            ("{ kind = \"codel\", target_ns = \"1h\" }", "1s"),
            ("{ kind = \"codel\", targt_ns = 5 }", "target_ns"),
            ("{ kind = \"pie\", preset = \"sjf\" }", "pie has no presets"),
            ("{ kind = \"pie\", ecn = 3 }", "off, on"),
            ("{ kind = \"meredt\", flows = \"hosts\" }", "receivers"),
        ] {
            let (_, wrong) = read(queue);
            assert_eq!(wrong.len(), 1, "{queue}: {wrong:?}");
            assert!(wrong[0].contains(hint), "{queue}: {wrong:?}");
        }
    }

    #[test]
    fn only_the_kits_engine_has_them() {
        let text = LINK.replace("engine = \"kit\"\n", "")
            + "[ack]\nreserve = \"20kbit\"\nqueue = \"pie\"\n[[class]]\nname = \"all\"\nshare = \"50%\"\n\
               default = true\nqueue = \"meredt\"\n";
        let (policy, problems) = parse(&text);
        assert!(policy.is_none());
        let hints = problems
            .iter()
            .filter(|one| one.hint.contains("engine = \"kit\""));
        assert_eq!(hints.count(), 2, "{problems:#?}");
    }
}

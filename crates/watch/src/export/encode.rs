// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes the counters of one look in two protocols. One is Prometheus' `WriteRequest`
//! (prometheus.io/docs/specs/prw/remote_write_spec/, 1.0). The other is OpenTelemetry's
//! `ExportMetricsServiceRequest` (opentelemetry-proto,
//! collector/metrics/v1/metrics_service.proto). Both are protocol buffers, of which only a few
//! fields are written here.

use crate::export::openmetrics::Own;
use crate::object::{METRICS, Metric, Width};
use crate::step::diff::Change;
use weirgate_units::Arrange as _;

/// The staleness marker, which tells Prometheus that a series has ended.
const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// A protocol buffer under construction (protobuf.dev/programming-guides/encoding).
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u32, wire: u32) {
        self.raw(u64::from(field << 3 | wire));
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.raw(value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.raw(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }
}

/// The labels of a series, with their names.
pub(crate) type Labels = Vec<(String, String)>;

/// All current values of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    /// The name in OpenMetrics, without `_total`.
    name: String,
    help: &'static str,
    counter: bool,
    values: Vec<(Labels, f64)>,
}

/// Returns the metrics of a look, and those of this program itself.
pub(crate) fn families(changes: &[Change], own: &[Own]) -> Vec<Family> {
    let owned = |labels: &[(&'static str, String)]| -> Labels {
        let pairs = labels.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    };
    let numbers = METRICS.iter().enumerate().map(|(index, metric)| Family {
        name: full_name(metric),
        help: metric.help,
        counter: metric.width != Width::Gauge,
        values: {
            let of = changes.iter().filter(|one| one.object.sort == metric.sort);
            of.filter_map(|one| {
                let mut numbers = one.object.numbers.iter();
                let (_, value) = numbers.find(|(number, _)| *number as usize == index)?;
                let value = *value as f64 / f64::from(metric.divisor);
                Some((owned(&one.object.labels), value))
            })
            .collect()
        },
    });
    let own = own.iter().map(|one| Family {
        name: one.name.to_owned(),
        help: one.help,
        counter: one.counter,
        values: one
            .values
            .iter()
            .map(|(labels, value)| (owned(labels), *value as f64))
            .collect(),
    });
    numbers
        .chain(own)
        .filter(|family| !family.values.is_empty())
        .collect()
}

fn full_name(metric: &Metric) -> String {
    format!("weirgate_{}_{}", metric.sort.word(), metric.name)
}

/// Returns a `WriteRequest` and the series in it. The labels `also` are added to each series
/// that does not have them. Series in `before` that no longer exist are marked as ended.
pub(crate) fn write_request(
    families: &[Family],
    time: i64,
    also: &[(String, String)],
    before: &[Labels],
) -> (Vec<u8>, Vec<Labels>) {
    let mut request = Message::default();
    let mut series = Vec::new();
    for family in families {
        let total = if family.counter { "_total" } else { "" };
        let name = format!("{}{total}", family.name);
        for (labels, value) in &family.values {
            let mut labels = labels.clone();
            // The protocol forbids empty labels, which equal missing ones.
            labels.retain(|(_, value)| !value.is_empty());
            labels.push((String::from("__name__"), name.clone()));
            let missing = also
                .iter()
                .filter(|(name, _)| family_lacks(&family.values, name));
            labels.extend(missing.cloned());
            // The protocol requires sorted labels.
            labels.arrange();
            request.message(1, &time_series(&labels, *value, time));
            series.push(labels);
        }
    }
    series.arrange();
    for ended in before
        .iter()
        .filter(|old| series.binary_search(old).is_err())
    {
        request.message(1, &time_series(ended, STALE, time));
    }
    (request.0, series)
}

fn family_lacks(values: &[(Labels, f64)], name: &str) -> bool {
    let mut labels = values.iter().flat_map(|(labels, _)| labels);
    labels.all(|(other, _)| other != name)
}

fn time_series(labels: &Labels, value: f64, time: i64) -> Message {
    let mut series = Message::default();
    for (name, value) in labels {
        let mut label = Message::default();
        label.text(1, name);
        label.text(2, value);
        series.message(1, &label);
    }
    let mut sample = Message::default();
    sample.double(1, value);
    sample.number(2, time as u64);
    series.message(2, &sample);
    series
}

/// Returns an `ExportMetricsServiceRequest`; `resource` identifies the source of the metrics.
pub(crate) fn export_request(
    families: &[Family],
    time: i64,
    resource: &[(String, String)],
) -> Vec<u8> {
    let mut whose = Message::default();
    for (name, value) in resource {
        whose.message(1, &attribute(name, value));
    }
    let mut scope = Message::default();
    scope.text(1, "weirgate");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    let mut metrics = Message::default();
    metrics.message(1, &scope);
    for family in families {
        metrics.message(2, &exported(family, time));
    }
    let mut of_resource = Message::default();
    of_resource.message(1, &whose);
    of_resource.message(2, &metrics);
    let mut request = Message::default();
    request.message(1, &of_resource);
    request.0
}

/// Returns a `Metric`. The start time of counters is omitted, because the kernel does not report
/// it.
fn exported(family: &Family, time: i64) -> Message {
    let mut points = Message::default();
    for (labels, value) in &family.values {
        let mut point = Message::default();
        point.fixed(3, (time as u64).saturating_mul(1_000_000));
        point.double(4, *value);
        for (name, value) in labels {
            point.message(7, &attribute(name, value));
        }
        points.message(1, &point);
    }
    let mut metric = Message::default();
    metric.text(1, &family.name);
    metric.text(2, family.help);
    // Units in UCUM notation.
    let units = [
        ("bits", "bit"),
        ("bytes", "By"),
        ("packets", "{packet}"),
        ("seconds", "s"),
    ];
    let unit = units.iter().find(|(word, _)| family.name.ends_with(word));
    if let Some((_, unit)) = unit {
        metric.text(3, unit);
    }
    if family.counter {
        // Cumulative and monotonic.
        points.number(2, 2);
        points.number(3, 1);
        metric.message(7, &points);
    } else {
        metric.message(5, &points);
    }
    metric
}

fn attribute(name: &str, value: &str) -> Message {
    let mut any = Message::default();
    any.text(1, value);
    let mut pair = Message::default();
    pair.text(1, name);
    pair.message(2, &any);
    pair
}

/// Returns how many points an `ExportMetricsServiceResponse` reports as rejected, and why: its
/// `partial_success` (field 1). Returns `None` if it reports none.
pub(crate) fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let partial = fields(answer)?
        .into_iter()
        .find(|(field, ..)| *field == 1)?
        .2;
    let (mut count, mut why) = (0, String::new());
    for (field, number, bytes) in fields(partial)? {
        match field {
            1 => count = number,
            2 => why = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        }
    }
    (count > 0).then_some((count, why))
}

type Field<'b> = (u64, u64, &'b [u8]);

/// Parses the fields of a protocol buffer: the number, value and bytes of each.
fn fields(mut rest: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = taken(&mut rest)?;
        let (number, length) = match key & 7 {
            0 => (taken(&mut rest)?, 0),
            1 => (0, 8),
            2 => (0, usize::try_from(taken(&mut rest)?).ok()?),
            5 => (0, 4),
            _ => return None,
        };
        let (bytes, after) = rest.split_at_checked(length)?;
        rest = after;
        found.push((key >> 3, number, bytes));
    }
    Some(found)
}

fn taken(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_rejected_is_read() {
        assert_eq!(rejected(&[]), None);
        // partial_success { rejected_data_points: 300, error_message: "no" }
        let answer = [0x0a, 7, 0x08, 0xac, 0x02, 0x12, 2, b'n', b'o'];
        assert_eq!(rejected(&answer), Some((300, String::from("no"))));
        assert_eq!(rejected(&[0x0a, 2, 0x08, 0]), None);
        assert_eq!(rejected(&[0x0a, 200, 1]), None);
    }

    proptest! {
        #[test]
        fn any_answer_does_no_harm(bytes: Vec<u8>) {
            let _ = rejected(&bytes);
        }
    }
}

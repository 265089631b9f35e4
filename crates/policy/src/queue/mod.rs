// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of a class: `"bfifo 28125"`, `"fq_codel"`, or a table with `kind` and settings.
//! Crate `compile` chooses omitted settings by the class's rate.

pub(crate) mod kit;
pub(crate) mod limit;

use crate::codes;
use crate::field::{self, Cell, FieldKind, OfKind, Row, Table, row};
use crate::queue::kit::{KitQueue, KitRows};
use crate::read::one_of;
use weirgate_aqm::{Discipline, INSTALLED};
use weirgate_document::{Kind, Problems, Reader, SourceSpan, Value, did_you_mean};
use weirgate_units::{Size, Span};

/// A queue with the settings in the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queue {
    /// First in, first out, limited in wire bytes.
    Bfifo(Size),
    /// First in, first out, limited in packets.
    Pfifo(u32),
    /// Stochastic fairness queueing.
    Sfq(SfqQueue),
    /// Random early detection.
    Red(RedQueue),
    /// Flow queueing with CoDel.
    FqCodel(FqCodelQueue),
    /// cake without a shaper of its own.
    Cake(CakeQueue),
    /// A discipline of weirgate's own kit.
    Kit(KitQueue),
}

/// Settings of SFQ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SfqQueue {
    /// Limit in packets.
    pub limit: Option<u32>,
    /// Seconds between changes of the hash function; 0 means never.
    pub perturb: Option<u32>,
}

/// Settings of RED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedQueue {
    /// Hard limit in wire bytes.
    pub limit: Size,
    /// Average queue below which nothing is dropped.
    pub min: Size,
    /// Average queue at which the probability reaches its maximum.
    pub max: Size,
    /// The maximum probability, in millionths.
    pub probability_millionths: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// Whether the probability adapts (ARED).
    pub adaptive: bool,
}

/// Settings of fq_codel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FqCodelQueue {
    /// Limit in packets.
    pub limit: Option<u32>,
    /// Number of flow queues.
    pub flows: Option<u32>,
    /// Acceptable standing delay.
    pub target: Option<Span>,
    /// Time for which the delay must stay above the target.
    pub interval: Option<Span>,
    /// Wire bytes that a flow may send in one round.
    pub quantum: Option<u32>,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: Option<bool>,
    /// Memory limit in bytes.
    pub memory: Option<Size>,
    /// ECT(1) packets that have waited longer than this are marked.
    pub ce_threshold: Option<Span>,
}

/// Settings of cake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CakeQueue {
    /// Round-trip time for which its AQM is tuned.
    pub rtt: Option<Span>,
    /// Whether to look through NAT for the inside host; the default is true.
    pub nat: Option<bool>,
    /// Memory limit in bytes.
    pub memory: Option<Size>,
}

/// The settings of RED as written.
#[derive(Default)]
struct WrittenRed {
    limit: Option<Size>,
    min: Option<Size>,
    max: Option<Size>,
    probability: Option<Value<f64>>,
    ecn: bool,
    adaptive: bool,
}

/// The table form.
pub(crate) const TABLE: Table = Table {
    name: "queue",
    about: "The queue of a class",
    rows: &[
        &kit::KindRow,
        &OfKind(&BFIFO),
        &OfKind(&PFIFO),
        &OfKind(&SFQ),
        &OfKind(&RED),
        &OfKind(&FQ_CODEL),
        &OfKind(&CAKE),
        &KitRows,
    ],
};

/// The largest number of packets, flows or bytes in a setting.
const MOST: i64 = u32::MAX as i64;

/// The longest `perturb` of sfq in seconds: the kernel multiplies it by HZ, at most 1,000, in a
/// signed 32-bit number (net/sched/sch_sfq.c).
const MOST_PERTURB: i64 = 2_000_000;

/// The largest quantum of fq_codel (`FQ_CODEL_QUANTUM_MAX`, net/sched/sch_fq_codel.c).
const MOST_QUANTUM: i64 = 1 << 20;

#[derive(Clone, Copy)]
enum Name {
    Bfifo,
    Pfifo,
    Sfq,
    Red,
    FqCodel,
    Cake,
    Kit(Discipline),
}

/// Returns the queue with this name. The kernel's queues take precedence over the kit's.
fn named(name: &str) -> Option<Name> {
    one_of(name, &NAMES).or_else(|| KitQueue::named(name).map(Name::Kit))
}

const NAMES: [(&str, Name); 6] = [
    ("bfifo", Name::Bfifo),
    ("pfifo", Name::Pfifo),
    ("sfq", Name::Sfq),
    ("red", Name::Red),
    ("fq_codel", Name::FqCodel),
    ("cake", Name::Cake),
];

impl Queue {
    /// Returns the name of the kernel's qdisc or the kit's discipline.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Bfifo(_) => "bfifo",
            Self::Pfifo(_) => "pfifo",
            Self::Sfq(_) => "sfq",
            Self::Red(_) => "red",
            Self::FqCodel(_) => "fq_codel",
            Self::Cake(_) => "cake",
            Self::Kit(own) => own.discipline,
        }
    }
}

/// Reads the field `queue` of a class.
pub(crate) fn read(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Value<Queue>> {
    if cell.table.kind(cell.key) == Some(Kind::Table) {
        let table = cell.table()?;
        let (span, line) = (table.span(), table.line());
        return read_table(table).map(|value| Value { value, span, line });
    }
    let text = cell.text()?;
    let queue = read_text(&text.value, text.span.clone(), cell.problems())?;
    Some(text.map(|_| queue))
}

fn unknown(name: &str, span: SourceSpan, problems: &Problems) {
    if let Some(why) = KitQueue::refusal(name) {
        let what = format!("the discipline `{name}` of your own cannot be used: {why}");
        let hint = format!("copy the output of `weirgate-lab aqm build`, as root, to {INSTALLED}");
        problems.error(codes::QUEUE, span, what, hint);
        return;
    }
    problems.error(
        codes::QUEUE,
        span,
        format!("`{name}` is not a queue that a class can have"),
        choose(name),
    );
}

/// Returns a hint: "did you mean" with one of the names, or a list of all.
fn choose(name: &str) -> String {
    let kernel = NAMES.map(|(name, _)| name);
    let kit = kit::names(&kernel);
    let own = Discipline::installed_names();
    let all = || {
        let kit = kit.iter().chain(&own).map(String::as_str);
        kernel.into_iter().chain(kit)
    };
    did_you_mean(name, all(), || {
        let kit: Vec<String> = kit.iter().map(|name| format!("`{name}`")).collect();
        format!(
            "write {}; with `engine = \"kit\"` also {}, or one of your own that is in {INSTALLED}",
            kernel.map(|name| format!("`{name}`")).join(", "),
            kit.join(", ")
        )
    })
}

fn read_text(text: &str, span: SourceSpan, problems: &Problems) -> Option<Queue> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let limit = words.next();
    let Some(kind) = named(name) else {
        unknown(name, span, problems);
        return None;
    };
    let wrong = |what: &str, hint: &str| {
        problems.error(codes::QUEUE, span.clone(), format!("`{text}` {what}"), hint);
        None
    };
    if words.next().is_some() {
        return wrong(
            "is more than a name and a limit",
            "write a name and a limit, or a table `{ kind = \"...\", ... }`",
        );
    }
    let (none, no_number) = ("has no limit", "has a limit not in packets");
    let packets = |limit: &str| {
        limit
            .parse::<u32>()
            .ok()
            .filter(|_| !limit.starts_with('+'))
    };
    match (kind, limit) {
        (Name::Bfifo, Some(limit)) => match limit.parse() {
            Ok(limit) => Some(Queue::Bfifo(limit)),
            Err(_) => wrong(
                "has a limit that is not a number of bytes",
                "write its limit in bytes, such as `bfifo 28125` or `bfifo 64KiB`",
            ),
        },
        (Name::Bfifo, None) => wrong(none, "add its limit in bytes, such as `bfifo 28125`"),
        (Name::Pfifo, Some(limit)) => match packets(limit) {
            Some(limit) => Some(Queue::Pfifo(limit)),
            None => wrong(no_number, "write its limit in packets, such as `pfifo 50`"),
        },
        (Name::Pfifo, None) => wrong(none, "add its limit in packets, such as `pfifo 50`"),
        (Name::Sfq, None) => Some(Queue::Sfq(SfqQueue::default())),
        (Name::Sfq, Some(limit)) => match packets(limit) {
            Some(limit) => Some(Queue::Sfq(SfqQueue {
                limit: Some(limit),
                perturb: None,
            })),
            None => wrong(no_number, "write its limit in packets, such as `sfq 64`"),
        },
        (Name::FqCodel, None) => Some(Queue::FqCodel(FqCodelQueue::default())),
        (Name::Cake, None) => Some(Queue::Cake(CakeQueue::default())),
        (Name::FqCodel | Name::Cake, Some(_)) => wrong(
            "has a setting without its name",
            "settings of this queue need a table, `{ kind = \"...\", ... }`",
        ),
        (Name::Kit(discipline), preset) => {
            let queue = kit::from_words(discipline, preset, &span, problems);
            Some(Queue::Kit(queue))
        }
        (Name::Red, _) => wrong(
            "has no `min` and `max`",
            "write a table: `{ kind = \"red\", limit = \"60kB\", min = \"15kB\", max = \"45kB\" }`",
        ),
    }
}

type KindRow = Row<Option<Name>>;
type BfifoRow = Row<Option<Size>>;
type PfifoRow = Row<Option<u32>>;

const KIND: &[KindRow] = &[KindRow::new(
    "kind",
    FieldKind::Text("fq_codel"),
    "The queueing discipline",
    |cell, kind| {
        *kind = name(cell);
    },
)
.needed("name the queue, such as `kind = \"fq_codel\"`")];

const BFIFO: &[BfifoRow] = &[BfifoRow::new(
    "limit",
    FieldKind::Size,
    "The largest length of the queue: bytes for bfifo and red, packets for others",
    |cell, limit| {
        *limit = cell.size().map(|found| found.value);
    },
)
.needed("write a size in bytes, such as `28125` or `\"64KiB\"`")];

const PFIFO: &[PfifoRow] = &[PfifoRow::new(
    "limit",
    FieldKind::Integer(0, MOST),
    "pfifo: the most packets that it holds",
    |cell, limit| {
        *limit = cell.integer().map(|found| found.value);
    },
)
.needed("state how many packets it holds")];

const SFQ: &[Row<SfqQueue>] = &[
    row!(SfqQueue: "limit": FieldKind::Integer(0, MOST) => limit, "sfq: the most packets in it"),
    row!(SfqQueue: "perturb": FieldKind::Integer(0, MOST_PERTURB) => perturb, "sfq: seconds to a new hash"),
];

const RED: &[Row<WrittenRed>] = &[
    row!(WrittenRed: "limit" => limit, "red: the most that it holds, in bytes")
        .needed("write a size in bytes, such as `28125` or `\"64KiB\"`"),
    row!(WrittenRed: "min" => min, "red: the average queue below which nothing is dropped")
        .needed("write a size in bytes, such as `28125` or `\"64KiB\"`"),
    row!(WrittenRed: "max" => max, "red: the average queue at which the probability is greatest")
        .needed("write a size in bytes, such as `28125` or `\"64KiB\"`"),
    row!(WrittenRed: "probability" => probability, "red: the greatest drop probability")
        .default("0.1"),
    row!(WrittenRed: "ecn" => ecn, "Whether ECN-capable packets are marked instead of dropped")
        .default("false"),
    row!(WrittenRed: "adaptive" => adaptive, "red: whether the probability adapts to the load")
        .default("false"),
];

const FQ_CODEL: &[Row<FqCodelQueue>] = &[
    row!(FqCodelQueue: "limit": FieldKind::Integer(1, MOST) => limit, "fq_codel: most packets"),
    row!(FqCodelQueue: "flows": FieldKind::Integer(1, MOST) => flows,
        "fq_codel: how many flow queues; of the kit: what defines a flow"),
    row!(FqCodelQueue: "target" => target, "fq_codel: acceptable standing delay"),
    row!(FqCodelQueue: "interval" => interval, "fq_codel: how long the target may be exceeded"),
    row!(FqCodelQueue: "quantum": FieldKind::Integer(64, MOST_QUANTUM) => quantum,
        "fq_codel: bytes that a flow sends in its turn"),
    row!(FqCodelQueue: "ecn" => ecn, "Whether ECN-capable packets are marked instead of dropped"),
    row!(FqCodelQueue: "memory" => memory, "The most memory that it uses"),
    row!(FqCodelQueue: "ce-threshold" => ce_threshold, "fq_codel: the wait that marks ECT(1)"),
];

const CAKE: &[Row<CakeQueue>] = &[
    row!(CakeQueue: "rtt" => rtt, "cake: the round-trip time that it assumes"),
    row!(CakeQueue: "nat" => nat, "cake: whether it finds hosts behind address translation")
        .default("true"),
    row!(CakeQueue: "memory" => memory, "The most memory that it uses"),
];

fn name(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Name> {
    let text = cell.text()?;
    let found = named(&text.value);
    if found.is_none() {
        unknown(&text.value, text.span, cell.problems());
    }
    found
}

fn read_table(mut table: Reader<'_, '_>) -> Option<Queue> {
    let mut kind = None;
    field::read(&mut table, KIND, &(), &mut kind);
    let Some(kind) = kind else {
        // Accept every other field: which ones are valid depends on the kind.
        table.keys();
        return None;
    };
    Some(match kind {
        Name::Bfifo => Queue::Bfifo(read_rows::<Option<Size>>(&mut table, BFIFO)?),
        Name::Pfifo => Queue::Pfifo(read_rows::<Option<u32>>(&mut table, PFIFO)?),
        Name::Sfq => Queue::Sfq(read_rows(&mut table, SFQ)),
        Name::Red => {
            let red = read_rows(&mut table, RED);
            Queue::Red(check_red(&table, red)?)
        }
        Name::FqCodel => {
            let queue = read_rows(&mut table, FQ_CODEL);
            check_fq_codel(&table, &queue);
            Queue::FqCodel(queue)
        }
        Name::Cake => Queue::Cake(read_rows(&mut table, CAKE)),
        Name::Kit(discipline) => Queue::Kit(kit::read(discipline, &mut table)),
    })
}

fn read_rows<T: Default>(table: &mut Reader<'_, '_>, rows: &'static [Row<T>]) -> T {
    let mut settings = T::default();
    field::read(table, rows, &(), &mut settings);
    settings
}

/// The longest threshold. The kernel treats one of about 36 minutes as none
/// (`CODEL_DISABLED_THRESHOLD`, include/net/codel.h).
const LONGEST_THRESHOLD: Span = Span::from_secs(30 * 60);

fn check_fq_codel(table: &Reader<'_, '_>, queue: &FqCodelQueue) {
    // The kernel stores both in 32 bits, in units of 1.024 us.
    let unit = |time: Span| time.as_nanos() >> 10;
    let usable = |time: Span| unit(time) > 0 && u32::try_from(unit(time)).is_ok();
    let target = queue.target.unwrap_or(Span::from_millis(1));
    let interval = queue.interval.unwrap_or(Span::from_secs(100));
    let wrong = if queue.flows.is_some_and(|flows| flows > 65_535) {
        Some(("more than 65535 flow queues", "leave `flows` out for 1024"))
    } else if !usable(target) || !usable(interval) {
        Some(("a time that CoDel cannot use", "write from 2us to 1h"))
    } else if queue
        .ce_threshold
        .is_some_and(|time| !usable(time) || time > LONGEST_THRESHOLD)
    {
        Some((
            "a threshold that CoDel cannot use",
            "write from 2us to 30min",
        ))
    } else if target >= interval {
        Some((
            "a target that is not below the interval",
            "the interval is about a round-trip time, the target a tenth of it",
        ))
    } else {
        None
    };
    if let Some((what, hint)) = wrong {
        let message = format!("this fq_codel has {what}");
        table
            .problems()
            .error(codes::QUEUE_SETTINGS, table.span(), message, hint);
    }
}

fn check_red(table: &Reader<'_, '_>, red: WrittenRed) -> Option<RedQueue> {
    let probability = red.probability;
    let chance = probability.as_ref().map_or(0.1, |found| found.value);
    if !(0.000_001..=1.0).contains(&chance) {
        table.problems().error(
            codes::QUEUE_SETTINGS,
            probability.map_or_else(|| table.span(), |found| found.span),
            "a probability is above 0 and at most 1",
            "write the greatest probability of a drop, such as 0.1",
        );
    }
    let (limit, min, max) = (red.limit?, red.min?, red.max?);
    if !(Size::default() < min && min < max && max <= limit) {
        table.problems().error(
            codes::QUEUE_SETTINGS,
            table.span(),
            format!(
                "RED needs 0 < min < max <= limit, and has min {min}, max {max}, limit {limit}"
            ),
            "as a start: max three times min, limit four times min",
        );
    }
    Some(RedQueue {
        limit,
        min,
        max,
        probability_millionths: (chance.clamp(0.0, 1.0) * 1e6).round() as u32,
        ecn: red.ecn,
        adaptive: red.adaptive,
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Site policy: one TOML text to a checked model, all problems in one run.
//!
//! A policy describes a link, the classes that share it and the rules that put
//! packets into classes. [`parse`] turns the text into a [`Policy`] or says
//! everything that is wrong with it, [`parse_with`] reads what it includes as
//! well; [`Policy::share_out`] does the arithmetic
//! of shares; [`template`] writes the policy that `weirgate try` uses.
//!
//! This crate knows rates, shares and packets' headers. It does not know
//! qdiscs beyond their names and settings, nor what a kernel offers: that is
//! crate `compile`. Start reading at [`Policy`].
//!
//! ```
//! let text = r#"
//!     version = 1
//!     [link]
//!     device = "wan"
//!     up = "512kbit"
//!     layer = "adsl:bridged-vc-fcs"
//!     [[class]]
//!     name = "all"
//!     share = "100%"
//!     default = true
//! "#;
//! let (policy, problems) = weirgate_policy::parse(text);
//! assert!(problems.is_empty());
//! assert_eq!(policy.expect("it is right").classes[0].name.value, "all");
//! ```

mod check;
mod class;
mod codes;
mod condition;
mod conditioner;
mod field;
mod fields;
mod file;
mod link;
mod model;
mod named;
mod queue;
mod read;
mod receive;
mod rule;
pub mod template;

pub use class::fair::Fair;
pub use class::part::{GroupShare, HostCap, MOST_CAPPED};
pub use class::shares::{SharedClass, Shares, in_kbit};
pub use codes::{CODES, Code};
pub use condition::control_group::ControlGroup;
pub use condition::matching::{
    ConnectionState, From, IcmpType, Ids, Lengths, Mac, Mark, Ports, Prefix, Protocol, TcpFlags,
};
pub use condition::meter::{Count, Meter, Per};
pub use conditioner::Conditioner;
pub use conditioner::carried::Carried;
pub use field::{Field, FieldKind, Rows, Table};
pub use fields::TABLES;
pub use file::include::Sources;
pub use link::Link;
pub use link::engine::Engine;
pub use link::inbound::{Flows, Holding, Inbound};
pub use link::moves::Moves;
pub use link::track::{Bounds, Track};
pub use model::{
    Ack, AckRate, Amount, Class, Connection, Direction, Directions, DscpTreatment, Group,
    Guarantee, Policy, Rule, Ruleset, When,
};
pub use named::schedule::{Schedule, Season, TimeSpan};
pub use named::service::LIBRARY;
pub use queue::kit::KitQueue;
pub use queue::{CakeQueue, FqCodelQueue, Queue, RedQueue, SfqQueue};
pub use receive::{
    Algorithm, Announced, Asked, MaskedMark, Meters, REFUSE_MARK, Receive, ReceiveUdp,
};

use class::part;
use file::include;
use link::{inbound, track};
use named::{group, schedule, service};
use rule::treatment;
use std::collections::BTreeSet;
use weirgate_document::{Problem, Problems, Reader, Severity};

/// A policy that was read.
#[derive(Debug)]
pub struct Parsed {
    /// The policy, where nothing in it is an error.
    pub policy: Option<Policy>,
    /// Every problem, in the order of its place: the policy first, then the
    /// included files.
    pub problems: Vec<Problem>,
    /// The files, which show a problem at its place.
    pub sources: Sources,
}

/// Reads a policy that includes no files but the shipped ones. Every problem is
/// returned, in the order of its place; the policy only where none of them is
/// an error.
///
/// The problems' codes are those of [`CODES`] and of crate `document`.
#[must_use]
pub fn parse(source: &str) -> (Option<Policy>, Vec<Problem>) {
    let none = |_: &str| Err("it is not at hand".to_owned());
    let Parsed {
        policy,
        problems,
        sources: _,
    } = parse_with("policy", source, &none);
    (policy, problems)
}

/// Reads a policy and the files that it includes. `load` gives the text of a
/// file by its path relative to the policy's folder, or says why it cannot;
/// `name` is how problems call the policy.
#[must_use]
pub fn parse_with(
    name: &str,
    source: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Parsed {
    let problems = Problems::default();
    let files = include::gather(name, source, load, &problems);
    let env = include::survey(&files);
    let mut parts = Parts::default();
    for (text, main) in files.texts() {
        weirgate_document::parse(&text, &problems, |mut root| {
            read_file(&mut root, &env, main, &mut parts);
        });
    }
    let marks = parts.marks.unwrap_or_default();
    let policy = Policy {
        link: parts.link.unwrap_or_else(|| Link::new(0..0, 1)),
        holding: parts.holding,
        receive: parts.receive,
        track: parts.track,
        ack: parts.ack,
        classes: parts.classes,
        rules: parts.rules,
        rulesets: parts.rulesets,
        groups: env.groups.into_values().collect(),
        dscp: parts.dscp,
        conditioners: parts.conditioners,
        shares: parts.shares,
        caps: parts.caps,
        mark_mask: marks.mask,
        payload_lowest: marks.payload_lowest,
        control_group_mask: marks.control_groups,
        inside_mask: marks.inside,
        sources: files.sources,
    };
    check::check(&policy, &problems);
    let mut problems = problems.into_sorted();
    // What a syntax error swallowed is not missing.
    if problems.iter().any(|problem| problem.code == "D001") {
        problems.retain(|problem| problem.code != "D002");
    }
    let usable = problems
        .iter()
        .all(|problem| problem.severity != Severity::Error);
    let sources = policy.sources.clone();
    Parsed {
        policy: usable.then_some(policy),
        problems,
        sources,
    }
}

/// What the files give, in the order of the scheme.
#[derive(Default)]
struct Parts {
    link: Option<Link>,
    holding: Option<Holding>,
    receive: Option<Receive>,
    track: Option<Track>,
    ack: Option<Ack>,
    classes: Vec<Class>,
    rules: Vec<Rule>,
    rulesets: Vec<Ruleset>,
    dscp: Option<DscpTreatment>,
    conditioners: Vec<Conditioner>,
    shares: Vec<GroupShare>,
    caps: Vec<HostCap>,
    marks: Option<treatment::Marks>,
    /// What has been defined so far, by kind and name.
    defined: BTreeSet<(&'static str, String)>,
}

impl Parts {
    /// Two files must not define the same thing.
    fn once(&mut self, place: &Reader<'_, '_>, kind: &'static str, name: String) {
        let wrong = format!("another file has a {kind} `{name}` already");
        if !self.defined.insert((kind, name)) {
            place.problems().error(
                codes::INCLUDE,
                place.span(),
                wrong,
                "choose another name, or leave one of the files out",
            );
        }
    }
}

/// Fields that speak of the site as a whole.
const OF_THE_POLICY: [&str; 8] = [
    "link", "inbound", "receive", "track", "ack", "dscp", "marks", "version",
];

fn read_file(root: &mut Reader<'_, '_>, env: &include::Env, main: bool, parts: &mut Parts) {
    // Read before, for their contents.
    root.text_list("include");
    if main {
        read_version(root);
        parts.link = match root.table("link") {
            Some(table) => Some(link::read(table)),
            None if root.has("link") => None,
            None => root.missing(
                "link",
                "describe the link: `[link]` with device, up and layer",
            ),
        };
        parts.holding = root.table("inbound").map(inbound::read);
        parts.receive = root.table("receive").map(receive::read);
        parts.track = root.table("track").map(track::read);
        parts.ack = root.table("ack").and_then(class::read_ack);
        parts.dscp = root.table("dscp").map(treatment::read_dscp);
        parts.marks = root.table("marks").map(treatment::read_marks);
    } else {
        for key in OF_THE_POLICY {
            if root.has(key) {
                root.problems().error(
                    codes::MISPLACED,
                    root.place(key),
                    format!("`{key}` belongs into the policy itself"),
                    "leave it out of the included file",
                );
            }
        }
    }
    let has_classes = root.has("class");
    parts
        .classes
        .extend(root.tables("class").into_iter().map(class::read));
    if main && !has_classes && parts.classes.is_empty() {
        root.missing::<()>(
            "class",
            "name at least one class: `[[class]]` with name and share",
        );
    }
    for table in root.tables("share") {
        parts.shares.extend(part::read_share(table, &env.groups));
    }
    for table in root.tables("conditioner") {
        let one = conditioner::read(table, &env.groups);
        parts.conditioners.extend(one);
    }
    for table in root.tables("cap") {
        parts.caps.extend(part::read_cap(table, &env.groups));
    }
    for name in service::tables(root, &env.groups).into_keys() {
        parts.once(root, "service", name);
    }
    if let Some(mut table) = root.table("group") {
        for name in table.keys() {
            if let Some(one) = table.table_named(&name) {
                parts.once(&one, "group", name.value.clone());
                group::read(name, one);
            }
        }
    }
    if let Some(mut table) = root.table("schedule") {
        for name in table.keys() {
            if let Some(one) = table.table_named(&name) {
                parts.once(&one, "schedule", name.value);
                schedule::read(one);
            }
        }
    }
    let last = root.boolean("final").is_none_or(|flag| flag.value);
    // Single rules and rule sets make one scheme, in the order of the text.
    let mut scheme: Vec<(usize, Vec<Rule>)> = Vec::new();
    for table in root.tables("rule") {
        let rule = rule::read(table, env, None, last);
        scheme.push((rule.span.start, vec![rule]));
    }
    for table in root.tables("ruleset") {
        let start = table.span().start;
        let (set, rules) = rule::read_set(table, env, parts.rulesets.len(), last);
        parts.rulesets.push(set);
        scheme.push((start, rules));
    }
    scheme.sort_by_key(|(start, _)| *start);
    parts
        .rules
        .extend(scheme.into_iter().flat_map(|(_, rules)| rules));
}

fn read_version(root: &mut Reader<'_, '_>) {
    if !root.has("version") {
        root.missing::<()>("version", "begin the policy with `version = 1`");
    }
    if let Some(version) = root.integer("version", 0..=i64::MAX)
        && *version != 1
    {
        root.problems().error(
            codes::VERSION,
            version.span.clone(),
            format!("policies of version {} are not known here", *version),
            "write `version = 1`",
        );
    }
}

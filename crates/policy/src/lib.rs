// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Site policy: reads a TOML text into a checked model, and reports all problems at once.
//!
//! A policy describes a link, the classes that share it and the rules that put packets into
//! classes. [`parse`] turns the text into a [`Policy`] or reports all of its errors;
//! [`parse_with`] also reads included files. [`Policy::share_out`] computes the rates of
//! classes. [`template`] writes the policy that `weirgate try` uses.
//!
//! This crate knows rates, shares and packet headers. It knows only the names and settings of
//! qdiscs, and nothing of the running kernel's features: those belong to crate `compile`. Start
//! reading at [`Policy`].
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

mod amount;
mod check;
mod class;
mod codes;
mod condition;
mod conditioner;
mod field;
mod file;
mod link;
mod marks;
mod model;
mod named;
mod policy;
mod queue;
mod read;
mod receive;
mod rule;
mod synonyms;
mod tables;
pub mod template;

pub use amount::Amount;
pub use class::ack::{Ack, AckRate};
pub use class::fair::Fair;
pub use class::part::{GroupShare, HostCap, MOST_CAPPED};
pub use class::{Class, Guarantee};
pub use codes::{CODES, Code};
pub use condition::*;
pub use conditioner::Conditioner;
pub use conditioner::carried::Carried;
pub use field::{Field, FieldKind, Rows, Table};
pub use file::include::Sources;
pub use link::*;
pub use marks::Marks;
pub use model::{Directions, Rule, Ruleset, ServiceMatch, in_kbit};
pub use named::group::Group;
pub use named::member::{Mac, Ports, Prefix};
pub use named::service::{LIBRARY, described as described_services};
pub use policy::Policy;
pub use policy::shares::{SharedClass, Shares};
pub use queue::kit::KitQueue;
pub use queue::{CakeQueue, FqCodelQueue, Queue, RedQueue, SfqQueue};
pub use receive::{Algorithm, Announced, Asked, Meters, REFUSE_MARK, Receive, ReceiveUdp, Sharing};
pub use rule::treatment::DscpTreatment;
pub use tables::TABLES;
pub use weirgate_schedule::{Schedule, Season, TimeSpan};
pub use weirgate_units::Direction;

use file::include;
use weirgate_document::{Problem, Problems, Severity};

/// The result of parsing a policy.
#[derive(Debug)]
pub struct Parsed {
    /// The policy, if there are no errors.
    pub policy: Option<Policy>,
    /// Every problem, in the order of positions: the policy first, then the included files.
    pub problems: Vec<Problem>,
    /// The files, which are needed to print a problem with its position.
    pub sources: Sources,
}

/// Parses a policy that includes no files but those of the library. Returns every problem in the
/// order of positions, and the policy if none of them is an error.
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

/// Parses a policy and the files that it includes. `load` returns the text of a file by its path
/// relative to the policy's folder, or the reason why it cannot. `name` is the policy's name in
/// problems.
#[must_use]
pub fn parse_with(
    name: &str,
    source: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Parsed {
    let problems = Problems::default();
    let files = include::gather(name, source, load, &problems);
    let env = include::survey(&files);
    let mut parts = file::Parts::default();
    for (text, main) in files.texts() {
        weirgate_document::parse_with_vocabulary(
            &text,
            &problems,
            &synonyms::VOCABULARY,
            |mut root| {
                file::read(&mut root, &env, main, &mut parts);
            },
        );
    }
    let mut policy = Policy {
        link: parts.link.unwrap_or_else(|| Link::new(0..0, 1)),
        policing: parts.policing,
        receive: parts.receive,
        track: parts.track,
        ack: parts.ack,
        classes: parts.classes,
        rules: parts.rules,
        rulesets: parts.rulesets,
        groups: env.groups.into_values().collect(),
        services: env.services,
        dscp: parts.dscp,
        conditioners: parts.conditioners,
        shares: parts.shares,
        caps: parts.caps,
        marks: parts.marks.unwrap_or_default(),
        sources: files.sources,
    };
    automatic::settle(&mut policy);
    low_latency::settle(&mut policy, &problems);
    check::check(&policy, &problems);
    let mut problems = problems.into_sorted();
    // After a syntax error, fields may seem missing that the parser did not reach.
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

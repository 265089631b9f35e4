// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Site policy: one TOML text to a checked model, all problems in one run.
//!
//! A policy describes a link, the classes that share it and the rules that put
//! packets into classes. [`parse`] turns the text into a [`Policy`] or says
//! everything that is wrong with it; [`Policy::share_out`] does the arithmetic
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

mod class;
mod codes;
mod link;
mod matching;
mod model;
mod queue;
mod reach;
mod read;
mod rule;
mod shares;
mod sums;
pub mod template;
mod verdict;

pub use codes::{CODES, Code};
pub use matching::{Lengths, Ports, Prefix, Protocol, TcpFlags};
pub use model::{
    Ack, AckRate, Amount, Class, Direction, Directions, Guarantee, Inbound, Link, Policy, Rule,
};
pub use queue::{CakeQueue, FqCodelQueue, Queue, RedQueue, SfqQueue};
pub use shares::{SharedClass, Shares, in_kbit};

use weirgate_document::{Problem, Problems, Reader, Severity};

/// Reads a policy. Every problem is returned, in the order of its place; the
/// policy only where none of them is an error.
///
/// The problems' codes are those of [`CODES`] and of crate `document`.
#[must_use]
pub fn parse(source: &str) -> (Option<Policy>, Vec<Problem>) {
    let problems = Problems::default();
    let policy = weirgate_document::parse(source, &problems, |mut root| {
        read_version(&mut root);
        let link = match root.table("link") {
            Some(table) => Some(link::read(table)),
            None if root.has("link") => None,
            None => root.missing(
                "link",
                "describe the link: `[link]` with device, up and layer",
            ),
        };
        let ack = root.table("ack").map(class::read_ack);
        let has_classes = root.has("class");
        let classes = root.tables("class").into_iter().map(class::read).collect();
        if !has_classes {
            root.missing::<()>(
                "class",
                "name at least one class: `[[class]]` with name and share",
            );
        }
        let rules = root.tables("rule").into_iter().map(rule::read).collect();
        let link = link.unwrap_or_else(|| link::placeholder(root.span()));
        Policy {
            link,
            ack: ack.flatten(),
            classes,
            rules,
        }
    });
    verdict::check(&policy, &problems);
    let mut problems = problems.into_sorted();
    // What a syntax error swallowed is not missing.
    if problems.iter().any(|problem| problem.code == "D001") {
        problems.retain(|problem| problem.code != "D002");
    }
    let usable = problems
        .iter()
        .all(|problem| problem.severity != Severity::Error);
    (usable.then_some(policy), problems)
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

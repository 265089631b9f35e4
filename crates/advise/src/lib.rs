// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advice from measurement: a question about a link becomes an experiment with one arm for each
//! candidate setting. The figures of the arms become a ranking by the goal.
//!
//! This crate is pure. [`Question::experiment`] and [`Question::policies`] are texts in the usual
//! formats of experiments and policies. The caller runs them, and [`answer`] takes the resulting
//! figures.
//!
//! ```
//! use weirgate_advise::{Goal, AskedLine, Match, Question};
//! use weirgate_linklayer::LinkLayer;
//! use weirgate_units::{Rate, Size, Span};
//!
//! let question = Question {
//!     line: AskedLine {
//!         rate: Rate::kbit(10_000),
//!         layer: LinkLayer::named("ethernet")?,
//!         delay: Span::from_millis(5),
//!         buffer: Size::bytes(100_000),
//!     },
//!     goal: Goal::Voice { calls: 2, tcp: 2 },
//!     chosen: "dscp=EF".parse::<Match>()?,
//!     device: "eth1".to_owned(),
//!     lan: "eth0".to_owned(),
//!     seeds: 1,
//! };
//! question.check()?;
//! let (experiment, problems) = weirgate_experiment::parse(&question.experiment());
//! assert!(problems.is_empty());
//! // An arm for each setting, and each finds its policy.
//! let policies = question.policies();
//! for arm in experiment.expect("it has no problems").arms {
//!     assert!(arm.policies().all(|path| policies.contains_key(path)));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod candidate;
mod goal;
mod question;

pub use answer::{Answer, Figure, Ranked, answer};
pub use goal::{Better, Limit, Measure};
pub use question::{AskedLine, Goal, Match, MatchError, Question, Senseless};

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advice from measurement: a question about a link becomes an experiment with
//! one arm for each setting that comes into question, and its figures become a
//! ranking by what was asked for.
//!
//! Pure: [`Question::experiment`] and [`Question::policies`] are texts in the
//! formats that every other experiment and policy is written in, [`answer`]
//! takes the figures that came of them. Running it is the caller's.

mod answer;
mod candidate;
mod goal;
mod question;

pub use answer::{Answer, Figure, Ranked, answer};
pub use goal::{Better, Limit, Measure};
pub use question::{Goal, Line, Match, MatchError, Question, Senseless};

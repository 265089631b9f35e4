// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real program as a user meets it: what it prints, its exit status, and that it leaves nothing
//! behind.
//!
//! `apply` and `lab::here` need root, because they create network namespaces; `lab` needs what
//! `weirgate lab run` needs. After an intended change of a message, rewrite the texts in
//! `tests/cli` with `WEIRGATE_ACCEPT=1` and review the difference.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod apply;
mod audit;
mod doctor;
mod documents;
mod explain;
mod flows;
mod init;
mod input;
mod json;
mod lab;
mod namespace;
mod program;
mod remote;
mod schema;
mod several;
mod single_instance;
mod stream;
mod survey;
mod top;
mod watch;

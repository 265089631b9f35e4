// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real program, as a user meets it: what it prints, its exit status, and
//! that it leaves nothing behind.
//!
//! The modules `kernel` and `here` need root, because they make network
//! namespaces; `lab` and `capture` need what `weirgate lab run` needs. After an intended change
//! of a message, write the texts in `tests/cli` anew with `WEIRGATE_ACCEPT=1`
//! and read the difference.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod advise;
mod announce;
mod arriving;
mod browser;
mod capture;
mod control_groups;
mod damaged;
mod dashboard;
mod doctor;
mod documents;
mod explain;
mod exported;
mod flood;
mod flows;
mod full;
mod held;
mod here;
mod init;
mod input;
mod interrupted;
mod kernel;
mod kollegiegaarden;
mod lab;
mod late;
mod names;
mod namespace;
mod page;
mod powerless;
mod program;
mod remote;
mod safe;
mod schema;
mod stream;
mod survey;
mod timeline;
mod track;
mod victim;
mod watch;
mod watch_web;

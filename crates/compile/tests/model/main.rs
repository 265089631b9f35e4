// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled tree, run in a model of HTB: bounds are never exceeded and are
//! reached, guarantees hold.
//!
//! The model follows net/sched/sch_htb.c (see `htb`), works on the very
//! `State` that `compile` makes, and shares no code with `bounds`. `search` draws
//! policies and looks for arrivals that break a bound (`attack`).

mod attack;
mod drive;
mod flood;
mod htb;
mod parts;
mod promises;
mod queue;
mod search;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the compiled tree in a model of HTB: bounds are never exceeded but are reached, and
//! guarantees hold.
//!
//! The model follows net/sched/sch_htb.c (see `htb`), uses the `State` that `compile` makes, and
//! shares no code with `bounds`. `search` generates policies, and searches for arrivals that break
//! a bound (`attack`).

mod attack;
mod drive;
mod flood;
mod htb;
mod parts;
mod promises;
mod queue;
mod search;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds of the engine of rows, against an adversary that runs the engine's own code:
//! policies are drawn, and a search looks for arrivals that break a bound.

mod attack;
mod search;

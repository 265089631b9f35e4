// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the bounds of the engine of rows against an adversary that runs the engine's own code:
//! policies are generated, and a search looks for arrivals that break a bound.

mod attack;
mod search;

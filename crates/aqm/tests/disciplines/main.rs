// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of the disciplines: a file for each, and one for properties of all.

#[path = "../support/bottleneck.rs"]
mod bottleneck;
#[path = "../support/mod.rs"]
mod support;

mod band;
mod blue;
mod bursts;
mod codel;
mod confined;
mod drt;
mod dualpi2;
mod ef;
mod every;
mod fuzzy;
mod mice;
mod nqb;
mod pie;
mod red;
mod seam;
mod shallow;
mod sred;
mod wred;

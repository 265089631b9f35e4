// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine of rows promises.

#[path = "../support/growth.rs"]
mod growth;
#[path = "../support/mod.rs"]
mod support;

mod caps;
mod ceilings;
mod hosts;
mod lines;
mod promises;
mod trees;

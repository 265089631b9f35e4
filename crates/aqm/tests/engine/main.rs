// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of the engine of rows.

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

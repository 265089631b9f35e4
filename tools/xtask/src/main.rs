// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Project tasks: set-up, checks, generated files.
fn main() {}

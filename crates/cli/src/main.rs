// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The weirgate command.
fn main() {}

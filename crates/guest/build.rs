// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leaves symbols out of the guest. The profile says so, but cargo forgets it of a package
//! with a level of its own; and their names differ from one build to the next, while all
//! that runs is the same to the bit.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
}

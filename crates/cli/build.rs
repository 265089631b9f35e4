// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the linker for a small program where the compiler is asked for one, which is the
//! profile `dist` (`docs/decisions/0034-small-program.md`).

use std::env;

/// The target that Rust links with lld, which knows these options.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("OPT_LEVEL", "z") && is("TARGET", TARGET) {
        let script = concat!("-Wl,-T,", env!("CARGO_MANIFEST_DIR"), "/link.ld");
        for argument in [
            // One of several equal functions.
            "-Wl,--icf=all",
            // Some 10,000 relocations in 5 kB.
            "-Wl,-z,pack-relative-relocs",
            "-Wl,--no-eh-frame-hdr",
            script,
        ] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}

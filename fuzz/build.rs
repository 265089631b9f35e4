// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the programs for arriving packets for this machine, for a fuzzer with its
//! counters of branches in them.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=../bpf");
    println!("cargo::rerun-if-changed=../aqm");
    let common = || {
        let mut build = cc::Build::new();
        // The compiler of crate bpf, because only clang counts branches as the
        // fuzzer reads them.
        build.compiler("clang-19").warnings(false);
        for folder in [
            "native",
            "../bpf/include",
            "../bpf/inbound",
            "../bpf/ingress",
            "../aqm/include",
            "../aqm/host",
            "../aqm",
        ] {
            build.include(folder);
        }
        build
    };
    common().file("native/kernel.c").compile("native_kernel");
    let mut programs = common();
    if env::var_os("CARGO_FEATURE_FUZZING").is_some() {
        programs.flag("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    // What is read or written outside its place ends the run.
    programs.flag("-fsanitize=bounds,alignment,shift,null");
    programs.flag("-fsanitize-trap=all");
    if env::var_os("CARGO_FEATURE_PLANTED").is_some() {
        programs.define("PLANTED", None);
    }
    for name in ["window", "udp", "filter"] {
        programs.file(format!("native/{name}.c"));
    }
    programs.compile("native_programs");
}

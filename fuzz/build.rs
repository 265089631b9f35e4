// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the programs for arriving packets for this machine; for a fuzzer, with its branch
//! counters.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=../bpf");
    println!("cargo::rerun-if-changed=../aqm");
    let common = || {
        let mut build = cc::Build::new();
        // Use the compiler of crate bpf, because only clang has the fuzzer's branch counters.
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
    // Accesses out of bounds end the run.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the disciplines of aqm/ for this machine.

use std::env;
use std::path::Path;

/// Every discipline: the name of its file, and of its structures.
const DISCIPLINES: [&str; 11] = [
    "droptail", "red", "ared", "mered", "meredt", "codel", "fq_codel", "pie", "wred", "fuzzy",
    "drt",
];

/// Freestanding, as on every host, and without what Linux is built without.
const FLAGS: [&str; 9] = [
    "-std=gnu11",
    "-ffreestanding",
    "-nostdinc",
    "-fwrapv",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wconversion",
    "-Wno-sign-conversion",
];

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default())
        .ancestors()
        .nth(2)
        .map(|root| root.join("aqm"))
        .unwrap_or_default();
    println!("cargo::rerun-if-changed={}", root.display());
    let common = || {
        let mut build = cc::Build::new();
        for folder in ["include", "host", "host/native", ""] {
            build.include(root.join(folder));
        }
        for flag in FLAGS {
            build.flag(flag);
        }
        build.warnings_into_errors(true);
        build
    };
    for name in ["common", "conditioner", "shaper", "window"] {
        common()
            .file(root.join(format!("host/native/{name}.c")))
            .compile(&format!("aqm_{name}"));
    }
    for name in DISCIPLINES {
        common()
            .define("AQM_NAME", name)
            .define("AQM_TABLE", name.to_uppercase().as_str())
            .define("AQM_FILE", format!("\"{name}.c\"").as_str())
            .file(root.join("host/native/native.c"))
            .compile(&format!("aqm_{name}"));
    }
}

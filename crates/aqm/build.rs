// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the disciplines of `aqm/disciplines.txt` for this machine, and
//! writes the list of their descriptors for the crate to include.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

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

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../aqm");
    let out = env::var("OUT_DIR")?;
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
    for name in [
        "acks",
        "common",
        "conditioner",
        "engine",
        "shaper",
        "window",
    ] {
        common()
            .file(root.join(format!("host/native/{name}.c")))
            .compile(&format!("aqm_{name}"));
    }
    let table = fs::read_to_string(root.join("disciplines.txt"))?;
    let (kit, lab) = names(&table);
    for name in kit.iter().chain(&lab) {
        common()
            .define("AQM_NAME", *name)
            .define("AQM_TABLE", name.to_uppercase().as_str())
            .define("AQM_FILE", format!("\"{name}.c\"").as_str())
            .file(root.join("host/native/native.c"))
            .compile(&format!("aqm_{name}"));
    }
    let items = [
        descriptors("KIT", "each discipline of the kit, by its number", &kit)?,
        descriptors("LAB", "those that come with the laboratory", &lab)?,
        format!(
            "/// Their names, for a program that has nothing else of them.\n\
             pub(crate) const LAB_NAMES: [&str; {}] = {lab:?};\n",
            lab.len()
        ),
    ];
    fs::write(Path::new(&out).join("disciplines.rs"), items.concat())?;
    Ok(())
}

/// The names of the table, one at the beginning of each line that is no comment: those of
/// the kit, and those of the laboratory, whose lines end so.
fn names(table: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut kit, mut lab) = (Vec::new(), Vec::new());
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let of = if row.ends_with(" lab") {
            &mut lab
        } else {
            &mut kit
        };
        of.extend(row.split_whitespace().next());
    }
    (kit, lab)
}

/// A constant with the descriptors that C has of these disciplines.
fn descriptors(constant: &str, what: &str, names: &[&str]) -> Result<String, std::fmt::Error> {
    let (mut externs, mut items) = (String::new(), String::new());
    for name in names {
        writeln!(externs, "    static aqm_descriptor_{name}: RawDescriptor;")?;
        writeln!(items, "        &aqm_descriptor_{name},")?;
    }
    Ok(format!(
        "unsafe extern \"C\" {{\n{externs}}}\n\n\
         /// The descriptors of {what}.\n\
         // SAFETY: C defines each as a constant of this layout, which a test checks.\n\
         pub(crate) static {constant}: [&RawDescriptor; {}] = unsafe {{\n    [\n{items}    ]\n}};\n",
        names.len()
    ))
}

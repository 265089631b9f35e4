// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the linker for a small program where the compiler is asked for one, which is the
//! profile `dist` (`docs/decisions/0034-small-program.md`).

use std::error::Error;
use std::path::Path;
use std::{env, fs};

/// The targets that are linked with lld, which knows these options: Rust does so for the
/// first, and `packaging/static/build` for the other ones.
const TARGETS: [&str; 3] = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
];

/// Leaves out the tables for unwinding, a megabyte: the program aborts where it panics. The
/// compiler writes them even so when it optimises with the standard library.
const NO_TABLES: &str = "SECTIONS\n{\n\
    \t/DISCARD/ : { *(.eh_frame) *(.gcc_except_table .gcc_except_table.*) }\n}\n\
    INSERT AFTER .rodata;\n";

/// The functions that `keep` runs until it waits, one a line.
const ORDER: &str = "keep-order.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ORDER}");
    let small = env::var("OPT_LEVEL").is_ok_and(|level| level == "z");
    if small && TARGETS.contains(&env::var("TARGET")?.as_str()) {
        let path = Path::new(&env::var("OUT_DIR")?).join("link.ld");
        let script = NO_TABLES.to_owned() + &together(&fs::read_to_string(ORDER)?);
        fs::write(&path, script)?;
        for argument in [
            // One of several equal functions.
            "-Wl,--icf=all",
            // Some 10,000 relocations in 5 kB.
            "-Wl,-z,pack-relative-relocs",
            "-Wl,--no-eh-frame-hdr",
            &format!("-Wl,-T,{}", path.display()),
        ] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
    Ok(())
}

/// Puts these functions together, because the kernel maps 64 kB around each page that is
/// touched. Their names end before the hash, which another compiler writes otherwise. A name
/// that no function has any more costs nothing, and one that is missing some memory.
fn together(names: &str) -> String {
    let mut script = "SECTIONS\n{\n\t.text.keep : {\n\t\t*(".to_owned();
    for name in names.lines().filter(|line| !line.starts_with('#')) {
        // The compiler marks some as unlikely.
        script.extend([".text.", name, "* .text.unlikely.", name, "*\n\t\t  "]);
    }
    script + ")\n\t}\n}\nINSERT BEFORE .text;\n"
}

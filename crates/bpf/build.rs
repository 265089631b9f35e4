// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles every program below bpf/ for the kernel, and those of the kit's
//! disciplines, with libbpf's own headers; and lists the objects for the crate to
//! include.

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weirgate_aqm::{Discipline, VirtualQueue};

/// The compiler: the first of these that runs. Older ones emit programs that
/// the kernel refuses.
const COMPILERS: [&str; 3] = ["clang-19", "clang-20", "clang"];

/// The kernel's processor: version 3 has the 32-bit instructions and atomics
/// that the programs use, and every kernel with BPF qdiscs runs it.
const FLAGS: [&str; 8] = [
    "-target",
    "bpf",
    "-mcpu=v3",
    "-g",
    "-O2",
    "-Wall",
    "-Werror",
    "-Wno-missing-declarations",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let headers = env::var("DEP_BPF_INCLUDE")?;
    for folder in ["aqm", "bpf"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    fs::write(out.join("patterns.h"), weirgate_signatures::header())?;
    let compiler = COMPILERS
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .ok_or("no clang for BPF: install Debian's clang-19 (`cargo xtask setup` does)")?;
    let mut sources: Vec<PathBuf> = Vec::new();
    for folder in [
        "bpf/qdisc",
        "bpf/egress",
        "bpf/payload",
        "bpf/inbound",
        "bpf/order",
        "bpf/passive",
        "bpf/bench",
    ] {
        let files = fs::read_dir(root.join(folder))?.filter_map(|entry| Some(entry.ok()?.path()));
        sources.extend(files.filter(|path| path.to_string_lossy().ends_with(".bpf.c")));
    }
    sources.extend(disciplines(&out)?);
    sources.sort();
    let mut items = String::new();
    let mut table = String::new();
    for source in sources {
        let file = source
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let name = file.trim_end_matches(".bpf.c");
        let object = out.join(format!("{name}.bpf.o"));
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg(format!("-I{headers}"));
        command.arg(format!("-I{}", out.display()));
        for folder in [
            "bpf/include",
            "bpf/qdisc",
            "bpf/ingress",
            "bpf/payload",
            "bpf/passive",
            "aqm/include",
            "aqm/host",
            "aqm",
        ] {
            command.arg(format!("-I{}", root.join(folder).display()));
        }
        command.arg("-c").arg(&source).arg("-o").arg(&object);
        if !command.status()?.success() {
            return Err(format!("{} does not compile", source.display()).into());
        }
        items += &item(name, &object);
        writeln!(table, "    ({name:?}, &{}.0),", name.to_uppercase())?;
    }
    items += &shared(&root, Path::new(&headers))?;
    writeln!(items, "static PROGRAMS: &[(&str, &[u8])] = &[\n{table}];")?;
    fs::write(out.join("programs.rs"), items)?;
    Ok(())
}

/// Writes the programs of each discipline of the kit, which are a few lines around
/// the hosts in `bpf/qdisc` and `bpf/ingress`, and `disciplines.h`, by which the
/// shaper has all of them. Returns the programs' sources.
fn disciplines(out: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut programs = Vec::new();
    let mut header = String::new();
    let mut kinds = String::from("#define KINDS(K)");
    for (number, discipline) in Discipline::all().into_iter().enumerate() {
        let name = discipline.name();
        let qdisc = (name.to_owned(), "qdisc.bpf.h");
        let ingress = (format!("ingress_{name}"), "ingress.bpf.h");
        let virtually = VirtualQueue::refusal(discipline).is_none();
        for (program, host) in [qdisc].into_iter().chain(virtually.then_some(ingress)) {
            let source = out.join(program).with_extension("bpf.c");
            let text =
                format!("#include \"{name}.c\"\n#define AQM_NAME {name}\n#include \"{host}\"\n");
            fs::write(&source, text)?;
            programs.push(source);
        }
        writeln!(
            header,
            "#include \"{name}.c\"\n#define AQM_NAME {name}\n#include \"queue.h\"\n#undef AQM_NAME"
        )?;
        write!(kinds, " K({number}, {name})")?;
    }
    fs::write(out.join("disciplines.h"), format!("{header}{kinds}\n"))?;
    Ok(programs)
}

/// Everything that someone else's discipline is compiled with, by its path in
/// this project; libbpf's headers below `libbpf`.
fn shared(root: &Path, libbpf: &Path) -> Result<String, Box<dyn Error>> {
    let mut table = String::new();
    let folders = [
        (root.join("aqm"), "aqm"),
        (root.join("aqm/include"), "aqm/include"),
        (root.join("aqm/host"), "aqm/host"),
        (root.join("aqm/host/native"), "aqm/host/native"),
        (root.join("bpf/include"), "bpf/include"),
        (root.join("bpf/qdisc"), "bpf/qdisc"),
        (root.join("bpf/ingress"), "bpf/ingress"),
        (libbpf.join("bpf"), "libbpf/bpf"),
    ];
    for (folder, place) in folders {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|kind| kind == "h" || kind == "c")
            })
            .collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let path = file.canonicalize()?;
            let path = path.to_string_lossy();
            if place != "libbpf/bpf" || LIBBPF.contains(&&*name) {
                writeln!(
                    table,
                    "    ({:?}, include_str!({path:?})),",
                    format!("{place}/{name}")
                )?;
            }
        }
    }
    Ok(format!("static SOURCES: &[(&str, &str)] = &[\n{table}];\n"))
}

/// What programs include of libbpf.
const LIBBPF: [&str; 4] = [
    "bpf_helpers.h",
    "bpf_helper_defs.h",
    "bpf_core_read.h",
    "bpf_tracing.h",
];

/// A static with the object's bytes. libbpf reads 64-bit words, so it is
/// aligned.
fn item(name: &str, object: &Path) -> String {
    let name = name.to_uppercase();
    let bytes = format!("include_bytes!({:?})", object.to_string_lossy());
    format!("static {name}: Aligned<{{ {bytes}.len() }}> = Aligned(*{bytes});\n")
}

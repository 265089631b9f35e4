// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles every program below bpf/ for the kernel, and those of the kit's
//! disciplines, with libbpf's own headers; packs the objects, and lists them for the
//! crate to include. Generates Rust's types of what maps hold from the headers of the same
//! programs.

mod lines;

use bindgen::callbacks::{DeriveInfo, DeriveTrait, ImplementsTrait, ParseCallbacks};
use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use weirgate_aqm::{Discipline, VirtualQueue};
use weirgate_units::{fnv1a_32, fnv1a_64};

/// The compiler: the first of these that runs. Older ones emit programs that
/// the kernel refuses.
const COMPILERS: [&str; 3] = ["clang-19", "clang-20", "clang"];

/// What takes debugging information out of an object and leaves BTF: the first of these
/// that runs. clang writes both or neither, and DWARF is two fifths of an object.
const STRIPPERS: [&str; 3] = ["llvm-strip-19", "llvm-strip-20", "llvm-strip"];

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

/// How many bytes of objects are packed as one, at most, unless a single one is larger;
/// and how far back the packer looks for what is alike.
const DICTIONARY: u32 = 512 << 10;

/// Where programs are.
const FOLDERS: [&str; 16] = [
    "bpf/bench",
    "bpf/egress",
    "bpf/egress/circuits",
    "bpf/include",
    "bpf/inbound",
    "bpf/inbound/window",
    "bpf/ingress",
    "bpf/lab",
    "bpf/lab/line",
    "bpf/order",
    "bpf/passive",
    "bpf/payload",
    "bpf/prague",
    "bpf/qdisc",
    "bpf/qdisc/engine",
    "bpf/qdisc/shaper",
];

/// Where programs of the laboratory and its measurements are, which no router loads.
const OF_THE_LAB: [&str; 3] = ["bpf/bench", "bpf/lab", "bpf/prague"];

/// Where they find what they include.
const INCLUDES: [&str; 11] = [
    "bpf/include",
    "bpf/egress",
    "bpf/inbound",
    "bpf/qdisc",
    "bpf/ingress",
    "bpf/lab",
    "bpf/payload",
    "bpf/passive",
    "aqm/include",
    "aqm/host",
    "aqm",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let root = root.canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let headers = env::var("DEP_BPF_INCLUDE")?;
    for folder in ["aqm", "bpf"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    fs::write(out.join("patterns.h"), weirgate_signatures::header())?;
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let compiler = COMPILERS
        .into_iter()
        .find(runs)
        .ok_or("no clang for BPF: install Debian's clang-19 (`cargo xtask setup` does)")?;
    let stripper = STRIPPERS
        .into_iter()
        .find(runs)
        .ok_or("no llvm-strip: install Debian's llvm-19 (`cargo xtask setup` does)")?;
    let include = |folder: &Path| format!("-I{}", folder.display());
    let mut includes = vec![format!("-I{headers}"), include(&out)];
    includes.extend(INCLUDES.map(|folder| include(&root.join(folder))));
    let places = places(&[
        (&root, ""),
        (Path::new(&headers), "libbpf/"),
        (&out, "out/"),
    ]);
    let mut sources = files(&root, ".bpf.c")?;
    sources.extend(disciplines(&out)?);
    sources.sort();
    if env::var_os("CARGO_FEATURE_PROGRAMS").is_none() {
        sources.clear();
    }
    let for_packages = env::var_os("CARGO_FEATURE_PACKED").is_some();
    if for_packages {
        let lab = OF_THE_LAB.map(|folder| root.join(folder));
        sources.retain(|source| !lab.iter().any(|folder| source.starts_with(folder)));
    }
    let compile = |source: &Path| -> Result<(), String> {
        let object = out.join(format!("{}.bpf.o", name(source)));
        let mut clang = Command::new(compiler);
        clang.args(FLAGS).args(&places).args(&includes);
        clang.arg("-c").arg(source).arg("-o").arg(&object);
        for mut command in [clang, strip(stripper, &object)] {
            let status = command.status().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!(
                    "{} does not compile: {command:?}",
                    source.display()
                ));
            }
        }
        Ok(())
    };
    side_by_side(&sources, compile)?;
    let mut objects: Vec<(String, Vec<u8>)> = sources
        .iter()
        .map(|source| {
            let name = name(source);
            let object = fs::read(out.join(format!("{name}.bpf.o")))?;
            Ok((name, object))
        })
        .collect::<io::Result<_>>()?;
    if for_packages {
        for (name, object) in &mut objects {
            *object = lines::without_lines(object).ok_or_else(|| format!("{name}: no object"))?;
        }
        // Objects of about the same size are most alike.
        objects.sort_by_key(|(_, object)| object.len());
    }
    let items = packed(&objects, &out)? + &shared(&root, Path::new(&headers))?;
    fs::write(out.join("programs.rs"), items)?;
    layouts(&root, &includes, &out)
}

fn strip(stripper: &str, object: &Path) -> Command {
    let mut command = Command::new(stripper);
    command.arg("--strip-debug").arg(object);
    command
}

/// What a program is called, by its file.
fn name(source: &Path) -> String {
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    file.trim_end_matches(".bpf.c").to_owned()
}

/// Does this with every source, as many at once as cargo has jobs (NUM_JOBS).
fn side_by_side(
    sources: &[PathBuf],
    compile: impl Fn(&Path) -> Result<(), String> + Sync,
) -> Result<(), Box<dyn Error>> {
    let jobs: usize = env::var("NUM_JOBS")?.parse()?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), String> {
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            compile(source)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

/// What makes an object's paths, which the kernel's messages show, the same wherever
/// the project lies: what stands in place of each folder. The last that fits counts.
fn places(folders: &[(&Path, &str)]) -> Vec<String> {
    let map =
        |(folder, name): &(&Path, &str)| format!("-ffile-prefix-map={}/={name}", folder.display());
    let mut flags = vec!["-fdebug-compilation-dir=.".to_owned()];
    flags.extend(folders.iter().map(map));
    flags
}

/// The files of all programs whose name ends so.
fn files(root: &Path, end: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in FOLDERS {
        let files = fs::read_dir(root.join(folder))?.filter_map(|entry| Some(entry.ok()?.path()));
        all.extend(files.filter(|path| path.to_string_lossy().ends_with(end)));
    }
    Ok(all)
}

/// Generates the types of every `layout.h` and `*_layout.h`, with what they are made of, but for
/// those that crate aqm has. They are read for BPF, and the types assert clang's sizes
/// and offsets: what Rust makes of them cannot differ from what the program has.
fn layouts(root: &Path, includes: &[String], out: &Path) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    for path in files(root, "layout.h")? {
        writeln!(text, "#include \"{}\"", path.canonicalize()?.display())?;
    }
    bindgen::Builder::default()
        .header_contents("layouts.h", &text)
        .clang_arg("--target=bpf")
        .clang_arg("-fparse-all-comments")
        .clang_args(includes)
        .allowlist_file(".*[/_]layout\\.h")
        .allowlist_item("SHAPER_CLASSES|SHARE_ONE|SPREAD_.*")
        .allowlist_type(
            "engine_fork|engine_host|engine_node|engine_state|engine_queue|engine_slot|meter_kind|window_algorithm",
        )
        .blocklist_type("aqm_link|shaper_rule")
        .prepend_enum_name(false)
        .parse_callbacks(Box::new(Bytes))
        .generate()?
        .write_to_file(out.join("layouts.rs"))?;
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

/// Generated types are read from and written to maps as bytes.
#[derive(Debug)]
struct Bytes;

impl ParseCallbacks for Bytes {
    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        let mut derives = vec!["FromBytes", "Immutable", "IntoBytes"];
        // Part of the crate's interface.
        if info.name == "aqm_attach_point" {
            derives.extend(["PartialEq", "Eq", "PartialOrd", "Ord", "Hash"]);
        }
        derives.into_iter().map(str::to_owned).collect()
    }

    /// Types of crate aqm can do what generated ones can.
    fn blocklisted_type_implements_trait(
        &self,
        _: &str,
        _: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }
}

/// Everything that someone else's discipline is compiled with, by its path in
/// this project; libbpf's headers below `libbpf`. And the number of all that text, so that
/// who asks for it alone need not carry the text.
fn shared(root: &Path, libbpf: &Path) -> Result<String, Box<dyn Error>> {
    let mut table = String::new();
    let mut text = Vec::new();
    let folders = [
        (root.join("aqm"), "aqm"),
        (root.join("aqm/include"), "aqm/include"),
        (root.join("aqm/host"), "aqm/host"),
        (root.join("aqm/host/engine"), "aqm/host/engine"),
        (root.join("aqm/host/native"), "aqm/host/native"),
        (root.join("bpf/include"), "bpf/include"),
        (root.join("bpf/qdisc"), "bpf/qdisc"),
        (root.join("bpf/qdisc/engine"), "bpf/qdisc/engine"),
        (root.join("bpf/qdisc/shaper"), "bpf/qdisc/shaper"),
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
                text.extend(fs::read(&file)?);
                writeln!(
                    table,
                    "    ({:?}, include_str!({path:?})),",
                    format!("{place}/{name}")
                )?;
            }
        }
    }
    Ok(format!(
        "static SOURCES: &[(&str, &str)] = &[\n{table}];\nconst KIT_NUMBER: u64 = \
         u64::from_be_bytes({:?});\n",
        fnv1a_64(text).to_be_bytes()
    ))
}

/// What programs include of libbpf.
const LIBBPF: [&str; 4] = [
    "bpf_helpers.h",
    "bpf_helper_defs.h",
    "bpf_core_read.h",
    "bpf_tracing.h",
];

/// Packs the objects into files, and lists both. Objects are much alike, so those of a
/// block are packed as one; to load one, those before it in its block are unpacked too.
fn packed(objects: &[(String, Vec<u8>)], out: &Path) -> Result<String, Box<dyn Error>> {
    // Instructions have 8 bytes, and begin at multiples of these.
    let options = LzmaOptions {
        dict_size: DICTIONARY,
        lc: 0,
        lp: 3,
        pb: 3,
        ..LzmaOptions::with_preset(9)
    };
    let mut blocks = String::new();
    let mut programs = String::new();
    let mut number = 0;
    let mut block: Vec<u8> = Vec::new();
    let mut left = objects.iter().peekable();
    while let Some((name, object)) = left.next() {
        // What tells versions of the program apart.
        let digest = fnv1a_32(object.iter().copied()).to_be_bytes();
        writeln!(
            programs,
            "    Program {{ name: {name:?}, digest: u32::from_be_bytes({digest:?}), \
             block: {number}, at: {}, bytes: {} }},",
            literal(block.len()),
            literal(object.len())
        )?;
        block.extend(object);
        let next = left.peek().map_or(usize::MAX, |(_, next)| next.len());
        if block.len().saturating_add(next) > DICTIONARY as usize {
            let file = out.join(format!("block{number}.lzma"));
            let mut writer = LzmaWriter::new_no_header(fs::File::create(&file)?, &options, false)?;
            writer.write_all(&block)?;
            writer.finish()?;
            writeln!(
                blocks,
                "    Block {{ packed: include_bytes!({:?}), bytes: {} }},",
                file.to_string_lossy(),
                literal(block.len())
            )?;
            number += 1;
            block.clear();
        }
    }
    Ok(format!(
        "const PROPERTIES: u8 = {};\nconst DICTIONARY: u32 = {};\n\
         static BLOCKS: &[Block] = &[\n{blocks}];\n\
         static PROGRAMS: &[Program] = &[\n{programs}];\n",
        options.get_props(),
        literal(DICTIONARY as usize)
    ))
}

/// A number as Rust's style has it: with its thousands apart.
fn literal(number: usize) -> String {
    if number < 1000 {
        number.to_string()
    } else {
        format!("{}_{:03}", literal(number / 1000), number % 1000)
    }
}

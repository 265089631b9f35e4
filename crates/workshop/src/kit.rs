// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discipline's source: its path, its lint, and its compilation for this machine and for the
//! kernel. The kit's headers are part of this program; the compiler is the machine's.

use crate::lint;
use anyhow::Context;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use weirgate_aqm::{Discipline, seal};
use weirgate_bpf::{kit_number, source_number, sources};
use weirgate_console::discipline::check_name;
use weirgate_console::exit::{Failure, wrong};

/// The program that runs a discipline on this machine.
const DRIVER: &str = include_str!("../kit/driver.c");

/// The program that runs the shaper with classes.
const SHAPER_DRIVER: &str = include_str!("../kit/shaper.c");

/// The source that passes a fuzzer's bytes to either.
const FUZZED: &str = include_str!("../kit/fuzzed.h");

/// The source that detects an endless call.
const WATCH: &str = include_str!("../kit/watch.h");

/// The source that checks verdicts.
const VERDICT: &str = include_str!("../kit/verdict.h");

/// The source that describes a discipline.
const TABLES: &str = include_str!("../kit/tables.h");

/// The name that selects the shaper instead of a discipline.
pub const SHAPER: &str = "shaper";

/// Compilers for this machine and for BPF: the first one that exists is used. `CC` and `CLANG`
/// take precedence.
const NATIVE: [&str; 4] = ["clang-19", "clang-20", "clang", "gcc"];
const BPF: [&str; 3] = ["clang-19", "clang-20", "clang"];

/// A discipline to work on.
pub struct Subject {
    /// Its name, which is the name of its file.
    pub name: String,
    /// Its source.
    pub file: PathBuf,
    /// Its scripts.
    pub scripts: Vec<PathBuf>,
    /// The kit's sources, unpacked.
    kit: tempfile::TempDir,
}

/// How a discipline is compiled for this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// With AddressSanitizer and UndefinedBehaviorSanitizer.
    Sanitized,
    /// The same, driven by a fuzzer.
    Fuzzer {
        /// Whether it has a planted mistake that fuzzing must find.
        planted: bool,
    },
}

impl Subject {
    /// Finds a folder with `NAME.c`, a file `NAME.c`, or a discipline of the kit.
    pub fn find(what: &Path) -> Result<Self, Failure> {
        let kit = tempfile::tempdir().context("a folder for the kit")?;
        for (path, text) in sources() {
            let file = kit.path().join(path);
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&file, text)?;
        }
        fs::write(kit.path().join("fuzzed.h"), FUZZED)?;
        fs::write(kit.path().join("watch.h"), WATCH)?;
        fs::write(kit.path().join("verdict.h"), VERDICT)?;
        fs::write(kit.path().join("tables.h"), TABLES)?;
        fs::write(kit.path().join("driver.c"), DRIVER)?;
        if what == Path::new(SHAPER) {
            return Self::shaper(kit);
        }
        let own = kit.path().join("aqm").join(what).with_extension("c");
        let file = if what.is_dir() {
            let name = fs::canonicalize(what)?;
            let name = name.file_name().unwrap_or_default().to_owned();
            what.join(name).with_extension("c")
        } else if what.is_file() && what.extension().is_some_and(|kind| kind == "c") {
            what.to_owned()
        } else if what.is_file() {
            return Err(wrong(format!(
                "{}: no source in C; name the discipline's folder or its NAME.c",
                what.display()
            )));
        } else if own.is_file() && what.components().count() == 1 {
            own
        } else {
            return Err(wrong(format!(
                "{}: there is no such folder, file or discipline that comes with weirgate",
                what.display()
            )));
        };
        if !file.is_file() {
            return Err(wrong(format!("{}: there is no such file", file.display())));
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        check_name(&name)?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut scripts: Vec<PathBuf> = fs::read_dir(if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        })?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "script"))
        .collect();
        scripts.sort();
        Ok(Self {
            name,
            file: fs::canonicalize(&file)?,
            scripts,
            kit,
        })
    }

    /// Returns the shaper with classes, with every discipline of the kit.
    fn shaper(kit: tempfile::TempDir) -> Result<Self, Failure> {
        let disciplines = Discipline::all();
        let kinds: Vec<String> = disciplines
            .iter()
            .map(|one| format!(" K({})", one.name()))
            .collect();
        let kinds = format!("#define KINDS(K){}\n", kinds.concat());
        fs::write(kit.path().join("kinds.h"), kinds)?;
        fs::write(kit.path().join("driver.c"), SHAPER_DRIVER)?;
        Ok(Self {
            name: SHAPER.to_owned(),
            file: kit.path().join("aqm/host/shaper.h"),
            scripts: Vec::new(),
            kit,
        })
    }

    /// Returns whether it is the shaper instead of a discipline.
    pub fn is_shaper(&self) -> bool {
        self.kit.path().join("kinds.h").is_file()
    }

    /// Fails with the mistakes that lint finds, one line for each.
    pub fn look(&self) -> Result<(), Failure> {
        let file = self.file.display();
        let text = fs::read_to_string(&self.file)
            .map_err(|error| wrong(format!("{file}: no source in C: {error}")))?;
        let found: Vec<String> = lint::mistakes(&text)
            .into_iter()
            .map(|(line, what)| format!("{file}:{line}: {what}"))
            .collect();
        if found.is_empty() {
            Ok(())
        } else {
            Err(Failure::Input(found.join("\n")))
        }
    }

    /// Returns the line on which a function of the discipline begins.
    pub fn line_of(&self, function: &str) -> String {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let wanted = format!("{}_{function}(", self.name);
        let line = text
            .lines()
            .position(|line| line.contains(&wanted) || line.contains("AQM_ONE_FIFO("));
        let line = line.map_or_else(String::new, |line| format!(":{}", line + 1));
        format!("{}{line}", self.file.display())
    }

    /// Compiles it with the driver for this machine, and returns the program.
    pub fn native(&self, build: Build) -> Result<PathBuf, Failure> {
        let (compiler, clang) = compiler("CC", &NATIVE)?;
        let libfuzzer = clang && build != Build::Sanitized;
        let sanitizers = if libfuzzer {
            "-fsanitize=address,undefined,fuzzer"
        } else {
            "-fsanitize=address,undefined"
        };
        let common = [
            "-std=gnu11",
            "-O1",
            "-g",
            "-fwrapv",
            // The compiler must not remove an endless loop, or tests would not detect it.
            "-fno-finite-loops",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
            sanitizers,
        ];
        let kit = self.kit.path();
        let folders = ["aqm/include", "aqm/host", "aqm/host/native", "aqm"];
        let includes = folders.map(|folder| format!("-I{}", kit.join(folder).display()));
        let mut objects = Vec::new();
        for (number, (unit, defines)) in self.units().into_iter().enumerate() {
            let object = kit.join(format!("{number}.o"));
            let mut command = Command::new(&compiler);
            command.args(common).args(&includes).args(&defines);
            command.arg(format!("-I{}", kit.display()));
            if unit == "driver.c" {
                if libfuzzer {
                    command.arg("-DLIBFUZZER");
                }
                if matches!(build, Build::Fuzzer { planted: true }) {
                    command.arg("-DPLANTED");
                }
            } else {
                command.args(["-ffreestanding", "-nostdinc", "-Wall", "-Wextra"]);
                command.args(["-Wno-unused-parameter", "-Werror"]);
            }
            command.arg("-c").arg(kit.join(unit)).arg("-o").arg(&object);
            self.run(command)?;
            objects.push(object);
        }
        let program = kit.join("driver");
        let mut command = Command::new(&compiler);
        command
            .arg(sanitizers)
            .args(&objects)
            .arg("-o")
            .arg(&program);
        self.run(command)?;
        Ok(program)
    }

    /// Returns the files that are compiled for this machine, with their definitions.
    fn units(&self) -> Vec<(&'static str, Vec<String>)> {
        let host = "aqm/host/native/native.c";
        let common = ("aqm/host/native/common.c", Vec::new());
        if self.is_shaper() {
            let all = Discipline::all().into_iter();
            let one = |it: Discipline| (host, defines(it.name(), &format!("{}.c", it.name())));
            let shaper = ["aqm/host/native/shaper.c", "driver.c"];
            return all
                .map(one)
                .chain([common])
                .chain(shaper.map(|unit| (unit, Vec::new())))
                .collect();
        }
        let mut own = defines(&self.name, &self.file.display().to_string());
        // Padding between the parts of an instance, for AddressSanitizer.
        own.push("-DAQM_FENCED=512".to_owned());
        vec![(host, own.clone()), common, ("driver.c", own)]
    }

    /// Compiles it for this machine and for the kernel, both in one shared
    /// object, which `Discipline::open` opens.
    pub fn library(&self) -> Result<PathBuf, Failure> {
        let (program, ingress) = (self.bpf(Host::Qdisc)?, self.bpf(Host::Ingress)?);
        let shaper = self.kit.path().join("shaper.o");
        // The file contains the layout of its own instances, so it is built twice.
        fs::write(&shaper, "")?;
        // Under another name, because the loader returns a file that it has already loaded by its
        // name.
        let first = self.shared_object(&[&program, &ingress, &shaper], "first")?;
        if self.is_leaf()? {
            let own = Discipline::open(&first, kit_number()).map_err(wrong)?;
            self.shaper_program(own, &shaper)?;
        }
        self.shared_object(&[&program, &ingress, &shaper], &self.name)
    }

    /// Returns whether it can be the queue of a class. A discipline that holds packets cannot,
    /// because classes have no timer for them.
    fn is_leaf(&self) -> Result<bool, Failure> {
        Ok(!fs::read_to_string(&self.file)?.contains("AQM_NEEDS_HOLD"))
    }

    /// Compiles the shaper with it in addition to the disciplines of the kit.
    fn shaper_program(&self, own: Discipline, object: &Path) -> Result<(), Failure> {
        let mut header = String::new();
        let mut kinds = String::from("#define KINDS(K)");
        let all = Discipline::all().into_iter().zip(0_u64..);
        let all = all.map(|(one, at)| (one.name(), format!("{}.c", one.name()), at));
        let file = self.file.display().to_string();
        for (name, file, number) in all.chain([(own.name(), file, own.leaf_number())]) {
            let _ = writeln!(
                header,
                "#include \"{file}\"\n#define AQM_NAME {name}\n#include \"queue.h\"\n\
                 #undef AQM_NAME"
            );
            let _ = write!(kinds, " K({number}ULL, {name})");
        }
        let kit = self.kit.path();
        fs::write(kit.join("disciplines.h"), format!("{header}{kinds}\n"))?;
        let mut command = self.bpf_compiler()?;
        command.arg(format!("-DSHAPER_PROGRAM={:#x}ULL", own.shaper_number()));
        command.arg(format!("-I{}", kit.display()));
        command.arg("-c").arg(kit.join("bpf/qdisc/shaper.bpf.c"));
        command.arg("-o").arg(object);
        self.run(command)
    }

    /// Returns the sealed shared object with this name, with these programs for the kernel.
    fn shared_object(&self, programs: &[&Path; 3], file: &str) -> Result<PathBuf, Failure> {
        let (compiler, _) = compiler("CC", &NATIVE)?;
        let kit = self.kit.path();
        let name = &self.name;
        let source = fs::read(&self.file)?;
        let unit = kit.join("own.c");
        fs::write(
            &unit,
            format!(
                "#include \"{}\"\n\
                 const unsigned long long aqm_kit = {:#x}ULL;\n\
                 const unsigned long long aqm_source = {:#x}ULL;\n\
                 const void *const aqm_own = &aqm_descriptor_{name};\n{}",
                kit.join("aqm/host/native/native.c").display(),
                kit_number(),
                source_number([source.as_slice()]),
                embedded(programs),
            ),
        )?;
        let library = kit.join(format!("{file}.so"));
        let mut command = Command::new(&compiler);
        command.args(["-std=gnu11", "-O2", "-fwrapv", "-fPIC", "-shared"]);
        command.args(["-ffreestanding", "-nostdinc", "-Wall", "-Wextra"]);
        command.args(["-Wno-unused-parameter", "-Werror"]);
        command.arg(format!("-DAQM_NAME={name}"));
        command.arg(format!("-DAQM_TABLE={}", name.to_uppercase()));
        command.arg(format!("-DAQM_FILE=\"{}\"", self.file.display()));
        for folder in ["aqm/include", "aqm/host", "aqm/host/native", "aqm"] {
            command.arg(format!("-I{}", kit.join(folder).display()));
        }
        command.arg(&unit).arg("-o").arg(&library);
        self.run(command)?;
        let mut file = fs::read(&library)?;
        file.extend(seal(&file, kit_number()));
        fs::write(&library, file)?;
        // The lab packs only executable files.
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755))?;
        Ok(library)
    }

    /// Returns the hosts in the kernel that accept it. A discipline that tracks waiting packets
    /// cannot work without a queue.
    pub fn hosts(&self) -> Result<Vec<Host>, Failure> {
        let source = fs::read_to_string(&self.file)?;
        Ok(if source.contains("AQM_NEEDS_QUEUE") {
            vec![Host::Qdisc]
        } else {
            vec![Host::Qdisc, Host::Ingress]
        })
    }

    /// Compiles it as the program of a host in the kernel, and returns the object file.
    pub fn bpf(&self, host: Host) -> Result<PathBuf, Failure> {
        let kit = self.kit.path();
        let file = host.header();
        let unit = kit.join(format!("{}.{file}.c", self.name));
        let name = &self.name;
        fs::write(
            &unit,
            format!(
                "#include \"{}\"\n#define AQM_NAME {name}\n\
                 #include \"{file}\"\n",
                self.file.display()
            ),
        )?;
        let object = kit.join(format!("{name}.{file}.o"));
        let mut command = self.bpf_compiler()?;
        command.arg("-c").arg(&unit).arg("-o").arg(&object);
        self.run(command)?;
        Ok(object)
    }

    /// Returns the compiler of programs for the kernel, with its fixed options.
    fn bpf_compiler(&self) -> Result<Command, Failure> {
        let (compiler, _) = compiler("CLANG", &BPF)?;
        let kit = self.kit.path();
        let mut command = Command::new(compiler);
        command.args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-g",
            "-O2",
            "-Wall",
            "-Werror",
            "-fno-finite-loops",
        ]);
        command.arg("-Wno-missing-declarations");
        let folders = [
            "libbpf",
            "bpf/include",
            "bpf/qdisc",
            "bpf/ingress",
            "aqm/include",
            "aqm/host",
            "aqm",
        ];
        for folder in folders {
            command.arg(format!("-I{}", kit.join(folder).display()));
        }
        Ok(command)
    }

    /// Runs a compiler, whose messages name files and lines.
    fn run(&self, mut command: Command) -> Result<(), Failure> {
        let output = command.output().context("the compiler")?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(Failure::Input(format!(
            "weirgate: {} does not compile\n{}",
            self.name,
            text.trim_end()
        )))
    }
}

/// A host in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// A qdisc.
    Qdisc,
    /// A virtual queue for arriving packets.
    Ingress,
}

impl Host {
    /// Returns the source that makes a program of a discipline's file.
    fn header(self) -> &'static str {
        match self {
            Self::Qdisc => "qdisc.bpf.h",
            Self::Ingress => "ingress.bpf.h",
        }
    }
}

/// Returns C that contains these programs between their symbols: as a qdisc, for arriving packets,
/// and as the shaper with the discipline.
fn embedded(programs: &[&Path; 3]) -> String {
    let mut text = String::from("__asm__(\".pushsection .rodata\\n\"\n");
    for (name, file) in ["program", "ingress", "shaper"].into_iter().zip(programs) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\".balign 8\\n.globl aqm_{name}\\naqm_{name}:\\n.incbin \\\"{}\\\"\\n\
             .globl aqm_{name}_end\\naqm_{name}_end:\\n.byte 0\\n\"",
            file.display()
        );
    }
    text + "\".popsection\\n\");\n"
}

/// Returns the definitions that pass a discipline's name to the native host's files.
fn defines(name: &str, file: &str) -> Vec<String> {
    vec![
        format!("-DAQM_NAME={name}"),
        format!("-DAQM_TABLE={}", name.to_uppercase()),
        format!("-DAQM_FILE=\"{file}\""),
    ]
}

/// Returns the compiler, and whether it is clang.
fn compiler(variable: &str, names: &[&str]) -> Result<(OsString, bool), Failure> {
    let chosen = std::env::var_os(variable).into_iter();
    let tried = chosen.chain(names.iter().map(OsString::from));
    for name in tried {
        if let Ok(output) = Command::new(&name).arg("--version").output()
            && output.status.success()
        {
            let clang = String::from_utf8_lossy(&output.stdout).contains("clang");
            return Ok((name, clang));
        }
    }
    Err(Failure::Other(anyhow::anyhow!(
        "no compiler: none of {} runs; install Debian's clang-19, or name one in {variable}",
        names.join(", ")
    )))
}

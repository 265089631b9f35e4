// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's side: its own C file, compiled as a user-space program.

use super::event::{Event, Outcome};
use anyhow::{Context as _, Result, bail};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};
use tempfile::TempDir;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Empty replacements of kernel headers; `kernel/linux.h` has what is needed from them.
const EMPTY: [&str; 23] = [
    "linux/bug.h",
    "linux/const.h",
    "linux/hrtimer.h",
    "linux/if_vlan.h",
    "linux/in.h",
    "linux/init.h",
    "linux/jiffies.h",
    "linux/kernel.h",
    "linux/ktime.h",
    "linux/module.h",
    "linux/prefetch.h",
    "linux/reciprocal_div.h",
    "linux/skbuff.h",
    "linux/slab.h",
    "linux/string.h",
    "linux/types.h",
    "linux/vmalloc.h",
    "net/dsfield.h",
    "net/gso.h",
    "net/inet_ecn.h",
    "net/netlink.h",
    "net/pkt_cls.h",
    "net/pkt_sched.h",
];

/// A place in the kernel's source where the kit decides differently.
#[derive(Debug, Clone, Copy)]
pub struct Replaced {
    /// The file's path, from the kernel's root.
    pub file: &'static str,
    /// The kernel's text.
    pub from: &'static str,
    /// The replacement that makes decisions equal.
    pub to: &'static str,
    /// Why the kit differs.
    pub why: &'static str,
}

/// Compiles disciplines of one kernel.
pub struct Kernel {
    source: PathBuf,
    folder: TempDir,
}

impl Kernel {
    /// Prepares the compilation of `source`, an unpacked kernel.
    pub fn new(source: &Path) -> Result<Self> {
        let source = fs::canonicalize(source)
            .with_context(|| format!("{}: no unpacked kernel", source.display()))?;
        let folder = TempDir::with_prefix("weirgate-outside-")?;
        for name in EMPTY {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(path, "")?;
        }
        Ok(Self { source, folder })
    }

    /// Compiles a discipline with the replacements in `replaced`, and returns the program.
    pub fn compile(&self, discipline: &str, replaced: &[Replaced]) -> Result<PathBuf> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel");
        let suffix = if replaced.is_empty() { "" } else { "-replaced" };
        let program = self.folder.path().join(format!("{discipline}{suffix}"));
        let altered = self.folder.path().join(format!("{discipline}-altered"));
        self.alter(replaced, &altered)?;
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-O2", "-w", "-fno-strict-aliasing"])
            .arg("-I")
            .arg(self.folder.path())
            .arg("-I")
            .arg(&own)
            .arg("-I")
            .arg(&altered)
            .arg("-I")
            .arg(&self.source)
            // Search these after the system's headers, because some of the kernel's have the same
            // names.
            .arg("-idirafter")
            .arg(altered.join("include"))
            .arg("-idirafter")
            .arg(self.source.join("include"))
            .arg("-o")
            .arg(&program)
            .arg(own.join(format!("{discipline}.c")))
            .arg("-lm")
            .output()
            .context("cc, the C compiler, cannot be run")?;
        if !compiled.status.success() {
            let text = String::from_utf8_lossy(&compiled.stderr);
            bail!("the kernel's {discipline} cannot be compiled:\n{text}");
        }
        Ok(program)
    }

    /// Writes modified files of the kernel to a folder that is searched before the kernel's own;
    /// removes earlier ones.
    fn alter(&self, replaced: &[Replaced], folder: &Path) -> Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        for place in replaced {
            let altered = folder.join(place.file);
            let path = if altered.exists() {
                altered.clone()
            } else {
                self.source.join(place.file)
            };
            let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
            if text.matches(place.from).count() != 1 {
                bail!(
                    "{} has not once `{}`: {}",
                    place.file,
                    place.from,
                    place.why
                );
            }
            fs::create_dir_all(altered.parent().unwrap_or(folder))?;
            fs::write(altered, text.replace(place.from, place.to))?;
        }
        Ok(())
    }
}

/// Returns the decisions of a compiled discipline.
pub fn decide(program: &Path, arguments: &[String], events: &[Event]) -> Result<Vec<Outcome>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("{}: no pipes", program.display());
    };
    let mut bytes = Vec::new();
    // Write and read concurrently: a pipe has limited capacity.
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(move || input.write_all(events.as_bytes()));
        output.read_to_end(&mut bytes)?;
        match writer.join() {
            Ok(written) => written.context("the events were not read"),
            Err(_) => bail!("the writer failed"),
        }
    })?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{}: {status}", program.display());
    }
    let outcomes = <[Outcome]>::ref_from_bytes(&bytes)
        .map_or_else(|_| read_each(&bytes), |outcomes| Ok(outcomes.to_vec()))?;
    if outcomes.len() != events.len() {
        bail!("{} events, {} outcomes", events.len(), outcomes.len());
    }
    Ok(outcomes)
}

/// Reads outcomes from bytes that may not be aligned.
fn read_each(bytes: &[u8]) -> Result<Vec<Outcome>> {
    bytes
        .chunks(size_of::<Outcome>())
        .map(|chunk| {
            Outcome::read_from_bytes(chunk).map_err(|_| anyhow::anyhow!("half an outcome"))
        })
        .collect()
}

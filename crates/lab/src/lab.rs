// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface for the command line: a prepared laboratory, and runs in it.

use crate::cache::{Cache, HeldFile};
use crate::emulator::{self, Emulator};
use crate::error::LabError;
use crate::image::{self, Parts, files_archive, guest_binary, job_archive};
use crate::kernel::{Kernel, KernelChoice, fetch};
use crate::tool::SETPRIV;
use crate::vm::{Limits, Machine, Progress, Run, processors};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use weirgate_experiment::{Job, KernelName};

/// The word of the kernel's command line that tells the guest to run without a job.
const INSPECT: &str = "weirgate.inspect";

/// The word for measuring charges.
const CHARGES: &str = "weirgate.charges";

/// The word for running a program; its arguments follow, separated by commas.
const EXECUTE: &str = "weirgate.execute=";

/// The parts of a laboratory.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kernel, if one was chosen.
    pub kernel: Option<KernelChoice>,
    /// The guest's binary, if it is not beside the running program.
    pub guest: Option<PathBuf>,
    /// Programs of this machine that experiments need in the guest, by name or path.
    pub programs: BTreeSet<String>,
    /// The cache of kernels and images.
    pub cache: Cache,
}

impl Options {
    /// Returns whether the kernel is one that the laboratory fetches.
    fn of_cache(&self) -> bool {
        !matches!(self.kernel, Some(KernelChoice::At(_)))
    }
}

impl Default for Options {
    /// Returns the user's cache, and defaults otherwise.
    fn default() -> Self {
        Self {
            kernel: None,
            guest: None,
            programs: BTreeSet::new(),
            cache: Cache::of_user(),
        }
    }
}

/// A request to run one arm.
#[derive(Debug, Clone)]
pub struct Request {
    /// The guest's input.
    pub job: Job,
    /// Further words of the kernel's command line, such as `highres=off`.
    pub boot_options: Vec<String>,
    /// The limits of the run.
    pub limits: Limits,
}

/// The output of one arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmOutput {
    /// The guest's result, complete and verified.
    pub result: Vec<u8>,
    /// The kernel's release.
    pub kernel: String,
    /// The version of qemu.
    pub emulator: String,
    /// Wall time of the whole run.
    pub wall: Duration,
    /// Wall time until the guest's agent started.
    pub boot: Duration,
    /// Wall time until traffic began.
    pub traffic: Duration,
    /// The largest memory of the emulator in bytes (`VmHWM` of proc(5)), as sampled during the
    /// run and at its end.
    pub memory_bytes: u64,
    /// The virtual machine's command line.
    pub command: String,
}

/// An emulator, a kernel and an image, ready to run.
#[derive(Debug, Clone)]
pub struct Lab {
    emulator: Emulator,
    kernel: Kernel,
    image: HeldFile,
}

/// Prepares a laboratory on this machine. Fetches a kernel if there is none, if it is damaged,
/// or with `refresh`. Fetches an emulator if none here reproduces a run bit for bit. `note` is
/// called for each step.
pub fn prepare(
    options: &Options,
    refresh: bool,
    note: &mut dyn FnMut(&str),
) -> Result<Lab, LabError> {
    SETPRIV.path()?;
    prepare_emulator(&options.cache, refresh, note)?;
    let name = match options.kernel {
        Some(KernelChoice::Named(name)) => name,
        _ => KernelName::Cloud,
    };
    if refresh {
        fetch(name, &options.cache, note)?;
    }
    match Lab::with_notes(options, note) {
        Err(LabError::NoKernel { .. } | LabError::NotFetched { .. }) => note("no kernel here yet"),
        Err(
            error @ (LabError::BadKernel { .. }
            | LabError::BadModule { .. }
            | LabError::NoModules { .. }),
        ) if options.of_cache() => note(&format!("{error}\nit is fetched again")),
        outcome => return outcome,
    }
    fetch(name, &options.cache, note)?;
    Lab::with_notes(options, note)
}

/// Fetches an emulator if necessary. One that does not reproduce a run is used if no other is
/// available.
fn prepare_emulator(
    cache: &Cache,
    refresh: bool,
    note: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let here = Emulator::find(cache);
    let own = here.as_ref().is_ok_and(Emulator::is_own);
    let repeats = here.as_ref().is_ok_and(Emulator::repeats);
    if repeats && (own || !refresh) {
        return Ok(());
    }
    match (emulator::fetch(cache, note), here) {
        (Ok(_), _) => Ok(()),
        (Err(error), Ok(here)) => {
            note(&format!(
                "{error}\nqemu {} is used; with it, a seed may have more than one recording",
                here.version
            ));
            Ok(())
        }
        (Err(error), Err(_)) => Err(error),
    }
}

impl Lab {
    /// Opens a laboratory from the files on this machine without fetching anything. `note` is
    /// called for damage that was repaired.
    pub fn open(options: &Options, note: &mut dyn FnMut(&str)) -> Result<Self, LabError> {
        SETPRIV.path()?;
        let kernel = Kernel::find(options.kernel.as_ref(), &options.cache, note)?;
        Self::with_kernel(kernel, options, note)
    }

    /// Opens a laboratory, with all notes.
    fn with_notes(options: &Options, note: &mut dyn FnMut(&str)) -> Result<Self, LabError> {
        let kernel = Kernel::find(options.kernel.as_ref(), &options.cache, note)?;
        note(&format!(
            "kernel {} from {}",
            kernel.release,
            kernel.modules.display()
        ));
        let lab = Self::with_kernel(kernel, options, note)?;
        note(&format!("guest image {}", lab.image().display()));
        note(&format!("qemu {}", lab.emulator.version));
        Ok(lab)
    }

    fn with_kernel(
        kernel: Kernel,
        options: &Options,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let guest = guest_binary(options.guest.as_deref())?;
        let parts = Parts {
            kernel: &kernel,
            guest: &guest,
            programs: &options.programs,
        };
        let image = parts.image(&options.cache, note)?;
        Ok(Self {
            emulator: Emulator::find(&options.cache)?,
            kernel,
            image,
        })
    }

    /// Returns the kernel.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the version of qemu, such as `10.0.13`.
    #[must_use]
    pub fn emulator(&self) -> &str {
        &self.emulator.version
    }

    /// Returns the bytes of the guest's image that can change the result of a run. Lines and
    /// columns of panic messages, and the build id, are zero: comments do not change a result.
    pub fn effective_image(&self) -> Result<Vec<u8>, LabError> {
        let path = self.image();
        let image = fs::read(path).map_err(LabError::file("cannot be read", path))?;
        Ok(image::without_positions(image))
    }

    fn image(&self) -> &Path {
        self.image.path()
    }

    /// Boots the machine without a job, to check the kernel, its modules and its clock. The
    /// result is text with one `name: value` per line, some of it random, depending on `seed`.
    pub fn inspect(&self, seed: u64, limits: Limits) -> Result<ArmOutput, LabError> {
        self.without_job(INSPECT, &[], (seed, limits), &mut |_| ())
    }

    /// Boots the machine to determine how many bytes its kernel charges for packets. It covers
    /// every named link layer, on every kind of device, for every size of IP packet. The result
    /// is text with one line for each layer and device. A line has the layer, the device, the
    /// name of its kind, and the bytes charged for IP packets of 1 byte, 2 bytes and so on.
    pub fn charges(&self, limits: Limits) -> Result<ArmOutput, LabError> {
        self.without_job(CHARGES, &[], (1, limits), &mut |_| ())
    }

    /// Boots the machine to run a single program of its image as root, for tests that need the
    /// lab's kernel. Words must not contain commas or spaces. `files` are available to it, by
    /// path. The result is the line `status: N`, followed by the program's output. `progress` is
    /// called for lines of `@progress 0 0 WHAT` that the program writes to the console.
    pub fn execute(
        &self,
        words: &[&str],
        files: &[(&str, &[u8])],
        (seed, limits): (u64, Limits),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ArmOutput, LabError> {
        let word = format!("{EXECUTE}{}", words.join(","));
        self.without_job(&word, &files_archive(files), (seed, limits), progress)
    }

    /// Boots a machine that is told by a word what to do.
    fn without_job(
        &self,
        word: &str,
        files: &[u8],
        (seed, limits): (u64, Limits),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ArmOutput, LabError> {
        let machine = Machine {
            emulator: &self.emulator,
            kernel: &self.kernel,
            image: self.image(),
            job: files,
            seed,
            boot_options: &[word.to_owned()],
            limits,
            processor: here(),
            arm: word,
        };
        Ok(self.output(machine.run(progress)?))
    }

    /// Runs one arm in its own virtual machine. It blocks the calling thread, which must not end
    /// before; `progress` is called during the run.
    pub fn run(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ArmOutput, LabError> {
        self.run_on(here(), request, progress)
    }

    fn run_on(
        &self,
        processor: usize,
        request: &Request,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ArmOutput, LabError> {
        let machine = Machine {
            emulator: &self.emulator,
            kernel: &self.kernel,
            image: self.image(),
            job: &job_archive(&request.job)?,
            seed: request.job.seed,
            boot_options: &request.boot_options,
            limits: request.limits,
            processor,
            arm: &request.job.arm,
        };
        Ok(self.output(machine.run(progress)?))
    }

    fn output(&self, run: Run) -> ArmOutput {
        ArmOutput {
            result: run.result,
            kernel: self.kernel.release.clone(),
            emulator: self.emulator.version.clone(),
            wall: run.wall,
            boot: run.boot.unwrap_or(run.wall),
            traffic: run.traffic.or(run.boot).unwrap_or(run.wall),
            memory_bytes: run.memory_bytes,
            command: run.command,
        }
    }

    /// Runs several arms, at most `jobs` at once, and returns their outcomes in the order of the
    /// requests. `progress` is also called with the index of the request, from any thread.
    pub fn run_all(
        &self,
        requests: &[Request],
        jobs: usize,
        progress: &(dyn Fn(usize, Progress) + Sync),
    ) -> Vec<Result<ArmOutput, LabError>> {
        let processors = processors::allowed();
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for worker in 0..jobs.clamp(1, requests.len().max(1)) {
                let processor = processors[worker % processors.len()];
                let (next, outcomes) = (&next, &outcomes);
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(request) = requests.get(index) else {
                            break;
                        };
                        let outcome = self.run_on(processor, request, &mut |step| {
                            progress(index, step);
                        });
                        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                        outcomes.push((index, outcome));
                    }
                });
            }
        });
        let mut outcomes = outcomes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        outcomes.sort_by_key(|&(index, _)| index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// Returns the processor for a machine that runs alone.
fn here() -> usize {
    processors::allowed()[0]
}

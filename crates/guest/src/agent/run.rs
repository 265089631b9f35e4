// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of a run: build the topology, set up the arm, run traffic, clean up.

use super::arm::Background;
use super::clock::Clock;
use super::limits;
use super::line::{Emulation, Entry, Log, tap};
use super::nodes::Nodes;
use super::recorder::Recorder;
use super::sample::Processors;
use super::session::Session;
use super::shaper::Shaper;
use super::{arm, autorate, change, kit, oracle, prague, topology, track, traffic};
use anyhow::{Context, Error, Result, bail, ensure};
use std::cell::RefCell;
use std::fs;
use std::rc::Rc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::LocalSet;
use weirgate_bpf::Prague;
use weirgate_experiment::{Arm, Emulator, Experiment, Job, Recording};
use weirgate_kernel::has_program_qdiscs;

const SECOND_NS: u64 = 1_000_000_000;

/// Time between the last change of the topology and the start of traffic, in nanoseconds.
/// Devices become usable and announce themselves in it.
const SETTLE_NS: u64 = 200_000_000;

/// The offset of progress reports from full seconds, in nanoseconds. A report takes time, and
/// traffic starts at round times.
const ASIDE_NS: u64 = 437_000_000;

const DEFAULT_QDISC: &str = "/proc/sys/net/core/default_qdisc";

/// The machine of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// A virtual machine of its own, whose global settings may be changed.
    Own,
    /// The running machine: everything happens in new namespaces.
    Shared,
}

/// Runs one arm of an experiment. `progress` is called with the seconds of traffic that have
/// passed, the total, and the current step. Errors name the step that failed.
pub fn run(
    job: &Job,
    machine: Machine,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Recording> {
    run_beside(job, machine, &mut |_| Ok(()), progress)
}

/// Runs an arm with additional programs in the nodes. `begin` starts them when everything is
/// built, shortly before traffic begins. The line carries their packets too, until the run ends.
pub fn run_beside(
    job: &Job,
    machine: Machine,
    begin: &mut dyn FnMut(&Nodes) -> Result<()>,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Recording> {
    let (experiment, arm) = read(job)?;
    let duration_ns = experiment.duration().as_nanos();
    ensure!(duration_ns > 0, "the experiment has no phase to run");
    let seconds = duration_ns.div_ceil(SECOND_NS);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop")?;

    limits::raise();
    let recorder = Recorder::new();
    if experiment.sampling.capture && arm.emulator != Emulator::Netem {
        recorder.start_capture();
    }
    progress(0, seconds, "building the topology");
    let mut stage = Stage::build(&runtime, job, machine, experiment, arm, recorder.clone())?;
    begin(&stage.session.nodes)?;
    stage.play(&runtime, (job, machine), duration_ns, &mut |at| {
        progress(at, seconds, "traffic");
    })?;
    progress(seconds, seconds, "taking down");
    for program in stage.background {
        program.end(&recorder)?;
    }
    let shaper = stage.shaper.borrow_mut().take();
    if let Some(shaper) = shaper {
        let tracked = runtime.block_on(shaper.tracked());
        recorder.tracked(tracked.context("list the connections")?);
        let removed = runtime.block_on(shaper.remove(&recorder));
        removed.context("remove the policy")?;
    }

    let mut recording = recorder.take();
    recording.kernel = kernel();
    recording.arm.clone_from(&job.arm);
    recording.duration_ns = duration_ns;
    Ok(recording)
}

/// Returns the experiment and arm of a job. If the line varies, its rates are drawn with the
/// job's seed.
fn read(job: &Job) -> Result<(Experiment, Arm)> {
    let (experiment, problems) = weirgate_experiment::parse(&job.experiment);
    let Some(experiment) = experiment else {
        let shown: Vec<String> = problems
            .iter()
            .map(|problem| problem.render("experiment", &job.experiment))
            .collect();
        bail!("the experiment cannot be read:\n{}", shown.join("\n"));
    };
    let mut experiment = experiment;
    let until = experiment.duration();
    experiment.topology.line = experiment.topology.line.drawn(job.seed, until);
    let arm = experiment.arm(&job.arm).cloned().with_context(|| {
        let arms: Vec<&str> = experiment.arms.iter().map(|arm| &*arm.name).collect();
        format!(
            "there is no arm `{}`; there are {}",
            job.arm,
            arms.join(", ")
        )
    })?;
    Ok((experiment, arm))
}

/// Everything that is ready for traffic.
struct Stage {
    session: Session,
    failures: UnboundedReceiver<Error>,
    line: Option<Emulation>,
    shaper: change::InForce,
    /// The arm's programs beside the traffic.
    background: Vec<Background>,
    /// The record of a policy that follows the line's rate.
    record: Option<track::Written>,
    /// The record of the arm's autorate loop.
    loop_record: Option<autorate::Written>,
    /// Keeps TCP Prague loaded while connections may select it.
    _prague: Option<Prague>,
}

impl Stage {
    fn build(
        runtime: &Runtime,
        job: &Job,
        machine: Machine,
        experiment: Experiment,
        arm: Arm,
        recorder: Recorder,
    ) -> Result<Self> {
        if machine == Machine::Own {
            // The default is a plain FIFO unless an arm sets something else, as in the thesis.
            fs::write(DEFAULT_QDISC, "pfifo").with_context(|| format!("write {DEFAULT_QDISC}"))?;
        }
        runtime.block_on(async {
            let mut nodes = topology::build(&experiment.topology).await?;
            let line = &experiment.topology.line;
            let clock = Clock::new();
            let log = |nodes: &Nodes| {
                let entry = Entry::open(nodes, experiment.sampling.segments)?;
                anyhow::Ok(Log::new(recorder.clone(), clock.clone(), entry))
            };
            let in_kernel = machine == Machine::Own && clock.is_precise() && has_program_qdiscs();
            let line = match arm.emulator {
                Emulator::Own if in_kernel => {
                    let log = log(&nodes)?;
                    let built =
                        topology::modem::build(&mut nodes, line, job.seed, log, clock.clone());
                    Some(Emulation::Kernel(Rc::new(built.await?)))
                }
                Emulator::Own | Emulator::UserSpace => {
                    let taps = topology::add_taps(&nodes).await?;
                    let log = log(&nodes)?;
                    let line = tap::Emulation::new(line, taps, job.seed, clock.clone(), log)?;
                    Some(Emulation::Tap(Rc::new(RefCell::new(line))))
                }
                Emulator::Netem => {
                    topology::netem::build(&mut nodes, line).await?;
                    None
                }
            };
            arm::set_parameters(&arm, machine, &recorder)?;
            let prague = if prague::is_wanted(&experiment) {
                ensure!(
                    machine == Machine::Own,
                    "a congestion control is the whole machine's: run this in a virtual machine"
                );
                let put = prague::put(&nodes, &recorder).await;
                Some(put.context("load TCP Prague")?)
            } else {
                None
            };
            arm::run_commands(&arm, &job.parameters, &nodes, &recorder)?;
            let kit = match &arm.kit {
                Some(wanted) => {
                    let loaded = kit::Loaded::put(wanted, job, &nodes, &recorder).await;
                    let loaded = loaded.with_context(|| format!("load {}", wanted.discipline))?;
                    Some(Rc::new(loaded))
                }
                None => None,
            };
            let shaper = match &arm.policy {
                Some(path) => {
                    let text = job.files.get(path).with_context(|| {
                        format!("policy {path}: its text did not come with the job")
                    })?;
                    let shaper = Shaper::apply(path, text, &nodes, &recorder).await;
                    Some(shaper.with_context(|| format!("apply the policy {path}"))?)
                }
                None => None,
            };
            let background = Background::start(&arm, &job.parameters, &nodes)?;
            let (mut session, failures) =
                Session::new(experiment, arm, job.seed, clock, nodes, recorder);
            session.kit = kit;
            session.clock.pause(SETTLE_NS).await?;
            Ok(Self {
                session,
                failures,
                line,
                shaper: Rc::new(RefCell::new(shaper)),
                background,
                record: None,
                loop_record: None,
                _prague: prague,
            })
        })
    }

    /// Runs the traffic to its end.
    fn play(
        &mut self,
        runtime: &Runtime,
        (job, machine): (&Job, Machine),
        duration_ns: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let tasks = LocalSet::new();
        let own = machine == Machine::Own;
        let processors = own.then(Processors::open).transpose()?;
        let session = self.session.clone();
        runtime.block_on(tasks.run_until(async {
            traffic::start(&session)?;
            if let Some(kit) = &session.kit {
                Rc::clone(kit).sample(&session);
            }
            change::start(&session, &job.files, &self.shaper)?;
            if let (Some(shaper), Some(path)) = (&*self.shaper.borrow(), &session.arm.policy)
                && let Some(text) = job.files.get(path)
            {
                oracle::start(&session, shaper, text)?;
                self.record = track::start(&session, shaper, text)?;
            }
            self.loop_record = autorate::start(&session)?;
            if let Some(line) = &self.line {
                line.prepare(&session)?;
            }
            progress(0);
            session.clock.start();
            if let Some(line) = &self.line {
                line.start(duration_ns)?;
            }
            let processors = processors.as_ref();
            let mut next_ns = SECOND_NS + ASIDE_NS;
            loop {
                if let Some(processors) = processors {
                    let at_ns = session.clock.now_ns();
                    let up_ns = session.clock.zero_ns() + at_ns;
                    session.recorder.idle(processors.idle(at_ns, up_ns)?);
                }
                tokio::select! {
                    biased;
                    Some(failure) = self.failures.recv() => return Err(failure),
                    waited = session.clock.until(next_ns.min(duration_ns)) => waited?,
                }
                if next_ns >= duration_ns {
                    return Ok(());
                }
                progress(next_ns / SECOND_NS);
                next_ns += SECOND_NS;
            }
        }))?;
        let begun = session.arm.then.len();
        ensure!(
            self.session.recorder.changes() == begun,
            "a change of the policy was not through when the run ended; begin it earlier"
        );
        // Dropping ends all tasks at the same time, wherever they are.
        drop(tasks);
        if let Some(written) = &self.record {
            track::note(&self.session.recorder, written);
        }
        if let Some(written) = &self.loop_record {
            autorate::note(&self.session.recorder, written)?;
        }
        if let Some(line) = &self.line {
            runtime.block_on(line.finish(duration_ns))?;
        }
        Ok(())
    }
}

/// Returns release and version of the running kernel.
fn kernel() -> String {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    format!("{} {}", text(names.release()), text(names.version()))
}

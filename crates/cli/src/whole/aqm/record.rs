// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm trace` and `record`: follow the decisions of a discipline in the kernel.

use crate::whole::aqm::loaded::Loaded;
use crate::whole::aqm::target::Target;
use anyhow::Context;
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use weirgate_aqm::{
    About, Action, Discipline, EventKind, Mirror, MirrorError, Record, Row, Taken, Writer, reasons,
};
use weirgate_bpf::{Qdisc, Recorder, Shaper, Store};
use weirgate_console::discipline::class::class_id;
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_units::Handle;

/// The size of the ring between the kernel and this process in bytes, for some 100,000 events.
const RING: u32 = 1 << 23;

/// The most state variables in a line of a trace.
const SHOWN: usize = 4;

/// The discipline to record: of a device, or of a class of its shaper.
enum Recorded {
    One(Qdisc),
    Class(Shaper, u32),
}

impl Recorded {
    /// Starts the recording, with a ring for the events.
    fn begin(&self, target: &Target) -> Result<(Discipline, Recorder<'_>), Failure> {
        let device = &target.name;
        match self {
            Self::One(qdisc) => {
                let recorder = qdisc.record(target.point, RING).map_err(failed)?;
                recorder.map(|recorder| (qdisc.discipline(), recorder))
            }
            Self::Class(shaper, id) => shaper.record(target.point, *id, RING).map_err(failed)?,
        }
        .ok_or_else(|| wrong(format!("{device}: the qdisc is gone")))
    }
}

/// Finds the discipline to record. If a shaper has several classes, `class` must name one.
async fn find(device: &str, class: Option<&str>) -> Result<(Target, Recorded), Failure> {
    // With these handlers, a signal interrupts the wait for events and does not end the process, so
    // recording is switched off at the end.
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        drop(signal(kind).context("signals")?);
    }
    let target = Target::find(device).await?;
    // Do not keep the lock: others may load and change disciplines during the recording.
    let store = Store::open().map_err(failed)?;
    let found = match (Loaded::required(&target, &store).await?, class) {
        (Loaded::One(qdisc), None) => Recorded::One(qdisc),
        (Loaded::One(qdisc), Some(_)) => {
            let kind = qdisc.kind();
            return Err(wrong(format!(
                "{device}: {kind} has no classes; leave --class out"
            )));
        }
        (Loaded::Shaper(shaper), class) => {
            let id = class_of(&target, &shaper, device, class)?;
            Recorded::Class(shaper, id)
        }
    };
    Ok((target, found))
}

/// Returns the class of a shaper with this name, or its only class.
fn class_of(
    target: &Target,
    shaper: &Shaper,
    device: &str,
    class: Option<&str>,
) -> Result<u32, Failure> {
    let setup = shaper.setup(target.point).map_err(failed)?;
    let classes = setup.map_or_else(Vec::new, |setup| setup.classes);
    let ids = classes.iter().map(|class| class.rule.classid);
    let ids: Vec<u32> = ids.filter(|id| *id != 0).collect();
    let named = class.map(class_id).transpose()?;
    match (named, ids.as_slice()) {
        (Some(id), ids) if ids.contains(&id) => Ok(id),
        (None, [only]) => Ok(*only),
        _ => {
            let all: Vec<String> = ids
                .iter()
                .map(|id| Handle::from_u32(*id).to_string())
                .collect();
            Err(wrong(format!(
                "{device}: name a class with --class, one of {}",
                all.join(", ")
            )))
        }
    }
}

/// `weirgate aqm trace`.
pub fn trace(device: &str, class: Option<&str>, packets: Option<u64>) -> Outcome {
    in_runtime(async {
        let (target, source) = find(device, class).await?;
        let (discipline, recorder) = source.begin(&target)?;
        let mut mirror = Mirror::new(discipline);
        let mut trace = Trace::default();
        let mut problem = None;
        let resume = Cell::new(false);
        let mut left = packets.unwrap_or(u64::MAX);
        recorder
            .follow(
                |bytes| match mirror.take(bytes) {
                    Ok(Taken::Event(record)) => {
                        let line = trace.line(&record, &mirror);
                        left -= u64::from(record.kind() == Some(EventKind::Arrive));
                        output::data(&line).is_ok() && left > 0
                    }
                    Ok(_) => true,
                    // Report a gap in the events, and continue the trace from a new state.
                    Err(error @ (MirrorError::Lost { .. } | MirrorError::Malformed { .. })) => {
                        output::note(&error.to_string());
                        mirror = Mirror::new(discipline);
                        mirror.skip_to_state();
                        resume.set(true);
                        true
                    }
                    Err(error) => {
                        problem = Some(error);
                        false
                    }
                },
                || !resume.take() || recorder.checkpoint().is_ok(),
            )
            .map_err(failed)?;
        problem.map_or(Ok(Status::Done), |error| {
            Err(anyhow::Error::from(error).into())
        })
    })
}

/// Lines of a trace.
#[derive(Default)]
struct Trace {
    start_ns: Option<u64>,
    vars: Vec<(Row, u64)>,
}

impl Trace {
    /// Returns a line with the time since the start in seconds, the event, the verdict, the queue,
    /// and the state variables that the event changed.
    fn line(&mut self, record: &Record, mirror: &Mirror) -> String {
        let start = *self.start_ns.get_or_insert(record.now_ns);
        let time = record.now_ns.saturating_sub(start) as f64 / 1e9;
        let verdict = record.verdict();
        let what = match (record.kind(), verdict.action) {
            (Some(EventKind::Arrive), Action::Pass) => "arrive  keep",
            (Some(EventKind::Arrive), Action::Mark) => "arrive  mark",
            (Some(EventKind::Arrive), Action::Drop) => "arrive  drop",
            (Some(EventKind::Depart), Action::Drop) => "depart  drop",
            (Some(EventKind::Depart), Action::Mark) => "depart  mark",
            (Some(EventKind::Depart), Action::Pass) if record.slot > 0 => "depart  send",
            (Some(EventKind::Depart), Action::Pass) => "depart  none",
            (Some(EventKind::Evict), _) if record.slot > 0 => "evict   drop",
            (Some(EventKind::Evict), _) => "evict   none",
            _ => "reset",
        };
        let mut line = format!("{time:12.6}  {what}");
        if record.kind() == Some(EventKind::Arrive) {
            let _ = write!(line, "  {:5} B flow {:08x}", record.len, record.flow);
        } else {
            let _ = write!(line, "  {:21}", "");
        }
        if let Some(queue) = mirror.queue() {
            let _ = write!(
                line,
                "  queue {:4} p {:7} B",
                queue.packets(),
                queue.bytes()
            );
        }
        if verdict.reason > 0
            && let Some(row) = reasons().get(verdict.reason as usize)
        {
            let _ = write!(line, "  {}", row.name);
        }
        let vars = mirror.vars();
        let before = std::mem::replace(&mut self.vars, vars);
        let changed = |(row, value): &&(Row, u64)| {
            before.is_empty() || !before.iter().any(|old| old.0 == *row && old.1 == *value)
        };
        for (row, value) in self.vars.iter().filter(changed).take(SHOWN) {
            let text = row.format(*value).replace(' ', "");
            let _ = write!(line, "  {}={text}", row.name);
        }
        line
    }
}

/// `weirgate aqm record DEVICE FILE`.
pub fn record(device: &str, class: Option<&str>, path: &Path, packets: Option<u64>) -> Outcome {
    in_runtime(async {
        let (target, source) = find(device, class).await?;
        let file = File::create(path).with_context(|| path.display().to_string())?;
        let (discipline, recorder) = source.begin(&target)?;
        let mut file = BufWriter::new(file);
        let mut writer = Writer::default();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        file.write_all(&writer.begin(&About {
            discipline: discipline.name().to_owned(),
            device: class.map_or_else(|| device.to_owned(), |class| format!("{device} {class}")),
            kernel: release.trim().to_owned(),
            verdicts: true,
        }))?;
        // The mirror separates the events and detects gaps.
        let mut mirror = Mirror::new(discipline);
        let (mut arrived, mut problem) = (0, None);
        let ending = Cell::new(false);
        recorder
            .follow(
                |bytes| {
                    if let Err(error) = file.write_all(&writer.record(bytes)) {
                        problem = Some(anyhow::Error::from(error));
                        return false;
                    }
                    match mirror.take(bytes) {
                        Ok(Taken::Event(record)) => {
                            arrived += u64::from(record.kind() == Some(EventKind::Arrive));
                            if packets.is_some_and(|most| arrived >= most) && !ending.get() {
                                ending.set(true);
                                // The checkpoint writes the last state with the next packet.
                                return recorder.checkpoint().is_ok();
                            }
                            true
                        }
                        Ok(Taken::Compared) => !ending.get(),
                        Ok(_) => true,
                        Err(error) => {
                            problem = Some(error.into());
                            false
                        }
                    }
                },
                || true,
            )
            .map_err(failed)?;
        file.write_all(&writer.end())?;
        file.flush()?;
        if let Some(problem) = problem {
            return Err(problem.context(path.display().to_string()).into());
        }
        let end = if ending.get() {
            ""
        } else {
            "; without the state at the end"
        };
        let records = mirror.records();
        output::data(&format!(
            "{}: {} packets, {records} records{end}",
            path.display(),
            packets.unwrap_or(arrived).min(arrived)
        ))?;
        Ok(Status::Done)
    })
}

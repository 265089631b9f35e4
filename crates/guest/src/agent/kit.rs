// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arm's discipline of the kit: loads it, attaches it at the root of the gateway's device to
//! the line, and samples its average queue.

use super::nodes::{Nodes, WAN};
use super::recorder::Recorder;
use super::session::Session;
use anyhow::{Context, Result, ensure};
use std::io;
use std::path::Path;
use std::rc::Rc;
use weirgate_aqm::{Discipline, Link, Settings};
use weirgate_bpf::{AttachPoint, Attached, Qdisc, Setup, kit_number};
use weirgate_experiment::{Job, Kit, Node, NumberSample};
use weirgate_kernel::Kernel;
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};
use weirgate_state::DeviceName;

/// The name of the sampled variable, in disciplines that have it.
const AVERAGE: &str = "average";

/// A discipline attached at the gateway.
#[derive(Debug)]
pub struct Loaded {
    qdisc: Qdisc,
    point: AttachPoint,
    /// The program that makes its marks.
    _marker: Option<Attached>,
}

impl Loaded {
    /// Loads and attaches it.
    pub async fn put(kit: &Kit, job: &Job, nodes: &Nodes, recorder: &Recorder) -> Result<Self> {
        let setup = setup(kit, job)?;
        let kernel = Kernel::open_in(nodes.space(Node::Gateway)?)?;
        let name = DeviceName::new(WAN).context("the device's name")?;
        let device = kernel.device(&name).await?;
        let point = nodes.enter(Node::Gateway, || {
            AttachPoint::root(device.number()).map_err(io::Error::other)
        })?;
        let qdisc = Qdisc::load(setup.settings.discipline())?;
        qdisc.set(point, &setup)?;
        let marking = setup.settings.marks();
        let mark = || qdisc.mark(point).map_err(io::Error::other);
        let marker = marking
            .then(|| nodes.enter(Node::Gateway, mark))
            .transpose()?;
        kernel.put_root(&name, device, qdisc.kind()).await?;
        let rows = setup.settings.rows().into_iter();
        let lines: Vec<String> = rows
            .map(|(row, value)| format!("{}={value}", row.name))
            .collect();
        let what = format!("gateway: {} on {WAN}", qdisc.kind());
        recorder.transcript(what, lines.join("\n"), 0);
        Ok(Self {
            qdisc,
            point,
            _marker: marker,
        })
    }

    /// Returns the number of its marks if `kind` is its qdisc's kind. The kernel does not count
    /// them, because a separate program makes them.
    pub fn marks(&self, kind: &str) -> Result<Option<u64>> {
        if kind != self.qdisc.kind() {
            return Ok(None);
        }
        let count = self.qdisc.marks().count(self.point)?;
        Ok(count.map(|count| count.made))
    }

    /// Samples its average queue as often as the gateway's queues, if it has one.
    pub fn sample(self: Rc<Self>, session: &Session) {
        let vars = self.qdisc.discipline().vars();
        let Some(row) = vars.into_iter().find(|row| row.name == AVERAGE) else {
            return;
        };
        // The value is fixed point, as its unit says: `bytes/2^16`.
        let binary = row
            .unit
            .split_once("/2^")
            .and_then(|parts| parts.1.parse().ok());
        let shift: u32 = binary.unwrap_or(0);
        let interval = session.experiment.sampling.queues;
        let own = session.clone();
        session.spawn("sample the discipline's average".to_owned(), async move {
            let place = own.recorder.place(WAN);
            loop {
                super::sample::tick::tick(&own.clock, interval).await?;
                let instance = self.qdisc.instance(self.point)?;
                let average = instance.and_then(|instance| instance.number(AVERAGE));
                let value = average.context("the discipline is gone from its device")? >> shift;
                let at_ns = own.clock.now_ns();
                own.recorder.average(NumberSample {
                    place,
                    at_ns,
                    value,
                });
            }
        });
    }
}

fn setup(kit: &Kit, job: &Job) -> Result<Setup> {
    let discipline = match job.disciplines.get(&kit.discipline) {
        Some(file) => Discipline::open(Path::new(file), kit_number())?,
        None => Discipline::named(&kit.discipline)
            .with_context(|| format!("the kit has no discipline `{}`", kit.discipline))?,
    };
    let mut settings = Settings::new(discipline);
    for word in &kit.set {
        let (name, value) = word.split_once('=').context("a setting without `=`")?;
        settings.set_text(name.trim(), value.trim())?;
    }
    let mut link = Link::default();
    if let Some(name) = &kit.layer {
        let layer = LinkLayer::named(name)?;
        link.overhead_bytes = layer.overhead_on(DeviceKind::Ethernet);
        link.mpu_bytes = layer.mpu();
        link.framing = match layer.framing() {
            Framing::None => 0,
            Framing::Atm => 1,
            Framing::Ptm => 2,
        };
    }
    let gate_bytes_s = kit
        .rate
        .map_or(0, weirgate_units::Rate::as_bytes_per_second);
    ensure!(
        kit.rate.is_none() || gate_bytes_s > 0,
        "a rate is at least 8 bit/s"
    );
    link.rate_bytes_s = gate_bytes_s;
    Ok(Setup {
        settings,
        link,
        gate_bytes_s,
    })
}

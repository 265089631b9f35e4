// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm show`: shows the state of disciplines on devices, with names and units.

use crate::whole::aqm::ingress::{self, AtIngress};
use crate::whole::aqm::loaded::Loaded;
use crate::whole::aqm::own;
use crate::whole::aqm::target::Target;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use weirgate_aqm::{Link, Row};
use weirgate_bpf::{AttachPoint, Class, FilterSetup, Instance, MarkCount};
use weirgate_console::discipline::{failed, known};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_kernel::Kernel;
use weirgate_units::Inserted as _;
use weirgate_units::{Handle, Rate};

/// A queue on a device: of the discipline, or of a class.
struct Shown {
    device: String,
    /// `root` or `ingress`.
    at: &'static str,
    kind: String,
    gate_bytes_s: u64,
    class: Option<Class>,
    instance: Instance,
    /// The settings of an ingress discipline, in force from the next packet.
    setup: Option<FilterSetup>,
    /// The measurements of the queue at the far end: their number, and the last one.
    measured: Option<(u64, Duration)>,
    /// The counters of the device's marks, or `None` if it makes none.
    marks: Option<MarkCount>,
}

/// `weirgate aqm show`.
pub fn run(device: Option<&str>, json: bool) -> Outcome {
    in_runtime(async {
        let mut shown = Vec::new();
        let mut elsewhere = 0;
        if let Some(device) = device {
            let target = Target::find(device).await?;
            let store = own::store()?;
            let arriving = AtIngress::on(&target, &store)?;
            let loaded = Loaded::on(&target, &store).await?;
            if arriving.is_none() && loaded.is_none() {
                Loaded::required(&target, &store).await?;
            }
            let names = BTreeMap::from([(target.point, device.to_owned())]);
            if let Some(loaded) = &loaded {
                collect(loaded, &names, &mut shown, &mut 0)?;
            }
            shown.extend(arriving.map(|it| at_ingress(&it, device)).transpose()?);
        } else {
            let names = points().await?;
            let store = own::store()?;
            for discipline in store.names().iter().filter_map(|name| known(name)) {
                if let Some(qdisc) = store.qdisc(discipline).map_err(failed)? {
                    collect(&Loaded::One(qdisc), &names, &mut shown, &mut elsewhere)?;
                }
            }
            for kind in store.shapers() {
                if let Some(shaper) = store.shaper(&kind).map_err(failed)? {
                    collect(&Loaded::Shaper(shaper), &names, &mut shown, &mut elsewhere)?;
                }
            }
            for name in names.values() {
                let target = Target::find(name).await?;
                let arriving = AtIngress::on(&target, &store)?;
                shown.extend(arriving.map(|it| at_ingress(&it, name)).transpose()?);
            }
        }
        if json {
            let all: Vec<Value> = shown.iter().map(Shown::json).collect();
            output::data(&serde_json::to_string_pretty(&json!({
                "version": 1,
                "queues": all,
                "in_other_namespaces": elsewhere,
            }))?)?;
        } else {
            output::data(&text(&shown, elsewhere))?;
        }
        Ok(Status::Done)
    })
}

/// Returns the roots of all devices of this namespace.
async fn points() -> Result<BTreeMap<AttachPoint, String>, Failure> {
    let kernel = Kernel::open()?;
    let mut names = BTreeMap::new();
    for (name, device) in kernel.devices().await? {
        let point = AttachPoint::root(device.number()).map_err(failed)?;
        names.insert(point, name.to_string());
    }
    Ok(names)
}

fn collect(
    loaded: &Loaded,
    names: &BTreeMap<AttachPoint, String>,
    shown: &mut Vec<Shown>,
    elsewhere: &mut usize,
) -> Result<(), Failure> {
    // Under mq, a device has several instances, each with its queue's number.
    let name = |point: AttachPoint| names.get(&AttachPoint { queue: 0, ..point }).cloned();
    let marks = |point: AttachPoint| loaded.marks().count(point).map_err(failed);
    match loaded {
        Loaded::One(qdisc) => {
            for instance in qdisc.instances().map_err(failed)? {
                let Some(device) = name(instance.point()) else {
                    *elsewhere += 1;
                    continue;
                };
                let setup = qdisc.setup(instance.point()).map_err(failed)?;
                shown.push(Shown {
                    at: "root",
                    device,
                    kind: qdisc.kind().to_owned(),
                    gate_bytes_s: setup.map_or(0, |setup| setup.gate_bytes_s),
                    class: None,
                    marks: marks(instance.point())?,
                    instance,
                    setup: None,
                    measured: None,
                });
            }
        }
        Loaded::Shaper(shaper) => {
            for one in shaper.instances().map_err(failed)? {
                let Some(device) = name(one.point) else {
                    *elsewhere += 1;
                    continue;
                };
                let setup = shaper.setup(one.point).map_err(failed)?;
                for (number, instance) in one.classes.into_iter().enumerate() {
                    let class = setup.as_ref().and_then(|setup| setup.classes.get(number));
                    // The slot of a removed class.
                    if class.is_some_and(|class| class.rule.classid == 0) {
                        continue;
                    }
                    shown.push(Shown {
                        at: "root",
                        device: device.clone(),
                        kind: shaper.kind().to_owned(),
                        gate_bytes_s: setup.as_ref().map_or(0, |setup| setup.gate_bytes_s),
                        class: class.cloned(),
                        marks: marks(one.point)?,
                        instance,
                        setup: None,
                        measured: None,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Returns the discipline on a device's arriving packets.
fn at_ingress(there: &AtIngress, device: &str) -> Result<Shown, Failure> {
    let setup = there.maps.setup().map_err(failed)?;
    Ok(Shown {
        device: device.to_owned(),
        at: "ingress",
        kind: ingress::kind(there.discipline),
        gate_bytes_s: setup.as_ref().map_or(0, |setup| setup.link.rate_bytes_s),
        class: None,
        instance: there.maps.state().map_err(failed)?.instance,
        setup,
        measured: there.maps.measured().map_err(failed)?,
        marks: None,
    })
}

impl Shown {
    fn link(&self) -> Link {
        let configured = self.setup.as_ref().map(|setup| setup.link);
        configured.unwrap_or_else(|| self.instance.link())
    }

    fn params(&self) -> Vec<(Row, u64)> {
        match &self.setup {
            Some(setup) => {
                let rows = setup.settings.discipline().params().into_iter();
                rows.zip(setup.settings.values().iter().copied()).collect()
            }
            None => self.instance.params(),
        }
    }

    fn json(&self) -> Value {
        let table = |rows: Vec<(Row, u64)>| {
            let entries = rows.into_iter().map(|(row, value)| {
                let entry = json!({
                    "value": value,
                    "unit": row.unit,
                    "text": row.format(value),
                });
                (row.name.to_owned(), entry)
            });
            Value::Object(entries.inserted())
        };
        let plain = |rows: Vec<(Row, u64)>| {
            let entries = rows
                .into_iter()
                .map(|(row, value)| (row.name.to_owned(), json!(value)));
            Value::Object(entries.inserted())
        };
        let link = self.link();
        json!({
            "device": self.device,
            "at": self.at,
            "queue": self.instance.point().queue,
            "kind": self.kind,
            "class": self.class.as_ref().map(class_name),
            "share": self.class.as_ref().map(|Class { rule, .. }| json!({
                "priority": rule.priority,
                "weight": rule.weight,
                "guarantee_bytes_s": rule.guarantee_bytes_s,
                "ceiling_bytes_s": rule.ceiling_bytes_s,
            })),
            "discipline": self.instance.discipline().name(),
            "rate_bytes_s": self.gate_bytes_s,
            "link": {
                "mtu_bytes": link.mtu_bytes,
                "overhead_bytes": link.overhead_bytes,
                "mpu_bytes": link.mpu_bytes,
                "framing": framing(&link),
            },
            "parameters": table(self.params()),
            "state": table(self.instance.vars()),
            "statistics": table(self.instance.stats()),
            "drops": plain(self.instance.drops()),
            "marks": plain(self.instance.marks()),
            "measured": self.measured.map(|(number, waits)| json!({
                "number": number,
                "last_ms": waits.as_secs_f64() * 1e3,
            })),
            "device_marks": self.marks.map(|count| json!({
                "made": count.made,
                "pending": count.pending,
                "lapsed": count.lapsed,
            })),
        })
    }

    fn heading(&self) -> String {
        let mut text = format!("{}: {}", self.device, self.kind);
        if self.instance.point().queue > 0 {
            let _ = write!(text, ", transmit queue {}", self.instance.point().queue);
        }
        if let Some(class) = &self.class {
            let name = self.instance.discipline().name();
            let _ = write!(
                text,
                ", class {}: {name}; {}",
                class_name(class),
                share(class)
            );
        }
        let link = self.link();
        if self.gate_bytes_s > 0 {
            let rate = Rate::bits_per_second(self.gate_bytes_s * 8);
            let _ = write!(
                text,
                "; {rate} on the wire, {:+} bytes{}",
                link.overhead_bytes,
                match link.framing {
                    0 => "",
                    1 => ", ATM cells",
                    _ => ", PTM code words",
                }
            );
        }
        let _ = write!(text, "; MTU {} bytes", link.mtu_bytes);
        text
    }
}

fn class_name(class: &Class) -> String {
    Handle::from_u32(class.rule.classid).to_string()
}

/// Returns the share of a class in the link, as `load` and `change` accept it.
fn share(Class { rule, .. }: &Class) -> String {
    let mut text = format!("priority={} weight={}", rule.priority, rule.weight);
    let rates = [
        ("guarantee", rule.guarantee_bytes_s),
        ("ceiling", rule.ceiling_bytes_s),
    ];
    for (name, bytes_s) in rates {
        if bytes_s > 0 {
            let rate = Rate::bits_per_second(bytes_s * 8);
            let _ = write!(text, " {name}={rate}");
        }
    }
    text
}

fn framing(link: &Link) -> &'static str {
    match link.framing {
        0 => "none",
        1 => "atm",
        _ => "ptm",
    }
}

fn text(shown: &[Shown], elsewhere: usize) -> String {
    let mut text = String::new();
    for one in shown {
        let _ = writeln!(text, "{}", one.heading());
        if let Some((number, waits)) = one.measured {
            let waits = waits.as_secs_f64() * 1e3;
            let _ = writeln!(
                text,
                "  {number} measurements; the last: {waits:.1} ms of queue"
            );
        }
        let parts = [
            ("parameters", one.params()),
            ("state", one.instance.vars()),
            ("statistics", one.instance.stats()),
        ];
        for (part, rows) in parts {
            let _ = writeln!(text, "  {part}");
            for (row, value) in rows {
                let value = row.format(value);
                let _ = writeln!(text, "    {:<22}{value:<22}{}", row.name, row.help);
            }
        }
        for (part, rows) in [
            ("drops", one.instance.drops()),
            ("marks", one.instance.marks()),
        ] {
            let rows: Vec<_> = rows.into_iter().filter(|(_, count)| *count > 0).collect();
            if !rows.is_empty() {
                let _ = writeln!(text, "  {part}");
            }
            for (row, count) in rows {
                let _ = writeln!(text, "    {:<22}{count:<22}{}", row.name, row.help);
            }
        }
        if let Some(MarkCount {
            made,
            pending,
            lapsed,
        }) = one.marks
        {
            let _ = writeln!(text, "  marks of the device");
            for (name, count, help) in [
                ("made", made, "packets marked, each for one that was to be"),
                (
                    "pending",
                    pending,
                    "marks that a later packet of a flow gets",
                ),
                (
                    "lapsed",
                    lapsed,
                    "marks of flows that sent nothing for ten seconds",
                ),
            ] {
                let _ = writeln!(text, "    {name:<22}{count:<22}{help}");
            }
        }
    }
    if shown.is_empty() {
        text.push_str("no discipline of the kit is on a device here\n");
    }
    if elsewhere > 0 {
        let _ = writeln!(text, "{elsewhere} more in other network namespaces");
    }
    text
}

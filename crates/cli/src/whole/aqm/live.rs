// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm load`, `change` and `unload`: put disciplines on devices.

use crate::whole::aqm::arguments::Load;
use crate::whole::aqm::loaded::{Loaded, Marking};
use crate::whole::aqm::offloads;
use crate::whole::aqm::own;
use crate::whole::aqm::target::{Target, placed, refused};
use weirgate_aqm::{Link, Settings};
use weirgate_bpf::{AttachPoint, CLASSES, Class, Classes, Qdisc, Setup};
use weirgate_console::discipline::class::{self, class, class_id};
use weirgate_console::discipline::{LinkArguments, discipline, failed, set};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_units::Handle;

/// A discipline, or a shaper with classes, to load.
enum Wanted {
    One(Setup),
    Shaper(Classes),
}

impl Wanted {
    /// Returns whether a gate delays packets to keep to a rate.
    fn has_gate(&self) -> bool {
        match self {
            Self::One(setup) => setup.gate_bytes_s > 0,
            Self::Shaper(_) => true,
        }
    }

    fn marking(&self) -> Marking {
        match self {
            Self::One(setup) => Marking::of([&setup.settings]),
            Self::Shaper(setup) => Marking::of(setup.classes.iter().map(|class| &class.settings)),
        }
    }
}

fn wanted(load: &Load) -> Result<Wanted, Failure> {
    let mut settings = Settings::new(discipline(&load.discipline)?);
    set(&mut settings, &load.settings)?;
    let mut link = Link::default();
    let mut gate_bytes_s = 0;
    load.link.apply(&mut link, &mut gate_bytes_s)?;
    if load.link.layer.is_some() && gate_bytes_s == 0 {
        return Err(wrong(
            "--link states the bytes of packets on the wire; add --rate, the wire's rate",
        ));
    }
    if load.classes.is_empty() {
        return Ok(Wanted::One(Setup {
            settings,
            link,
            gate_bytes_s,
        }));
    }
    if gate_bytes_s == 0 {
        return Err(wrong(
            "classes share a link's rate; add --rate, the wire's rate",
        ));
    }
    let classes: Result<Vec<Class>, Failure> = load
        .classes
        .iter()
        .map(|text| class(text, &settings))
        .collect();
    let classes = classes?;
    if let Some(own) = classes
        .iter()
        .find(|class| class.settings.discipline().program().is_some())
    {
        let name = own.settings.discipline().name();
        return Err(wrong(format!(
            "`{name}` cannot be a class's queue of this command, which has the kit's disciplines; \
             a policy may have it in a class (docs/aqm.md, \"Your own in a class\"), or load it \
             alone with --rate"
        )));
    }
    if classes.len() > CLASSES {
        return Err(wrong(format!(
            "{} classes; there may be up to {CLASSES}",
            classes.len()
        )));
    }
    for (number, class) in classes.iter().enumerate() {
        if classes[..number]
            .iter()
            .any(|it| it.rule.classid == class.rule.classid)
        {
            let id = Handle::from_u32(class.rule.classid);
            return Err(wrong(format!("two classes have the name {id}")));
        }
    }
    Ok(Wanted::Shaper(Classes {
        link,
        gate_bytes_s,
        acks: weirgate_state::CakeAckFilter::No,
        other: classes.len() - 1,
        classes,
    }))
}

/// `weirgate aqm load`.
pub fn load(load: &Load, document: &Document) -> Outcome {
    let mut wanted = wanted(load)?;
    in_runtime(async {
        let target = Target::find(&load.device).await?;
        let name = &target.name;
        let _later = output::later();
        let store = own::store()?;
        let present = target.kernel.root_kind(target.device).await;
        let present = present.map_err(refused)?;
        if let (Some(kind), false) = (&present, load.replace) {
            return Err(Failure::Refused(format!(
                "{name}: there is a root qdisc {kind} already; --replace puts the discipline in \
                 its place"
            )));
        }
        let before = Loaded::on(&target, &store).await?;
        if let Wanted::One(setup) = &mut wanted
            && setup.link.rate_bytes_s == 0
        {
            let speed = target.kernel.speed_mbit(name).await.map_err(refused)?;
            setup.link.rate_bytes_s = u64::from(speed.unwrap_or(0)) * 125_000;
        }
        let loaded = match &wanted {
            Wanted::One(setup) => {
                let discipline = setup.settings.discipline();
                own::same_as_loaded(discipline)?;
                let qdisc = store.qdisc_or_load(discipline).map_err(failed)?;
                own::keep(discipline)?;
                Loaded::One(qdisc)
            }
            Wanted::Shaper(_) => Loaded::Shaper(store.shaper_or_load(None).map_err(failed)?),
        };
        let kind = loaded.kind();
        let switched = if wanted.has_gate() {
            offloads::switch_off(&target).await
        } else {
            Ok(false)
        };
        let switched = match switched {
            Ok(switched) => switched,
            Err(failure) => {
                loaded.release(&store)?;
                return Err(failure);
            }
        };
        // The kernel would treat a new root of the same kind as a change, which these qdiscs do not
        // support. So the old root goes first.
        if present.as_deref() == Some(kind) {
            let dropped = target.kernel.drop_root(name, target.device).await;
            dropped.map_err(refused)?;
        }
        match (&loaded, &wanted) {
            (Loaded::One(qdisc), Wanted::One(setup)) => qdisc.set(target.point, setup),
            (Loaded::Shaper(shaper), Wanted::Shaper(setup)) => shaper.prepare(target.point, setup),
            _ => Ok(()),
        }
        .map_err(failed)?;
        let marked = loaded.mark(&store, target.point, wanted.marking());
        let put = match marked {
            Ok(()) => {
                let put = target.kernel.put_root(name, target.device, kind).await;
                put.map_err(refused)
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = put {
            loaded.forget(&store, target.point).map_err(failed)?;
            loaded.release(&store)?;
            // If a gate was there before, its offloads stay off.
            if switched {
                offloads::restore(&target).await?;
            }
            return Err(failure);
        }
        if let Some(before) = before.filter(|before| before.kind() != kind) {
            before.forget(&store, target.point).map_err(failed)?;
            before.release(&store)?;
        }
        if wanted.has_gate() {
            offloads::warn_of_joined(&target.kernel, name).await?;
        } else {
            offloads::restore(&target).await?;
        }
        placed(document, name.as_str(), "root", kind);
        document.note(&format!("{name}: {kind} is at the root"));
        Ok(Status::Done)
    })
}

/// `weirgate aqm change`.
pub fn change(
    device: &str,
    words: &[String],
    link: &LinkArguments,
    class: Option<&str>,
    document: &Document,
) -> Outcome {
    in_runtime(async {
        let target = Target::find(device).await?;
        let _later = output::later();
        let store = own::store()?;
        let loaded = Loaded::required(&target, &store).await?;
        match &loaded {
            Loaded::One(_) if class.is_some() => {
                return Err(wrong(format!("{device}: there are no classes")));
            }
            Loaded::One(qdisc) => {
                let mut setup = in_force(qdisc, target.point)?;
                set(&mut setup.settings, words)?;
                link.apply(&mut setup.link, &mut setup.gate_bytes_s)?;
                if setup.gate_bytes_s > 0 {
                    offloads::switch_off(&target).await?;
                }
                loaded.mark(&store, target.point, Marking::of([&setup.settings]))?;
                qdisc.set(target.point, &setup).map_err(failed)?;
            }
            Loaded::Shaper(shaper) => {
                let setup = shaper.setup(target.point).map_err(failed)?;
                let mut setup = setup.ok_or_else(|| {
                    wrong(format!(
                        "{device}: its classes are not known; load it again"
                    ))
                })?;
                if let Some(class) = class {
                    let id = class_id(class)?;
                    let found = setup.classes.iter_mut().find(|it| it.rule.classid == id);
                    let found = found
                        .ok_or_else(|| wrong(format!("{device}: there is no class {class}")))?;
                    class::change(found, words)?;
                } else if !words.is_empty() {
                    return Err(wrong("name the class with --class, such as --class 1:10"));
                }
                link.apply(&mut setup.link, &mut setup.gate_bytes_s)?;
                let all = setup.classes.iter().map(|class| &class.settings);
                loaded.mark(&store, target.point, Marking::of(all))?;
                shaper.set(target.point, &setup).map_err(failed)?;
            }
        }
        placed(document, device, "root", loaded.kind());
        Ok(Status::Done)
    })
}

/// Returns the settings of the qdisc, or the defaults if none were set.
fn in_force(qdisc: &Qdisc, point: AttachPoint) -> Result<Setup, Failure> {
    let setup = qdisc.setup(point).map_err(failed)?;
    Ok(setup.unwrap_or_else(|| Setup {
        settings: Settings::new(qdisc.discipline()),
        link: Link::default(),
        gate_bytes_s: 0,
    }))
}

/// `weirgate aqm unload`.
pub fn unload(device: &str, document: &Document) -> Outcome {
    in_runtime(async {
        let target = Target::find(device).await?;
        let _later = output::later();
        let store = own::store()?;
        let loaded = Loaded::required(&target, &store).await?;
        let dropped = target.kernel.drop_root(&target.name, target.device).await;
        dropped.map_err(refused)?;
        loaded.forget(&store, target.point).map_err(failed)?;
        placed(document, device, "root", loaded.kind());
        loaded.release(&store)?;
        offloads::restore(&target).await?;
        Ok(Status::Done)
    })
}

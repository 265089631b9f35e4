// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate plan`, `apply`, `remove`, `show`: a policy and this kernel.

use crate::exit::{Failure, Outcome, Status};
use crate::{memory, output, policy};
use std::path::Path;
use weirgate_kernel::{ApplyError, Kernel, KernelError, Scope};
use weirgate_plan::{Loss, Options, Plan, plan_with, verify, with_former};
use weirgate_state::{Device, DeviceName, Offloads, QdiscKind, State};

/// Offloads as devices usually have them.
const OFFLOADED: Offloads = Offloads {
    tso: true,
    gso: true,
    gro: true,
};

/// `weirgate plan`: exit status 1 if something would change.
pub fn plan(path: &Path, replace: bool) -> Outcome {
    in_runtime(async {
        let kernel = Kernel::open()?;
        let plan = planned(&kernel, path, replace).await?.0;
        describe(&plan)?;
        Ok(if plan.steps.is_empty() {
            Status::Done
        } else {
            Status::Differs
        })
    })
}

/// `weirgate apply`.
pub fn apply(path: &Path, replace: bool) -> Outcome {
    in_runtime(async {
        let kernel = Kernel::open()?;
        let _lock = memory::lock()?;
        let before = memory::read()?;
        let (plan, former) = planned(&kernel, path, replace).await.map_err(refused)?;
        describe(&plan)?;
        // Kept before anything changes: whatever happens next, `remove` knows
        // what to go back to.
        memory::write(&memory::Memory {
            former,
            applied: plan.desired.clone(),
        })?;
        let outcome = kernel.apply(&plan).await;
        if let Err(ApplyError::Restored { .. }) = outcome {
            match &before {
                Some(before) => memory::write(before)?,
                None => memory::forget()?,
            }
        }
        let applied = outcome.map_err(|error| failure(&error))?;
        output::note(&format!("{} steps done and read back", applied.steps));
        Ok(Status::Done)
    })
}

/// `weirgate remove`.
pub fn remove() -> Outcome {
    in_runtime(async {
        let kernel = Kernel::open()?;
        let _lock = memory::lock()?;
        let Some(memory) = memory::read()? else {
            output::note("nothing is applied");
            return Ok(Status::Done);
        };
        let desired = with_former(&State::default(), &memory.former);
        let scope = Scope::of([&memory.applied, &memory.former]);
        let observed = kernel.observe(&scope).await;
        let observed = observed.map_err(|error| refused(error.into()))?;
        for (name, device) in &memory.former.devices {
            let root = device.root.as_ref();
            if let Some(loss) = root.and_then(|root| Loss::of(name, root)) {
                let objects = loss.objects.join(", ");
                output::note(&format!(
                    "weirgate: warning: {name}: not restored, as `apply --replace` said: {objects}"
                ));
            }
        }
        for (name, device) in &memory.applied.devices {
            if !device.owned_ifb && !observed.devices.contains_key(name) {
                output::note(&format!(
                    "weirgate: warning: there is no device {name} any more; if it has another \
                     name now, what was applied to it is still there: give it back its name and \
                     `apply`, then `remove`"
                ));
            }
        }
        // A device that has gone takes its qdiscs along; nothing to restore.
        let desired = State {
            devices: desired
                .devices
                .into_iter()
                .filter(|(name, _)| observed.devices.contains_key(name))
                .collect(),
            ..desired
        };
        let options = Options {
            previous: Some(&memory.applied),
            replace_foreign: false,
        };
        let plan = plan_with(&observed, &desired, &options).map_err(|found| problems(&found))?;
        describe(&plan)?;
        kernel.apply(&plan).await.map_err(|error| failure(&error))?;
        memory::forget()?;
        Ok(Status::Done)
    })
}

/// `weirgate show`: exit status 1 if the kernel differs from what was applied.
pub fn show() -> Outcome {
    in_runtime(async {
        let kernel = Kernel::open()?;
        let Some(memory) = memory::read()? else {
            output::data("nothing is applied")?;
            return Ok(Status::Done);
        };
        let observed = kernel.observe(&Scope::of([&memory.applied])).await?;
        let whole = plan_with(&bare(&memory.applied), &memory.applied, &Options::default());
        for device in memory.applied.devices.keys() {
            output::data(&format!("device {device}"))?;
        }
        for step in whole.map_err(|found| problems(&found))?.steps {
            output::data(&format!("  {step}"))?;
        }
        let differences = verify(&observed, &memory.applied);
        for difference in &differences {
            output::data(&format!("differs: {difference}"))?;
        }
        Ok(if differences.is_empty() {
            Status::Done
        } else {
            Status::Differs
        })
    })
}

/// The devices of a state with nothing on them: what it is shown against.
fn bare(state: &State) -> State {
    let devices = state.devices.iter();
    let own = devices.filter(|(_, device)| !device.owned_ifb);
    State {
        devices: own
            .map(|(name, device)| {
                let nothing = Device {
                    offloads: device.offloads.map(|_| OFFLOADED),
                    root: None,
                    ..device.clone()
                };
                (name.clone(), nothing)
            })
            .collect(),
        ..State::default()
    }
}

/// Compiles the policy for this kernel and compares it with what is there.
/// Also returns the state to go back to at `remove`.
async fn planned(kernel: &Kernel, path: &Path, replace: bool) -> Result<(Plan, State), Failure> {
    let (policy, _) = policy::load(path)?;
    let capabilities = kernel.capabilities().await?;
    let wanted = policy::compile(path, &policy, &capabilities)?;
    let memory = memory::read()?;
    let applied = memory.as_ref().map(|memory| &memory.applied);
    let empty = State::default();
    let scope = Scope::of([&wanted, applied.unwrap_or(&empty)]);
    let observed = kernel.observe(&scope).await?;
    let mut former = memory
        .as_ref()
        .map_or_else(State::default, |memory| memory.former.clone());
    for (name, device) in &observed.devices {
        if !device.owned_ifb {
            former
                .devices
                .entry(name.clone())
                .or_insert_with(|| found(name, device, &observed, &wanted));
        }
    }
    let desired = with_former(&wanted, &former);
    let options = Options {
        previous: applied,
        replace_foreign: replace,
    };
    let plan = plan_with(&observed, &desired, &options).map_err(|found| problems(&found))?;
    Ok((plan, former))
}

/// What to go back to for a device that nothing is remembered of: what it has,
/// unless that is weirgate's own. It stays behind where the memory was lost,
/// or where the device had another name at `remove`.
fn found(name: &DeviceName, device: &Device, observed: &State, wanted: &State) -> Device {
    let only = |device: &Device| State {
        devices: [(name.clone(), device.clone())].into(),
        ..State::default()
    };
    let marked = || {
        let mut tables = observed.tables.iter();
        tables.any(|table| table.devices().any(|other| other == name))
    };
    let own = device.root.as_ref().is_some_and(|root| {
        let as_wanted = wanted
            .devices
            .get(name)
            .is_some_and(|wanted| verify(&only(device), &only(wanted)).is_empty());
        as_wanted || (matches!(root.kind, QdiscKind::Htb(_)) && marked())
    });
    if !own {
        return device.clone();
    }
    Device {
        root: None,
        offloads: device.offloads.map(|_| OFFLOADED),
        ..device.clone()
    }
}

/// Tells what a plan does; first, what it does that no other can undo.
fn describe(plan: &Plan) -> Result<(), Failure> {
    for loss in plan.losses() {
        output::note(&format!("weirgate: warning: {loss}"));
    }
    if plan.steps.is_empty() {
        output::data("nothing to change")?;
    }
    for step in &plan.steps {
        output::data(&step.to_string())?;
    }
    Ok(())
}

fn problems(problems: &[weirgate_plan::Problem]) -> Failure {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| format!("weirgate: {problem}"))
        .collect();
    Failure::Input(lines.join("\n"))
}

fn failure(error: &ApplyError) -> Failure {
    match error {
        ApplyError::Restored { .. } => Failure::Refused(error.to_string()),
        ApplyError::Lost { .. } => Failure::Broken(error.to_string()),
    }
}

/// What the kernel refuses while it is only asked leaves the old state as it was.
fn refused(failure: Failure) -> Failure {
    match failure {
        Failure::Other(error) if error.is::<KernelError>() => Failure::Refused(error.to_string()),
        other => other,
    }
}

fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

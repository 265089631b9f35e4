// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate apply` and `remove`: put a policy into this kernel and take it away.

use crate::policy::plan::put;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::policy::{self, Loaded};
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{KeepError, Lock, Made, Memory, Planned, PlannedLinks, Request, Site};
use weirgate_kernel::ApplyError;
use weirgate_plan::{Loss, Options, Plan, plan_with};
use weirgate_state::{DeviceName, Qdisc, QdiscKind, State};

/// The longest wait for DNS names. After it, the policy is applied without them.
const LOOK_UP: Duration = Duration::from_secs(3);

/// Opens the stored data of this network namespace, below the folder `state`.
pub fn site(state: &Path) -> Result<Site, Failure> {
    // The guard must run the same program as this process, even if its file was replaced or
    // removed.
    let program = Path::new("/proc/self/exe").to_owned();
    Site::open(state, program).map_err(refused)
}

/// The parts of a change that are printed.
#[derive(Clone, Copy)]
pub enum Printed<'d> {
    /// Each step.
    Steps,
    /// Only the result.
    End,
    /// One JSON document, at the end.
    Json(&'d Document),
}

impl<'d> Printed<'d> {
    /// Returns the document if it is wanted, else the steps.
    pub const fn of(document: &'d Document) -> Self {
        if document.is_wanted() {
            Self::Json(document)
        } else {
            Self::Steps
        }
    }
}

/// `weirgate apply`.
pub fn apply(
    state: &Path,
    path: &Path,
    adopt: bool,
    confirm: Option<Duration>,
    document: &Document,
) -> Outcome {
    let printed = Printed::of(document);
    in_runtime(applied(state, path, adopt, confirm, printed))
}

/// Applies a policy, with the given output.
///
/// The lock is taken after everything that may take long: reading standard input and resolving
/// names. Nothing is written until it is free again.
pub async fn applied(
    state: &Path,
    path: &Path,
    adopt: bool,
    confirm: Option<Duration>,
    printed: Printed<'_>,
) -> Outcome {
    let site = site(state)?;
    let (wanted, loaded) = wanted(&site, path).await?;
    let answers = site.look_up(&wanted, LOOK_UP).await;
    let _later = output::later();
    let lock = site.lock().await.map_err(refused)?;
    for name in site.learn(&lock, &answers).map_err(refused)? {
        output::note(&format!(
            "weirgate: warning: {name}: it has its former addresses, or none; `weirgate keep` \
             looks it up again"
        ));
    }
    let request = || Request {
        sources: loaded.sources.clone(),
        confirm,
        ..Request::default()
    };
    let planned = site.plan(&wanted, adopt).await.map_err(refused)?;
    let mut made = attempt(&site, &lock, planned, request(), printed).await?;
    if let Err(error) = &made
        && site.learn_refusal(error).await.map_err(refused)?
    {
        let without = compiled(&site, &loaded).await?;
        // Nothing to leave out: the policy itself states what the kernel refused.
        if without != wanted {
            output::note(&format!("weirgate: warning: {error}"));
            let planned = site.plan(&without, adopt).await.map_err(refused)?;
            made = attempt(&site, &lock, planned, request(), printed).await?;
        }
    }
    made.map_err(|error| reported(&site, error))
}

/// Describes a planned change, makes it and prints the result.
pub async fn make(
    site: &Site,
    lock: &Lock,
    planned: Planned,
    request: Request,
    printed: Printed<'_>,
) -> Outcome {
    let made = attempt(site, lock, planned, request, printed).await?;
    made.map_err(|error| reported(site, error))
}

/// Returns the failure to report for a change that could not be made.
fn reported(site: &Site, error: KeepError) -> Failure {
    if matches!(error, KeepError::Apply(_)) && site.doubt() {
        output::note(
            "weirgate: the kernel's abilities were known from an earlier command; the next one \
             tests them again",
        );
    }
    refused(error)
}

/// Does the work of [`make`], but returns the error of the change itself to the caller.
async fn attempt(
    site: &Site,
    lock: &Lock,
    planned: Planned,
    request: Request,
    printed: Printed<'_>,
) -> Result<Result<Status, KeepError>, Failure> {
    site.nothing_waits().map_err(refused)?;
    let confirm = request.confirm;
    let links = request.links.as_ref();
    let none = Document::none();
    let document = match printed {
        Printed::Steps => {
            for step in links.iter().flat_map(|links| &links.steps) {
                output::data(&step.to_string())?;
            }
            describe(&planned.plan, false)?;
            &none
        }
        Printed::End => {
            lost(&planned.plan);
            &none
        }
        Printed::Json(document) => {
            put(document, links, Some(&planned.plan));
            document
        }
    };
    let named = planned.has_names();
    let mut warnings = weirgate_keep::absent(&planned.wanted);
    warnings.extend(planned.left());
    let made = match site.apply(lock, planned, request).await {
        Ok(made) => made,
        Err(error) => return Ok(Err(error)),
    };
    if named {
        site.refill(lock).await.map_err(refused)?;
    }
    for why in warnings {
        output::note(&format!("weirgate: warning: {why}"));
    }
    ended(&made, confirm, document);
    Ok(Ok(Status::Done))
}

/// Tells how a change ended, and when it will be undone.
pub fn ended(made: &Made, confirm: Option<Duration>, document: &Document) {
    let Made { steps, number, .. } = made;
    // No state has the number 0: nothing was ever applied.
    let state = Some(*number).filter(|number| *number > 0);
    let returns = confirm.filter(|_| made.unconfirmed);
    let returns = returns.map(|after| after.as_secs_f64());
    document.put("state", state.into());
    document.put("returns_s", returns.into());
    if *steps > 0 || made.unconfirmed {
        let steps = output::count(*steps, "step");
        document.note(&format!("{steps} done and read back: state {number}"));
    }
    if let Some(returns) = returns {
        document.note(&format!(
            "it is undone in {returns} s unless you say `weirgate confirm`"
        ));
    }
    if made.in_session {
        in_session();
    }
}

/// Warns that the guard may end too early.
pub fn in_session() {
    output::note(
        "weirgate: warning: systemd gave the guard no unit of its own (`busctl` is missing, or \
         was refused): with `KillUserProcesses=yes` the guard ends with this session, and then \
         only `weirgate keep` undoes the change",
    );
}

/// `weirgate remove`.
pub fn remove(state: &Path, document: &Document) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let _later = output::later();
        let lock = site.lock().await.map_err(refused)?;
        take_away(&site, &lock, None, document).await
    })
}

/// Removes the policy and names what is not restored. A change of links is made in the same step.
pub async fn take_away(
    site: &Site,
    lock: &Lock,
    links: Option<PlannedLinks>,
    document: &Document,
) -> Outcome {
    match Memory::read(&site.folders).map_err(refused)? {
        Some(memory) => stays(site, &memory).await?,
        None if links.is_none() => {
            put(document, None, None);
            document.note("nothing is applied");
            return Ok(Status::Done);
        }
        None => {}
    }
    let planned = site.plan(&State::default(), false).await.map_err(refused)?;
    put(document, links.as_ref(), Some(&planned.plan));
    if !document.is_wanted() {
        for step in links.iter().flat_map(|links| &links.steps) {
            output::data(&step.to_string())?;
        }
        if links.is_none() || !planned.plan.steps.is_empty() {
            describe(&planned.plan, false)?;
        }
    }
    for why in planned.left() {
        output::note(&format!("weirgate: warning: {why}"));
    }
    let Err(error) = site.remove(lock, &planned, links.clone()).await else {
        return Ok(Status::Done);
    };
    // An object that the former tree needs may be gone since the tree was listed. This must not
    // prevent the removal of weirgate's own objects.
    let (true, Some(bare)) = (was_restored(&error), without_listed(&planned)) else {
        return Err(refused(error));
    };
    for (name, root) in listed_roots(&planned.plan.desired) {
        output::note(&format!(
            "weirgate: warning: {name}: qdisc {} {} is not restored, because the kernel refuses \
             it: {error}",
            root.kind.name(),
            root.handle
        ));
    }
    site.remove(lock, &bare, links).await.map_err(refused)?;
    Ok(Status::Done)
}

/// Warns of everything that a removal does not restore.
async fn stays(site: &Site, memory: &Memory) -> Result<(), Failure> {
    for (name, device) in &memory.former.devices {
        let root = device.root.as_ref();
        if let Some(loss) = root.and_then(|root| Loss::of(name, root)) {
            let objects = loss.objects.join(", ");
            output::note(&format!(
                "weirgate: warning: {name}: not restored, as `apply --adopt` warned: {objects}"
            ));
        }
    }
    let devices = site.kernel.devices().await;
    let devices = devices.map_err(|error| refused(error.into()))?;
    for (name, device) in &memory.applied.devices {
        let former = memory.former.devices.get(name);
        let unknown = former.is_none_or(|former| former.offloads.is_none());
        if device.offloads.is_some() && unknown && devices.contains_key(name) {
            output::note(&format!(
                "weirgate: warning: {name}: its offloads stay unchanged, because weirgate's \
                     record of the former ones was lost: `ethtool -k {name}` shows them, \
                     `ethtool -K {name} tso on gso on` switches the usual ones on"
            ));
        }
        if !device.owned_ifb && !devices.contains_key(name) {
            output::note(&format!(
                "weirgate: warning: the device {name} no longer exists; if it was renamed, it \
                     still has its applied state: restore its name and `apply`, then `remove`"
            ));
        }
    }
    Ok(())
}

/// Returns whether a change failed and the kernel is as before.
fn was_restored(error: &KeepError) -> bool {
    matches!(error, KeepError::Apply(error) if matches!(**error, ApplyError::Restored { .. }))
}

/// Returns the roots of other programs that are to be created again as they were listed.
fn listed_roots(state: &State) -> impl Iterator<Item = (&DeviceName, &Qdisc)> {
    let roots = state.devices.iter();
    roots
        .filter_map(|(name, device)| Some((name, device.root.as_ref()?)))
        .filter(|(_, root)| matches!(root.kind, QdiscKind::Listed(_)))
}

/// Returns the removal with the kernel's default qdisc in place of the listed roots, or `None`
/// without such roots.
fn without_listed(planned: &Planned) -> Option<Planned> {
    let mut desired = planned.plan.desired.clone();
    let names: Vec<DeviceName> = listed_roots(&desired)
        .map(|(name, _)| name.clone())
        .collect();
    for name in &names {
        desired.devices.get_mut(name)?.root = None;
    }
    let options = Options {
        previous: None,
        replace_foreign: true,
    };
    let plan = plan_with(&planned.plan.before, &desired, &options).ok()?;
    let mut bare = planned.clone();
    bare.plan = plan;
    (!names.is_empty()).then_some(bare)
}

/// Reads the policy and compiles it for this kernel.
pub async fn wanted(site: &Site, path: &Path) -> Result<(State, Loaded), Failure> {
    let loaded = policy::read(path)?;
    Ok((compiled(site, &loaded).await?, loaded))
}

/// Compiles a policy for this kernel, as far as its abilities are known.
async fn compiled(site: &Site, loaded: &Loaded) -> Result<State, Failure> {
    let mut capabilities = site.capabilities().await.map_err(refused)?;
    let mut links = loaded.policies().iter();
    let needed = links.any(weirgate_policy::Policy::needs_programs);
    capabilities.payload &= !needed || weirgate_kernel::can_look();
    loaded.compile(&capabilities)
}

/// Prints the steps of a plan, after warnings of losses that no other plan can undo.
pub fn describe(plan: &Plan, commands: bool) -> Result<(), Failure> {
    lost(plan);
    if plan.steps.is_empty() {
        output::data("nothing to change")?;
    }
    for step in &plan.steps {
        let text = if commands {
            step.action.command()
        } else {
            let emptied = plan.empties(&step.action);
            let emptied = emptied.map_or_else(String::new, |what| format!("  ({what})"));
            format!("{step}{emptied}")
        };
        output::data(&text)?;
    }
    Ok(())
}

/// Warns of losses that no other plan can undo.
fn lost(plan: &Plan) {
    for loss in plan.losses() {
        output::note(&format!("weirgate: warning: {loss}"));
    }
}

/// Returns the failure, and so the exit status, of an error. If the kernel refuses a request to
/// read, the old state is unchanged.
pub fn refused(error: KeepError) -> Failure {
    match error {
        KeepError::NoPlan(problems) => {
            let lines = problems
                .iter()
                .map(|problem| format!("weirgate: {problem}"));
            Failure::Input(lines.collect::<Vec<_>>().join("\n"))
        }
        KeepError::Apply(error) => match *error {
            ApplyError::Lost { .. } => Failure::Broken(error.to_string()),
            ApplyError::Restored { .. } => Failure::Refused(error.to_string()),
        },
        KeepError::Kernel(error) => Failure::Refused(error.to_string()),
        held @ KeepError::Held(_) => Failure::Refused(held.to_string()),
        // A user who may not write below /run may not change the kernel either.
        KeepError::File { path, source } if source.kind() == ErrorKind::PermissionDenied => {
            Failure::Refused(format!(
                "{}: {source}: this needs CAP_NET_ADMIN in this network namespace and write \
                 permission there, as root has; nothing was changed",
                path.display()
            ))
        }
        other => Failure::Other(other.into()),
    }
}

/// Returns the failure of an error in a command that only reads. Missing read permission is an
/// error, not a refused change.
pub fn unread(error: KeepError) -> Failure {
    match error {
        KeepError::File { path, source } if source.kind() == ErrorKind::PermissionDenied => {
            Failure::Other(anyhow::anyhow!(
                "{}: {source}: this needs read permission, as root has; CAP_DAC_READ_SEARCH also \
                 suffices",
                path.display()
            ))
        }
        other => asked(refused(other)),
    }
}

/// Turns a refusal into an ordinary error, for commands that asked for no change.
pub fn asked(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(text) => Failure::Other(anyhow::Error::msg(text)),
        other => other,
    }
}

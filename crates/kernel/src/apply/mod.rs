// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries out a plan: all of it, or none of it.
//!
//! Consecutive steps for the same socket are sent in one call. So no tree or table is half written
//! if the process is killed. If a step fails, or the kernel accepts everything but the result
//! differs, a plan back to the former state is made from the state that is observed then. That is
//! safer than inverting steps.

mod hook_qdisc;
pub(crate) mod parts;
mod tree;

use crate::apply::parts::{Parts, transactions};
use crate::error::{ApplyError, Cause, KernelError, Refusal};
use crate::link;
use crate::netlink::channel::Request;
use crate::nft;
use crate::nft::edit::edits;
use crate::nft::handle::Handles;
use crate::nft::narrow::{self, Written};
use crate::observe::{Observed, Scope};
use crate::programs::{hooks, rows, shaper};
use crate::tc::filters::HookAttachment;
use crate::tc::{self, encode};
use crate::{DeviceIndex, Kernel};
use libc::EEXIST;
use std::collections::BTreeMap;
use weirgate_bpf::{Loader, update_program};
use weirgate_plan::{Action, Options, Plan, Step, plan_with, present, verify};
use weirgate_state::{DeviceName, HookPrograms, Program, ProgramChange, QdiscKind, State, Table};
use weirgate_units::Inserted as _;

/// A plan that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The number of steps.
    pub steps: usize,
    /// The state of the kernel afterwards, which equals the desired one.
    pub after: State,
    /// The generation of nf_tables at which `after` was read; `None` if another program changed a
    /// table during the apply.
    pub generation: Option<u32>,
    /// The handles of the rules in that generation.
    pub handles: Handles,
}

/// What is known about the tables of a plan's former state.
#[derive(Debug, Clone, Default)]
pub struct Since {
    /// The generation of nf_tables at which they were read, if it is the same for all.
    pub generation: Option<u32>,
    /// The handles of their rules in that generation.
    pub handles: Handles,
}

impl Kernel {
    /// Carries out a plan and verifies the result.
    pub async fn apply(&self, plan: &Plan) -> Result<Applied, ApplyError> {
        self.apply_since(plan, &Since::default()).await
    }

    /// Carries out a plan whose former tables were read at a known generation of nf_tables. If no
    /// other program has changed tables since, only what the plan wrote is read back. A plan of
    /// empty states without steps changes and reads nothing.
    pub async fn apply_since(&self, plan: &Plan, since: &Since) -> Result<Applied, ApplyError> {
        let scope = Scope::of([&plan.before, &plan.desired]);
        if plan.steps.is_empty() && scope.is_empty() {
            return Ok(Applied {
                steps: 0,
                after: State::default(),
                generation: None,
                handles: Handles::new(),
            });
        }
        let cause = match self.attempt(plan, &scope, since).await {
            Ok(observed) => {
                return Ok(Applied {
                    steps: plan.steps.len(),
                    after: observed.state,
                    generation: observed.generation,
                    handles: observed.handles,
                });
            }
            Err(cause) => cause,
        };
        match self.go_back(&plan.before, &scope).await {
            Ok(()) => Err(ApplyError::Restored { cause }),
            Err(Cause::Differs(differences)) => Err(ApplyError::Lost {
                cause,
                because: None,
                differences,
            }),
            Err(because) => Err(ApplyError::Lost {
                cause,
                because: Some(because),
                differences: Vec::new(),
            }),
        }
    }

    async fn attempt(&self, plan: &Plan, scope: &Scope, since: &Since) -> Result<Observed, Cause> {
        self.check_hook_qdiscs(plan).await?;
        let mut written = Written::default();
        self.execute(&plan.steps, &since.handles, &mut written)
            .await?;
        let after = self.read_back(plan, scope, since, written).await?;
        let differences = verify(&after.state, &plan.desired);
        if differences.is_empty() {
            Ok(after)
        } else {
            Err(Cause::Differs(differences))
        }
    }

    /// Reads the state after a plan's steps.
    async fn read_back(
        &self,
        plan: &Plan,
        scope: &Scope,
        since: &Since,
        written: Written,
    ) -> Result<Observed, KernelError> {
        // Every transaction of nf_tables increments the generation by one. It skips 0 when it wraps
        // around.
        let own = since
            .generation
            .and_then(|before| before.checked_add(transactions(plan)));
        if own.is_none() || own != Some(self.generation().await?) {
            return self.observe_knowing(scope, None).await;
        }
        let parts = Parts::after(plan, &since.handles, written);
        let mut handles = Handles::new();
        let state = self.observe_with(scope, &parts, &mut handles).await?;
        if own != Some(self.generation().await?) {
            return self.observe_knowing(scope, None).await;
        }
        Ok(Observed {
            state,
            generation: own,
            handles,
        })
    }

    /// Returns to a former state from any present state, within a scope. It is used after an apply
    /// that was interrupted or not confirmed, and needs no record of the steps taken. The state of
    /// a device that has since disappeared is not restored.
    ///
    /// Does nothing if the former state is already in force, or if the scope names nothing, as that
    /// of a change of links alone. weirgate's IFB devices are read in any scope, and would be
    /// removed otherwise.
    pub async fn go_back(&self, before: &State, scope: &Scope) -> Result<(), Cause> {
        if scope.is_empty() {
            return Ok(());
        }
        let devices = self.devices().await?.into_keys().inserted();
        let before = &present(before, &devices);
        let now = self.observe(scope).await?;
        // If the first step was refused, nothing changed. The present state may have parts that no
        // plan could create again.
        if verify(&now, before).is_empty() {
            // Remove programs that were loaded but not attached.
            return Ok(self.tidy().await?);
        }
        let options = Options {
            previous: None,
            replace_foreign: true,
        };
        let back = plan_with(&now, before, &options).map_err(Cause::NoPlanBack)?;
        let (handles, mut written) = (Handles::new(), Written::default());
        self.execute(&back.steps, &handles, &mut written).await?;
        let differences = verify(&self.observe(scope).await?, before);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(Cause::Differs(differences))
        }
    }

    /// Fails if a device already has the name, or has it as an alternative name:
    /// the requests after a refused creation would reach that device.
    async fn free(&self, step: &Step, name: &DeviceName) -> Result<(), KernelError> {
        let ask = link::find(name);
        if self.route.get(&ask, name.as_str(), true).await?.is_empty() {
            return Ok(());
        }
        Err(KernelError::Refused(Refusal {
            object: step.action.to_string(),
            errno: EEXIST,
            text: Some("another device has this name".to_owned()),
            denial: None,
            origin: step.origin.clone(),
        }))
    }

    /// Attaches, updates or detaches the programs at a device's clsact qdisc.
    async fn set_hooks(
        &self,
        step: &Step,
        device: &DeviceName,
        (before, after): (Option<&HookPrograms>, Option<&HookPrograms>),
        loader: &mut Loader,
    ) -> Result<(), KernelError> {
        let index = self.index(device).await?;
        let refused = |source| KernelError::Kit {
            object: step.action.to_string(),
            source,
        };
        let (mut attached, mut updates) = (Vec::new(), Vec::new());
        for program in Program::ALL {
            match program.change(before, after) {
                ProgramChange::Keep => {}
                ProgramChange::Attach(wanted) => {
                    if program.row().tracks {
                        self.load_tracking().await;
                    }
                    let files = loader.load(program, wanted, index);
                    let files = files.map_err(|source| hooks::refused(program, step, source))?;
                    attached.push((program, Some((wanted, files))));
                }
                ProgramChange::Update(wanted) => updates.push((program, wanted)),
                ProgramChange::Detach => attached.push((program, None)),
            }
        }
        // A qdisc that this step creates takes all filters.
        let attachment = match before {
            Some(_) => self.attachment(index).await?,
            None => HookAttachment::default(),
        };
        let change = tc::filters::change(index, (before, after), &attached, &attachment);
        let mut batch = requests(step, change);
        if let Err(error) = self.flush(&mut batch).await {
            // Remove the clsact qdisc if this request created it.
            let made = !matches!(
                &error,
                KernelError::Refused(refusal) if refusal.errno == EEXIST
            );
            if before.is_none() && made {
                let remove = requests(step, [tc::filters::remove(index)]);
                self.route.answers(remove).await?;
            }
            return Err(error);
        }
        self.change_tcx(step, index, &attachment.by_tcx, &attached)
            .await?;
        if updates.is_empty() {
            return Ok(());
        }
        let (_, found) = self.at_hooks(index).await?;
        for (program, wanted) in updates {
            update_program(program, wanted, &found.of(program), index).map_err(refused)?;
        }
        Ok(())
    }

    /// Carries out steps, and removes programs that are not used any more. `handles` are the known
    /// handles of rules; those of new rules are added to `written`.
    async fn execute(
        &self,
        steps: &[Step],
        handles: &Handles,
        written: &mut Written,
    ) -> Result<(), KernelError> {
        self.carry_out(steps, handles, written).await?;
        self.tidy().await
    }

    /// Carries out steps alone.
    pub(crate) async fn carry_out(
        &self,
        steps: &[Step],
        handles: &Handles,
        written: &mut Written,
    ) -> Result<(), KernelError> {
        let mut batch = Vec::new();
        let mut loader = hooks::loader(steps);
        for step in steps {
            if let Some((device, kit, there)) = shaper::of_step(&step.action) {
                self.flush(&mut batch).await?;
                let index = self.index(device).await?;
                self.set_kit(step, index, (kit, there)).await?;
                if !there {
                    batch = requests(step, traffic_control(&step.action, index));
                }
                continue;
            }
            if let Some((device, rows)) = rows::of_step(&step.action) {
                self.flush(&mut batch).await?;
                let index = self.index(device).await?;
                batch = self.set_rows(step, index, rows).await?;
                continue;
            }
            match &step.action {
                Action::CreateIfb { device } => {
                    self.flush(&mut batch).await?;
                    self.free(step, device).await?;
                    batch = requests(step, link::create_ifb(device));
                    // Later steps need its interface index.
                    if let Err(error) = self.flush(&mut batch).await {
                        // Remove the device: without its alias, it would count as another
                        // program's.
                        if let Ok(index) = self.index(device).await {
                            batch = requests(step, [link::delete(index)]);
                            self.flush(&mut batch).await?;
                        }
                        return Err(error);
                    }
                }
                Action::SetOffloads { device, offloads } => {
                    self.flush(&mut batch).await?;
                    self.set_offloads(device, *offloads).await?;
                }
                Action::DeleteTable { netdev, name } => {
                    self.flush(&mut batch).await?;
                    let request = nft::encode::delete(*netdev, name);
                    self.nft
                        .batch(nft::encode::transaction(vec![request]))
                        .await?;
                }
                Action::SetTable { table } => {
                    self.flush(&mut batch).await?;
                    self.set_table(table).await?;
                }
                Action::ChangeTable { before, after } => {
                    self.flush(&mut batch).await?;
                    self.change_table(before, after, handles, written).await?;
                }
                Action::ForgetDecisions { mask, values } => {
                    self.flush(&mut batch).await?;
                    self.forget(*mask, values).await?;
                }
                Action::SetHooks {
                    device,
                    before,
                    after,
                } => {
                    self.flush(&mut batch).await?;
                    let change = (before.as_ref(), after.as_ref());
                    self.set_hooks(step, device, change, &mut loader).await?;
                }
                Action::DeleteIfb { device } => {
                    let index = self.index(device).await?;
                    batch.extend(requests(step, [link::delete(index)]));
                }
                action => {
                    let Some(device) = action.device() else {
                        continue;
                    };
                    let index = self.index(device).await?;
                    batch.extend(requests(step, traffic_control(action, index)));
                }
            }
        }
        self.flush(&mut batch).await
    }

    /// Removes programs that are not used any more.
    pub(crate) async fn tidy(&self) -> Result<(), KernelError> {
        self.tidy_tcx().await?;
        self.tidy_kit().await?;
        self.tidy_rows().await
    }

    /// Replaces a whole table, in one transaction.
    async fn set_table(&self, table: &Table) -> Result<(), KernelError> {
        let index = self.indexes().await?;
        let requests = nft::encode::set(table, |name| index.get(name).copied())?;
        self.nft.batch(nft::encode::transaction(requests)).await
    }

    /// Writes the differences between two tables, in one transaction. What is learnt about new
    /// rules is added to `written`.
    async fn change_table(
        &self,
        before: &Table,
        after: &Table,
        handles: &Handles,
        written: &mut Written,
    ) -> Result<(), KernelError> {
        let index = self.indexes().await?;
        let index = |name: &DeviceName| index.get(name).copied();
        let Some(change) = before.change_to(after) else {
            let requests = nft::encode::set(after, index)?;
            self.nft.batch(nft::encode::transaction(requests)).await?;
            return Ok(());
        };
        let edits = edits(&self.nft, before, after, &change, handles).await?;
        let short = narrow::is_short(&edits);
        let requests = nft::encode::change(before, after, &change, (&edits, short), index)?;
        let heard = self.nft.echoes(nft::encode::transaction(requests)).await?;
        let own = (before.netdev, before.name.as_str());
        if short {
            written.left.extend(narrow::left(own, edits, &heard));
        }
        written.changes.insert((own.0, before.name.clone()), change);
        Ok(())
    }

    /// Returns all interface indexes by name.
    async fn indexes(&self) -> Result<BTreeMap<DeviceName, u32>, KernelError> {
        let links = self.links().await?.into_iter();
        Ok(links.map(|link| (link.name, link.index)).inserted())
    }

    async fn index(&self, device: &DeviceName) -> Result<u32, KernelError> {
        let DeviceIndex(index) = self.device(device).await?;
        Ok(index)
    }

    /// Sends the collected requests in one call.
    async fn flush(&self, batch: &mut Vec<Request>) -> Result<(), KernelError> {
        self.route.batch(std::mem::take(batch)).await
    }
}

pub(crate) fn requests(
    step: &Step,
    messages: impl IntoIterator<Item = nlink::netlink::MessageBuilder>,
) -> Vec<Request> {
    messages
        .into_iter()
        .map(|message| Request {
            message,
            object: step.action.to_string(),
            origin: step.origin.clone(),
            frame: false,
        })
        .collect()
}

/// Returns the messages of a step about qdiscs and classes; none for other steps.
fn traffic_control(action: &Action, index: u32) -> Vec<nlink::netlink::MessageBuilder> {
    if let Action::AddQdisc { qdisc, .. } | Action::ReplaceQdisc { qdisc, .. } = action
        && let QdiscKind::Listed(listed) = &qdisc.kind
    {
        let replace = matches!(action, Action::ReplaceQdisc { .. });
        return tc::listed::requests(index, listed, replace);
    }
    vec![match action {
        Action::AddQdisc { parent, qdisc, .. } => encode::add_qdisc(index, *parent, qdisc),
        Action::ReplaceQdisc { parent, qdisc, .. } => encode::replace_qdisc(index, *parent, qdisc),
        Action::ChangeQdisc { parent, qdisc, .. } => encode::change_qdisc(index, *parent, qdisc),
        Action::ChangeStab { handle, stab, .. } => {
            encode::change_stab(index, *handle, stab.as_ref())
        }
        Action::DeleteQdisc { parent, handle, .. } => encode::delete_qdisc(index, *parent, *handle),
        Action::AddClass { class, .. } => encode::add_class(index, class),
        Action::ChangeClass { class, .. } => encode::change_class(index, class),
        Action::DeleteClass { id, .. } => encode::delete_class(index, *id),
        Action::DeleteTable { .. }
        | Action::CreateIfb { .. }
        | Action::SetOffloads { .. }
        | Action::SetTable { .. }
        | Action::ChangeTable { .. }
        | Action::ForgetDecisions { .. }
        | Action::SetHooks { .. }
        | Action::DeleteIfb { .. } => return Vec::new(),
    }]
}

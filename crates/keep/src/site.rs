// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changing the kernel's state for good: planned, remembered, guarded,
//! confirmed, taken back.

use crate::clock;
use crate::error::KeepError;
use crate::guard::{self, Charge, Charged, Guard, Left, Reached, Starting};
use crate::service::names::{self, Names};
use crate::store::folder::{Lock, Place};
use crate::store::history::{Entry, Head, History, Outcome, Pending, Source};
use crate::store::memory::{self, Kept, Memory};
use crate::store::table_text::{self, Text};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use weirgate_kernel::{Applied, ApplyError, Handles, Kernel, KnownTables, Scope, Since, Stamp};
use weirgate_plan::{Options, Plan, plan_with, present, verify, with_former};
use weirgate_state::{Capabilities, Content, Device, DeviceName, QdiscKind, State};

/// How long a command waits for another. The largest change takes less.
const PATIENCE: Duration = Duration::from_secs(3);

/// One network namespace with what is kept of it.
pub struct Site {
    /// Its folders.
    pub place: Place,
    /// Its applied states.
    pub history: History,
    /// Its kernel.
    pub kernel: Kernel,
    /// The program that can be run as a guard.
    program: PathBuf,
    /// What the kernel was found to offer and is not remembered yet.
    pub(crate) found: OnceLock<Capabilities>,
    /// What is in force in place of an entry's state, since the line has
    /// another rate than its policy says; and which entry.
    pub(crate) rates: Mutex<Option<(u64, State)>>,
    /// The guard of the last change, until the sockets above are closed: fields
    /// go in this order.
    left: Mutex<Option<Left>>,
}

/// A change that is planned but not made.
#[derive(Debug, Clone)]
pub struct Planned {
    /// From what is there to what is wanted.
    pub plan: Plan,
    /// What was asked for, without what is restored besides.
    pub wanted: State,
    /// What the devices had before weirgate.
    pub former: State,
    /// What is known of the tables that the plan starts from.
    since: Since,
    /// What was remembered when it was made.
    memory: Option<Kept>,
    /// The text of the wanted tables.
    tables: Text,
}

/// What an apply is made for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The policy's texts.
    pub sources: Vec<Source>,
    /// The entry that is gone back to.
    pub from: Option<u64>,
    /// How long the change stays unless it is confirmed.
    pub confirm: Option<Duration>,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// How many steps it took.
    pub steps: usize,
    /// Its entry.
    pub number: u64,
    /// Whether it waits for confirmation.
    pub unconfirmed: bool,
}

impl Planned {
    /// Whether it leads to lists of what DNS names or control groups stand for.
    pub fn has_names(&self) -> bool {
        names::sets(&self.plan.desired).next().is_some()
    }
}

impl Site {
    /// The calling thread's namespace. `program` is run as `program guard`.
    /// Needs a tokio runtime.
    pub fn open(state: &std::path::Path, program: PathBuf) -> Result<Self, KeepError> {
        let place = Place::here(state)?;
        Ok(Self {
            history: History::of(&place),
            kernel: Kernel::open()?,
            place,
            program,
            found: OnceLock::new(),
            rates: Mutex::new(None),
            left: Mutex::new(None),
        })
    }

    /// The right to change this kernel. Another weirgate that is at work is
    /// waited for, but not for ever.
    pub async fn lock(&self) -> Result<Lock, KeepError> {
        self.place.soon(PATIENCE).await
    }

    /// Looks up the DNS names of a state, and says which were not found, `None`
    /// where it has none. What was found before is kept for those.
    pub async fn look_up(
        &self,
        state: &State,
        patience: Duration,
    ) -> Result<Option<Vec<String>>, KeepError> {
        let (names, _) = names::wanted(state);
        if names.is_empty() {
            return Ok(None);
        }
        let answers = names::look_up(names, patience).await;
        self.learn(&answers).map(Some)
    }

    /// Remembers answers; says what was not found.
    pub(crate) fn learn(&self, answers: &names::Answers) -> Result<Vec<String>, KeepError> {
        let mut names = Names::read(&self.place);
        names.learn(&self.place, answers)?;
        let failed = answers
            .iter()
            .filter_map(|(name, answer)| Some(format!("{name}: {}", answer.as_ref().err()?)));
        Ok(failed.collect())
    }

    /// Puts the addresses that are known of DNS names, and the numbers that
    /// control groups have now, into the sets of what is applied; how many sets
    /// had others. Nothing else is touched.
    pub async fn refill(&self, _lock: &Lock) -> Result<usize, KeepError> {
        let Some(memory) = Memory::read(&self.place)? else {
            return Ok(0);
        };
        let known = Names::read(&self.place);
        if names::sets(&memory.applied).next().is_none() {
            return Ok(0);
        }
        let applied = Scope::of([&memory.applied]);
        let vouched = self.vouched(&applied).await?;
        let scope = Scope {
            tables: applied.tables.clone(),
            ..Scope::default()
        };
        let observed = match vouched {
            Some(_) => self.refreshed(&memory.applied).await?,
            None => self.kernel.observe(&scope).await?,
        };
        let mut changed: u32 = 0;
        for (table, set) in names::sets(&memory.applied) {
            let has = observed
                .tables
                .iter()
                .filter(|other| (other.netdev, &other.name) == (table.netdev, &table.name))
                .flat_map(|other| &other.sets)
                .find(|other| other.name == set.name);
            let wanted = known.of(set);
            if let Some(Content::Refreshed(has)) = has.map(|has| &has.content)
                && !has.found.iter().eq(wanted.iter())
            {
                let wanted: Vec<u128> = wanted.into_iter().collect();
                memory::forget(&self.place)?;
                self.kernel.refill(table, set, &wanted).await?;
                changed += 1;
            }
        }
        // Each is one transaction; any more were another program's.
        if let Some((before, handles)) = vouched.filter(|_| changed > 0) {
            let generation = before.generation.checked_add(changed);
            let since = Since {
                generation,
                handles,
            };
            self.vouch(&applied, &since).await?;
        }
        Ok(changed as usize)
    }

    /// The sets of DNS names and control groups as they are, of tables that are known to be there.
    async fn refreshed(&self, applied: &State) -> Result<State, KeepError> {
        let mut found = State::default();
        for table in &applied.tables {
            let mut has = table.emptied();
            for (_, set) in names::sets(applied).filter(|(own, _)| *own == table) {
                has.sets.push(self.kernel.refreshed(table, set).await?);
            }
            found.tables.push(has);
        }
        Ok(found)
    }

    /// The stamp of these tables, if it is the one under which the kernel was
    /// found to hold what the memory says.
    async fn vouched(&self, scope: &Scope) -> Result<Option<(Stamp, Handles)>, KeepError> {
        let Some(seen) = memory::seen(&self.place) else {
            return Ok(None);
        };
        let now = self.kernel.stamp(scope).await?;
        Ok(Some(seen).filter(|(seen, _)| now == *seen))
    }

    /// Remembers that the kernel was found to hold what the memory says, in
    /// this generation of nf_tables, unless there is another one already.
    async fn vouch(&self, scope: &Scope, since: &Since) -> Result<(), KeepError> {
        let Some(generation) = since.generation else {
            return Ok(());
        };
        let stamp = self.kernel.stamp(scope).await?;
        if stamp.generation == generation {
            memory::see(&self.place, stamp, since.handles.clone())?;
        }
        Ok(())
    }

    /// Compares what is wanted with what is there. With `adopt`, root qdiscs
    /// that weirgate did not make may be replaced.
    pub async fn plan(&self, wanted: &State, adopt: bool) -> Result<Planned, KeepError> {
        // A table is made with the addresses that are known of its names.
        let mut wanted = Names::read(&self.place).fill(wanted);
        // In the form in which they are compared, over and over.
        for table in &mut wanted.tables {
            table.sets = table.canonical().sets;
        }
        let wanted = &wanted;
        let tables = table_text::of(&wanted.tables).map_err(|error| KeepError::File {
            path: self.place.run.clone(),
            source: error.into(),
        })?;
        let memory = Memory::read_knowing(&self.place, &wanted.tables, &tables)?;
        let applied = memory.as_ref().map(|kept| &kept.memory.applied);
        let empty = State::default();
        let applied_or_none = applied.unwrap_or(&empty);
        let scope = Scope::of([wanted, applied_or_none]);
        // Tables are not read again that nobody has touched since they were.
        let vouched = self.vouched(&Scope::of([applied_or_none])).await?;
        let known = vouched.as_ref().map(|(stamp, handles)| KnownTables {
            generation: stamp.generation,
            tables: &applied_or_none.tables,
            handles,
        });
        let observed = self.kernel.observe_knowing(&scope, known).await?;
        let since = Since {
            generation: observed.generation,
            handles: observed.handles,
        };
        let observed = observed.state;
        let mut former = memory
            .as_ref()
            .map_or_else(State::default, |kept| kept.memory.former.clone());
        for (name, device) in &observed.devices {
            if !device.owned_ifb {
                former
                    .devices
                    .entry(name.clone())
                    .or_insert_with(|| found(name, device, &observed, wanted));
            }
        }
        for (name, place) in &observed.hooks {
            if place.is_bare() {
                former
                    .hooks
                    .entry(name.clone())
                    .or_insert_with(|| place.clone());
            }
        }
        let desired = with_former(wanted, &former);
        // A device that is no longer wanted and has gone needs nothing.
        let desired = State {
            devices: desired
                .devices
                .into_iter()
                .filter(|(name, _)| {
                    wanted.devices.contains_key(name) || observed.devices.contains_key(name)
                })
                .collect(),
            hooks: desired
                .hooks
                .into_iter()
                .filter(|(name, _)| observed.devices.contains_key(name))
                .collect(),
            ..desired
        };
        let options = Options {
            previous: applied,
            replace_foreign: adopt,
        };
        let plan = plan_with(&observed, &desired, &options).map_err(KeepError::NoPlan)?;
        Ok(Planned {
            plan,
            wanted: wanted.clone(),
            former,
            since,
            memory,
            tables,
        })
    }

    /// The change that waits for confirmation or is under way, with the
    /// seconds that are left; `None` where nothing waits, or its guard is gone.
    pub fn unconfirmed(&self) -> Result<Option<(Pending, u64)>, KeepError> {
        let Some(pending) = self.history.head()?.pending else {
            return Ok(None);
        };
        let left = pending.deadline.unwrap_or(0).saturating_sub(clock::now());
        let waits = pending.boot == self.place.boot && left > 0;
        Ok(waits.then_some((pending, left.div_ceil(1_000_000_000))))
    }

    /// Makes a planned change and reads it back. `lock` is held from before
    /// the plan was made.
    pub async fn apply(
        &self,
        _lock: &Lock,
        planned: Planned,
        request: Request,
    ) -> Result<Made, KeepError> {
        self.nothing_waits()?;
        let head = self.history.head()?;
        let before = planned.memory.as_ref();
        let known = before.map(|kept| &kept.memory.applied);
        let confirmed = head.confirmed.filter(|_| request.confirm.is_none());
        if let (true, Some(number)) = (planned.plan.steps.is_empty(), confirmed)
            && known == Some(&planned.plan.desired)
            && self.same(number, &request.sources, &planned)
        {
            let scope = Scope::of([&planned.plan.desired]);
            if memory::seen(&self.place).is_none() {
                self.vouch(&scope, &planned.since).await?;
            }
            return Ok(Made {
                steps: 0,
                number,
                unconfirmed: false,
            });
        }
        let remembered = known.is_some_and(|applied| {
            table_text::shared(&applied.tables, &planned.plan.before.tables)
        });
        let charge_before = if remembered {
            guard::outline(&planned.plan.before)
        } else {
            planned.plan.before.clone()
        };
        let entry = Entry {
            number: 0,
            time: clock::unix(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            from: request.from,
            sources: request.sources,
            desired: planned.wanted.clone(),
            former: planned.former.clone(),
        };
        let alone = planned.plan.steps.is_empty() && request.confirm.is_none();
        let starting = self.guard(alone)?;
        let number = self.history.add(entry, &head, &planned.tables)?.number;
        let mut pending = Pending {
            number,
            boot: self.place.boot.clone(),
            deadline: None,
        };
        let mut under_way = head.clone();
        under_way.pending = Some(pending.clone());
        self.history.set_head(&under_way)?;
        let charge = Charge {
            place: self.place.clone(),
            number: Some(number),
            before: charge_before,
            remembered,
            desired: guard::outline(&planned.plan.desired),
            memory: before.map(|kept| Arc::clone(&kept.text)),
            head,
        };
        let after = self.text(&planned)?;
        let guard = self.make(starting, &charge, &planned, Some(&after)).await?;
        self.remember_answers();
        let deadline = request.confirm.map(guard::deadline);
        let mut settled = charge.head;
        if deadline.is_some() {
            pending.deadline = deadline;
            settled.pending = Some(pending);
        } else {
            settled.settle(number, Outcome::Confirmed);
        }
        self.history.set_head(&settled)?;
        if let Some(guard) = guard {
            let left = guard.applied(deadline)?;
            self.leave(left).await;
        }
        Ok(Made {
            steps: planned.plan.steps.len(),
            number,
            unconfirmed: deadline.is_some(),
        })
    }

    /// Takes everything away that weirgate made, by the plan of
    /// [`Site::plan`] for an empty state. The history has it as an entry
    /// without a state, so that it can be told and gone back to; nothing is in
    /// force then, and nothing is restored when the machine starts.
    pub async fn remove(&self, _lock: &Lock, planned: &Planned) -> Result<(), KeepError> {
        self.nothing_waits()?;
        let plan = &planned.plan;
        let starting = self.guard(plan.steps.is_empty())?;
        let mut head = self.history.head()?;
        let charge = Charge {
            place: self.place.clone(),
            number: None,
            before: plan.before.clone(),
            remembered: false,
            desired: guard::outline(&plan.desired),
            memory: planned.memory.as_ref().map(|kept| Arc::clone(&kept.text)),
            head: head.clone(),
        };
        // The memory stays as it is until nothing is left to remember.
        let memory = charge.memory.clone();
        let guard = self
            .make(starting, &charge, planned, memory.as_deref())
            .await?;
        if head.confirmed.is_some() {
            let entry = Entry {
                number: 0,
                time: clock::unix(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                from: None,
                sources: Vec::new(),
                desired: State::default(),
                former: planned.former.clone(),
            };
            let number = self.history.add(entry, &head, &planned.tables)?.number;
            head.settle(number, Outcome::Confirmed);
        }
        head.confirmed = None;
        head.pending = None;
        self.history.set_head(&head)?;
        Memory::write(&self.place, None)?;
        if let Some(guard) = guard {
            let left = guard.applied(None)?;
            self.leave(left).await;
        }
        Ok(())
    }

    /// Leaves the closing of the socket of nf_tables to the guard, because it
    /// takes long. Where that fails, it is done here.
    async fn leave(&self, left: Left) {
        if let Ok(socket) = self.kernel.hold().await
            && left.take(&socket).is_ok()
            && let Ok(mut held) = self.left.lock()
        {
            *held = Some(left);
        }
    }

    /// Starts a guard, unless the change needs none. What is written next is
    /// written while it starts.
    fn guard(&self, alone: bool) -> Result<Option<Starting>, KeepError> {
        let needed = (!alone).then(|| Guard::start(&self.program));
        needed.transpose()
    }

    /// Carries out a plan under guard. If it fails, everything that is kept is
    /// as before, and the guard is dismissed.
    async fn make(
        &self,
        starting: Option<Starting>,
        charge: &Charge,
        planned: &Planned,
        after: Option<&[u8]>,
    ) -> Result<Option<Guard>, KeepError> {
        let plan = &planned.plan;
        let charged = starting.map(|starting| starting.charge(charge)).transpose();
        let charged = charged.inspect_err(|error| self.failed(charge, &error.to_string()))?;
        // Written before anything changes: whatever happens next, it is known
        // what to go back to.
        let written = Memory::write_text(&self.place, after);
        let guard = written.and_then(|()| charged.map(Charged::ready).transpose());
        let guard = guard.inspect_err(|error| self.failed(charge, &error.to_string()))?;
        let applied = self.kernel.apply_since(plan, &planned.since).await;
        let error = match applied {
            Ok(applied) => {
                // Only an entry's change is remembered as it is desired.
                if charge.number.is_some() {
                    self.settled(plan, &applied).await;
                }
                return Ok(guard);
            }
            Err(error) => error,
        };
        if matches!(error, ApplyError::Restored { .. }) {
            self.failed(charge, &error.to_string());
        } else if let Some(number) = charge.number {
            let mut head = charge.head.clone();
            head.settle(number, Outcome::Lost(error.to_string()));
            // The first error is the one to report.
            let _ = self.history.set_head(&head);
        }
        if let Some(guard) = guard {
            guard.dismiss();
        }
        Err(error.into())
    }

    /// Remembers the stamp of what was read back and is what the memory says.
    async fn settled(&self, plan: &Plan, applied: &Applied) {
        let scope = Scope::of([&plan.desired]);
        // Without it, the tables are read again: the change stands.
        let since = Since {
            generation: applied.generation,
            handles: applied.handles.clone(),
        };
        let _ = self.vouch(&scope, &since).await;
    }

    /// What is remembered when a planned change is made.
    fn text(&self, planned: &Planned) -> Result<Arc<[u8]>, KeepError> {
        let applied = &planned.plan.desired;
        Memory::text(&self.place, &planned.former, applied, &planned.tables)
    }

    /// What is kept goes back to what it was before a change that failed.
    fn failed(&self, charge: &Charge, why: &str) {
        let mut head = charge.head.clone();
        if let Some(number) = charge.number {
            head.settle(number, Outcome::Failed(why.to_owned()));
        }
        // The failure of the change is the one to report.
        let _ = self.history.set_head(&head);
        let _ = Memory::write_text(&self.place, charge.memory.as_deref());
    }

    /// Whether an entry is of these texts and leads to what is planned.
    fn same(&self, number: u64, sources: &[Source], planned: &Planned) -> bool {
        let wanted = &planned.wanted;
        self.history.is(number, sources, wanted, &planned.tables)
            || self
                .history
                .entry(number)
                .is_ok_and(|entry| entry.sources == sources && entry.desired == *wanted)
    }

    /// Refuses a change while another waits for confirmation.
    pub fn nothing_waits(&self) -> Result<(), KeepError> {
        match self.unconfirmed()? {
            Some((pending, seconds)) => Err(KeepError::Unconfirmed {
                number: pending.number,
                seconds,
            }),
            None => Ok(()),
        }
    }

    /// Confirms the change that waits for it; its number.
    pub fn confirm(&self) -> Result<u64, KeepError> {
        let nothing = || KeepError::Nothing("nothing waits to be confirmed".to_owned());
        let head = self.history.head()?;
        let Some(pending) = head.pending.clone() else {
            return Err(nothing());
        };
        let number = pending.number;
        if let Reached::Done = guard::confirm(&self.place)? {
            return Ok(number);
        }
        // The guard is gone. If it did its duty before, nothing is pending.
        let _lock = self.place.lock()?;
        let mut head = self.history.head()?;
        let waits = |now: &Pending| now.number == number && now.boot == self.place.boot;
        if !head.pending.as_ref().is_some_and(waits) || pending.deadline.is_none() {
            return Err(nothing());
        }
        head.settle(number, Outcome::Confirmed);
        self.history.set_head(&head)?;
        Ok(number)
    }

    /// Takes the change that waits for confirmation back; `None` where nothing
    /// waits or its guard is gone.
    pub fn take_back(&self) -> Result<Option<u64>, KeepError> {
        let Some(pending) = self.history.head()?.pending else {
            return Ok(None);
        };
        Ok(match guard::give_back(&self.place)? {
            Reached::Done => Some(pending.number),
            Reached::Gone => None,
        })
    }

    /// The state that shall be in force: the confirmed entry. What a crash or
    /// a reboot left unconfirmed is not.
    pub fn confirmed(&self) -> Result<Option<Entry>, KeepError> {
        let head = self.history.head()?;
        head.confirmed
            .map(|number| self.history.entry(number))
            .transpose()
    }

    /// Brings the confirmed state into force, as far as its devices are there;
    /// how many steps it took. Nothing is written to the history but that a
    /// change which nobody confirmed is over.
    ///
    /// This is what starts at boot, and what follows a crash of everything.
    pub async fn restore(&self, _lock: &Lock) -> Result<usize, KeepError> {
        let mut head = self.history.head()?;
        let interrupted = head.pending.clone();
        let Some(entry) = self.confirmed()? else {
            if let Some(pending) = interrupted {
                self.give_up(&pending).await?;
                head.settle(pending.number, Outcome::Returned);
                self.history.set_head(&head)?;
            }
            return Ok(0);
        };
        let steps = self.follow(&self.at_rates(&entry)).await?;
        if let Some(pending) = interrupted {
            head.settle(pending.number, Outcome::Returned);
            self.history.set_head(&head)?;
        }
        Ok(steps)
    }

    /// Takes away what an unconfirmed first change of this run of the kernel
    /// left, where nothing was confirmed before.
    async fn give_up(&self, pending: &Pending) -> Result<(), KeepError> {
        if pending.boot != self.place.boot || Memory::read(&self.place)?.is_none() {
            return Ok(());
        }
        let planned = self.plan(&State::default(), false).await?;
        self.kernel.apply(&planned.plan).await?;
        Memory::write(&self.place, None)
    }

    /// Brings a state into force as far as its devices are there; how many
    /// steps it took. For what comes and goes by itself: no entry is written.
    pub async fn follow(&self, desired: &State) -> Result<usize, KeepError> {
        let devices = self.kernel.devices().await?.into_keys().collect();
        let planned = self.plan(&present(desired, &devices), false).await?;
        let remembered = planned.memory.as_ref().is_some_and(|kept| {
            kept.memory.former == planned.former && kept.memory.applied == planned.plan.desired
        });
        if !remembered {
            Memory::write_text(&self.place, Some(&self.text(&planned)?))?;
        }
        let (plan, since) = (&planned.plan, &planned.since);
        if plan.steps.is_empty() {
            if memory::seen(&self.place).is_none() {
                self.vouch(&Scope::of([&plan.desired]), since).await?;
            }
            return Ok(0);
        }
        memory::forget(&self.place)?;
        let applied = self.kernel.apply_since(plan, since).await?;
        self.settled(plan, &applied).await;
        Ok(applied.steps)
    }

    /// Which entry is what.
    pub fn head(&self) -> Result<Head, KeepError> {
        self.history.head()
    }
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
        as_wanted || (matches!(root.kind, QdiscKind::Htb(_) | QdiscKind::Kit(_)) && marked())
    });
    if !own {
        return device.clone();
    }
    // Nobody knows any more which offloads weirgate switched.
    Device {
        root: None,
        offloads: None,
        ..device.clone()
    }
}

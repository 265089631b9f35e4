// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changing the kernel's state for good: planned, remembered, guarded,
//! confirmed, taken back.

use crate::clock;
use crate::error::KeepError;
use crate::guard::{self, Charge, Charged, Guard, Left, Starting};
use crate::service::names::{self, Names};
use crate::store::folder::{Lock, Place};
use crate::store::head::{Head, Outcome, Pending, Standing};
use crate::store::history::{Entry, History, Source};
use crate::store::memory::{self, Kept, Memory};
use crate::store::table_text::{self, Text};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use weirgate_kernel::{Applied, ApplyError, Handles, Kernel, KnownTables, Scope, Since, Stamp};
use weirgate_plan::{Options, Plan, plan_with, present, verify, with_former};
use weirgate_state::{Capabilities, Content, Device, DeviceName, QdiscKind, State};

const SECOND: u64 = 1_000_000_000;

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
    /// What was applied before it.
    fn applied(&self) -> Option<&State> {
        self.memory.as_ref().map(|kept| &kept.memory.applied)
    }

    /// What a guard of it is to know.
    fn charge(&self, place: &Place, head: Head) -> Charge {
        let before = &self.plan.before;
        let remembered = self
            .applied()
            .is_some_and(|applied| table_text::shared(&applied.tables, &before.tables));
        Charge {
            place: place.clone(),
            before: if remembered {
                guard::outline(before)
            } else {
                before.clone()
            },
            remembered,
            desired: guard::outline(&self.plan.desired),
            memory: self.memory.as_ref().map(|kept| Arc::clone(&kept.text)),
            head,
        }
    }

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
    /// waited for, but not for ever. A change that was not confirmed in time, or
    /// whose maker died, is taken back first.
    pub async fn lock(&self) -> Result<Lock, KeepError> {
        Ok(self.lock_and_settle().await?.0)
    }

    /// The same; with the number of the change that was taken back.
    pub(crate) async fn lock_and_settle(&self) -> Result<(Lock, Option<u64>), KeepError> {
        let lock = self.place.soon(PATIENCE).await?;
        let mut head = self.history.head()?;
        let number = head.pending.as_ref().map(|pending| pending.number);
        match head.standing(&self.place.boot, clock::now()) {
            Standing::Settled | Standing::Waiting(_) => return Ok((lock, None)),
            Standing::Due => {
                if let Err(error) = self.restore(&lock).await {
                    // Another try would fail as well, and keep every command
                    // from working.
                    let lost = Outcome::Lost(error.to_string());
                    head.settle(number.unwrap_or(head.generation), lost);
                    self.history.set_head(&lock, &head)?;
                    return Err(error);
                }
            }
            Standing::Restarted => {
                head.lapse();
                self.history.set_head(&lock, &head)?;
            }
        }
        Ok((lock, number))
    }

    /// Looks up the DNS names of a state, for [`Site::learn`].
    pub async fn look_up(&self, state: &State, patience: Duration) -> names::Answers {
        names::look_up(names::wanted(state).0, patience).await
    }

    /// Remembers answers; says what was not found. What was found before is
    /// kept for those.
    pub fn learn(&self, lock: &Lock, answers: &names::Answers) -> Result<Vec<String>, KeepError> {
        if answers.is_empty() {
            return Ok(Vec::new());
        }
        let mut names = Names::read(&self.place);
        names.learn(&self.place, lock, answers)?;
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

    /// The change that waits for confirmation, with the seconds that are left;
    /// `None` where nothing waits. One whose time is over waits until it is
    /// taken back, with 0 seconds.
    pub fn unconfirmed(&self) -> Result<Option<(Pending, u64)>, KeepError> {
        let head = self.history.head()?;
        let left = match head.standing(&self.place.boot, clock::now()) {
            Standing::Settled | Standing::Restarted => return Ok(None),
            Standing::Due => 0,
            Standing::Waiting(left) => left,
        };
        Ok(head.pending.map(|it| (it, left.div_ceil(SECOND))))
    }

    /// Makes a planned change and reads it back. `lock` is held from before
    /// the plan was made.
    pub async fn apply(
        &self,
        lock: &Lock,
        planned: Planned,
        request: Request,
    ) -> Result<Made, KeepError> {
        let head = self.history.head()?;
        let known = planned.applied();
        let confirmed = head.confirmed.filter(|_| request.confirm.is_none());
        if let (true, Some(number)) = (planned.plan.steps.is_empty(), confirmed)
            && known == Some(&planned.plan.desired)
            && self.same(number, &request.sources, &planned)
        {
            self.nothing_waits()?;
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
        let after = self.text(&planned)?;
        let confirm = request.confirm;
        let number = self.change(lock, &planned, request, Some(&after)).await?;
        Ok(Made {
            steps: planned.plan.steps.len(),
            number,
            unconfirmed: confirm.is_some(),
        })
    }

    /// Takes everything away that weirgate made, by the plan of
    /// [`Site::plan`] for an empty state. The history has it as an entry
    /// without a state, so that it can be told and gone back to; nothing is in
    /// force then, and nothing is restored when the machine starts.
    pub async fn remove(&self, lock: &Lock, planned: &Planned) -> Result<(), KeepError> {
        // The memory stays as it is until nothing is left to remember.
        let memory = planned.memory.as_ref().map(|kept| Arc::clone(&kept.text));
        let (request, memory) = (Request::default(), memory.as_deref());
        let made = self.change(lock, planned, request, memory).await;
        made.map(|_| ())
    }

    /// Makes a change under guard; its number. Meanwhile the memory is `after`.
    async fn change(
        &self,
        lock: &Lock,
        planned: &Planned,
        request: Request,
        after: Option<&[u8]>,
    ) -> Result<u64, KeepError> {
        self.nothing_waits()?;
        let plan = &planned.plan;
        let alone = plan.steps.is_empty() && request.confirm.is_none();
        let lasts = request.confirm.is_some();
        let starting = (!alone).then(|| Guard::start(&self.program, lasts));
        let starting = starting.transpose()?;
        let before = self.history.head()?;
        let entry = Entry {
            number: 0,
            time: clock::unix(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            from: request.from,
            sources: request.sources,
            desired: planned.wanted.clone(),
            former: planned.former.clone(),
        };
        let removal = entry.is_removal();
        let entry = self.history.add(lock, entry, &before, &planned.tables)?;
        let number = entry.number;
        let mut head = before;
        head.begin(number, &self.place.boot);
        self.history.set_head(lock, &head)?;
        let charge = planned.charge(&self.place, head.clone());
        let guard = self.make(lock, starting, &charge, planned, after).await?;
        let deadline = request.confirm.map(guard::deadline);
        if let Some(pending) = head.pending.as_mut().filter(|_| lasts) {
            pending.deadline = deadline;
        } else {
            head.settle(number, Outcome::Confirmed);
        }
        if removal {
            head.confirmed = None;
            Memory::write(&self.place, lock, None)?;
        } else {
            self.remember_answers();
        }
        self.history.set_head(lock, &head)?;
        if let Some(guard) = guard {
            let left = guard.applied(deadline)?;
            self.leave(left).await;
        }
        Ok(number)
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

    /// Carries out a plan under guard. If it fails, everything that is kept is
    /// as before, and the guard is dismissed.
    async fn make(
        &self,
        lock: &Lock,
        starting: Option<Starting>,
        charge: &Charge,
        planned: &Planned,
        after: Option<&[u8]>,
    ) -> Result<Option<Guard>, KeepError> {
        let plan = &planned.plan;
        let failed = |error: &KeepError| self.failed(lock, charge, &error.to_string());
        let charged = starting.map(|starting| starting.charge(charge)).transpose();
        let charged = charged.inspect_err(failed)?;
        // Written before anything changes: whatever happens next, it is known
        // what to go back to.
        let written = Memory::write(&self.place, lock, after);
        let guard = written.and_then(|()| charged.map(Charged::ready).transpose());
        let guard = guard.inspect_err(failed)?;
        // Starting a guard may have taken long.
        let found = self.history.head()?;
        if !found.awaits(charge.number()) {
            return Err(KeepError::Fenced(found.generation));
        }
        let applied = self.kernel.apply_since(plan, &planned.since).await;
        let error = match applied {
            Ok(applied) => {
                // What is left when all is removed is not what is remembered.
                if planned.wanted != State::default() {
                    self.settled(plan, &applied).await;
                }
                return Ok(guard);
            }
            Err(error) => error,
        };
        if matches!(error, ApplyError::Restored { .. }) {
            self.failed(lock, charge, &error.to_string());
        } else {
            let mut head = charge.head.clone();
            head.settle(charge.number(), Outcome::Lost(error.to_string()));
            // The first error is the one to report.
            let _ = self.history.set_head(lock, &head);
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
    fn failed(&self, lock: &Lock, charge: &Charge, why: &str) {
        let mut head = charge.head.clone();
        head.settle(charge.number(), Outcome::Failed(why.to_owned()));
        // The failure of the change is the one to report.
        let _ = self.history.set_head(lock, &head);
        let _ = Memory::write(&self.place, lock, charge.memory.as_deref());
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
    pub async fn confirm(&self) -> Result<u64, KeepError> {
        let lock = self.lock().await?;
        let mut head = self.history.head()?;
        let Some(pending) = head.pending.clone() else {
            let text = "nothing waits to be confirmed";
            return Err(KeepError::Nothing(text.to_owned()));
        };
        head.settle(pending.number, Outcome::Confirmed);
        self.history.set_head(&lock, &head)?;
        guard::relieve(&self.place, pending.number);
        Ok(pending.number)
    }

    /// Takes the change that waits for confirmation back; `None` where nothing
    /// waits.
    pub async fn take_back(&self) -> Result<Option<u64>, KeepError> {
        let Some(pending) = self.history.head()?.pending else {
            return Ok(None);
        };
        // The guard knows exactly what was there before. What it does not do in
        // time is done here, and it finds it done.
        let asked = guard::give_back(&self.place, pending.number);
        let lock = self.lock().await?;
        if self.history.head()?.awaits(pending.number) {
            self.restore_and(&lock, |_| Outcome::TakenBack).await?;
        }
        match self.history.head()?.outcomes.get(&pending.number) {
            Some(Outcome::Lost(_)) => asked.map(|()| Some(pending.number)),
            Some(Outcome::Confirmed) => Ok(None),
            _ => Ok(Some(pending.number)),
        }
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
    pub async fn restore(&self, lock: &Lock) -> Result<usize, KeepError> {
        self.restore_and(lock, Pending::lapsed).await
    }

    /// The same; what is pending ends like this.
    async fn restore_and(
        &self,
        lock: &Lock,
        outcome: impl FnOnce(&Pending) -> Outcome,
    ) -> Result<usize, KeepError> {
        let mut head = self.history.head()?;
        if head.recall(&self.place.boot, clock::now()) {
            self.history.set_head(lock, &head)?;
        }
        let interrupted = head.pending.clone();
        let steps = match (self.confirmed()?, &interrupted) {
            (Some(entry), _) => self.follow(lock, &self.at_rates(&entry)).await?,
            (None, Some(pending)) => self.give_up(lock, pending).await?,
            (None, None) => 0,
        };
        if let Some(pending) = interrupted {
            head.settle(pending.number, outcome(&pending));
            self.history.set_head(lock, &head)?;
            guard::relieve(&self.place, pending.number);
        }
        Ok(steps)
    }

    /// Takes away what an unconfirmed first change of this run of the kernel
    /// left, where nothing was confirmed before.
    async fn give_up(&self, lock: &Lock, pending: &Pending) -> Result<usize, KeepError> {
        if pending.boot != self.place.boot || Memory::read(&self.place)?.is_none() {
            return Ok(0);
        }
        let planned = self.plan(&State::default(), false).await?;
        let steps = self.kernel.apply(&planned.plan).await?.steps;
        Memory::write(&self.place, lock, None)?;
        Ok(steps)
    }

    /// Brings a state into force as far as its devices are there; how many
    /// steps it took. For what comes and goes by itself: no entry is written.
    async fn follow(&self, lock: &Lock, desired: &State) -> Result<usize, KeepError> {
        let devices = self.kernel.devices().await?.into_keys().collect();
        let planned = self.plan(&present(desired, &devices), false).await?;
        let remembered = planned.memory.as_ref().is_some_and(|kept| {
            kept.memory.former == planned.former && kept.memory.applied == planned.plan.desired
        });
        if !remembered {
            Memory::write(&self.place, lock, Some(&self.text(&planned)?))?;
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate keep`: keeps the applied state in force while devices appear, disappear and change.
//!
//! The service sleeps until the kernel reports a change, or another weirgate process writes to the
//! state folder. Then it compares the machine with the confirmed state, and repairs what differs.
//! While a change waits for confirmation, the service does nothing: the guard of that change
//! restores the former state. If the guard has not done so in time, the service does. If another
//! program keeps undoing the repairs, the pauses between them grow.

pub(crate) mod followed;
pub(crate) mod inotify;
mod known;
pub(crate) mod names;
mod pace;
mod report;
mod sessions;

pub use report::Report;

use crate::circuits::{Circuits, Meters};
use crate::clock::{self, NEVER, Timer};
use crate::error::KeepError;
use crate::pulse::{Heart, Pulse};
use crate::rate::{Following, Rates};
use crate::service::followed::Groups;
use crate::service::inotify::stored;
use crate::service::known::Known;
use crate::service::names::{Answers, Lookups};
use crate::service::pace::{Pace, SWARM};
use crate::service::sessions::Sessions;
use crate::site::Site;
use crate::store::folder::MOMENT;
use crate::store::history::Entry;
use weirgate_kernel::{Events, Kernel, Topic};
use weirgate_track::Decision;

const MILLISECOND: u64 = 1_000_000;
/// How long after the deadline of a change its guard may still act. Then the service takes the
/// change back.
const GRACE: u64 = 250 * MILLISECOND;
/// How often the service checks the programs of circuits and of a policy's classes, if there are
/// any. The kernel sends no notification when a program is detached or replaced.
const LOOK: u64 = 10_000 * MILLISECOND;

/// How the service appears to other programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// The number of the group that may announce sessions, in addition to root.
    pub announcers: Option<u32>,
    /// How a watchdog is notified, and how often.
    pub pulse: Option<Pulse>,
}

/// Keeps the confirmed state in force until `stop` completes. Calls `ready` once the state is in
/// force for the first time.
pub async fn keep(
    site: &Site,
    terms: Terms,
    stop: impl Future<Output = ()>,
    following: impl AsyncFn(&Site, &Entry) -> Result<Option<Following>, KeepError>,
    ready: impl FnOnce(),
    mut report: impl FnMut(Report),
) -> Result<(), KeepError> {
    // Fail early: a permission that is missing now will not appear later.
    site.kernel.permitted().await?;
    // Other commands detect the service by this lock. A second service may run without it, and
    // leaves the socket for announcements to the first.
    let seen = site.folders.lock_held_soon("keep").await;
    // Subscribe before the first comparison, so that no change is missed in between.
    let events = Events::open(Topic::Devices)?;
    let stored = stored(&site.folders)?;
    let timer = Timer::new()?;
    let (deadline, mut tried) = (Timer::new()?, 0);
    let mut lookups = Lookups::new()?;
    let mut pace = Pace::new();
    let mut known = Known::default();
    mend(site, &mut known, &mut pace, &mut report).await;
    want(site, &mut lookups, &mut report)?;
    let mut groups = Groups::new();
    regroup(site, &mut groups, &mut report).await;
    let (_seen, opened) = match seen {
        Ok(lock) => (Some(lock), Sessions::open(&site.folders, terms.announcers)),
        Err(error) => (None, Err(error)),
    };
    let refused = |error| report(Report::NotAnnounced(error));
    let mut sessions = opened.map_err(refused).ok();
    let mut rates = None;
    renew(site, &mut rates, &following, &mut report).await;
    ready();
    let (programs, mut look) = (Timer::new()?, 0);
    let heart = Heart::new(terms.pulse)?;
    let (mut waits, mut change) = (false, None);
    let mut stop = std::pin::pin!(stop);
    loop {
        let returned = returned(site);
        // The service takes a change back once; retries follow the pace of repairs.
        deadline.set(if returned == tried { NEVER } else { returned })?;
        if look <= clock::now() {
            let any = Circuits::are_kept(&site.folders) || Kernel::has_programs();
            look = if any { clock::now() + LOOK } else { 0 };
            programs.set(if any { look } else { NEVER })?;
        }
        let due = tokio::select! {
            () = &mut stop => {
                // The rates stay in force, but nobody adjusts them any more.
                if rates.is_some() {
                    Rates::end(site);
                }
                return known.meters.end(&site.folders);
            }
            () = events.next() => known.returned(site).await,
            () = stored.event() => false,
            over = deadline.over() => {
                over?;
                tried = returned;
                true
            }
            changed = groups.changed() => {
                refill(site, changed, &mut report).await;
                continue;
            }
            answers = lookups.next() => {
                refresh(site, &answers?, &mut report).await;
                continue;
            }
            over = timer.over(), if waits => over.map(|()| true)?,
            over = programs.over() => {
                over?;
                heart.join(LOOK)?;
                // What failed is reported, and retried at the pace of repairs.
                if waits || stand(site, &mut known, &mut report).await {
                    continue;
                }
                true
            }
            beaten = heart.beat() => {
                beaten?;
                continue;
            }
            event = announced(&mut sessions) => {
                announce(site, &mut sessions, event, &mut report).await;
                continue;
            }
            decisions = decided(&mut rates) => {
                if let Err(error) = put(site, &mut rates, decisions, &mut report).await {
                    report(Report::NotFollowed(error));
                }
                continue;
            }
        };
        if due {
            let again = mend(site, &mut known, &mut pace, &mut report).await;
            waits = again.is_some();
            if let Some(pause) = again {
                timer.set(clock::now() + pause)?;
            }
            want(site, &mut lookups, &mut report)?;
            regroup(site, &mut groups, &mut report).await;
            settled(site, &mut change, &mut report).await;
            renew(site, &mut rates, &following, &mut report).await;
        } else if !waits {
            timer.set(pace.next(clock::now()))?;
            waits = true;
        }
    }
}

/// Returns the time by which the guard must have taken back the change that waits for confirmation
/// ([`clock::now`]).
fn returned(site: &Site) -> u64 {
    let pending = site.history.head().ok().and_then(|head| head.pending);
    let here = pending.filter(|pending| pending.boot == site.folders.boot);
    let deadline = here.and_then(|pending| pending.deadline);
    deadline.map_or(NEVER, |deadline| deadline.saturating_add(GRACE))
}

/// Waits for an announcement of a session. Never returns if the socket is not open.
async fn announced(sessions: &mut Option<Sessions>) -> Result<sessions::Event, KeepError> {
    match sessions {
        Some(sessions) => sessions.next().await,
        None => std::future::pending().await,
    }
}

async fn announce(
    site: &Site,
    sessions: &mut Option<Sessions>,
    event: Result<sessions::Event, KeepError>,
    report: &mut impl FnMut(Report),
) {
    let Some(open) = sessions else {
        return;
    };
    let done = match event {
        Ok(event) => {
            let done = open.act(site, event).await;
            if let Some(count) = open.changed() {
                report(Report::Announced(count));
            }
            done
        }
        Err(error) => {
            // The socket itself failed.
            *sessions = None;
            Err(error)
        }
    };
    if let Err(error) = done {
        report(Report::NotAnnounced(error));
    }
}

/// Waits for decisions of the tracker. Never returns if no rate is followed.
async fn decided(rates: &mut Option<Rates>) -> Result<Vec<Decision>, KeepError> {
    match rates {
        Some(rates) => rates.next().await,
        None => std::future::pending().await,
    }
}

/// Brings the decided rates into force, and also those decided while it does so.
async fn put(
    site: &Site,
    rates: &mut Option<Rates>,
    decisions: Result<Vec<Decision>, KeepError>,
    report: &mut impl FnMut(Report),
) -> Result<(), KeepError> {
    let mut decisions = match decisions {
        Ok(decisions) => decisions,
        Err(error) => {
            // The tracker's sockets or timers failed; the rates stay as they are.
            *rates = None;
            return Err(error);
        }
    };
    let Some(rates) = rates else {
        return Ok(());
    };
    loop {
        let decided = !decisions.is_empty();
        let other = rates.note(&site.folders, &decisions)?;
        decisions = if other {
            rates.put(site).await?
        } else {
            Vec::new()
        };
        // Also report decisions without a new rate: they say that the load began or ended.
        if decided {
            report(Report::Rates(rates.now.clone()));
        }
        if decisions.is_empty() {
            return Ok(());
        }
    }
}

/// Follows the rate as the confirmed policy says, if another policy was confirmed since.
async fn renew(
    site: &Site,
    rates: &mut Option<Rates>,
    following: &impl AsyncFn(&Site, &Entry) -> Result<Option<Following>, KeepError>,
    report: &mut impl FnMut(Report),
) {
    let begun = async {
        let entry = site.confirmed()?;
        let number = entry.as_ref().map(|entry| entry.number);
        if rates.as_ref().map(|rates| rates.now.number) == number {
            return Ok(());
        }
        if rates.take().is_some() {
            Rates::end(site);
        }
        let Some(entry) = entry else {
            return Ok(());
        };
        if let Some(found) = following(site, &entry).await? {
            *rates = Some(Rates::begin(site, entry.number, found)?);
        }
        Ok(())
    };
    if let Err(error) = begun.await {
        report(Report::NotFollowed(error));
    }
}

/// Tells the look-ups which names the confirmed state has.
fn want(
    site: &Site,
    lookups: &mut Lookups,
    report: &mut impl FnMut(Report),
) -> Result<(), KeepError> {
    match site.confirmed() {
        Ok(entry) => lookups.want(entry.as_ref().map(|entry| &entry.desired)),
        Err(error) => {
            report(Report::NotFound(vec![error.to_string()]));
            Ok(())
        }
    }
}

/// Follows the control groups of the confirmed state, and puts their numbers into the sets. The
/// sets may be out of date, because a change that waited for confirmation kept them as they were.
async fn regroup(site: &Site, groups: &mut Groups, report: &mut impl FnMut(Report)) {
    let followed = site
        .confirmed()
        .and_then(|entry| groups.want(entry.as_ref().map(|entry| &entry.desired)));
    match followed {
        Ok(false) => {}
        other => refill(site, other.map(|_| ()), report).await,
    }
}

/// Puts the present numbers of control groups into the sets.
async fn refill(site: &Site, looked: Result<(), KeepError>, report: &mut impl FnMut(Report)) {
    let done = async {
        looked?;
        let lock = site.lock().await?;
        if site.unconfirmed()?.is_some() {
            return Ok(0);
        }
        site.refill(&lock).await
    };
    let what = followed::what();
    match done.await {
        Ok(0) => {}
        Ok(sets) => report(Report::Followed { what, sets }),
        Err::<_, KeepError>(error) => report(Report::NotFollowing { what, error }),
    }
}

/// Puts the known addresses into the sets after a change was made or settled: sets are left as they
/// are while a change waits. `last` is the last change that was seen, and whether it waited.
async fn settled(site: &Site, last: &mut Option<(u64, bool)>, report: &mut impl FnMut(Report)) {
    let head = site.history.head().ok();
    let now = head.map(|head| (head.generation, head.pending.is_some()));
    if now != *last {
        *last = now;
        refresh(site, &Answers::new(), report).await;
    }
}

/// Puts the addresses that were found into the sets.
async fn refresh(site: &Site, answers: &Answers, report: &mut impl FnMut(Report)) {
    let done = async {
        let lock = site.lock().await?;
        let failed = site.learn(&lock, answers)?;
        if !failed.is_empty() {
            report(Report::NotFound(failed));
        }
        // While a change waits, its guard relies on the sets as they were.
        if site.unconfirmed()?.is_some() {
            return Ok(0);
        }
        site.refill(&lock).await
    };
    match done.await {
        Ok(0) => {}
        Ok(sets) => report(Report::Refreshed { sets }),
        Err::<_, KeepError>(error) => report(Report::NotFound(vec![error.to_string()])),
    }
}

/// Compares and repairs. Returns the time until the next attempt, if one is needed.
async fn mend(
    site: &Site,
    known: &mut Known,
    pace: &mut Pace,
    report: &mut impl FnMut(Report),
) -> Option<u64> {
    let before = known.devices.clone();
    let worked = work(site, known, report).await;
    if before != known.devices {
        // A device appeared, disappeared or was renamed: no other program undid a repair.
        *pace = Pace::new();
    }
    match worked {
        Ok(Some(0)) => None,
        Ok(Some(steps)) => {
            pace.worked(clock::now());
            report(Report::Mended {
                steps,
                pause: pace.pause / MILLISECOND,
            });
            None
        }
        // Another weirgate process holds the lock, and may have changed more than is known yet.
        Ok(None) => Some(SWARM),
        Err(error) => {
            pace.worked(clock::now());
            report(Report::Failed {
                error,
                pause: pace.pause / MILLISECOND,
            });
            Some(pace.pause)
        }
    }
}

/// Returns the number of steps, or `None` while another process holds the lock.
async fn work(
    site: &Site,
    known: &mut Known,
    report: &mut impl FnMut(Report),
) -> Result<Option<usize>, KeepError> {
    let (lock, settled) = match site.lock_and_settle().await {
        Err(KeepError::Busy) => return Ok(None),
        other => other?,
    };
    if let Some(number) = settled {
        report(Report::TakenBack { number });
    }
    // The service wakes up when the change is confirmed or taken back, because that is written to
    // the state folder.
    if site.unconfirmed()?.is_some() {
        return Ok(Some(0));
    }
    let devices = site.kernel.devices().await?;
    // A release that fails is tried again: the memory forgets the device at the repair.
    let mut steps = known.release(site, &devices).await?;
    known.see(devices, site.confirmed()?.as_ref());
    steps += site.restore(&lock).await?;
    for damage in site.history.damages()? {
        if !known.damages.contains(&damage) {
            known.damages.push(damage.clone());
            report(Report::Damaged(damage));
        }
    }
    known.held(site).await;
    steps += hold(site, &mut known.meters, report).await?;
    Ok(Some(steps))
}

/// Returns whether all programs are in place, after repairing those of circuits.
async fn stand(site: &Site, known: &mut Known, report: &mut impl FnMut(Report)) -> bool {
    let held = hold(site, &mut known.meters, report).await.is_ok();
    held && site.programs_stand().await.is_ok_and(|stand| stand)
}

/// Brings the stored circuits into force on every device where they are not. Returns how many
/// devices were changed. Nothing is done while another process changes circuits: the loop has to go
/// on, and looks again after [`LOOK`]. A failure on one device does not stop the others.
async fn hold(
    site: &Site,
    meters: &mut Meters,
    report: &mut impl FnMut(Report),
) -> Result<usize, KeepError> {
    let held = site.hold_circuits(meters, Some(MOMENT)).await?;
    let (mut steps, mut first) = (0, None);
    for one in held {
        match one.outcome {
            Ok(done) => {
                steps += 1;
                report(Report::Circuits {
                    device: one.device,
                    done,
                });
            }
            Err(error) => first = first.or(Some(format!("{}: {error}", one.device))),
        }
    }
    match first {
        Some(text) => Err(KeepError::Circuits(text)),
        None => Ok(steps),
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links that `weirgate links run` watches: the state of each, and the routing that follows
//! from it.

use super::{AGAIN, AppliedLinks, LinkNow, LinkReport, LinksNow, PAUSE, WHOLE, paths};
use crate::clock;
use crate::error::KeepError;
use crate::rate::reflector::Asked;
use crate::rate::reflectors::has_no_route;
use crate::store::folder::{Folders, PATIENCE};
use crate::store::sealed;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::task::Poll;
use weirgate_kernel::Kernel;
use weirgate_links::{Counted, Health, Links, Sign, Traffic, Use, routing};
use weirgate_state::{LinkPath, Routing};

/// The state of all watched links.
pub(super) struct WatchedLinks<'a> {
    links: &'a Links,
    /// The applied links at the beginning, and whether they have changed since.
    applied: AppliedLinks,
    other: bool,
    folders: &'a Folders,
    kernel: &'a Kernel,
    health: Vec<Health>,
    /// For each link: the counters of its device, how many probes were sent, and the reason for a
    /// suspicion.
    traffic: Vec<Traffic>,
    questions: Vec<u64>,
    signs: Vec<&'static str>,
    paths: Vec<LinkPath>,
    /// For each link: sockets to its probed hosts, and whether they have to be opened again.
    probes: Vec<Vec<Asked>>,
    unopened: Vec<bool>,
    /// For each link: whether this machine itself prevents its probes. Then the reasons that are
    /// not reported yet.
    prevented: Vec<bool>,
    reasons: Vec<(usize, io::Error)>,
    /// For each link: whether the present routing uses it.
    used: Vec<bool>,
    now: LinksNow,
    /// For each link: when its hosts are probed next. Then the number of the last probe.
    ask: Vec<u64>,
    question: u16,
    /// When the kernel's state has to be read next, and when it was last read.
    look: Option<u64>,
    looked: u64,
}

impl<'a> WatchedLinks<'a> {
    /// Begins with the present routing: a link that an earlier service gave up is not tried at
    /// once.
    pub(super) async fn begin(
        links: &'a Links,
        applied: AppliedLinks,
        folders: &'a Folders,
        kernel: &'a Kernel,
    ) -> Result<Self, KeepError> {
        let now = clock::now();
        let routing = kernel.routing().await?;
        let count = links.links.len();
        let used = |number| was_used(&routing, links, number);
        let used: Vec<bool> = (0..count).map(used).collect();
        let health = links.links.iter().zip(&used);
        let health = health
            .map(|(link, used)| Health::new(links.timing, !link.probe.is_empty(), *used, now));
        let since = clock::unix();
        // The links that were watched until now.
        let before = LinksNow::read(folders).ok().flatten();
        let before = before.map_or_else(Vec::new, |now| now.links);
        let balanced = links.usage == Use::Balance;
        let known = links.links.iter().zip(&used).enumerate();
        let known = known.map(|(number, (link, up))| {
            let mut held = before.iter();
            let same = held.find(|one| one.device == link.device.as_str() && one.up == *up);
            LinkNow {
                name: link.name.clone(),
                device: link.device.to_string(),
                up: *up,
                suspected: None,
                since: same.map_or(since, |one| one.since),
                why: same.map_or_else(|| "as before".to_owned(), |one| one.why.clone()),
                weight: balanced.then_some(link.weight),
                rules: links.rules_of(number),
            }
        });
        Ok(Self {
            links,
            applied,
            other: false,
            folders,
            kernel,
            health: health.collect(),
            traffic: vec![Traffic::default(); count],
            questions: vec![0; count],
            signs: vec![""; count],
            paths: vec![LinkPath::default(); count],
            probes: (0..count).map(|_| Vec::new()).collect(),
            unopened: vec![true; count],
            prevented: vec![false; count],
            reasons: Vec::new(),
            now: LinksNow {
                links: known.collect(),
            },
            used,
            ask: vec![now; count],
            question: 0,
            look: Some(now),
            looked: 0,
        })
    }

    /// Returns the next time at which something has to be done.
    pub(super) fn next(&self) -> Option<u64> {
        let health = self.health.iter().filter_map(Health::next);
        let asks = self.asking().map(|number| self.ask[number]);
        health.chain(asks).chain(self.look).min()
    }

    /// Schedules a reading of the kernel's state, after it reported a change.
    pub(super) fn kernel_changed(&mut self) {
        let at = (clock::now() + WHOLE).max(self.looked.saturating_add(PAUSE));
        self.look = Some(self.look.map_or(at, |look| look.min(at)));
    }

    /// Handles the expiry of a timer.
    pub(super) async fn time(&mut self) {
        let now = clock::now();
        let asking: Vec<usize> = self.asking().collect();
        for number in &asking {
            // Read the counters first: a link that receives again must not be given up for old
            // counts.
            if self.ask[*number] <= now || self.health[*number].is_suspected() {
                self.count(*number, now).await;
            }
        }
        self.health.iter_mut().for_each(|health| health.at(now));
        for number in asking {
            if self.ask[number] > now {
                continue;
            }
            self.probe(number, now);
            self.ask[number] = now + self.health[number].every().as_nanos();
        }
    }

    /// Probes the hosts of a link.
    fn probe(&mut self, number: usize, now: u64) {
        self.question = self.question.wrapping_add(1);
        let mut prevented = None;
        let mut other = false;
        for probe in &mut self.probes[number] {
            match probe.ask(self.question) {
                // Such as a rule of a firewall.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    prevented = Some(error);
                }
                _ => other = true,
            }
            self.questions[number] += 1;
        }
        match prevented {
            Some(error) if !other => self.prevented(number, now, error),
            // Without any socket, opening them told why.
            _ if !other && self.prevented[number] => {}
            _ => {
                if std::mem::take(&mut self.prevented[number]) {
                    "its hosts are probed again".clone_into(&mut self.now.links[number].why);
                    self.look = Some(now);
                }
                self.health[number].probed(now, true);
                self.health[number].ask(now);
            }
        }
    }

    /// Notes that this machine itself prevents the probes of a link, which say nothing about it.
    fn prevented(&mut self, number: usize, now: u64, error: io::Error) {
        self.health[number].probed(now, false);
        if !std::mem::replace(&mut self.prevented[number], true) {
            self.reasons.push((number, error));
        }
    }

    /// Reads the counters of a device. The kernel sends no notification of these, so this is done
    /// when hosts are probed.
    async fn count(&mut self, number: usize, now: u64) {
        let device = &self.links.links[number].device;
        // Counters that cannot be read say nothing.
        let Ok(Some((received, sent))) = self.kernel.traffic_of(device).await else {
            return;
        };
        let counted = Counted {
            sent: sent.packets,
            questions: self.questions[number],
            received: received.packets,
        };
        let patience = self.links.timing.every;
        match self.traffic[number].count(now, counted, patience) {
            Sign::Receives if self.paths[number].running => {
                self.health[number].suspect(now, false);
            }
            Sign::SendsOnly => self.suspect(number, now, "it sends, and receives nothing"),
            Sign::Receives | Sign::Idle => {}
        }
    }

    /// Suspects a link for the reason `why`, and probes its hosts at once.
    fn suspect(&mut self, number: usize, now: u64, why: &'static str) {
        let health = &mut self.health[number];
        if !health.is_suspected() {
            health.suspect(now, true);
            // Only packets that arrive from now on count in favour of the link.
            self.traffic[number].forget();
            self.signs[number] = why;
            self.ask[number] = now;
        }
    }

    /// Suspects the links whose next hops do not answer any more.
    pub(super) fn neighbours_lost(&mut self, lost: &BTreeSet<(u32, IpAddr)>) {
        for number in 0..self.paths.len() {
            let path = &self.paths[number];
            // Next hops of two links may have the same address.
            let is_lost = |hop: &IpAddr| path.index.is_some_and(|one| lost.contains(&(one, *hop)));
            if path.hops.values().flatten().any(is_lost) {
                self.suspect(number, clock::now(), "its next hop does not answer");
            }
        }
    }

    /// Returns the links that have hosts to probe.
    fn asking(&self) -> impl Iterator<Item = usize> {
        let links = self.links.links.iter().enumerate();
        links
            .filter(|(_, link)| !link.probe.is_empty())
            .map(|(number, _)| number)
    }

    /// Waits for an answer, and returns the link that it belongs to. Cancel-safe.
    pub(super) async fn answer(&mut self) -> usize {
        poll_fn(|cx| {
            for (number, probes) in self.probes.iter_mut().enumerate() {
                let before = probes.len();
                let mut answered = false;
                probes.retain_mut(|probe| match probe.poll(cx) {
                    Poll::Ready(Ok(_)) => {
                        answered = true;
                        true
                    }
                    // The socket failed; a new one is opened.
                    Poll::Ready(Err(_)) => false,
                    Poll::Pending => true,
                });
                self.unopened[number] |= probes.len() < before;
                if answered {
                    return Poll::Ready(number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Notes that a host of the link answered.
    pub(super) fn heard(&mut self, number: usize) {
        self.health[number].answer(clock::now());
    }

    /// Reads the kernel's state if that is due, and routes over the links that are up.
    pub(super) async fn settle(&mut self, report: &mut impl FnMut(LinkReport)) {
        for (number, error) in self.reasons.drain(..) {
            let link = self.links.links[number].name.clone();
            self.now.links[number].why = not_probed(&error);
            self.look = Some(clock::now());
            report(LinkReport::NotAsked { link, error });
        }
        let due = self.look.is_some_and(|look| look <= clock::now());
        let done = if due || self.up() != self.used {
            self.route(report).await
        } else {
            self.note()
        };
        if let Err(error) = done {
            self.look = Some(clock::now() + AGAIN);
            report(LinkReport::Failed(error));
        }
    }

    /// Returns which links are up.
    fn up(&self) -> Vec<bool> {
        self.health.iter().map(Health::is_up).collect()
    }

    /// Returns whether other links have been applied since.
    pub(super) const fn is_other(&self) -> bool {
        self.other
    }

    async fn route(&mut self, report: &mut impl FnMut(LinkReport)) -> Result<(), KeepError> {
        // A command that changes the applied links holds the lock. If it holds it for long, a dead
        // link is left without the lock. That is safe, because the head names the new links before
        // anything uses them.
        let _lock = match self.folders.soon(PATIENCE).await {
            Err(KeepError::Busy) if self.up() != self.used => None,
            lock => Some(lock?),
        };
        // An unreadable head must not delay leaving a dead link.
        self.other |= self.applied.look(self.folders).unwrap_or_default();
        self.look = None;
        if self.other {
            return Ok(());
        }
        self.looked = clock::now();
        self.see(paths(self.links, self.kernel).await?);
        let up = self.up();
        let wanted = routing(self.links, &up, &self.paths);
        let steps = self.kernel.set_routing(&wanted).await?;
        if steps > 0 {
            report(LinkReport::Routed(steps));
        }
        let mut dropped = Ok(());
        for (number, up) in up.into_iter().enumerate() {
            if self.used[number] && !up {
                // Drop its connections, so that they start again over a link that is up.
                let value = self.links.mark(number);
                let mask = self.links.marks;
                // A failure is reported, and must not keep the links from being watched.
                let one = self.kernel.drop_connections(mask, value).await;
                dropped = dropped.and(one);
            }
            self.used[number] = up;
            if self.now.links[number].up != up {
                self.changed(number, up);
                report(LinkReport::Changed(self.now.links[number].clone()));
            }
        }
        self.open(report);
        sealed::write(&LinksNow::file(self.folders), &self.now)?;
        Ok(dropped?)
    }

    /// Writes which links are suspected, if that has changed.
    fn note(&mut self) -> Result<(), KeepError> {
        let mut any = false;
        for (number, health) in self.health.iter().enumerate() {
            let now = health.is_suspected().then(|| self.signs[number].to_owned());
            let link = &mut self.now.links[number];
            any |= std::mem::replace(&mut link.suspected, now) != link.suspected;
        }
        if any {
            sealed::write(&LinksNow::file(self.folders), &self.now)?;
        }
        Ok(())
    }

    fn changed(&mut self, number: usize, up: bool) {
        let path = &self.paths[number];
        let why = match (up, path.up, path.hops.is_empty()) {
            (true, ..) => "it answered long enough",
            (_, false, _) => "its device is gone, off or has no carrier",
            (_, _, true) => "its device leads nowhere: there is no default route",
            _ => "nobody answered",
        };
        let now = &mut self.now.links[number];
        now.up = up;
        now.suspected = None;
        now.since = clock::unix();
        why.clone_into(&mut now.why);
    }

    /// Notes the present paths of the links.
    fn see(&mut self, paths: Vec<LinkPath>) {
        let now = clock::now();
        for (number, path) in paths.iter().enumerate() {
            if *path != self.paths[number] {
                self.unopened[number] = true;
            }
            let leads = path.up && !path.hops.is_empty();
            self.health[number].carrier(now, leads);
        }
        self.paths = paths;
        for number in 0..self.paths.len() {
            if self.paths[number].up && !self.paths[number].running {
                self.suspect(number, now, "its device is not operational");
            }
        }
    }

    /// Opens sockets for links whose path has changed.
    fn open(&mut self, report: &mut impl FnMut(LinkReport)) {
        let now = clock::now();
        for (number, link) in self.links.links.iter().enumerate() {
            if !std::mem::take(&mut self.unopened[number]) || !self.paths[number].up {
                continue;
            }
            self.probes[number].clear();
            let mut reason = None;
            for address in &link.probe {
                // An identifier that differs from those of the other links.
                let own = (std::process::id() as u16).wrapping_add(number as u16);
                match Asked::open(*address, 0, own, Some(&link.device)) {
                    Ok(asked) => self.probes[number].push(asked),
                    Err(error) => {
                        if !has_no_route(&error) {
                            reason = Some(not_probed(&error));
                        }
                        let link = link.name.clone();
                        report(LinkReport::NotAsked { link, error });
                    }
                }
            }
            let reason = reason.filter(|_| self.probes[number].is_empty());
            self.prevented[number] = reason.is_some();
            if let Some(reason) = reason {
                self.health[number].probed(now, false);
                self.now.links[number].why = reason;
            }
        }
    }
}

/// Says of a link that is not judged by its hosts why that is so.
fn not_probed(error: &io::Error) -> String {
    format!("its hosts cannot be probed ({error}), so only its carrier decides")
}

/// Returns whether the present routing uses a link. Without any routing, all links count as used.
fn was_used(routing: &Routing, links: &Links, number: usize) -> bool {
    let value = (links.mark(number), links.marks);
    routing.rules.is_empty() || routing.rules.iter().any(|rule| rule.mark == Some(value))
}

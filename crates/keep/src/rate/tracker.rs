// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds a controller with observations of a real line: probes reflectors, measures passing
//! traffic, reads counters. It changes nothing; its caller applies the rates.

use crate::clock::{self, Timer};
use crate::error::KeepError;
use crate::rate::reflector::Answer;
use crate::rate::reflectors::Reflectors;
use crate::rate::round_trips::Passing;
use std::future::poll_fn;
use weirgate_kernel::{DeviceIndex, Kernel, KernelError};
use weirgate_state::DeviceName;
use weirgate_track::{Controller, Decision, Direction, Input, Record, Setup};

/// The interval at which counters are read, in nanoseconds.
const LOOK: u64 = 50_000_000;

/// Follows the rate of one line.
pub struct Tracker {
    setup: Setup,
    record: Record,
    reflectors: Reflectors,
    passing: Option<Passing>,
    kernel: Kernel,
    probe: Timer,
    look: Timer,
    /// The time that counts as 0 in records.
    zero: u64,
    next: u32,
    counted: Option<Counted>,
    /// Whether the line was idle at the last return of [`Tracker::next`].
    idle: bool,
}

/// The counters at the last reading.
#[derive(Debug, Clone, Copy)]
struct Counted {
    line: DeviceIndex,
    waits: Option<DeviceIndex>,
    /// Bytes on the wire, upstream and downstream.
    wire: [u64; 2],
}

impl Tracker {
    /// Opens sockets in the calling thread's namespace, to which `kernel` has to belong too. Needs
    /// a tokio runtime.
    pub fn open(setup: Setup, kernel: Kernel) -> Result<Self, KeepError> {
        let unusable = |why: &str| KeepError::Nothing(format!("the rate is not followed: {why}"));
        let record = Record::new(setup.settings.clone()).map_err(unusable)?;
        let through = setup.bound.then(|| setup.line.clone());
        let reflectors = Reflectors::open(&setup.reflectors, setup.dscp, through)
            .map_err(|(address, error)| unusable(&format!("{address}: {error}")))?;
        let passing = setup.passive.then(Passing::open).transpose()?;
        let (probe, look) = (Timer::new()?, Timer::new()?);
        let zero = clock::now();
        if reflectors.len() > 0 {
            probe.set(zero)?;
        }
        look.set(zero)?;
        Ok(Self {
            setup,
            record,
            reflectors,
            passing,
            kernel,
            probe,
            look,
            zero,
            next: 0,
            counted: None,
            idle: false,
        })
    }

    /// Returns the controller.
    #[must_use]
    pub const fn controller(&self) -> &Controller {
        self.record.controller()
    }

    /// Returns what it follows.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Returns what was recorded since the last call.
    pub fn written(&mut self) -> String {
        self.record.written()
    }

    /// Begins a new record, with a controller that starts at the present rates. Does nothing while
    /// the controller is in the middle of something that it would forget. Returns whether a new
    /// record was begun.
    pub(crate) fn begin_again(&mut self) -> bool {
        if self.controller().busy() || self.controller().blind() {
            return false;
        }
        let mut settings = self.setup.settings.clone();
        let now = Direction::BOTH.map(|direction| self.controller().rate(direction));
        for (limits, rate) in [&mut settings.up, &mut settings.down].into_iter().zip(now) {
            if let (Some(limits), Some(rate)) = (limits, rate) {
                limits.base = rate;
            }
        }
        let Ok(record) = Record::new(settings) else {
            return false;
        };
        self.record = record;
        true
    }

    /// Waits until something is decided, or the line becomes idle or busy; the latter returns no
    /// decisions. Cancel-safe.
    pub async fn next(&mut self) -> Result<Vec<Decision>, KeepError> {
        loop {
            let event = {
                let (probe, look) = (&self.probe, &self.look);
                let answer = poll_fn(|cx| self.reflectors.poll(cx));
                tokio::select! {
                    biased;
                    (number, answer) = answer => Event::Answer(number, answer),
                    over = probe.over() => { over?; Event::Probe }
                    over = look.over() => { over?; Event::Look }
                }
            };
            let decisions = match event {
                Event::Answer(number, Ok(answer)) => self.answered(number, answer),
                // Treat an error, such as a network that is down, like a missing answer.
                Event::Answer(_, Err(_)) => Vec::new(),
                Event::Probe => self.ask()?,
                Event::Look => {
                    self.look.set(clock::now() + LOOK)?;
                    self.count().await
                }
            };
            let idle = self.controller().idle();
            let other = std::mem::replace(&mut self.idle, idle) != idle;
            if other && !idle && self.reflectors.len() > 0 {
                // Probes of an idle line are rare, and the next one may be a second away.
                self.probe.set(clock::now())?;
            }
            if other || !decisions.is_empty() {
                return Ok(decisions);
            }
        }
    }

    fn now(&self) -> u64 {
        clock::now().saturating_sub(self.zero)
    }

    fn ask(&mut self) -> Result<Vec<Decision>, KeepError> {
        let number = self.next as usize % self.reflectors.len().max(1);
        let id = self.next & 0xffff;
        self.next = self.next.wrapping_add(1);
        let input = Input::Sent {
            at: self.now(),
            reflector: number as u16,
            id,
        };
        self.reflectors.ask(number, id as u16);
        let decisions = self.record.take(&input);
        self.probe
            .set(clock::now() + self.controller().pause().max(1))?;
        Ok(decisions)
    }

    fn answered(&mut self, number: usize, answer: Answer) -> Vec<Decision> {
        let input = Input::Reply {
            at: self.now(),
            reflector: number as u16,
            id: answer.id.into(),
            one_way_us: answer.one_way_us,
        };
        self.record.take(&input)
    }

    /// Reads the counters. A missing device has none; when it appears again, it has another index.
    async fn count(&mut self) -> Vec<Decision> {
        let Ok((counted, backlog)) = self.counters().await else {
            self.counted = None;
            return Vec::new();
        };
        let before = self.counted.replace(counted);
        let Some(before) = before.filter(|before| before.line == counted.line) else {
            return Vec::new();
        };
        let at = self.now();
        let mut decisions = Vec::new();
        let passed = self.passing.as_mut().map(|one| one.look(counted.line, at));
        for input in passed.into_iter().flatten() {
            decisions.extend(self.record.take(&input));
        }
        for direction in Direction::BOTH {
            if self.setup.settings.limits(direction).is_none() {
                continue;
            }
            let index = usize::from(direction == Direction::Down);
            // Counters that were reset count nothing.
            let bytes = counted.wire[index].saturating_sub(before.wire[index]);
            decisions.extend(self.record.take(&Input::Load {
                at,
                direction,
                bytes,
                backlog: backlog[index],
            }));
        }
        decisions
    }

    async fn counters(&self) -> Result<(Counted, [u64; 2]), KernelError> {
        let (line, waits) = if let Some(known) = self.counted {
            (known.line, known.waits)
        } else {
            let line = self.kernel.device(&self.setup.line).await?;
            (line, self.waits(self.setup.waits.as_ref()).await?)
        };
        let (received, sent) = self.kernel.traffic(line).await?;
        let wire = |traffic: weirgate_kernel::Traffic| {
            self.setup.cost.wire(traffic.bytes, traffic.packets)
        };
        let mut backlog = [0; 2];
        if self.setup.settings.up.is_some() {
            backlog[0] = self.kernel.backlog(line).await?.unwrap_or(0);
        }
        if let Some(waits) = waits.filter(|_| self.setup.settings.down.is_some()) {
            // An IFB that was created again has another index.
            backlog[1] = self.kernel.backlog(waits).await?.ok_or_else(|| {
                let name = self.setup.waits.as_ref().map_or("", DeviceName::as_str);
                KernelError::NoDevice(name.to_owned())
            })?;
        }
        let counted = Counted {
            line,
            waits,
            wire: [wire(sent), wire(received)],
        };
        Ok((counted, backlog))
    }

    async fn waits(&self, name: Option<&DeviceName>) -> Result<Option<DeviceIndex>, KernelError> {
        match name {
            Some(name) => self.kernel.device(name).await.map(Some),
            None => Ok(None),
        }
    }
}

enum Event {
    Answer(usize, std::io::Result<Answer>),
    Probe,
    Look,
}

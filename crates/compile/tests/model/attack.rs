// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adversary against one packet: all other arrivals delay it as much as possible.
//!
//! Its class conforms to its guarantee by HTB's own measure. All other classes do not, and the
//! adversary sees the levels of their buckets. Just before the gate opens, it decides what arrives,
//! according to a [`Plan`], which [`crate::search`] optimises.

use crate::drive::{SECOND, Site};
use crate::htb::{Left, Machine};
use crate::queue::Queue;

/// A random generator (xorshift64*, Marsaglia 2003 and Vigna 2016).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// The order in which the packet's own class sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// In order of arrival.
    Fifo,
    /// All other packets before this one.
    Worst,
    /// Flows in turn, as sfq does.
    Sfq,
    /// By the kit's own fq_codel.
    FqCodel,
}

/// The adversary's strategy.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The size of packets, in IP bytes, with which other classes empty their buckets.
    small: u32,
    /// The size of packets of the own class.
    own: u32,
    /// If another class's tokens are below this many small packets, in tenths, it sends a full one.
    least: u64,
    /// Whether the class with the first full bucket sends first, instead of the one with most
    /// tokens.
    by_time: bool,
    /// The packet in transmission at the start: 0 none, otherwise one for which this class borrows,
    /// or which is after the packet.
    start: usize,
    /// The time, in 64ths of the bound, after which full packets may be sent although others of the
    /// own class still wait.
    late: u64,
    /// The number of queued packets of its class, including itself, at which other classes send
    /// full packets.
    alone: usize,
    /// The number at which its own class does.
    few: usize,
    /// The class that borrows while the own class is in debt.
    borrower: usize,
    /// Whether classes of equal priority begin with nearly a whole turn, and the own class with
    /// nearly none.
    primed: bool,
    /// Whether the packet follows a small one of its class, which ends a turn.
    led: bool,
    /// A further delay of its arrival, in 256ths of a full packet's time.
    lag: u64,
}

impl Plan {
    /// Returns the worst plans according to the derivation of the bound, for each start.
    pub fn usual(classes: usize) -> impl Iterator<Item = Self> {
        let starts = (0..=classes).flat_map(|start| [(start, true), (start, false)]);
        starts.map(|(start, led)| Self {
            small: 20,
            own: 20,
            least: 10,
            by_time: true,
            start,
            late: 64,
            borrower: led.into(),
            alone: 3,
            few: 2,
            primed: true,
            led,
            lag: 0,
        })
    }

    /// Returns a variation of the plan.
    pub fn changed(&self, random: &mut Random, classes: usize) -> Self {
        let mut plan = self.clone();
        let sizes = [20, 20, 40, 60, 100, 200, 400, 576, 1000, 1500];
        let size = |random: &mut Random| sizes[random.below(sizes.len() as u64) as usize];
        match random.below(13) {
            0 => plan.small = size(random),
            1 => plan.own = size(random),
            2 => plan.least = 1 + random.below(60),
            3 => plan.by_time = !plan.by_time,
            4 => plan.start = random.below(classes as u64 + 1) as usize,
            5 => plan.late = random.below(65),
            6 => plan.primed = !plan.primed,
            7 => plan.led = !plan.led,
            10 | 11 => plan.borrower = random.below(classes as u64) as usize,
            8 => plan.alone = 1 + random.below(10) as usize,
            9 => plan.few = 1 + random.below(10) as usize,
            _ => plan.lag = random.below(256),
        }
        plan
    }
}

/// An attack on one class of a policy.
pub struct Attack<'s> {
    site: &'s Site,
    class: usize,
    order: Order,
    bound: u64,
    /// The wire bytes of a full packet.
    full: u32,
    /// The maximum number of gate openings of a run.
    steps: u64,
}

/// The approximate number of gate openings in one attack.
const STEPS: u64 = 6_000;

/// The arrivals of the own class, by HTB's measure of conformance.
struct Own {
    rate: f64,
    burst: f64,
    owed: f64,
    since: u64,
    /// The packet's number, once it has arrived.
    packet: Option<u64>,
    /// The flow that others of the class join, and how many bytes of its turn it has used.
    flow: u32,
    had: u32,
    /// Whether only the packet has arrived so far.
    first: bool,
}

impl Own {
    /// Advances the time, which reduces the debt.
    fn pay(&mut self, now: u64) {
        let passed = (now - self.since) as f64 / 1e9;
        self.owed = (self.owed - self.rate / 8.0 * passed).max(0.0);
        self.since = now;
    }
}

impl<'s> Attack<'s> {
    pub fn new(site: &'s Site, class: usize, order: Order) -> Self {
        let bound = site.within(class);
        let full = site.policy.full_packet();
        Self {
            site,
            class,
            order,
            bound,
            full,
            steps: 20 * STEPS,
        }
    }

    fn wire(&self, ip: u32) -> u32 {
        self.site.policy.link.layer.value.wire_bytes(ip)
    }

    /// Returns the size of small packets, but large enough to limit their number.
    fn size(&self, ip: u32) -> u32 {
        let gate = self.site.report.directions[0].gate.as_bytes_per_second();
        let sent = self.bound as f64 / 1e9 * gate as f64;
        let least = (sent / STEPS as f64) as u32;
        self.wire(ip).max(least.min(self.full))
    }

    fn priority(&self, class: usize) -> u8 {
        self.site.classes()[class].priority
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.class;
        (0..self.site.classes().len()).filter(move |at| *at != own)
    }

    /// Returns how long the packet waits under a plan, in nanoseconds.
    pub fn run(&self, plan: &Plan) -> u64 {
        let mut machine = self.site.machine();
        self.prime(&mut machine, plan);
        machine.now = 200 * SECOND;
        self.start(&mut machine, plan);
        machine.now += 1 + plan.lag * self.time(self.full) / 256;
        machine.replace(self.class, self.queue());
        let class = &self.site.classes()[self.class];
        let mut own = Own {
            rate: class.keeps.as_bits_per_second() as f64,
            burst: class.burst.as_bytes() as f64,
            owed: 0.0,
            since: machine.now,
            packet: None,
            flow: 1,
            had: 0,
            first: true,
        };
        let began = machine.now;
        // If nothing is in transmission, the other classes come first.
        for _ in 0..self.steps {
            self.feed(&mut machine, began, plan);
            if machine.opens() > began || machine.run(began).is_empty() {
                break;
            }
        }
        self.own(&mut machine, &mut own, plan);
        for _ in 0..self.steps {
            let opens = machine.opens();
            if opens > machine.now {
                let left = machine.run(opens - 1);
                assert!(left.is_empty(), "nothing leaves while the gate is shut");
            }
            self.own(&mut machine, &mut own, plan);
            self.feed(&mut machine, began, plan);
            let left = machine.run(opens.max(machine.now));
            if let Some(wait) = waited(&left, own.packet) {
                return wait;
            }
        }
        0
    }

    fn queue(&self) -> Queue {
        let gate = self.site.report.directions[0].gate.as_bytes_per_second();
        match self.order {
            // The first packet is the attacked one.
            Order::Fifo | Order::Worst => Queue::default(),
            Order::Sfq => Queue::sfq(self.full),
            Order::FqCodel => Queue::fq_codel(self.full, gate),
        }
    }

    fn time(&self, bytes: u32) -> u64 {
        let gate = self.site.report.directions[0].gate;
        u64::from(bytes) * 8_000_000_000 / gate.as_bits_per_second()
    }

    /// Leaves classes of equal priority nearly a whole turn, and the own class nearly none.
    fn prime(&self, machine: &mut Machine, plan: &Plan) {
        machine.now = 10 * SECOND;
        if !plan.primed {
            return;
        }
        for other in self.others() {
            if self.priority(other) == self.priority(self.class) {
                machine.arrive(other, self.wire(20));
                machine.run(machine.now + SECOND);
            }
        }
        let smallest = self.wire(20);
        machine.arrive(self.class, smallest);
        machine.run(machine.now + SECOND);
        let mut left = 0;
        while machine.deficit(self.class) >= i64::from(smallest) && left < 100 {
            let size = machine.deficit(self.class).min(i64::from(self.full)) as u32;
            machine.arrive(self.class, size.max(smallest));
            machine.run(machine.now + SECOND);
            left += 1;
        }
    }

    /// Puts a full packet into transmission, so that the gate's bucket is empty.
    fn start(&self, machine: &mut Machine, plan: &Plan) {
        let Some(from) = plan.start.checked_sub(1).filter(|at| *at != self.class) else {
            return;
        };
        let foreign = self.priority(from) > self.priority(self.class);
        let mut sent = 0;
        // A class that borrows has used its bucket, and little more.
        while !foreign && machine.green(from, machine.opens()) && sent < 20_000 {
            machine.arrive(from, self.size(20));
            machine.run(machine.opens());
            sent += 1;
        }
        sent = 0;
        // Until the gate is closed for a full packet's time.
        loop {
            machine.arrive(from, self.full);
            let opens = machine.opens();
            machine.run(opens);
            sent += 1;
            let shut = machine.opens().saturating_sub(machine.now) + 2_000;
            let borrows = foreign || !machine.green(from, machine.now);
            if (shut >= self.time(self.full) && borrows) || sent > 2_000 {
                return;
            }
        }
    }

    /// Adds arrivals of the own class.
    fn own(&self, machine: &mut Machine, own: &mut Own, plan: &Plan) {
        let largest = self.site.classes()[self.class].largest;
        let smallest = self.wire(20).min(largest);
        own.pay(machine.now);
        if self.order == Order::Fifo {
            self.in_order(machine, own, plan, (smallest, largest));
            return;
        }
        loop {
            // A bucket of the burst and one packet.
            let room = own.burst + f64::from(largest) - own.owed;
            if own.packet.is_none() {
                if !self.tagged(machine, own, (smallest, largest)) {
                    return;
                }
                continue;
            }
            let few = machine.queued(self.class) <= plan.few;
            let small = self.size(plan.own).min(largest);
            let size = match (own.first, few) {
                (true, _) => self.fitting(room as u32, largest),
                (false, true) => largest,
                (false, false) => small,
            };
            if f64::from(size) > room {
                return;
            }
            own.first = false;
            own.had += size;
            if own.had > self.full {
                (own.flow, own.had) = (own.flow % 900 + 1, size);
            }
            machine.arrive_of(self.class, own.flow, size);
            own.owed += f64::from(size);
        }
    }

    /// Adds the packet as the last one for which there are tokens, by HTB's own measure.
    fn in_order(
        &self,
        machine: &mut Machine,
        own: &mut Own,
        plan: &Plan,
        (smallest, largest): (u32, u32),
    ) {
        while own.packet.is_none() && own.owed <= own.burst {
            let room = (own.burst - own.owed) as u32;
            let leads = own.had == 0 && plan.led;
            if room < smallest && !leads {
                own.packet = machine.arrive(self.class, smallest);
                return;
            }
            let size = self.fitting(room.max(smallest), largest);
            machine.arrive(self.class, size);
            own.owed += f64::from(size);
            own.had += size;
        }
    }

    /// Adds the packet itself: with flows in turn, after a full packet of its flow, which ends the
    /// flow's first turn; in the worst order, at once.
    fn tagged(
        &self,
        machine: &mut Machine,
        own: &mut Own,
        (smallest, largest): (u32, u32),
    ) -> bool {
        let room = own.burst + f64::from(largest) - own.owed;
        if self.order != Order::Worst && own.had == 0 {
            own.had = largest;
            machine.arrive_of(self.class, 0, largest);
            own.owed += f64::from(largest);
            return true;
        }
        if f64::from(smallest) > room {
            return false;
        }
        own.packet = machine.arrive_of(self.class, 0, smallest);
        own.owed += f64::from(smallest);
        if let (Order::Worst, Some(number)) = (self.order, own.packet) {
            machine.tag(self.class, number);
        }
        true
    }

    /// Returns the largest packet of the class that fits into `room` wire bytes.
    fn fitting(&self, room: u32, largest: u32) -> u32 {
        let fits = (20..=1500).rev().map(|ip| self.wire(ip));
        let mut fits = fits.filter(|wire| *wire <= room && *wire <= largest);
        fits.next().unwrap_or(self.wire(20))
    }

    /// Adds arrivals of the other classes just before the gate opens.
    fn feed(&self, machine: &mut Machine, began: u64, plan: &Plan) {
        let small = self.size(plan.small).min(self.full);
        let least = (u64::from(small) * plan.least / 10) as i64;
        let passed = machine.now - began;
        let alone = machine.queued(self.class) <= plan.alone;
        let ending = alone || passed >= self.bound / 64 * plan.late;
        let own = self.priority(self.class);
        for other in self.others() {
            // Later classes borrow if this class is in debt.
            while self.priority(other) > own && machine.queued(other) < 2 {
                machine.arrive(other, self.full);
            }
            // Two packets, because a class with an empty queue passes its turn on.
            while self.priority(other) == own && machine.queued(other) < 2 {
                let before = machine.queued(other) as i64 * i64::from(small);
                let room = machine.deficit(other).min(machine.tokens(other)) - before;
                let ends = ending && room < i64::from(small);
                machine.arrive(other, if ends { self.full } else { small });
            }
        }
        let opens = machine.opens();
        let borrower = plan.borrower;
        let before = borrower != self.class && self.priority(borrower) <= own;
        if before && !machine.green(self.class, opens) {
            while machine.queued(borrower) < 2 {
                machine.arrive(borrower, self.full);
            }
            return;
        }
        let above = self.others().filter(|at| self.priority(*at) < own);
        let above: Vec<usize> = above.filter(|at| machine.green(*at, opens)).collect();
        if above.iter().any(|at| machine.queued(*at) > 0) {
            return;
        }
        let rate = |at: usize| {
            let bits = self.site.classes()[at].guaranteed.wire.as_bits_per_second();
            bits as i64
        };
        let most = above.iter().copied().max_by_key(|at| {
            if plan.by_time {
                // The class with the least time until its bucket is full.
                -machine.missing(*at)
            } else {
                machine.tokens(*at)
            }
        });
        let Some(most) = most else { return };
        let any = above.iter().any(|at| machine.tokens(*at) >= least);
        if any || !ending {
            machine.arrive(most, small);
        } else if let Some(last) = above.into_iter().min_by_key(|at| rate(*at)) {
            // The class with the lowest rate overdraws first.
            machine.arrive(last, self.full);
        }
    }
}

fn waited(left: &[Left], number: Option<u64>) -> Option<u64> {
    let number = number?;
    let own = left.iter().find(|left| left.packet.number == number)?;
    Some(own.at - own.packet.arrived)
}

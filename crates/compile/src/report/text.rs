// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats the output of `weirgate check` from the figures in `report`.

use crate::report::{
    Bound, CheckReport, ClassReport, Cost, DirectionReport, FullQueue, ObjectiveReport, Wire, ms,
};
use std::fmt::{self, Display, Formatter};
use weirgate_policy::in_kbit;

impl Display for CheckReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.engine)?;
        for direction in &self.directions {
            write!(f, "\n{direction}")?;
        }
        match &self.policed {
            Some(policed) => writeln!(f, "\n{policed}"),
            None => Ok(()),
        }
    }
}

impl Display for DirectionReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {}: a line of {}, shaped to {}",
            self.direction.stream(),
            self.device,
            in_kbit(self.line),
            in_kbit(self.gate)
        )?;
        writeln!(f, "  {}", self.layer)?;
        writeln!(
            f,
            "  {:>9} {:>9} {:>10} {:>10} {:>11} {:>15}",
            "IP packet", "on wire", "efficiency", "time", "packets/s", "IP rate"
        )?;
        for cost in &self.costs {
            writeln!(f, "  {cost}")?;
        }
        writeln!(
            f,
            "  The modem holds the packet in transmission, and a second one for at most {}.",
            ms(self.line_extra)
        )?;
        for note in self.l4s.iter().chain(&self.notes) {
            writeln!(f, "  {note}")?;
        }
        for class in &self.classes {
            write!(f, "\n{class}")?;
        }
        Ok(())
    }
}

impl Display for Cost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let efficiency = f64::from(self.ip) * 100.0 / f64::from(self.wire.max(1));
        let packets = self.milli_packets_per_second as f64 / 1e3;
        write!(
            f,
            "{:>7} B {:>7} B {:>8.1} % {:>10} {:>11.1} {:>15}",
            self.ip,
            self.wire,
            efficiency,
            ms(self.time),
            packets,
            rounded(self.ip_rate.as_kbit())
        )
    }
}

fn rounded(kbit: f64) -> String {
    format!("{kbit:.1} kbit/s")
}

impl Display for Wire {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on the wire, {} of IP in full packets",
            rounded(self.wire.as_kbit()),
            rounded(self.ip.as_kbit())
        )
    }
}

impl Display for ClassReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let default = if self.default { ", default" } else { "" };
        writeln!(
            f,
            "  class {} ({}, line {}): priority {}, {}{default}",
            self.name, self.id, self.line, self.priority, self.queue
        )?;
        writeln!(f, "    guaranteed  {}", self.guaranteed)?;
        writeln!(f, "    at most     {}", self.maximum)?;
        match (&self.lone, &self.within) {
            (Some(lone), Some(within)) => self.waits(f, lone, within)?,
            _ => writeln!(f, "    No bound was derived for the wait of its packets.")?,
        }
        match &self.full {
            FullQueue::Bound(bound) => {
                let wait = ms(bound.wait);
                writeln!(
                    f,
                    "    When its queue is full, the last packet in it waits at most {wait}:"
                )?;
                write!(f, "{bound}")?;
            }
            FullQueue::NoHardBound { reason } => {
                let beyond = if self.lone.is_some() {
                    "Traffic beyond that has no hard bound"
                } else {
                    "The reason"
                };
                writeln!(f, "    {beyond}: {reason}.")?;
            }
        }
        writeln!(
            f,
            "    Its transmission on the line then takes at most {} ({} B).",
            ms(self.own_time),
            self.largest
        )?;
        match &self.objective {
            Some(objective) => writeln!(f, "    {objective}"),
            None => Ok(()),
        }
    }
}

impl ClassReport {
    /// Writes how long packets wait within the guarantee.
    fn waits(&self, f: &mut Formatter<'_>, lone: &Bound, within: &Bound) -> fmt::Result {
        writeln!(
            f,
            "    Within the guarantee, a packet that finds no other of its class waits at most {}:",
            ms(lone.wait)
        )?;
        write!(f, "{lone}")?;
        if within.wait == lone.wait {
            writeln!(
                f,
                "    Traffic within the guaranteed rate waits no longer than that."
            )?;
        } else {
            let limits = if self.limited_hosts > 0 {
                ", as long as no host reaches its own limit"
            } else {
                ""
            };
            if self.in_order {
                writeln!(
                    f,
                    "    Traffic within the guaranteed rate, with bursts of at most {} B beyond it, waits at most {}:",
                    self.burst.as_bytes(),
                    ms(within.wait)
                )?;
            } else {
                writeln!(
                    f,
                    "    Traffic within half the guaranteed rate, with bursts of at most {} B, waits at most {}, whatever the order of its packets{limits}:",
                    self.burst.as_bytes() + u64::from(self.largest),
                    ms(within.wait)
                )?;
            }
            write!(f, "{within}")?;
        }
        Ok(())
    }
}

impl Display for Bound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "      {:>11}  {}", ms(step.time), step.what)?;
        }
        Ok(())
    }
}

impl Display for ObjectiveReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Objective, Y.1541 class {}: ", self.class)?;
        match (self.delay, self.variation) {
            (Some(delay), Some(variation)) => {
                write!(f, "mean delay {}, variation {}", ms(delay), ms(variation))?;
            }
            (Some(delay), None) => write!(f, "mean delay {}", ms(delay))?,
            (None, _) => write!(f, "none for delay")?,
        }
        let (here, kept) = (ms(self.here), if self.met { "met" } else { "not met" });
        let takes = if self.met {
            "takes at most"
        } else {
            "may take"
        };
        match (self.delay, self.variation) {
            (None, None) => Ok(()),
            _ => write!(f, "; {kept}, this hop {takes} {here}"),
        }
    }
}

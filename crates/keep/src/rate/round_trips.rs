// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures round trips of passing traffic, for a controller that knows hosts only by numbers.

use crate::error::KeepError;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weirgate_bpf::RoundTrips;
use weirgate_kernel::DeviceIndex;
use weirgate_track::Input;

/// The most remote hosts that are remembered: as many as the controller remembers.
const MOST: usize = 64;

/// Measures passing traffic.
pub(crate) struct Passing {
    programs: RoundTrips,
    watched: Option<DeviceIndex>,
    ends: Ends,
}

impl Passing {
    /// Loads the programs, in the calling thread's namespace.
    pub(crate) fn open() -> Result<Self, KeepError> {
        let programs = RoundTrips::open().map_err(|error| {
            KeepError::Nothing(format!(
                "the rate is not followed: round trips of traffic (`passive`) cannot be \
                 measured: {error}"
            ))
        })?;
        Ok(Self {
            programs,
            watched: None,
            ends: Ends::default(),
        })
    }

    /// Returns the round trips that were seen at the device since the last call. A map that cannot
    /// be read has none.
    pub(crate) fn look(&mut self, line: DeviceIndex, at: u64) -> Vec<Input> {
        if self.watched != Some(line) {
            self.watched = self.programs.watch(line.number()).ok().map(|()| line);
        }
        let all = self.programs.take().unwrap_or_default();
        let input = |one: weirgate_bpf::RoundTrip| Input::Passive {
            at,
            end: self.ends.number(one.end, at),
            round_trip: u64::try_from(one.least.as_nanos()).unwrap_or(u64::MAX),
        };
        all.into_iter().map(input).collect()
    }
}

/// Numbers of remote hosts; no number is used twice.
#[derive(Debug, Default)]
struct Ends {
    known: BTreeMap<IpAddr, (u32, u64)>,
    next: u32,
}

impl Ends {
    fn number(&mut self, end: IpAddr, at: u64) -> u32 {
        if let Some((number, last)) = self.known.get_mut(&end) {
            *last = at;
            return *number;
        }
        if self.known.len() >= MOST {
            let oldest = self.known.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(end, _)| *end) {
                self.known.remove(&oldest);
            }
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.known.insert(end, (number, at));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::Ends;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn numbers_stay_and_are_not_given_twice() {
        let end = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(number));
        let mut ends = Ends::default();
        assert_eq!(ends.number(end(7), 0), 0);
        for number in 0..100 {
            ends.number(end(1_000 + number), 1 + u64::from(number));
            assert_eq!(ends.number(end(7), 1 + u64::from(number)), 0);
        }
        // It was forgotten, and gets a new number.
        assert_eq!(ends.number(end(1_000), 200), 101);
        assert_eq!(ends.known.len(), super::MOST);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Port numbers. Each flow has its own, by which the line identifies it.

use std::cell::Cell;
use std::collections::BTreeSet;
use weirgate_experiment::{Experiment, ProbeKind};

/// Ports of the connecting side. They avoid well-known ports, which policies match.
const NEAR: (u16, u16) = (20_000, 60_999);
/// Ports of the other side, if the experiment does not name one.
const FAR: (u16, u16) = (7_001, 19_999);

/// Allocates port numbers.
#[derive(Debug)]
pub struct Ports {
    named: BTreeSet<u16>,
    near: Cell<u16>,
    far: Cell<u16>,
}

impl Ports {
    /// Returns an allocator of all ports except those that the experiment names.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let probes = experiment
            .probes
            .iter()
            .filter_map(|probe| match probe.kind {
                ProbeKind::Udp { port } => Some(port),
                ProbeKind::Icmp => None,
            });
        let flows = experiment.traffic.iter().filter_map(|entry| entry.port);
        Self {
            named: probes.chain(flows).collect(),
            near: Cell::new(NEAR.0),
            far: Cell::new(FAR.0),
        }
    }

    /// Returns a port for the connecting side. Ports repeat after 41 000 calls.
    pub fn near(&self) -> u16 {
        self.next(&self.near, NEAR)
    }

    /// Returns a port for the other side.
    pub fn far(&self) -> u16 {
        self.next(&self.far, FAR)
    }

    fn next(&self, cell: &Cell<u16>, (first, last): (u16, u16)) -> u16 {
        // If every port of the range is named, binding fails with an error.
        let mut port = first;
        for _ in first..=last {
            port = cell.get();
            cell.set(if port == last { first } else { port + 1 });
            if !self.named.contains(&port) {
                break;
            }
        }
        port
    }
}

#[cfg(test)]
mod tests {
    use super::{FAR, Ports};
    use std::cell::Cell;
    use std::collections::BTreeSet;

    fn ports(named: BTreeSet<u16>) -> Ports {
        Ports {
            named,
            near: Cell::new(20_000),
            far: Cell::new(FAR.1 - 1),
        }
    }

    #[test]
    fn named_ports_are_left_out_and_ranges_wrap() {
        let ports = ports(BTreeSet::from([20_001, FAR.1]));
        assert_eq!([ports.near(), ports.near()], [20_000, 20_002]);
        assert_eq!([ports.far(), ports.far()], [FAR.1 - 1, FAR.0]);
    }

    #[test]
    fn a_range_that_is_named_whole_ends() {
        let ports = ports((FAR.0..=FAR.1).collect());
        assert!((FAR.0..=FAR.1).contains(&ports.far()));
    }
}

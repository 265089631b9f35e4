// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assigns nodes to the queues of the device. A site and everything below it share one queue,
//! and stay there as long as lists contain the site.

use crate::hash::Known;
use crate::model::List;
use crate::rows::{LabelText, UsedRow};
use weirgate_units::{Arrange as _, Direction, fnv1a_32};

/// Returns the queue of each site, followed by the queue of each circuit.
pub(crate) fn of(list: &List, direction: Direction, queues: u32, held: &[UsedRow]) -> Vec<u32> {
    if queues == 1 {
        return vec![0; list.sites.len() + list.circuits.len()];
    }
    let mut all = of_sites(list, direction, queues, held);
    for circuit in &list.circuits {
        let above = circuit.parent.and_then(|parent| all.get(parent).copied());
        all.push(above.unwrap_or(of_circuit(&circuit.id, queues)));
    }
    all
}

/// Returns the queue of a circuit that has no site above it.
pub fn of_circuit(id: &str, queues: u32) -> u32 {
    fnv1a_32(id.bytes()) % queues
}

/// Assigns the sites directly below the link. A known site stays in its queue. New sites go,
/// largest first, to the queue with the least load.
fn of_sites(list: &List, direction: Direction, queues: u32, held: &[UsedRow]) -> Vec<u32> {
    let sizes = sizes(list, direction);
    let live = held.iter().filter(|one| one.live);
    let known: Known<&LabelText, u32> = live.map(|one| (&one.label, one.queue)).collect();
    let mut all: Vec<Option<u32>> = vec![None; list.sites.len()];
    let mut loads = vec![0_u64; queues as usize];
    let mut coming: Vec<usize> = Vec::new();
    for (number, site) in list.sites.iter().enumerate() {
        if site.parent.is_some() {
            continue;
        }
        let own = known.get(&LabelText::site(&site.name)).copied();
        match own.filter(|queue| *queue < queues) {
            Some(queue) => {
                all[number] = Some(queue);
                loads[queue as usize] += sizes[number];
            }
            None => coming.push(number),
        }
    }
    coming.arrange_by_key(|number| std::cmp::Reverse(sizes[*number]));
    for number in coming {
        let least = (0..queues).min_by_key(|queue| loads[*queue as usize]);
        let queue = least.unwrap_or(0);
        all[number] = Some(queue);
        loads[queue as usize] += sizes[number].max(1);
    }
    // Parents come before their children.
    let mut found: Vec<u32> = Vec::with_capacity(all.len());
    for (site, own) in list.sites.iter().zip(all) {
        let above = site.parent.and_then(|parent| found.get(parent).copied());
        found.push(own.or(above).unwrap_or(0));
    }
    found
}

/// Returns the most that each site can use, in bytes a second: the sum of its circuits' maximum
/// rates, limited by its own rate.
fn sizes(list: &List, direction: Direction) -> Vec<u64> {
    let mut sizes = vec![0_u64; list.sites.len()];
    for circuit in &list.circuits {
        if let Some(sum) = circuit.parent.and_then(|parent| sizes.get_mut(parent)) {
            let [_, most] = circuit.rates(direction);
            *sum = sum.saturating_add(most.as_bytes_per_second());
        }
    }
    for (number, site) in list.sites.iter().enumerate().rev() {
        if let Some(most) = site.most {
            sizes[number] = sizes[number].min(most.of(direction).as_bytes_per_second());
        }
        let own = sizes[number];
        if let Some(above) = site.parent.and_then(|parent| sizes.get_mut(parent)) {
            *above = above.saturating_add(own);
        }
    }
    sizes
}

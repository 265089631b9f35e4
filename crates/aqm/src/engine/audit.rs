// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Consistency checks of an engine's rows, for tests and fuzzing.

use super::ffi::{self, Node};
use super::{Engine, ROOT, TICK_NS, late_ns};

/// Lists below this number are of nodes with an unused guarantee (`ENGINE_PRIORITIES`).
const OWED: u32 = 8;

impl<T> Engine<T> {
    /// Checks every row. An error describes the node and the problem:
    ///
    /// - A node that may send is in one list of its parent, and no other node is in a list.
    /// - A node above its ceiling or beyond its guarantee is in the timer wheel.
    /// - A node with something to send is in one of these two.
    /// - The sums of packets, bytes, slots and queues are right, and each packet has one slot.
    /// - The leaf of a host is marked as free if and only if it has nothing to send.
    pub fn audit(&mut self) -> Result<(), String> {
        let mut listed = vec![0_u32; self.nodes.len()];
        for id in self.rows() {
            self.lists(id, &mut listed)?;
        }
        for id in self.rows() {
            let node = &self.nodes[id as usize];
            let wanted = u32::from(node.state == ffi::READY && id != ROOT);
            if listed[id as usize] != wanted {
                return Err(format!(
                    "node {id} is in {} lists: {node:?}",
                    listed[id as usize]
                ));
            }
            self.place(id, node)?;
        }
        self.resting()?;
        self.kept()
    }

    /// Iterates over the rows of nodes and of the hosts' leaves.
    fn rows(&self) -> impl Iterator<Item = u32> + use<T> {
        let lent = self.size.nodes + 1;
        (ROOT..self.fresh).chain(lent..lent + self.totals()[4] as u32)
    }

    /// Checks the hosts' leaves that are free.
    fn resting(&self) -> Result<(), String> {
        let lent = self.size.nodes;
        for id in self.rows().filter(|id| *id > lent) {
            let (host, node) = (&self.hosts[(id - lent) as usize], &self.nodes[id as usize]);
            if (host.rests == 1) != (node.state == ffi::IDLE) {
                return Err(format!(
                    "the leaf {id} of {host:?} is at the wrong place: {node:?}"
                ));
            }
            let next = node.next.saturating_sub(lent) as usize;
            let there = next > 0 && self.hosts[next].rests == 1;
            if host.rests == 1 && !(there && self.nodes[node.next as usize].prev == id) {
                return Err(format!(
                    "the leaf {id} of {host:?} rests beside none: {node:?}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the packets and bytes of hosts that a node counts, and the number of these hosts.
    fn counted(&self, id: u32) -> [u32; 3] {
        let lent = self.size.nodes as usize + 1;
        let hosts = self.hosts.iter().skip(1).zip(&self.nodes[lent..]);
        let below = hosts.filter(|(host, _)| host.above == id);
        below.fold([0; 3], |[packets, bytes, count], (_, node)| {
            [packets + node.packets, bytes + node.bytes, count + 1]
        })
    }

    /// Checks that nothing could have been sent at `now_ns`. An error names a leaf with packets
    /// which no ceiling held back until a tick still to come. A node that yields a cap to
    /// another (`engine_yields`) may wait for the time of a full packet. A node that was moved
    /// by [`Engine::rearrange`] is found at its old place, so the ancestors there may hold it
    /// back too.
    pub fn audit_idle(&self, now_ns: u64) -> Result<(), String> {
        let full = u64::from(self.rule.link.wire_bytes(self.rule.link.mtu_bytes));
        // A node whose ceiling was removed still waits for its tick.
        let shut = |id: u32, node: &Node| {
            let late = if id == ROOT || node.config.cap != 0 {
                TICK_NS
            } else {
                late_ns(full, node.config.ceiling_bytes_s)
            };
            node.ceiling.light == 0 && node.ceiling.opens_ns + late > now_ns
        };
        let left = |cap: &Node| match cap.config.ceiling_bytes_s {
            0 => false,
            rate => cap.ceiling.opens_ns + full * 1_000_000_000 / rate + TICK_NS > now_ns,
        };
        let held = |id: u32| {
            let node = &self.nodes[id as usize];
            let cap = self.nodes.get(node.config.cap as usize);
            shut(id, node) || cap.is_some_and(left)
        };
        let waiting = |id: &u32| {
            let node = &self.nodes[*id as usize];
            node.packets > 0 && node.config.fork == 0
        };
        let free = self
            .rows()
            .find(|id| waiting(id) && !self.path(*id).any(held) && !self.listed(*id).any(held));
        free.map_or(Ok(()), |id| {
            let path: Vec<(u32, Node)> = self
                .path(id)
                .map(|it| (it, self.nodes[it as usize]))
                .collect();
            Err(format!("leaf {id} could send at {now_ns}: {path:?}"))
        })
    }

    /// Iterates over a node and the nodes whose lists contain it, up to the root.
    fn listed(&self, id: u32) -> impl Iterator<Item = u32> {
        let above = |id: &u32| {
            let node = &self.nodes[*id as usize];
            let above = match node.state {
                ffi::READY => node.parent,
                _ => node.config.parent,
            };
            Some(above).filter(|above| *above != 0)
        };
        std::iter::successors(Some(id), above).take(self.nodes.len())
    }

    /// Checks the lists of one node's children.
    fn lists(&self, id: u32, listed: &mut [u32]) -> Result<(), String> {
        let config = self.nodes[id as usize].config;
        if config.fork == 0 {
            return Ok(());
        }
        let fork = &self.forks[config.fork as usize];
        for (list, head) in (0_u32..).zip(fork.head) {
            if (fork.lists >> list & 1 == 1) != (head != 0) {
                return Err(format!("node {id}: {fork:?}"));
            }
            let mut at = head;
            for _ in 0..self.nodes.len() {
                if at == 0 {
                    break;
                }
                let node = &self.nodes[at as usize];
                let next = &self.nodes[node.next as usize];
                if node.list != list || node.parent != id || next.prev != at {
                    return Err(format!("node {at} in list {list} of {id}: {node:?}"));
                }
                listed[at as usize] += 1;
                at = node.next;
                if at == head {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Checks that a node is in the list or wheel where it should be.
    fn place(&self, id: u32, node: &Node) -> Result<(), String> {
        let below = self
            .forks
            .get(node.config.fork as usize)
            .map_or(0, |fork| fork.lists);
        let inner = node.config.fork != 0;
        let work = if inner { below != 0 } else { node.packets > 0 };
        // A leaf whose last packet was evicted leaves its list only in its next turn.
        let right = match node.state {
            ffi::IDLE => !work,
            ffi::READY => {
                let owed =
                    node.list < OWED || node.config.guarantee_bytes_s == 0 || node.wheel != 0;
                (work || !inner) && (id == ROOT || owed)
            }
            ffi::HELD => node.wheel != 0,
            _ => false,
        };
        if right {
            return Ok(());
        }
        Err(format!("node {id} is at the wrong place: {node:?}"))
    }

    /// Checks packets and their slots.
    fn kept(&mut self) -> Result<(), String> {
        let mut seen = vec![false; self.items.len()];
        let [bytes, slots, queues, ..] = self.totals();
        let (mut all_bytes, mut all_queues) = (0, 0);
        for id in self.rows() {
            let node = self.nodes[id as usize];
            if node.config.fork != 0 {
                if self.counted(id) != [node.packets, node.bytes, node.queue] {
                    return Err(format!("node {id} counts other hosts: {node:?}"));
                }
                continue;
            }
            let (mut own_packets, mut own_bytes) = (0, 0);
            for flow in 0..ffi::FLOWS {
                // SAFETY: the memory is an engine's, and the node is one of its rows.
                let mut slot = unsafe { ffi::aqm_engine_first(self.raw(), id, flow) };
                while slot != 0 {
                    if seen[slot as usize] || self.items[slot as usize].is_none() {
                        return Err(format!("slot {slot} of node {id} is not its own"));
                    }
                    seen[slot as usize] = true;
                    own_packets += 1;
                    own_bytes += self.packet(slot).len;
                    // SAFETY: as above.
                    slot = unsafe { ffi::aqm_engine_behind(self.raw(), slot) };
                }
            }
            if own_packets != node.packets
                || own_bytes != node.bytes
                || (own_packets == 0) != (node.queue == 0)
            {
                return Err(format!("node {id} has {own_packets} packets: {node:?}"));
            }
            all_bytes += u64::from(own_bytes);
            all_queues += u64::from(node.queue != 0);
        }
        let all_slots = seen.iter().filter(|it| **it).count() as u64;
        let items = self.items.iter().filter(|it| it.is_some()).count() as u64;
        if [all_bytes, all_slots, all_queues] != [bytes, slots, queues] || items != slots {
            return Err(format!(
                "{all_slots} slots with {items} packets, {all_bytes} bytes and {all_queues} queues are used, \
                 and {slots}, {bytes} and {queues} counted"
            ));
        }
        Ok(())
    }
}

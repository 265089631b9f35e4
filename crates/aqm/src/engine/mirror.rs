// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lets the native engine replay the records of another host's engine
//! (`aqm/host/engine/record.h`), call by call.

use super::ffi::{self, Node, NodeConfig, RawDeparture, Rule};
use super::node::{EngineSize, NodeRow, config};
use super::{Engine, Packet};
use crate::ffi::Link;
use crate::mirror::MirrorError;

/// One call of a host's function (`struct engine_record`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineRecord {
    /// The time of the host in nanoseconds.
    pub now_ns: u64,
    /// Departure without a packet: when to ask again; `u64::MAX` for never.
    pub opens_ns: u64,
    /// The kind of call (`enum engine_event`).
    pub event: u32,
    /// A number that increases by one with every record.
    pub sequence: u32,
    /// The node; for a departure, the chosen leaf or 0.
    pub node: u32,
    /// The packet's slot, or 0.
    pub slot: u32,
    /// Arrival and eviction: the size of the arriving packet in bytes, as the device counts.
    pub len: u32,
    /// Arrival: its size on the wire in bytes.
    pub wire: u32,
    /// Arrival: the hash of the flow.
    pub flow: u32,
    /// Arrival: the hash of the host.
    pub host: u32,
    /// Arrival: whether there was room. Departure: the verdict.
    pub action: u32,
    /// Departure: the reason of the verdict.
    pub reason: u32,
    /// Arrival: the ECN bits that the engine received.
    pub ecn: u32,
    /// Padding.
    pub pad: u32,
}

/// The meaning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineTaken {
    /// The first part of a record; the data follow.
    Part,
    /// A change of the engine's settings.
    Ruled,
    /// A change of a node's configuration.
    Changed,
    /// The search for the leaf of a packet's host; true if the host has its own leaf.
    Placed(bool),
    /// The eviction of a packet to make room.
    Evicted,
    /// The arrival of a packet; true if it was queued.
    Arrived(bool),
    /// A request for a packet.
    Departed {
        /// Whether a packet was sent.
        sent: bool,
        /// Whether it was to be marked.
        marked: bool,
        /// Whether a packet was dropped.
        dropped: bool,
    },
}

/// A native engine that replays records.
#[derive(Debug)]
pub struct EngineMirror {
    engine: Engine<()>,
    /// A record whose data have not arrived yet.
    coming: Option<EngineRecord>,
    next: Option<u32>,
    records: u64,
}

/// Values of `enum engine_event`.
const RULE: u32 = 1;
const CHANGE: u32 = 2;
const EVICT: u32 = 3;
const ARRIVE: u32 = 4;
const DEPART: u32 = 5;
const HOST: u32 = 6;

impl EngineMirror {
    /// Makes an engine with these rows of nodes and no packets. Rows beyond `size` are ignored.
    pub fn new(size: EngineSize, rows: impl IntoIterator<Item = (u32, NodeRow)>) -> Self {
        let mut engine = Engine::empty(&Link::default(), size);
        for (id, row) in rows {
            if let Some(node) = engine.nodes.get_mut(id as usize) {
                node.config = config(row.parent, row.fork, &row.rule);
            }
        }
        Self {
            engine,
            coming: None,
            next: None,
            records: 0,
        }
    }

    /// Returns the bytes of a node's row; `None` if there is none.
    pub fn row(&self, id: u32) -> Option<Vec<u8>> {
        let node = self.engine.nodes.get(id as usize)?;
        let words = std::ptr::from_ref(node).cast::<u8>();
        // SAFETY: a row consists of integers without padding, which a test verifies.
        let bytes = unsafe { std::slice::from_raw_parts(words, size_of::<Node>()) };
        Some(bytes.to_vec())
    }

    /// Replays the next record of a host. Returns an error if it cannot be parsed, or if the
    /// result here differs.
    pub fn take(&mut self, bytes: &[u8]) -> Result<EngineTaken, MirrorError> {
        let at = self.records;
        self.records += 1;
        let malformed = |what| MirrorError::Malformed { at, what };
        if let Some(record) = self.coming.take() {
            return self.rest(&record, bytes, at);
        }
        let record: EngineRecord = read(bytes).ok_or_else(|| malformed("its length"))?;
        if let Some(next) = self.next.filter(|next| *next != record.sequence) {
            let missing = record.sequence.wrapping_sub(next);
            return Err(MirrorError::Lost { at, missing });
        }
        self.next = Some(record.sequence.wrapping_add(1));
        let mut own = EngineRecord {
            slot: 0,
            opens_ns: 0,
            action: 0,
            reason: 0,
            ..record
        };
        let (event, taken) = match record.event {
            RULE | CHANGE => {
                self.coming = Some(record);
                return Ok(EngineTaken::Part);
            }
            HOST => {
                let raw = self.engine.raw();
                // SAFETY: the memory is an engine's, set up with its rows.
                own.slot = unsafe { ffi::aqm_engine_leaf_of(raw, own.node, own.host) };
                ("host", EngineTaken::Placed(record.slot != record.node))
            }
            EVICT => {
                self.evict(&mut own);
                ("evict", EngineTaken::Evicted)
            }
            ARRIVE => {
                self.arrive(&record, &mut own);
                ("arrive", EngineTaken::Arrived(record.slot > 0))
            }
            DEPART => ("depart", self.depart(&mut own)),
            _ => return Err(malformed("an unknown event")),
        };
        if own == record {
            return Ok(taken);
        }
        Err(MirrorError::Verdict {
            at,
            event,
            recorded: format!("{record:?}"),
            own: format!("{own:?}"),
        })
    }

    /// Applies the data of a rule or a change.
    fn rest(
        &mut self,
        record: &EngineRecord,
        bytes: &[u8],
        at: u64,
    ) -> Result<EngineTaken, MirrorError> {
        let missing = MirrorError::Malformed {
            at,
            what: "the data after it are missing",
        };
        if record.event == RULE {
            self.engine.rule = read(bytes).ok_or(missing)?;
            self.engine.setup();
            return Ok(EngineTaken::Ruled);
        }
        let config: NodeConfig = read(bytes).ok_or(missing)?;
        let node = self.engine.nodes.get_mut(record.node as usize);
        let node = node.ok_or(MirrorError::Malformed {
            at,
            what: "there is no such node",
        })?;
        node.config = config;
        self.engine.now_ns = record.now_ns;
        self.engine.look(record.node);
        Ok(EngineTaken::Changed)
    }

    fn evict(&mut self, own: &mut EngineRecord) {
        let raw = self.engine.raw();
        // SAFETY: the memory is an engine's, set up with its rows.
        let room = unsafe { ffi::aqm_engine_admit(raw, own.node, own.len) };
        if room == ffi::EVICT {
            // SAFETY: as above.
            own.slot = unsafe { ffi::aqm_engine_evict(raw, own.node) };
        }
    }

    fn arrive(&mut self, record: &EngineRecord, own: &mut EngineRecord) {
        let raw = self.engine.raw();
        // The last eviction did not free enough room, and the host did not evict again.
        if record.action == ffi::EVICT {
            own.action = ffi::EVICT;
            return;
        }
        // SAFETY: the memory is an engine's, set up with its rows.
        own.action = unsafe { ffi::aqm_engine_admit(raw, own.node, own.len) };
        if own.action != 0 {
            return;
        }
        let packet = Packet {
            arrived_ns: own.now_ns,
            len: own.len,
            wire: own.wire,
            flow: own.flow,
            ecn: own.ecn,
        };
        // SAFETY: as above.
        own.slot = unsafe { ffi::aqm_engine_arrive(raw, own.node, &raw const packet, own.host) };
    }

    fn depart(&mut self, own: &mut EngineRecord) -> EngineTaken {
        let mut departure = RawDeparture::default();
        // SAFETY: the memory is an engine's, set up with its rows.
        unsafe { ffi::aqm_engine_depart(self.engine.raw(), own.now_ns, &raw mut departure) };
        own.node = departure.leaf;
        own.slot = departure.slot;
        if departure.leaf == 0 {
            own.opens_ns = departure.opens_ns;
        } else {
            own.action = departure.verdict.action;
            own.reason = departure.verdict.reason;
        }
        let dropped = departure.slot != 0 && departure.verdict.action == DROP;
        EngineTaken::Departed {
            sent: departure.slot != 0 && !dropped,
            marked: departure.slot != 0 && departure.verdict.action == MARK,
            dropped,
        }
    }
}

/// The actions `AQM_MARK` and `AQM_DROP`.
const MARK: u32 = 1;
const DROP: u32 = 2;

/// Marks structures that consist of integers in this machine's byte order.
trait Integers: Copy {}

impl Integers for EngineRecord {}
impl Integers for Rule {}
impl Integers for NodeConfig {}

fn read<T: Integers>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the number of bytes matches, and any bytes are a valid structure.
    (bytes.len() == size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: EngineSize = EngineSize {
        nodes: 2,
        inner: 1,
        queues: 1,
        slots: 2,
        limit_bytes: 3_000,
        hosts: 0,
    };

    fn bytes(record: EngineRecord) -> Vec<u8> {
        let words = std::ptr::from_ref(&record).cast::<u8>();
        // SAFETY: a record consists of integers without padding.
        unsafe { std::slice::from_raw_parts(words, size_of::<EngineRecord>()) }.to_vec()
    }

    /// An arrival and a departure as a host would record them; the mirror finds each wrong
    /// answer.
    #[test]
    fn other_answers_are_found() {
        let row = |parent, fork| NodeRow {
            parent,
            fork,
            rule: super::super::NodeRule::default(),
        };
        let begun = || {
            let mut mirror = EngineMirror::new(SIZE, [(1, row(0, 1)), (2, row(1, 0))]);
            let rule = EngineRecord {
                event: RULE,
                ..EngineRecord::default()
            };
            assert_eq!(mirror.take(&bytes(rule)), Ok(EngineTaken::Part));
            let config = Rule {
                limit_bytes: 3_000,
                root: 1,
                ..Rule::default()
            };
            let words = std::ptr::from_ref(&config).cast::<u8>();
            // SAFETY: a rule consists of integers without padding.
            let config = unsafe { std::slice::from_raw_parts(words, size_of::<Rule>()) };
            assert_eq!(mirror.take(config), Ok(EngineTaken::Ruled));
            mirror
        };
        let arrival = EngineRecord {
            now_ns: 1_000_000_000,
            event: ARRIVE,
            sequence: 1,
            node: 2,
            slot: 1,
            len: 100,
            wire: 100,
            ..EngineRecord::default()
        };
        let departure = EngineRecord {
            event: DEPART,
            sequence: 2,
            len: 0,
            wire: 0,
            ..arrival
        };
        let mut mirror = begun();
        assert_eq!(mirror.take(&bytes(arrival)), Ok(EngineTaken::Arrived(true)));
        let sent = EngineTaken::Departed {
            sent: true,
            marked: false,
            dropped: false,
        };
        assert_eq!(mirror.take(&bytes(departure)), Ok(sent));
        for wrong in [
            EngineRecord { slot: 2, ..arrival },
            EngineRecord {
                action: 2,
                slot: 0,
                ..arrival
            },
            EngineRecord {
                event: EVICT,
                ..arrival
            },
            EngineRecord {
                event: 9,
                ..arrival
            },
            EngineRecord {
                sequence: 5,
                ..arrival
            },
        ] {
            assert!(begun().take(&bytes(wrong)).is_err(), "{wrong:?}");
        }
        let mut mirror = begun();
        mirror.take(&bytes(arrival)).expect("the packet");
        let none = EngineRecord {
            node: 0,
            slot: 0,
            opens_ns: u64::MAX,
            ..departure
        };
        assert!(mirror.take(&bytes(none)).is_err());
    }
}
